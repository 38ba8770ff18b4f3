//! How doctor is asked and how it prints: choices of checks, exit codes, formats, profiles, readiness.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Gdr, Machine, Run, recorded};
use serde_json::Value;

fn doctor(dir: &Path, args: &[&str]) -> Run {
    let run = Gdr::new().sysroot(dir).args(["doctor"]).args(args).run();
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn report(dir: &Path, args: &[&str]) -> Value {
    let run = doctor(dir, &[&["--format", "json"], args].concat());
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

fn ids(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    let mut ids: Vec<&str> = findings.iter().filter_map(|finding| finding["id"].as_str()).collect();
    ids.dedup();
    ids
}

#[test]
fn selects_checks_by_id_and_family() {
    let dir = Machine::load("hgx-h100-8gpu-8nic").laid_out();
    let two = report(dir.path(), &["--only", "pcie.acs,gpu.bar1"]);
    assert_eq!(ids(&two), ["gpu.bar1", "pcie.acs"]);
    let family = report(dir.path(), &["--only", "pcie", "--skip", "pcie.acs"]);
    assert!(ids(&family).contains(&"pcie.link") && !ids(&family).contains(&"pcie.acs"));
    assert!(ids(&family).iter().all(|id| id.starts_with("pcie.")));
    // Nobody can say of a few checks that a machine is ready.
    assert_eq!(family["readiness"], serde_json::json!([]));
    let wrong = doctor(dir.path(), &["--only", "pcie.asc"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
    assert!(
        wrong.stderr.contains("'pcie.asc'") && wrong.stderr.contains("--list"),
        "{}",
        wrong.stderr
    );
}

/// 0: passed; 1: a failure; 2: usage; 3: a required result is unknown. Options widen what counts as a failure.
#[test]
fn exit_codes() {
    let sound = Machine::load("sound").laid_out();
    let well = ["--only", "gpu.present,pcie.link"];
    assert_eq!(doctor(sound.path(), &well).code, 0);
    let redirecting = Machine::load("hgx-acs-redirect").laid_out();
    let acs = ["--platform", "bare-metal", "--only", "pcie.acs"];
    assert_eq!(doctor(redirecting.path(), &acs).code, 1);
    // Two sockets without a switch: the root ports only warn.
    let warns = Machine::load("dual-epyc").laid_out();
    assert_eq!(doctor(warns.path(), &acs).code, 0);
    assert_eq!(doctor(warns.path(), &[&acs[..], &["--fail-on", "warn"]].concat()).code, 1);
    let unknown = Machine::load("sound").laid_out();
    fs::remove_file(unknown.path().join("proc/self/limits")).expect("the file");
    let limits = ["--only", "limits.memlock"];
    assert_eq!(doctor(unknown.path(), &limits).code, 3);
    let on =
        |level: &str| doctor(unknown.path(), &[&limits[..], &["--fail-on", level]].concat()).code;
    assert_eq!((on("warn"), on("unknown"), on("info")), (3, 1, 2));
}

#[test]
fn quiet_shows_only_problems() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let run = doctor(dir.path(), &["--platform", "bare-metal", "--quiet"]);
    run.assert_stdout("FAIL    pcie.acs");
    assert!(!run.stdout.contains("\npass ") && !run.stdout.contains("\nskip "), "{}", run.stdout);
    // The worst stands first, and nothing that is well before it.
    let all = doctor(dir.path(), &["--platform", "bare-metal", "--verbose"]).stdout;
    let at = |word: &str| all.find(word).unwrap_or_else(|| panic!("no {word:?} in {all}"));
    assert!(at("\nFAIL ") < at("\npass "), "{all}");
    assert!(at("GPUDirect RDMA: ") < at("\nFAIL "));
    // Else what passes is a number, and the last line is the next step.
    let lines = doctor(dir.path(), &["--platform", "bare-metal"]).stdout;
    let lines: Vec<&str> = lines.lines().collect();
    assert!(
        lines[1].starts_with("NOT READY for rdma: ")
            || lines[1].starts_with("UNDETERMINED for rdma: ")
    );
    assert!(
        lines.iter().any(|line| line.contains(" passed, ") && line.ends_with("(-v lists them)"))
    );
    let root = dir.path().display();
    assert_eq!(lines[lines.len() - 1], format!("Next step: gdr --sysroot {root} fix acs"));
    assert!(!lines.iter().any(|line| line.starts_with("pass ")), "{lines:#?}");
}

/// A library's answer that is not JSON is noted where it is read.
#[test]
fn selection_loads_only_needed_libraries() {
    let dir = Machine::load("sound").laid_out();
    for library in ["nvml", "cuda", "verbs"] {
        let file = dir.path().join(format!("gdr/{library}.json"));
        assert!(file.exists(), "{file:?}");
        fs::write(file, "no JSON").expect("the file");
    }
    let read = |args: &[&str]| {
        let report = report(dir.path(), args);
        let notes = report["notes"].as_array().expect("notes").clone();
        let sources = notes.iter().filter_map(|note| note["source"].as_str().map(str::to_owned));
        let mut sources: Vec<String> =
            sources.filter(|source| ["NVML", "CUDA", "verbs"].contains(&source.as_str())).collect();
        sources.sort();
        sources.join(" ")
    };
    assert_eq!(read(&[]), "CUDA NVML verbs");
    assert_eq!(read(&["--skip", "rdma,sw.libraries"]), "CUDA NVML");
    // A link's speed counts where the GPU is awake, as NVML says.
    assert_eq!(read(&["--only", "pcie"]), "NVML");
    assert_eq!(read(&["--only", "rdma.core"]), "verbs");
    assert_eq!(read(&["--only", "gpu.writes-ordering"]), "CUDA");
    assert_eq!(read(&["--only", "pcie.shared,pcie.errors,limits,platform,sw.net-plugin"]), "");
}

#[test]
#[ignore = "slow: a run for each check"]
fn single_check_matches_full_report() {
    for name in ["sound", "broken", "h200-x8", "hgx-acs-redirect"] {
        let dir = Machine::load(name).laid_out();
        let all = report(dir.path(), &["--profile", "all"]);
        for id in ids(&all) {
            let of_it = |report: &Value| -> Vec<Value> {
                let findings = report["findings"].as_array().expect("findings").iter();
                findings.filter(|finding| finding["id"] == id).cloned().collect()
            };
            let alone = report(dir.path(), &["--profile", "all", "--only", id]);
            assert_eq!(of_it(&alone), of_it(&all), "{name}: {id}");
        }
    }
}

#[test]
fn verbose_shows_evidence() {
    let dir = Machine::load("sound").laid_out();
    let seen = |args: &[&str]| doctor(dir.path(), args).stdout.matches("evidence:").count();
    assert!(seen(&["--verbose"]) > seen(&[]) + 5);
}

#[test]
fn profiles_have_verdicts() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let args = ["--platform", "bare-metal", "--profile", "rdma", "--profile", "gdrcopy"];
    let report = report(dir.path(), &args);
    let readiness = report["readiness"].as_array().expect("verdicts");
    let of = |profile: &str| {
        let found = readiness.iter().find(|one| one["profile"] == profile);
        found.expect("a verdict")
    };
    let text = of("rdma")["text"].as_str().expect("a sentence");
    assert!(text.starts_with("GPUDirect RDMA: ") && text.contains("pcie.acs"), "{text}");
    assert_ne!(of("rdma")["state"], "ready");
    assert_ne!(of("gdrcopy")["state"], "not_ready");
}

#[test]
fn all_combines_profiles() {
    let dir = Machine::load("sound").laid_out();
    let all = report(dir.path(), &["--profile", "all"]);
    assert_eq!(
        all["profiles"],
        serde_json::json!(["rdma", "async", "gpu-initiated", "gdrcopy", "p2p", "mpi"])
    );
    let twice = report(dir.path(), &["--profile", "all", "--profile", "rdma"]);
    assert_eq!(twice["profiles"], all["profiles"]);
}

#[test]
fn reads_user_profiles() {
    let machine = Machine::load("sound").laid_out();
    let home = tempfile::tempdir().expect("a temporary directory");
    let profiles = home.path().join("gdr/profiles");
    fs::create_dir_all(&profiles).expect("directories");
    let write = |name: &str, text: &str| {
        fs::write(profiles.join(format!("{name}.toml")), text).expect("a profile");
    };
    write(
        "ours",
        "name = 'ours'\nabout = 'Ours: a test'\nincludes = ['gdrcopy']\n[checks]\n'gpu.*' = { severity = 'warn' }\n",
    );
    write("loop", "name = 'loop'\nabout = 'Loop: itself'\nincludes = ['loop']\n");
    write(
        "wrong",
        "name = 'wrong'\nabout = 'x'\n\n[checks]\n'gpu.present' = { sevrity = 'error' }\n",
    );
    write("nobody", "name = 'nobody'\nabout = 'x'\n[checks]\n'gpu.nothing' = {}\n");
    let ask = |name: &str| {
        Gdr::new()
            .sysroot(machine.path())
            .args(["doctor", "--format", "json", "--profile", name])
            .env("XDG_CONFIG_HOME", home.path())
            .run()
    };
    let ours: Value = serde_json::from_str(&ask("ours").stdout).expect("JSON");
    assert_eq!(ours["profiles"], serde_json::json!(["gdrcopy", "ours"]));
    assert_ne!(ask("loop").code, 2);
    let wrong = ask("wrong");
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains("line 5")
            && wrong.stderr.contains("expected `severity` or `required`"),
        "{}",
        wrong.stderr
    );
    assert!(ask("nobody").stderr.contains("'gpu.nothing'"));
    let absent = ask("absent");
    assert_eq!(absent.code, 2);
    assert!(
        absent.stderr.contains("absent.toml") && absent.stderr.contains("/etc/gdr/profiles"),
        "{}",
        absent.stderr
    );
}

#[test]
fn markdown_has_every_finding() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let text = doctor(dir.path(), &["--platform", "bare-metal", "--format", "markdown"]).stdout;
    assert!(text.starts_with("# gdr doctor: "), "{text}");
    let report = report(dir.path(), &["--platform", "bare-metal"]);
    for id in ids(&report) {
        assert!(text.contains(id), "{id} is not in {text}");
    }
    assert!(text.contains("\n```\nsetpci -s "), "commands stand by themselves: {text}");
}

#[test]
#[ignore = "needs promtool"]
fn promtool_accepts_metrics() {
    for name in ["sound", "hgx-acs-redirect", "broken", "grace-gh200"] {
        let dir = Machine::load(name).laid_out();
        let metrics = doctor(dir.path(), &["--profile", "all", "--format", "prometheus"]).stdout;
        let report = report(dir.path(), &["--profile", "all"]);
        let failed = format!("gdr_findings{{outcome=\"fail\"}} {}\n", report["summary"]["fail"]);
        assert!(metrics.contains(&failed), "{name}: {metrics}");
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool starts");
        let mut pipe = promtool.stdin.take().expect("a pipe");
        pipe.write_all(metrics.as_bytes()).expect("it reads");
        drop(pipe);
        let output = promtool.wait_with_output().expect("promtool ends");
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success() && said.is_empty(),
            "{name}: {}",
            String::from_utf8_lossy(&said)
        );
    }
}

/// The outcome of each check and subject.
fn outcomes(report: &Value) -> BTreeMap<(&str, &str), &str> {
    let findings = report["findings"].as_array().expect("findings");
    findings
        .iter()
        .map(|finding| {
            let [id, subject, outcome] =
                ["id", "subject", "outcome"].map(|key| finding[key].as_str().expect("a text"));
            ((id, subject), outcome)
        })
        .collect()
}

/// Without the slow sources a finding is the same, unknown, or left out, and the report says which checks were.
#[test]
fn quick_changes_no_verdict() {
    let mut without_cuda = 0;
    let recorded = recorded().into_iter().map(|name| {
        let file = format!("{}/tests/recorded/{name}/snapshot.json", env!("CARGO_MANIFEST_DIR"));
        (name, "--from", file)
    });
    let machines = ["h200-x1", "h200-x2", "h200-x8", "sound", "grace-gh200", "hgx-h100-8gpu-8nic"];
    let laid_out = machines.map(|name| (name.to_owned(), Machine::load(name).laid_out()));
    let roots = laid_out
        .iter()
        .map(|(name, dir)| (name.clone(), "--sysroot", dir.path().display().to_string()));
    for (name, option, path) in recorded.chain(roots) {
        let doctor = [option, &path, "doctor", "--profile", "all", "--format", "json"];
        let run = |more: &[&str]| -> Value {
            serde_json::from_str(&Gdr::new().args(doctor).args(more).run().stdout).expect("JSON")
        };
        let (all, quick) = (run(&[]), run(&["--quick"]));
        assert_eq!(all.get("left_out"), None, "{name}");
        let left_out: Vec<&str> = quick["left_out"]
            .as_array()
            .unwrap_or_else(|| panic!("{name}: {quick}"))
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(left_out.contains(&"sw.net-plugin"), "{name}: {left_out:?}");
        without_cuda += usize::from(left_out.contains(&"gpu.writes-ordering"));
        let (all, quick) = (outcomes(&all), outcomes(&quick));
        for (finding, outcome) in &quick {
            let same = all.get(finding) == Some(outcome);
            assert!(same || *outcome == "unknown", "{name}: {finding:?} is {outcome}");
        }
        for finding in all.keys().filter(|finding| !quick.contains_key(*finding)) {
            assert!(left_out.contains(&finding.0), "{name}: {finding:?} is gone");
        }
    }
    assert!(without_cuda > 3, "{without_cuda}");
}

#[test]
fn last_line_of_quick_says_what_is_left_out() {
    let dir = Machine::load("h200-x2").laid_out();
    for format in ["table", "markdown"] {
        let report = doctor(dir.path(), &["--quick", "--format", format]).stdout;
        let last = report.trim_end().rsplit("Left out by --quick: ").next().unwrap_or_default();
        let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
        let number = last.split_once(' ').and_then(|(number, _)| number.parse::<u32>().ok());
        assert!(number.is_some_and(|number| number > 5), "{format}: {report}");
        let words = "of software, of firmware settings, and of what only CUDA knows.";
        assert!(last.ends_with(words), "{format}: {report}");
    }
    assert!(!doctor(dir.path(), &[]).stdout.contains("Left out"));
}
