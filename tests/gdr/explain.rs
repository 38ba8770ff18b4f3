//! `gdr explain` through the real binary: recognition, output, JSON.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Gdr, Machine, Run, gdr, scratch};
use serde_json::Value;

const LINE: &str =
    "ibvwrap.c:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory";

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// Runs gdr with this standard input.
fn piped(args: &[&str], text: &[u8]) -> Run {
    let mut command = Gdr::new().args(args).command();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built gdr starts");
    // gdr may exit before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(text);
    let output = child.wait_with_output().expect("it ends");
    Run {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// As for --from: Windows writes UTF-16, web pages and programs escape text.
#[test]
fn escapes_of_other_programs_are_undone() {
    let plain = json(&piped(&["explain", "--format", "json", "-"], LINE.as_bytes()));
    let utf16: Vec<u8> =
        format!("\u{feff}{LINE}\r\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let escaped = format!("{{\"log\": \"start\\n\\n\\t{LINE}\\nend\"}}\n");
    let page = format!("<pre>\nstart &lt;1&gt;\n<span class=\"x\">{LINE}</span>\n</pre>\n");
    for text in [utf16, escaped.into_bytes(), page.into_bytes()] {
        let found = json(&piped(&["explain", "--format", "json", "-"], &text));
        assert_eq!(found["matches"][0]["symptom"], plain["matches"][0]["symptom"]);
        assert!(found["matches"][0].is_object(), "{found}");
    }
}

#[test]
fn line_file_and_stdin_find_the_same_check() {
    let dir = scratch();
    let file = dir.path().join("run.log");
    fs::write(&file, format!("start\n{LINE}\n{LINE}\n")).expect("a file");
    let args = |what| ["explain", what, "--no-run", "--format", "json"];
    let line = gdr(&args(LINE));
    let log = gdr(&args(file.to_str().expect("a path")));
    let input = piped(&args("-"), LINE.as_bytes());
    for run in [&line, &log, &input] {
        assert_eq!(run.code, 0, "{run:?}");
        let report = json(run);
        assert_eq!(report["schema"], "gdr.explain/1");
        assert_eq!(report["matches"][0]["check"], "limits.memlock");
        assert_eq!(report["host"], Value::Null);
        assert_eq!(report["findings"], Value::Array(Vec::new()));
        let source = report["matches"][0]["source"].as_str().expect("a source");
        assert!(source.starts_with("https://"), "{source}");
    }
    assert_eq!(json(&log)["matches"][0]["count"], 2);
    assert_eq!(json(&log)["matches"][0]["line"]["number"], 2);
    assert_eq!(json(&log)["read"]["lines"], 3);
    assert_eq!(json(&input)["asked"], "standard input");
}

#[test]
fn accepts_line_with_leading_hyphen() {
    let run =
        gdr(&["explain", "--use_cuda=0: unrecognized option", "--no-run", "--format", "json"]);
    assert_eq!(json(&run)["matches"][0]["check"], "tools.perftest");
}

#[test]
fn runs_matched_checks_on_named_machine() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let line = "NET/IB : Got completion with error 4, opcode 1, len 21938, vendor err 81";
    let run =
        |args: &[&str]| Gdr::new().sysroot(dir.path()).args(["explain", line]).args(args).run();
    let report = json(&run(&["--format", "json"]));
    assert_eq!(report["matches"][0]["check"], "pcie.acs");
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(findings[0]["id"], "pcie.acs", "the first match comes first");
    let matches = report["matches"].as_array().expect("matches");
    assert!(
        findings.iter().all(|finding| matches.iter().any(|found| found["check"] == finding["id"])),
        "only checks of the matches run"
    );
    assert!(
        findings.iter().any(|finding| finding["id"] == "pcie.acs" && finding["outcome"] == "fail")
    );
    let page = run(&[]);
    assert_eq!(page.code, 0);
    let place =
        |text: &str| page.stdout.find(text).unwrap_or_else(|| panic!("{text}: {}", page.stdout));
    assert!(
        place("was not answered") < place("FAIL") && place("FAIL") < place("setpci"),
        "{}",
        page.stdout
    );
}

/// The text ranks the missing module first. The machine has it, so its cause comes last and is ruled out.
#[test]
fn checks_of_machine_decide_order() {
    let text = "neither nv_peer_mem, or nvidia_peermem detected\n\
                NET/IB : Got completion with error 4, opcode 1, len 21938, vendor err 81\n";
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let run = |args: &[&str]| {
        let gdr = Gdr::new().sysroot(dir.path()).args(["explain", text]);
        gdr.args(args).run()
    };
    let order = |report: &Value| -> Vec<(String, String)> {
        let matches = report["matches"].as_array().expect("matches");
        let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
        matches.iter().map(|found| (text(&found["check"]), text(&found["standing"]))).collect()
    };
    let pair = |check: &str, standing: &str| (check.to_owned(), standing.to_owned());
    let text_alone = order(&json(&run(&["--no-run", "--format", "json"])));
    assert_eq!(text_alone[0], pair("peermem.loaded", "none"));
    let on_machine = order(&json(&run(&["--format", "json"])));
    assert_eq!(on_machine[0], pair("pcie.acs", "confirmed"));
    assert!(on_machine.contains(&pair("peermem.loaded", "excluded")), "{on_machine:?}");
    assert!(on_machine.is_sorted_by_key(|(_, standing)| standing == "excluded"));
    let page = run(&[]).stdout;
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(place("FAIL") < place("possible: No peer memory module"), "{page}");
    assert!(
        place("possible: No peer memory module") < place("passed:   peermem.loaded: "),
        "{page}"
    );
}

const MEMLOCK: &str = "ibv_reg_mr_iova2 failed with error Cannot allocate memory";

const IBSTAT: &str = "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Down\n\
                      \t\tPhysical state: Disabled\n\t\tRate: 40\n";

const SETTINGS: &str = "NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n\
                        NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with \
                        NCCL_IGNORE_DISABLED_P2P=1.\n";

/// Arguments, what the page says, and what it must not say.
type PageCase<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str]);

fn assert_pages(cases: &[PageCase<'_>]) {
    for (args, expected, absent) in cases {
        let run = Gdr::new().env("COLUMNS", "1000").args(["explain"]).args(*args).run();
        for words in *expected {
            assert!(run.stdout.contains(words), "{args:?}: {words}: {}", run.stdout);
        }
        for words in *absent {
            assert!(!run.stdout.contains(words), "{args:?}: {words}: {}", run.stdout);
        }
        let causes = run.stdout.matches("The limit of locked memory").count();
        assert!(causes <= 1, "{}", run.stdout);
    }
}

#[test]
fn page_of_a_text_has_remedies_and_judges_no_other_machine() {
    assert_pages(&[
        // The likelihood is a word, the remedy is there without a machine, and a line that is known leaves no guess.
        (
            &[MEMLOCK, "--no-run"],
            &[
                "likely: The limit of locked memory",
                "fix:      limits.memlock: Raise it",
                "gdr doctor --only limits.memlock,",
            ],
            &["90 ", "about:", "gdr explain ID", "possibly"],
        ),
        // The listing of some machine says nothing about this one.
        (
            &[IBSTAT],
            &[
                "possible: These ports of the text are not active: mlx5_0/1",
                "output of ibstat, perhaps of another machine",
            ],
            &["FAIL", "Install a NIC", "checked: this machine"],
        ),
        (
            &["GPU 0 of node 7 fails: CUDA out of memory. Tried to allocate 2.00 GiB"],
            &["gdr has no check for this (line 1): the GPU has no free memory left"],
            &["checked:"],
        ),
    ]);
}

#[test]
fn page_of_a_machine_says_what_could_not_be_checked() {
    let dir = Machine::load("sound").laid_out();
    let root = dir.path().to_str().expect("a path");
    let several = Machine::load("hgx-acs-redirect").laid_out();
    let several = several.path().to_str().expect("a path");
    assert_pages(&[
        // A pass of gdr's own process excludes nothing.
        (
            &[MEMLOCK, "--sysroot", root],
            &[
                "limits.memlock, platform.container could not be checked here: it passes for gdr itself",
                "the recorded machine",
            ],
            &["Not the cause", "found no problem"],
        ),
        // The variables of the text are judged, not those of gdr.
        (
            &[SETTINGS, "--sysroot", several],
            &[
                "NCCL_P2P_DISABLE=1 keeps NCCL from peer to peer",
                "evidence: line 1 of the text: NCCL_P2P_DISABLE=1",
            ],
            &["/proc/self/environ", "NCCL_IGNORE_DISABLED_P2P=1 hides"],
        ),
        (
            &["P2P is disabled between connected GPUs 1 and 0.", "--sysroot", root],
            &["env.contradiction could not be checked here: the variables of the program count"],
            &["Not the cause"],
        ),
        (
            &[IBSTAT, "--sysroot", root],
            &["mlx5_0/1", "checked: the recorded machine"],
            &["perhaps of another machine"],
        ),
    ]);
}

#[test]
fn uses_named_profiles() {
    let dir = scratch();
    Machine::load("sound").lay_out(dir.path());
    let run = |args: &[&str]| {
        let run = Gdr::new().sysroot(dir.path()).args(["explain", LINE]).args(args).run();
        assert_eq!(run.code, 0, "{run:?}");
        run
    };
    let outcomes = |profiles: &[&str]| {
        let report = json(&run(&[&["--format", "json"], profiles].concat()));
        let findings = report["findings"].as_array().expect("findings");
        let memlock = findings.iter().find(|finding| finding["id"] == "limits.memlock");
        let severity = memlock.expect("its check")["severity"].clone();
        (report["profiles"].clone(), severity)
    };
    // profiles/p2p.toml involves no NIC, so locked memory is only info; with several profiles the greatest severity counts.
    let (names, rdma) = outcomes(&[]);
    assert_eq!(names, serde_json::json!(["rdma"]));
    assert_ne!(rdma, "info");
    assert_eq!(outcomes(&["--profile", "p2p"]), (serde_json::json!(["p2p"]), Value::from("info")));
    let both = serde_json::json!(["p2p", "rdma"]);
    assert_eq!(outcomes(&["--profile", "p2p", "--profile", "rdma"]), (both, rdma));
    assert!(run(&["--profile", "p2p"]).stdout.contains("profiles: p2p\n"));
    let wrong = gdr(&["explain", LINE, "--profile", "nosuch"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
    wrong.assert_stderr("'nosuch'");
}

#[test]
fn explains_check_id() {
    let run = gdr(&["explain", "pcie.acs"]);
    assert_eq!(run.code, 0);
    for part in ["pcie.acs", "rule:", "why:", "read:", "fix:", "see:"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let report = json(&gdr(&["explain", "pcie.acs", "--format", "json"]));
    assert_eq!(report["checks"][0]["id"], "pcie.acs");
    assert_eq!(report["matches"], Value::Array(Vec::new()));
}

#[test]
fn no_match_exits_with_1() {
    let run = gdr(&["explain", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with("No known symptom in 1 line of text"), "{}", run.stdout);
    let run = piped(&["explain", "-", "--format", "json"], b"");
    assert_eq!((run.code, json(&run)["matches"].clone()), (1, Value::Array(Vec::new())));
}

#[test]
fn rejects_invalid_input() {
    let dir = scratch();
    for what in ["pcie.nothing", "/no/such/file.log", dir.path().to_str().expect("a path")] {
        let run = gdr(&["explain", what]);
        assert_eq!(run.code, 2, "{what}: {run:?}");
        assert!(run.stderr.contains(what) && run.stdout.is_empty(), "{run:?}");
    }
    assert_eq!(gdr(&["explain"]).code, 2);
    assert_eq!(piped(&["explain", "-", "--from", "-"], LINE.as_bytes()).code, 2);
}

#[test]
fn output_has_no_control_characters() {
    let text =
        b"\x1b]0;owned\x07\x1b[2J NET/IB : No device found. \x1b[31m\x9b\xc2\x9b\x08\x00\xff end";
    for format in ["table", "json"] {
        let run = piped(&["explain", "-", "--no-run", "--format", format], text);
        assert_eq!(run.code, 0, "{run:?}");
        let steers = run.stdout.chars().any(|c| c.is_control() && c != '\n');
        assert!(!steers && !run.stdout.contains("owned"), "{run:?}");
    }
}

#[test]
fn page_fits_terminal() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let text = fs::read_to_string("tests/data/explain/threads-a.tsv").expect("a file");
    let file = dir.path().join("log");
    fs::write(&file, text).expect("a file");
    let run = Gdr::new()
        .env("COLUMNS", "80")
        .env("NO_COLOR", "1")
        .sysroot(dir.path())
        .args(["explain", file.to_str().expect("a path")])
        .run();
    // Some threads quote a job, which failed.
    assert_eq!(run.code, 1);
    for line in run.stdout.lines() {
        // Commands and addresses are never wrapped.
        let whole =
            ["fix:", "check:", "source:", "setpci", "http"].iter().any(|word| line.contains(word));
        assert!(whole || line.chars().count() <= 80, "{line}");
    }
    assert!(!run.stdout.contains('\u{1b}'));
}

/// Failures of NVLink domains name their checks; a question about IMEX's states claims no cause.
#[test]
fn nvlink_domains() {
    let cases = [
        ("what do the IMEX states mean?", None),
        ("What does the IMEX domain state DEGRADED mean?", None),
        ("How do I read the IMEX daemon states INITIALIZING, READY and UNAVAILABLE?", None),
        ("IMEX daemon status is -3 (not READY)", Some("gpu.nvlink-domain")),
        (
            "[ERROR] [tid 39] No matching network interface found for any IP addresses in the node configuration file",
            Some("gpu.nvlink-domain"),
        ),
        (
            "NCCL WARN MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX configuration (nvidia-imex-ctl -N).",
            Some("gpu.nvlink-domain"),
        ),
        (
            "fabric manager NVIDIA GPU driver interface version 550.127.05 don't match with driver version 550.120.",
            Some("gpu.fabric"),
        ),
        ("nvidia-smi nvlink -s: GPU 3 has two inactive NVLinks", Some("gpu.nvlink")),
        ("NVRM: Xid (PCI:0000:dc:00): 149, NETIR link down", Some("gpu.nvlink")),
    ];
    for (line, check) in cases {
        let found = json(&piped(&["explain", "--format", "json", "-"], line.as_bytes()));
        let first = found["matches"].as_array().and_then(|all| all.first());
        assert_eq!(first.and_then(|found| found["check"].as_str()), check, "{line}: {found}");
    }
}

/// A log of NCCL shows its job before the causes; another text prints nothing of a job, also in JSON.
#[test]
fn job_of_log_comes_first() {
    const LOG: &str = "\
        vm:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n\
        vm:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n\
        vm:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
        vm:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x9 - Init COMPLETE\n\
        vm:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n\
        vm:2:2 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n";
    let page = piped(&["explain", "-", "--no-run"], LOG.as_bytes()).stdout;
    assert!(page.starts_with("Job: NCCL 2.28.9+cuda13.0, 2 ranks, 1 node, 2 GPUs\n"), "{page}");
    for expected in [
        "  path  GPUDirect RDMA  channels  NIC  ranks\n  SHM   -               1         -    0<->1\n",
        "lost: Ranks of one node did not use P2P.\n    why:      NCCL_P2P_DISABLE=1 is set (line 2)\n",
    ] {
        assert!(page.contains(expected), "{page}");
    }
    let report = json(&piped(&["explain", "-", "--no-run", "--format", "json"], LOG.as_bytes()));
    assert_eq!(report["job"]["schema"], "gdr.job/1");
    assert_eq!(report["job"]["communicators"][0]["paths"][0]["transport"], "SHM");
    assert_eq!(report["job"]["lost"][0]["kind"], "variable");
    let other = gdr(&["explain", LINE, "--no-run", "--format", "json"]);
    assert!(json(&other).get("job").is_none(), "{other:?}");
    assert!(!gdr(&["explain", LINE, "--no-run"]).stdout.contains("Job:"));
}

#[test]
fn ranks_are_no_status_of_cuda() {
    const LOG: &str = "vm:1:1 [3] NCCL INFO ncclCommInitRank comm 0x1 rank 803 nranks 2000 cudaDev 3 nvmlDev 3 busId 60 commId 0x9 - Init COMPLETE\n";
    let page = piped(&["explain", "-", "--no-run"], LOG.as_bytes()).stdout;
    assert!(page.contains("No known symptom") && !page.contains("driver"), "{page}");
}

/// Several logs, or the logs of a directory, are one job; a line is named with its log.
#[test]
fn logs_of_ranks_are_one_job() {
    const RANKS: [(&str, &str); 2] = [
        (
            "rank0.log",
            "vm:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
             vm:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        ),
        (
            "rank1.log",
            "vm:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x9 - Init COMPLETE\n\
             vm:2:2 [1] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n\
             vm:2:2 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n",
        ),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let below = directory.path().join("attempt_0");
    std::fs::create_dir(&below).expect("a directory");
    std::fs::write(below.join(".hidden"), "vm:3:3 [0] NCCL INFO NCCL version 2.1.1\n")
        .expect("a file");
    let files = RANKS.map(|(name, text)| {
        let file = below.join(name);
        std::fs::write(&file, text).expect("a file");
        file.to_str().expect("a path").to_owned()
    });
    let root = directory.path().to_str().expect("a path");
    for args in [
        vec!["explain", "--no-run", &files[0], &files[1]],
        vec!["explain", &files[1], &files[0], &files[1], "--no-run"],
        vec!["explain", "--job", root, "--no-run"],
    ] {
        let page = gdr(&args).stdout;
        assert!(
            page.starts_with("Job: NCCL, version not in the log, 2 ranks, 1 node, 2 GPUs\n"),
            "{page}"
        );
        assert!(page.contains("0<->1\n"), "{page}");
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("NCCL_P2P_DISABLE=1 is set (line 2 of {})", files[1]);
        assert!(page.contains(&line), "{page}");
    }
    for (args, word) in [
        (vec!["explain", &files[0], "no such file"], "put a message in quotes"),
        (vec!["explain", "--job", root, &files[0]], "cannot be used with"),
        (vec!["explain", root], "gdr explain --job"),
        (vec!["explain"], "required"),
    ] {
        let run = gdr(&args);
        assert_eq!(run.code, 2, "{args:?}");
        assert!(
            run.stderr.to_lowercase().contains(&word.to_lowercase()),
            "{args:?}: {}",
            run.stderr
        );
    }
}

/// The exit status of a job, and what a machine says about its paths.
#[test]
fn job_has_exit_status() {
    const INIT: &str = "\
        vm:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init COMPLETE\n\
        vm:2:2 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0x9 - Init COMPLETE\n";
    const P2P: &str = "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n";
    const SHM: &str = "vm:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n";
    let remote = INIT.replace("vm:2:2", "vm2:2:2")
        + "vm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0\n";
    let granted =
        "vm:1:1 [0] NCCL INFO Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1\n";
    let denied =
        "vm:1:1 [0] NCCL INFO Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 0\n";
    let died =
        "vm:1:1 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer\n";
    let directory = Machine::load("hgx-h100-8gpu-8nic").laid_out();
    let machine = directory.path().to_str().expect("a path");
    for (log, args, code, words) in [
        (format!("{INIT}{P2P}"), vec![], 0, "P2P/CUMEM"),
        (format!("{INIT}{granted}{SHM}"), vec![], 1, "it allows the faster path"),
        (format!("{INIT}{denied}{SHM}"), vec![], 0, "it does not allow the faster path"),
        (format!("{INIT}{SHM}"), vec![], 3, "is unknown"),
        (format!("{INIT}{P2P}{died}"), vec![], 1, "lost the connection"),
        (P2P.to_owned(), vec![], 3, "number of ranks not in the log"),
        (INIT.to_owned(), vec![], 3, "no path"),
        (remote.clone(), vec![], 3, "is unknown"),
        (remote, vec!["--sysroot", machine], 1, "it allows the faster path"),
    ] {
        let options = if args.is_empty() { vec!["--no-run"] } else { args };
        let run = piped(&[&["explain", "-"], &options[..]].concat(), log.as_bytes());
        run.assert_code(code);
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
}

/// A program's warning is the cause of a text, but a possible one where a job failed by another line.
#[test]
fn a_warning_beside_a_failure_is_a_possible_cause() {
    let warning = "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n";
    let failure = "n1:1:2 [0] graph/paths.cc:155 NCCL WARN Error : could not find CPU close to GPU 0\nn1:1:2 [0] NCCL INFO init.cc:471 -> 3\n";
    for (text, expected) in
        [(warning.to_owned(), "likely"), (format!("{warning}{failure}"), "possible")]
    {
        let report =
            json(&Gdr::new().args(["explain", "--no-run", "--format", "json", &text]).run());
        assert_eq!(report["matches"][0]["symptom"], "no-provider", "{text}");
        assert_eq!(report["matches"][0]["likelihood"], expected, "{text}");
    }
}
