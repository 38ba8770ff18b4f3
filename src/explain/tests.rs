//! The shipped table, and its matches in real lines.

use std::collections::BTreeSet;

use super::*;
use crate::check;
use crate::model::{Likelihood, SymptomMatch};

fn matcher() -> Matcher {
    Matcher::new(shipped().expect("the shipped table")).expect("its patterns")
}

#[test]
fn checks_of_symptoms_exist() {
    let table = shipped().expect("the shipped table");
    for id in table.symptoms.iter().flat_map(|symptom| &symptom.checks) {
        assert!(check::find(id).is_some(), "{id} is not a check");
    }
}

#[test]
fn every_check_has_a_symptom_or_a_hint() {
    let table = shipped().expect("the shipped table");
    let symptoms = table.symptoms.iter().flat_map(|symptom| &symptom.checks);
    let named: BTreeSet<&str> = symptoms.map(String::as_str).collect();
    let missing: Vec<&str> = check::all()
        .filter(|check| check.hint.is_none() && !named.contains(check.id))
        .map(|check| check.id)
        // No message names what only a profile expects.
        .filter(|id| !check::family(id).is_some_and(|family| family.by_table))
        .collect();
    assert!(missing.is_empty(), "nothing leads to {missing:?}");
}

#[test]
fn table_is_complete() {
    let table = shipped().expect("the shipped table");
    assert!(table.symptoms.len() >= 80, "{}", table.symptoms.len());
    assert!(table.concepts.len() <= 128, "concepts are bits of a word");
    let mut names = BTreeSet::new();
    let is_sentence = |cause: &str| cause.ends_with('.') && cause.starts_with(char::is_uppercase);
    for symptom in &table.symptoms {
        let name = &symptom.name;
        assert!(names.insert(name), "{name} is listed twice");
        assert!((1..=100).contains(&symptom.score), "{name}");
        assert!(is_sentence(&symptom.cause), "{name}: {}", symptom.cause);
        let checks: BTreeSet<&String> = symptom.checks.iter().collect();
        assert!(!checks.is_empty() && checks.len() == symptom.checks.len(), "{name}");
        assert!(!symptom.sources.is_empty(), "{name}");
        assert!(symptom.sources.iter().all(|source| source.starts_with("https://")), "{name}");
    }
    for hint in &table.hints {
        assert!(is_sentence(hint.cause), "{}: {}", hint.check, hint.cause);
        let references = check::find(hint.check).expect("a check").references;
        assert!(references.iter().any(|text| text.starts_with("https://")), "{}", hint.check);
    }
}

/// A concept that no hint counts does nothing.
#[test]
fn every_concept_counts() {
    let table = shipped().expect("the shipped table");
    for concept in &table.concepts {
        let counts = |hint: &Hint| hint.words.get(concept.name.as_str()).is_some_and(|n| *n != 0);
        assert!(table.hints.iter().any(counts), "{}", concept.name);
    }
}

/// What a text is about is less certain than a message that the table knows.
#[test]
fn hints_rank_below_sure_symptoms() {
    let all = "peer memory dma-buf module not loaded, ibv_reg_mr of GPU memory failed: Bad address, GPUDirect RDMA is not supported";
    let reading = matcher().read(all.as_bytes()).expect("memory is read");
    for found in &reading.matches {
        assert!(found.symptom.is_some() || found.score < 80, "{found:?}");
    }
}

#[test]
fn symptom_is_best_match_in_its_example() {
    let matcher = matcher();
    let mut wrong = Vec::new();
    for symptom in &matcher.table().symptoms {
        let reading = matcher.read(symptom.example.as_bytes()).expect("memory is read");
        let first =
            reading.matches.first().map(|found| (found.symptom.as_deref(), found.check.as_str()));
        if first.and_then(|(name, _)| name) != Some(symptom.name.as_str()) {
            wrong.push((symptom.name.clone(), symptom.example.clone(), format!("{first:?}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn repeated_symptom_is_one_match() {
    let text =
        "start\n".to_owned() + &"node1:12:34 [0] NCCL INFO NET/IB : No device found.\n".repeat(3);
    let reading = matcher().read(text.as_bytes()).expect("memory is read");
    let first = reading.matches.first().expect("a match");
    assert_eq!((first.check.as_str(), first.count, first.line.number), ("rdma.device", 3, 2));
    assert_eq!(first.line.text, "node1:12:34 [0] NCCL INFO NET/IB : No device found.");
    assert_eq!((reading.lines, reading.bytes), (4, text.len() as u64));
}

/// Most lines of a long log are passed over; a symptom is found there however its line is written.
#[test]
fn finds_lines_at_the_end_of_a_long_log() {
    let matcher = matcher();
    for filler in ["[2026-01-01 00:00:00] step 1, loss 0.5\n", "NCCL INFO Ring 0 : 1 -> 2 via x\n"]
    {
        let log = filler.repeat(300);
        let read = |line: &str| {
            let text = format!("{log}{line}\n");
            matcher.read(text.as_bytes()).expect("memory is read")
        };
        for line in [
            "node1:12:34 [0] NCCL WARN Call to posix_fallocate failed : No space",
            "node1:12:34 [0] \u{1b}[1mNCCL\u{1b}[0m WARN Call to posix_fal\u{1b}[31mlocate\u{1b}[0m failed : No space",
            "node1:12:34 [0] NCCL WARN Call\tto   POSIX_fallocate failed : No space",
            "node1:12:34 [0] NCCL WARN Call to https://example.org/x posix_fallocate failed : No space",
        ] {
            let reading = read(line);
            let first = reading.matches.first().unwrap_or_else(|| panic!("{line}"));
            assert_eq!((first.check.as_str(), first.line.number), ("limits.shm", 301), "{line}");
        }
        let reading = read("node1:12:34 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.");
        assert_eq!(reading.environment["NCCL_P2P_DISABLE"].value, "1");
        let lines = (matcher.table().symptoms.iter())
            .filter(|symptom| symptom.prose.is_empty() && !symptom.example.contains('\n'));
        let missing: Vec<&str> = lines
            .filter(|symptom| {
                let found = read(&symptom.example).matches;
                !found.iter().any(|found| found.symptom.as_ref() == Some(&symptom.name))
            })
            .map(|symptom| symptom.example.as_str())
            .collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

#[test]
fn joins_wrapped_line() {
    let text = "modprobe: ERROR: could not insert\n  'nvidia_peermem': Invalid argument\n";
    let reading = matcher().read(text.as_bytes()).expect("memory is read");
    assert_eq!(reading.matches.first().expect("a match").check, "peermem.buildable");
    for text in [
        "modprobe: ERROR: could not insert\n\n'nvidia_peermem': Invalid argument\n",
        "| modprobe: ERROR: could not insert |\n'nvidia_peermem': Invalid argument\n",
    ] {
        let reading = matcher().read(text.as_bytes()).expect("memory is read");
        assert!(reading.matches.is_empty(), "{text}");
    }
}

#[test]
fn cuda_error_number_selects_doorbell_cause() {
    let matcher = matcher();
    for (symptom, line) in [
        // DeepEP's message with different error numbers.
        (
            "uar-not-permitted",
            "cudaHostRegister with IoMemory failed with error=800. GPU cannot map UAR of device mlx5_0. Skipping...",
        ),
        (
            "uar-not-mappable",
            "cudaHostRegister with IoMemory failed with error=304. GPU cannot map UAR of device mlx5_0. Skipping...",
        ),
        (
            "uar-not-mappable",
            "cudaHostRegister with IoMemory failed with error=801. GPU cannot map UAR of device mlx5_0. Skipping...",
        ),
        // The driver's debug messages (osmemdesc.c).
        (
            "uar-not-permitted",
            "NVRM: osCreateOsDescriptorFromIoMemory(): permission denied, allowPeermapping=0",
        ),
        // gdr's own messages.
        (
            "uar-not-permitted",
            "its driver does not map the register: 4096 bytes at 0x7f00 were not registered: cuMemHostRegister: \
             CUDA_ERROR_NOT_PERMITTED (800)",
        ),
        (
            "uar-not-mappable",
            "the GPU cannot ring the NIC's doorbell: 4096 bytes at 0x7f00 were not registered: cuMemHostRegister: \
             CUDA_ERROR_NOT_SUPPORTED (801)",
        ),
        (
            "uar-not-mappable",
            "4096 bytes at 0x7f00 were not registered: cuMemHostRegister: CUDA_ERROR_OPERATING_SYSTEM (304)",
        ),
    ] {
        let reading = matcher.read(line.as_bytes()).expect("memory is read");
        let first = reading.matches.first().and_then(|found| found.symptom.as_deref());
        assert_eq!(first, Some(symptom), "{line}");
        let other = ["uar-not-permitted", "uar-not-mappable"].map(|name| name == symptom);
        let line_match = ["uar-not-permitted", "uar-not-mappable"]
            .map(|name| (reading.matches.iter()).any(|m| m.symptom.as_deref() == Some(name)));
        assert_eq!(line_match, other, "{line}");
    }
}

#[test]
fn reads_hostile_text() {
    let matcher = matcher();
    let mut long = vec![b'a'; 3 << 20];
    long.extend_from_slice(b" Call to ibv_open_device failed ");
    long.extend_from_slice(&vec![b'('; 1 << 20]);
    let reading = matcher.read(long.as_slice()).expect("memory is read");
    assert_eq!(reading.matches.first().expect("a match").check, "rdma.device");
    assert_eq!(reading.matches.first().expect("a match").count, 1);
    let noise: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    for text in [&b""[..], b"\0\0\0", b"\xff\xfe\n\x1b[", b"\x1b]8;;", &noise] {
        matcher.read(text).expect("memory is read");
    }
}

#[test]
fn quoted_line_has_no_control_characters() {
    let text = b"\x1b[2J\x1b]0;owned\x07NET/IB : No device found.\x08\x08\x1b[31m\xc2\x9b2J";
    let reading = matcher().read(&text[..]).expect("memory is read");
    let quote = &reading.matches.first().expect("a match").line.text;
    assert!(quote.chars().all(|c| !c.is_control()), "{quote:?}");
}

/// Lines of a healthy machine and of runs that work, some of which name what a symptom names.
#[test]
fn healthy_log_is_silent() {
    let log = include_str!("../../tests/data/explain/healthy.log");
    let matcher = matcher();
    for (what, text) in [("once", log.to_owned()), ("long", log.repeat(20))] {
        let reading = matcher.read(text.as_bytes()).expect("memory is read");
        assert!(reading.matches.is_empty(), "{what}: {:#?}", reading.matches);
    }
}

/// Checks that a question of this many unrelated lines between its parts leads to.
fn question(parts: [&str; 2], between: usize) -> Vec<String> {
    let text = parts.join(&"\n2.1 ok\n".repeat(between));
    let reading = matcher().read(text.as_bytes()).expect("memory is read");
    let checks = reading.matches.iter().map(|found| found.check.clone());
    checks.collect()
}

#[test]
fn title_belongs_to_all_lines() {
    let title = "GPUDirect RDMA fails in a virtual machine";
    let later = "I get an error when I run the benchmark of the vendor on it.";
    assert_eq!(question([title, later], 20)[..1], ["pcie.acs-vm"]);
    let no_title = format!("hello\n{title}");
    assert!(question([&no_title, later], 20).is_empty());
}

/// A sentence among many lines of a program is most often the program's.
#[test]
fn log_with_a_sentence_is_no_question() {
    let sentence = "the GPUs hang when I run all_reduce on two of them with P2P enabled";
    let first = format!("{sentence}\nand it is an error");
    assert_eq!(question([&first, "ok"], 30)[..1], ["gpu.p2p-grant"]);
    assert!(question(["ok\nok\nok\nok\nok", sentence], 30).is_empty());
}

#[test]
fn whole_question_has_all_concepts() {
    let parts = [
        "I use mpirun of Open MPI to run my solver on an A100",
        "my program ends with a segmentation fault and I do not know why",
    ];
    assert_eq!(question(parts, 30)[..1], ["mpi.cuda-aware"]);
}

/// A subject alone is not a fault, and neither is a fault without a subject.
#[test]
fn hint_needs_subject_and_outcome() {
    let matcher = matcher();
    let found = |text: &str| {
        let reading = matcher.read(text.as_bytes()).expect("memory is read");
        reading.matches.first().map(|found| found.check.clone())
    };
    let subject = "We have two GPUs and use P2P between them with the IOMMU in passthrough mode.";
    assert_eq!(found(subject), None);
    assert_eq!(found("It fails and I do not know what to do with it."), None);
    let both = "We have two GPUs and P2P between them fails with the IOMMU on.";
    assert_eq!(found(both).as_deref(), Some("pcie.iommu"));
}

/// A setting counts where a person writes about it or picked the line, and not among the lines of a log.
#[test]
fn setting_counts_in_question_only() {
    let matcher = matcher();
    let found = |text: &str| {
        let reading = matcher.read(text.as_bytes()).expect("memory is read");
        reading.matches.first().map(|found| found.check.clone())
    };
    let line =
        "ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n";
    assert_eq!(found(line).as_deref(), Some("pcie.acs"));
    let listing = "Region 1: Memory at 4e000000000 (64-bit, prefetchable) [size=128M]\n".repeat(10);
    assert_eq!(found(&format!("{listing}{line}{listing}")), None);
    let question = "The transfers between the two GPUs are slow, and this is what lspci shows:\n";
    assert_eq!(found(&format!("{question}{listing}{line}")).as_deref(), Some("pcie.acs"));
}

#[test]
fn every_pattern_compiles() {
    let table = shipped().expect("the shipped table");
    let symptoms = table
        .symptoms
        .iter()
        .map(|s| (&s.name, s.patterns.iter().chain(&s.prose).chain(&s.unless).collect::<Vec<_>>()));
    let concepts = table.concepts.iter().map(|c| (&c.name, c.patterns.iter().collect::<Vec<_>>()));
    for (name, patterns) in symptoms.chain(concepts) {
        for pattern in patterns {
            let built = regex::bytes::RegexBuilder::new(pattern).unicode(false).build();
            assert!(built.is_ok(), "{name}: {pattern}: {built:?}");
        }
    }
}

#[test]
fn invalid_table_is_error() {
    let with = |pattern: &str| {
        format!(
            "concept = []\n[words]\n[[symptom]]\nname = 'x'\nmatch = ['{pattern}']\ncause = 'C.'\nchecks = []\n\
             sources = []\nexample = ''\n"
        )
    };
    let word = Table::parse(&with("a <nothing> b")).expect_err("no such word").to_string();
    assert!(word.contains("<nothing>"), "{word}");
    let pattern =
        Matcher::new(Table::parse(&with("a.{0,3}(")).expect("a table")).err().expect("no pattern");
    assert!(matches!(pattern, TableError::Literal { .. }));
    assert!(Table::parse("symptoms = 3").is_err());
    let without_concepts = Table::parse(&with("a")).expect("a table");
    assert!(matches!(without_concepts.with_hints(), Err(TableError::Concept { .. })));
}

/// The cases of a file in `tests/data/explain`: expected check, source, text.
fn cases(file: &str) -> Vec<(Vec<String>, String, String)> {
    let path = format!("{}/tests/data/explain/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("a file of cases");
    text.lines()
        .map(|line| {
            let mut parts = line.splitn(3, '\t');
            let mut part = || parts.next().unwrap_or_else(|| panic!("{file}: {line}")).to_owned();
            let ids = part().split('|').map(str::to_owned).collect();
            (ids, part(), part().replace("\\n", "\n"))
        })
        .collect()
}

/// Mismatches with a file of cases: the expected check is not among this many. A question states no cause, so it is right for a text
/// without a fault.
fn misses(file: &str, first: usize) -> (usize, Vec<String>) {
    let matcher = matcher();
    let cases = cases(file);
    let mut wrong = Vec::new();
    for (ids, source, text) in &cases {
        let reading = matcher.read(text.as_bytes()).expect("memory is read");
        let questions = reading.questions.iter().filter(|_| ids != &["-"]);
        let named: Vec<&str> = (reading.matches.iter().chain(questions).take(first))
            .map(|found| found.check.as_str())
            .collect();
        let right = if named.is_empty() {
            ids == &["-"]
        } else {
            ids.iter().any(|id| named.contains(&id.as_str()))
        };
        if !right {
            wrong.push(format!("{ids:?} <> {named:?} {source}: {text}"));
        }
    }
    (cases.len(), wrong)
}

#[test]
fn finds_known_symptoms() {
    let (count, wrong) = misses("reference.tsv", 1);
    assert!(count >= 50 && wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

/// A failure of another kind is named, and makes of what the words suggest a question.
#[test]
fn names_failures_without_a_check() {
    let matcher = matcher();
    for failure in &matcher.table().uncovered {
        let reading = matcher.read(failure.example.as_bytes()).expect("memory is read");
        let subjects: Vec<&str> =
            (reading.uncovered.iter()).map(|found| found.subject.as_str()).collect();
        assert_eq!(subjects, [failure.subject.as_str()], "{}", failure.name);
        assert!(reading.matches.is_empty(), "{:#?}", reading.matches);
    }
}

/// The words of a text alone name no cause below a confidence, and nothing where a line is known.
#[test]
fn weak_words_are_a_question() {
    let matcher = matcher();
    let found = |text: &str| {
        let reading = matcher.read(text.as_bytes()).expect("memory is read");
        let checks = |found: &[crate::model::SymptomMatch]| -> Vec<String> {
            found.iter().map(|found| found.check.clone()).collect()
        };
        (checks(&reading.matches), checks(&reading.questions))
    };
    let (matches, questions) = found("the RDMA program fails in the container");
    assert!(matches.is_empty(), "{matches:?}");
    assert!(questions.iter().any(|check| check == "platform.container"), "{questions:?}");
    let (matches, questions) = found("ibv_reg_mr_iova2 failed with error Cannot allocate memory");
    assert_eq!(matches[0], "limits.memlock");
    assert!(questions.is_empty(), "{questions:?}");
}

/// A port without a cable is not a fault of a machine whose other ports are active.
#[test]
fn listed_ports_are_judged_together() {
    let matcher = matcher();
    let port = |name: &str, state: &str| {
        format!(
            "CA '{name}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: Polling\n"
        )
    };
    let read = |states: &[&str]| {
        let ports = (0..).zip(states);
        let text: String = ports.map(|(at, state)| port(&format!("mlx5_{at}"), state)).collect();
        matcher.read(text.as_bytes()).expect("memory is read")
    };
    let uncabled = read(&["Active", "Down", "Active", "Down"]);
    assert!(uncabled.matches.is_empty(), "{:#?}", uncabled.matches);
    let question = uncabled.questions.first().expect("a question");
    assert_eq!(question.check, "rdma.port");
    assert!(question.cause.contains("mlx5_1/1, mlx5_3/1"), "{}", question.cause);
    assert_eq!(uncabled.listing, Some("ibstat"));
    for (states, named) in
        [(["Down", "Down"], "mlx5_0/1, mlx5_1/1"), (["Active", "Initializing"], "mlx5_1/1")]
    {
        let reading = read(&states);
        let found = reading.matches.first().expect("a match");
        assert_eq!(found.check, "rdma.port");
        assert!(found.cause.contains(named), "{}", found.cause);
    }
}

#[test]
fn ignores_unrelated_lines() {
    let (count, wrong) = misses("unrelated.tsv", 1);
    assert!(count >= 60 && wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

/// Texts that say little more than what they are about.
#[test]
fn subjects_lead_to_their_checks() {
    let (count, wrong) = misses("subjects.tsv", 3);
    let right = count - wrong.len();
    assert!(right * 10 >= count * 8, "{right} of {count}: {wrong:#?}");
}

#[test]
fn finds_symptoms_in_threads() {
    let (count, wrong) = misses("threads-a.tsv", 3);
    assert!(count >= 40 && wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

/// The table is not tuned on these. Symptoms may be missed, but no wrong check may be found.
#[test]
fn held_out_threads_find_no_wrong_check() {
    let (count, wrong) = misses("threads-b.tsv", 3);
    let astray: Vec<&String> = wrong.iter().filter(|miss| !miss.contains("<> []")).collect();
    assert!(astray.is_empty(), "{astray:#?}");
    let right = count - wrong.len();
    assert!(right * 10 >= count * 7, "{right} of {count}: {wrong:#?}");
}

#[test]
fn held_out_threads_are_not_sources() {
    let table = shipped().expect("the shipped table");
    let symptoms = table.symptoms.iter().flat_map(|symptom| &symptom.sources);
    let sources: BTreeSet<&String> = symptoms.collect();
    for (_, source, _) in cases("threads-b.tsv") {
        assert!(!sources.contains(&source), "{source}");
    }
}

/// What a text of this kind names as a cause, and what it only asks.
fn named(text: &str) -> (Vec<String>, Vec<String>) {
    let reading = matcher().read(text.as_bytes()).expect("memory is read");
    let is_cause = |found: &&SymptomMatch| found.likelihood != Likelihood::Possible;
    let checks = |found: &[SymptomMatch]| found.iter().map(|found| found.check.clone()).collect();
    let causes = reading.matches.iter().filter(is_cause).cloned().collect::<Vec<_>>();
    (checks(&causes), checks(&reading.questions))
}

#[test]
fn general_questions_have_no_cause() {
    for text in [
        "what do the IMEX states mean?",
        "What is an IMEX channel, and which jobs need the IMEX daemon?",
        "Is GPUDirect RDMA supported on a GeForce RTX 4080?",
        "What happens when the GPU has fallen off the bus?",
        "What does 'GPU Direct RDMA Disabled' mean?",
        "How do I check whether nvidia-peermem is loaded?",
        "Do I need the fabric manager on two PCIe cards with an NVLink bridge?",
    ] {
        let (causes, _) = named(text);
        assert!(causes.is_empty(), "{text}: {causes:?}");
    }
    for (text, check) in [
        ("why is GPU Direct RDMA Disabled for HCA 0 'mlx5_0'?", "peermem.loaded"),
        ("is it normal that my GPU has fallen off the bus twice?", "gpu.present"),
    ] {
        let (causes, _) = named(text);
        assert_eq!(causes.first().map(String::as_str), Some(check), "{text}");
    }
}

/// The kernel says the same of every vendor's module.
#[test]
fn other_modules_do_not_lead_to_the_driver() {
    for text in [
        "modprobe: ERROR: could not insert 'acme_fan': Key was rejected by service",
        "systemd-modules-load[611]: Failed to insert module 'acme': Key was rejected by service",
        "void kernel(float*, unsigned int) failed an assertion in matrix.cu, error: bad size",
    ] {
        let (causes, _) = named(text);
        assert!(causes.is_empty(), "{text}: {causes:?}");
    }
    let (causes, _) =
        named("modprobe: ERROR: could not insert 'gdrdrv': Key was rejected by service");
    assert_eq!(causes[0], "platform.lockdown");
}

#[test]
fn listings_state_no_cause() {
    for text in [
        "\tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n  GNS  = GPU not supported\n",
        "GPU 0: NVIDIA A40 (UUID: GPU-1)\n\t Link 0: <inactive>\n\t Link 1: <inactive>\nGPU 1: NVIDIA A40 (UUID: GPU-2)\n\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n",
        "# cat /etc/modprobe.d/gpu.conf\n# keeps an error of the display away\nblacklist nouveau\n",
    ] {
        let (causes, _) = named(text);
        assert!(causes.is_empty(), "{text}: {causes:?}");
    }
    let one_inactive = "GPU 4: NVIDIA A100 (UUID: GPU-4)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n\t Link 2: 25 GB/s\n";
    let (causes, _) = named(one_inactive);
    assert_eq!(causes[0], "gpu.nvlink");
}

/// What a program reports about pairs of GPUs, and errors that the hardware repaired, may be the cause and may not.
#[test]
fn reports_are_possible_causes() {
    for (text, check) in [
        (
            "gpu7:91:91 [3] NCCL INFO P2P is disabled between connected GPUs 0 and 3.",
            "gpu.p2p-grant",
        ),
        ("> Peer access from NVIDIA L4 (GPU0) -> NVIDIA L4 (GPU1) : No\n", "gpu.p2p-grant"),
        (
            "pcieport 0000:00:1c.0: AER: Multiple Corrected error received: 0000:00:1c.0",
            "pcie.errors",
        ),
        ("\t\tLnkSta:\tSpeed 8GT/s (ok), Width x8 (downgraded)\n", "pcie.link"),
    ] {
        let reading = matcher().read(text.as_bytes()).expect("memory is read");
        let first = &reading.matches[0];
        assert_eq!(
            (first.check.as_str(), first.likelihood),
            (check, Likelihood::Possible),
            "{text}"
        );
    }
}

/// NCCL's remark about RDMA is weaker than a failure, and no cause by itself.
#[test]
fn remark_without_a_nic_is_possible() {
    let text = "two ranks of one machine hang in the first all-reduce\nnode3:71:71 [0] NCCL INFO NET/IB : No device found.\nnode3:71:71 [0] NCCL INFO Using network Socket\n";
    let (causes, _) = named(text);
    assert!(!causes.iter().any(|check| check == "rdma.device"), "{causes:?}");
}

#[test]
fn error_numbers_tell_causes_apart() {
    let (causes, _) = named(
        "ucp_mem_map of GPU memory fails: ibv_reg_dmabuf_mr(length=32768) failed: Unknown error 524",
    );
    assert_eq!(causes[0], "param.grdma-topo");
    let denied = "process_vm_readv(pid=812 length=9216) returned -1: Operation not permitted";
    let reading = matcher().read(denied.as_bytes()).expect("memory is read");
    assert!(reading.matches.is_empty(), "{:#?}", reading.matches);
    assert_eq!(reading.uncovered.len(), 1);
    let (causes, _) = named("process_vm_readv(pid=812 length=9216) returned -1: Bad address");
    assert_eq!(causes[0], "mpi.cuda-aware");
}
