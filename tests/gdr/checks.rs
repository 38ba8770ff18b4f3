//! Every check on fixtures: `tests/checks/FAMILY.json` changes one thing about a sound machine and says what the check is to
//! answer.
//!
//! A fixture's machine is laid out and recorded, the record is changed where a directory cannot say it (device nodes,
//! permissions, answers of libraries), and doctor runs on the record: in this process, because starting the program a thousand
//! times takes longer than the checks. The first case of each check runs through the built binary too, and both must say the same.

pub mod case;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use case::{Case, cases, changed_snapshot};
use case::{changed, fixtures, machine_of, run, snapshot, sound};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Gdr, scratch};

/// Checks that cannot have an outcome, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "pcie.acs-vm",
        "pass",
        "it speaks where virtual machines are in play, and is skipped elsewhere",
    ),
    ("expect.bandwidth", "pass", BY_PROBE),
    ("expect.bandwidth", "bad", BY_PROBE),
    ("expect.bandwidth", "unknown", BY_PROBE),
];
const BY_PROBE: &str = "probe judges it, doctor measures nothing";

/// Where a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Here,
    /// Also through the built binary.
    Both,
}

/// The report on a case's machine.
fn report(case: &Case, snapshot: Value, place: Where) -> Value {
    let snapshot = changed(case, snapshot);
    let dir = scratch();
    let file = dir.path().join("machine.json");
    fs::write(&file, snapshot.to_string()).expect("a file");
    let mut args: Vec<OsString> =
        ["doctor", "--format", "json", "--from"].map(OsString::from).into();
    args.push(file.into_os_string());
    args.extend(case.args.iter().map(OsString::from));
    let run = run(args.clone());
    if place == Where::Both {
        assert_eq!(run, Gdr::new().args(&args).run(), "{}", case.about);
    }
    assert!(!run.stderr.contains("panicked"), "{}: {}", case.about, run.stderr);
    serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{}: {error}: {}", case.about, run.stderr))
}

/// The id of a finding's fix, as a case names it.
fn fix_of(finding: &Value) -> &str {
    if finding["fix"].is_null() {
        "none"
    } else {
        finding["fix"]["id"].as_str().unwrap_or("advice")
    }
}

/// What is wrong with a case's report.
fn failure(case: &Case, report: &Value) -> Option<String> {
    let of_check = |finding: &&Value| finding["id"] == case.check.as_str();
    let of_subject = |finding: &&Value| {
        case.subject.as_ref().is_none_or(|subject| finding["subject"] == subject.as_str())
    };
    let findings: Vec<&Value> =
        report["findings"].as_array()?.iter().filter(of_check).filter(of_subject).collect();
    let fits = |finding: &&&Value| {
        let text = finding.to_string();
        finding["outcome"] == case.outcome.as_str()
            && case.says.iter().all(|says| {
                let says = Value::from(says.as_str()).to_string();
                text.contains(says.trim_matches('"'))
            })
            && !case.lacks.iter().any(|lacks| text.contains(lacks.as_str()))
            && case.fix.as_ref().is_none_or(|fix| fix == fix_of(finding))
    };
    match findings.iter().find(fits) {
        Some(_) => None,
        None => Some(format!(
            "{} is not {} where {}: {:#}",
            case.check,
            case.outcome,
            case.about,
            Value::from(findings.into_iter().cloned().collect::<Vec<_>>())
        )),
    }
}

#[test]
fn cases_have_expected_findings() {
    let mut cases = cases();
    if let Ok(check) = std::env::var("GDR_CHECK") {
        cases.retain(|case| case.check == check);
        assert!(!cases.is_empty(), "no case of {check}");
        return have_expected_findings(&cases, &reports(&cases));
    }
    have_expected_findings(&cases, &REPORTS);
    fixes_can_be_pasted(&REPORTS);
}

fn have_expected_findings(cases: &[Case], reports: &[Value]) {
    let wrong: Vec<String> =
        cases.iter().zip(reports).filter_map(|(case, report)| failure(case, report)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
#[ignore = "needs python3-jsonschema"]
fn reports_match_schema() {
    match_schema(&Value::from(REPORTS.clone()));
}

/// The reports of all cases, for several tests.
static REPORTS: LazyLock<Vec<Value>> = LazyLock::new(|| reports(&cases()));

/// Computes reports by one thread per CPU. Each machine is recorded once.
fn reports(cases: &[Case]) -> Vec<Value> {
    let machines: Vec<&[Case]> = cases.chunk_by(|a, b| machine_of(a) == machine_of(b)).collect();
    let mut seen = BTreeSet::new();
    let firsts: BTreeSet<(&str, &str)> = cases
        .iter()
        .filter(|case| seen.insert(case.check.as_str()))
        .map(|case| (case.check.as_str(), case.about.as_str()))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(cases) = machines.get(at) else {
                return done;
            };
            let snapshot = snapshot(&cases[0]);
            let reports = cases.iter().map(|case| {
                let is_first = firsts.contains(&(case.check.as_str(), case.about.as_str()));
                let place = if is_first { Where::Both } else { Where::Here };
                report(case, snapshot.clone(), place)
            });
            done.push((at, reports.collect::<Vec<Value>>()));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, Vec<Value>)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("the reports of some machines"))
            .collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().flat_map(|(_, reports)| reports).collect()
}

/// A fix has a command that a shell takes, sentences, or both; never one in the other's place.
fn fixes_can_be_pasted(reports: &[Value]) {
    let findings = reports.iter().filter_map(|report| report["findings"].as_array()).flatten();
    let mut commands = BTreeSet::new();
    let mut fixes = 0;
    for finding in findings.filter(|finding| !finding["fix"].is_null()) {
        let fix = &finding["fix"];
        let (command, advice) = (fix["command"].as_str(), fix["advice"].as_str());
        assert!(command.is_some() || advice.is_some(), "{finding:#}");
        assert!(advice.is_none_or(|advice| advice.ends_with('.')), "{finding:#}");
        commands.extend(command.map(str::to_owned));
        fixes += 1;
    }
    assert!(fixes > 100 && commands.len() > 20, "{fixes} fixes, {commands:#?}");
    for command in commands {
        let shell = Command::new("sh").args(["-n", "-c", &command]).status().expect("sh");
        assert!(shell.success(), "{command}");
        for part in command.split("&&") {
            let program = part.split_whitespace().next().unwrap_or_default();
            assert!(PROGRAMS.contains(&program), "{command}");
        }
        assert!(!command.contains(" or ") && !command.contains("; "), "{command}");
    }
}

/// What the commands of fixes run.
const PROGRAMS: &[&str] = &[
    "chmod",
    "dracut",
    "echo",
    "export",
    "ip",
    "kernel-install",
    "mkdir",
    "mkinitcpio",
    "mknod",
    "mlxconfig",
    "mlxfwmanager",
    "mlxfwreset",
    "modprobe",
    "mount",
    "nvidia-smi",
    "rm",
    "setpci",
    "sysctl",
    "systemctl",
    "udevadm",
    "unset",
    "update-initramfs",
];

/// Python's jsonschema finds nothing wrong with these documents. Most findings are those of the sound machine in hundreds of reports:
/// equal ones are validated in the first.
fn match_schema(reports: &Value) {
    const SCRIPT: &str = "import json, sys, jsonschema\n\
        validator = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))\n\
        seen = set()\n\
        def is_new(finding): return (text := json.dumps(finding)) not in seen and not seen.add(text)\n\
        for document in json.load(sys.stdin):\n    \
            document['findings'] = list(filter(is_new, document['findings']))\n    \
            validator.validate(document)";
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/gdr.doctor.1.json");
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(schema)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut pipe = python.stdin.take().expect("a pipe");
    pipe.write_all(reports.to_string().as_bytes()).expect("it is read");
    drop(pipe);
    let output = python.wait_with_output().expect("python3 ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Nothing fails, warns or is unknown on the sound machine.
/// With no profile, and with each alone. The machine is of no NVLink domain.
#[test]
fn sound_machine_passes() {
    let profiles = gdr::profile::SHIPPED.into_iter().map(|(name, _)| name);
    let alone = profiles.filter(|name| *name != "nvlink-domain").map(|name| vec![name]);
    let mut sound: Option<Value> = None;
    let mut wrong = Vec::new();
    for profiles in std::iter::once(Vec::new()).chain(alone) {
        let args: Vec<&str> = profiles.iter().flat_map(|name| ["--profile", name]).collect();
        let case: Case = serde_json::from_value(serde_json::json!({
            "check": "", "outcome": "", "about": "nothing is changed", "args": args
        }))
        .expect("a case");
        let snapshot = sound.get_or_insert_with(|| snapshot(&case)).clone();
        let place = if profiles.is_empty() { Where::Both } else { Where::Here };
        let report = report(&case, snapshot, place);
        for finding in report["findings"].as_array().expect("findings") {
            let text = |key: &str| finding[key].as_str().unwrap_or_default();
            let (outcome, message) = (text("outcome"), text("message"));
            // It may begin with a path.
            let begins = |first: char| first.is_alphanumeric() || first == '/';
            let is_sentence = message.ends_with('.') && message.starts_with(begins);
            let has_evidence = finding["evidence"].as_array().is_some_and(|all| !all.is_empty());
            let is_fine = ["pass", "info", "skip"].contains(&outcome);
            if !is_fine || !is_sentence || (outcome != "skip" && !has_evidence) {
                wrong.push(format!("{profiles:?}: {finding:#}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_check_has_fixture() {
    let listed = Gdr::new().args(["doctor", "--list"]).run();
    let ids: Vec<&str> = listed
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(ids.len() > 15, "{}", listed.stdout);
    let has: BTreeSet<(String, &str)> = cases()
        .into_iter()
        .map(|case| {
            let kind = match case.outcome.as_str() {
                "fail" | "warn" | "info" => "bad",
                "pass" => "pass",
                "unknown" => "unknown",
                _ => "skip",
            };
            (case.check, kind)
        })
        .collect();
    let mut missing = Vec::new();
    for id in &ids {
        for kind in ["pass", "bad", "unknown"] {
            let excepted = EXCEPTIONS.iter().any(|(check, what, _)| check == id && *what == kind);
            if !excepted && !has.contains(&((*id).to_owned(), kind)) {
                missing.push(format!("{id}: {kind}"));
            }
        }
    }
    let needless: Vec<_> = EXCEPTIONS
        .iter()
        .filter(|(id, kind, _)| has.contains(&((*id).to_owned(), *kind)) || !ids.contains(id))
        .collect();
    assert!(needless.is_empty(), "these have fixtures after all: {needless:?}");
    let unlisted: Vec<_> = has.iter().filter(|(id, _)| !ids.contains(&id.as_str())).collect();
    assert!(unlisted.is_empty(), "fixtures of checks that are not: {unlisted:?}");
    assert!(missing.is_empty(), "no fixture for\n{}", missing.join("\n"));
}

/// Several faults of other cases on one machine, and what is expected of the report. Written by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Together {
    /// `check: about` of each case.
    faults: Vec<String>,
    /// The checks at the root, in order.
    roots: Vec<String>,
    /// Checks that fail or warn because of a root.
    #[serde(default)]
    explained: Vec<String>,
    /// How the next step begins, with which the table ends.
    next: String,
}

fn together(all: &[Case], faults: &[String]) -> Case {
    let mut sum = Case {
        check: String::new(),
        outcome: String::new(),
        about: faults.join("; "),
        machine: sound(),
        patch: serde_json::json!({}),
        nvml: BTreeMap::new(),
        cuda: BTreeMap::new(),
        verbs: BTreeMap::new(),
        snapshot: serde_json::json!({}),
        args: Vec::new(),
        subject: None,
        says: Vec::new(),
        lacks: Vec::new(),
        fix: None,
        functions: BTreeMap::new(),
    };
    for fault in faults {
        let case = all
            .iter()
            .find(|case| *fault == format!("{}: {}", case.check, case.about))
            .unwrap_or_else(|| panic!("no case {fault}"));
        for (target, change) in [(&mut sum.patch, &case.patch), (&mut sum.snapshot, &case.snapshot)]
        {
            if !change.is_null() {
                join(target, change);
            }
        }
        sum.functions.extend(case.functions.clone());
        sum.nvml.extend(case.nvml.clone());
        sum.cuda.extend(case.cuda.clone());
        sum.verbs.extend(case.verbs.clone());
        sum.args.extend(case.args.clone());
    }
    sum
}

/// Two merge patches as one: unlike in a merge, a null stays.
fn join(patch: &mut Value, other: &Value) {
    match (patch, other) {
        (Value::Object(patch), Value::Object(other)) => {
            for (key, value) in other {
                join(patch.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (patch, other) => *patch = other.clone(),
    }
}

#[test]
fn roots_come_before_what_they_explain() {
    let all = cases();
    let text = fs::read_to_string(fixtures().with_file_name("causes.json")).expect("the cases");
    let expected: Vec<Together> = serde_json::from_str(&text).expect("cases");
    assert!(expected.len() >= 10);
    let mut wrong = Vec::new();
    for expected in &expected {
        let case = together(&all, &expected.faults);
        let snapshot = snapshot(&case);
        let found = report(&case, snapshot.clone(), Where::Here);
        let ids = |list: &Value, key: &str| -> Vec<String> {
            let list = list.as_array().expect("a list").iter();
            list.map(|one| one[key].as_str().expect("an id").to_owned()).collect()
        };
        let roots = ids(&found["roots"], "check");
        let table = table(&case, snapshot);
        let (_, step) = table.rsplit_once("\nNext step: ").unwrap_or_default();
        let words: Vec<&str> = step.split_whitespace().collect();
        let step = match words.as_slice() {
            // A recorded directory is repaired where it lies.
            ["gdr", "--sysroot", _, rest @ ..] => format!("sudo gdr {}", rest.join(" ")),
            words => words.join(" "),
        };
        if roots != expected.roots || !step.starts_with(&expected.next) {
            wrong.push(format!("{}:\n{roots:?}\n{step}\n{table}", case.about));
        }
        // A consequence has no block of its own: each block begins with its outcome and check.
        for id in &expected.explained {
            let has_outcome =
                found["findings"].as_array().expect("findings").iter().any(|finding| {
                    finding["id"] == **id
                        && (finding["outcome"] == "fail" || finding["outcome"] == "warn")
                });
            let block = |line: &str| {
                ["FAIL", "WARN"].iter().any(|word| {
                    line.strip_prefix(word)
                        .is_some_and(|rest| rest.trim_start().starts_with(&format!("{id} ")))
                })
            };
            if !has_outcome || table.lines().any(block) {
                wrong.push(format!("{}: {id} is not folded:\n{table}", case.about));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The table of a case's machine.
fn table(case: &Case, snapshot: Value) -> String {
    let snapshot = changed(case, snapshot);
    let dir = scratch();
    let file = dir.path().join("machine.json");
    fs::write(&file, snapshot.to_string()).expect("a file");
    let mut args: Vec<OsString> = vec!["doctor".into(), "--from".into(), file.into()];
    args.extend(case.args.iter().map(OsString::from));
    run(args).stdout
}

/// Articles with which no message of a fault begins: a list of drained nodes shows twenty characters.
const ARTICLES: [&str; 4] = ["The ", "A ", "An ", "Its "];

/// What a scheduler and a table of nodes show of a check begins with the fault, and says it within 60 characters.
#[test]
fn faults_are_said_at_once() {
    let cases = cases();
    let reports = cases.iter().zip(&*REPORTS);
    let findings = reports.flat_map(|(case, report)| {
        let findings = report["findings"].as_array().into_iter().flatten();
        findings.filter(|finding| finding["id"] == case.check.as_str())
    });
    let mut wrong = BTreeSet::new();
    let mut checks = BTreeSet::new();
    let is_shown = |finding: &&Value| {
        ["fail", "warn", "unknown"].iter().any(|outcome| finding["outcome"] == *outcome)
    };
    for finding in findings.filter(is_shown) {
        let text = |name: &str| finding[name].as_str().expect("a text");
        let (id, message) = (text("id"), text("message"));
        checks.insert(id);
        let first = gdr::render::doctor::first_part(text("subject"), message, 49);
        // Of a failure that part is the reason of a drained node, whole.
        let is_cut = first.ends_with("...") && finding["outcome"] == "fail";
        if is_cut || ARTICLES.iter().any(|article| message.starts_with(article)) {
            wrong.insert(format!("{id}: {first} | {message}"));
        }
    }
    assert!(checks.len() > 60, "{}", checks.len());
    assert!(wrong.is_empty(), "{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}
