//! `gdr doctor` against hand-written expectations: which ports are findings, what the exit code says, what JSON promises.

use std::collections::BTreeSet;

use crate::support::{Gdr, Machine, Run, corpus, gdr, names, scratch};
use serde_json::Value;

fn doctor(name: &str, args: &[&str]) -> (Run, Value) {
    let dir = Machine::load(name).laid_out();
    let run = Gdr::new().sysroot(dir.path()).args(["doctor", "--format", "json"]).args(args).run();
    let report = serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {}", run.stderr));
    (run, report)
}

fn findings<'a>(report: &'a Value, id: &str) -> Vec<&'a Value> {
    let all = report["findings"].as_array().expect("findings");
    all.iter().filter(|finding| finding["id"] == id).collect()
}

/// The ports that are findings are exactly those a person named, with those bits and that weight.
#[test]
fn acs_matters_only_on_paths() {
    let mut ports = 0;
    for name in names() {
        let expect = Machine::load(&name).expect();
        let Some(wanted) = &expect.acs_findings else {
            continue;
        };
        let (_, report) = doctor(&name, &["--platform", "bare-metal"]);
        let found: Vec<&Value> = findings(&report, "pcie.acs")
            .into_iter()
            .filter(|finding| {
                ["fail", "warn"].contains(&finding["outcome"].as_str().expect("an outcome"))
            })
            .collect();
        for want in wanted {
            let finding = found
                .iter()
                .find(|finding| {
                    finding["subject"].as_str().expect("a subject").contains(&want.port)
                })
                .unwrap_or_else(|| panic!("{name}: {} is not a finding: {found:#?}", want.port));
            let outcome = if want.severity == "E" { "fail" } else { "warn" };
            assert_eq!(finding["outcome"], outcome, "{name}: {}", want.port);
            let message = finding["message"].as_str().expect("a message");
            for (short, long) in [("RR", "ReqRedir"), ("CR", "CmpltRedir"), ("EC", "EgressCtrl")] {
                let named = want.bits.iter().any(|bit| bit == short);
                assert_eq!(
                    message.contains(long),
                    named,
                    "{name}: {}: {long}: {message}",
                    want.port
                );
            }
            let command = finding["fix"]["command"].as_str().expect("a command");
            assert!(
                command.contains("setpci") && command.contains(&want.port),
                "{name}: {command}"
            );
            assert_eq!(finding["fix"]["id"], "acs");
            ports += 1;
        }
        let subjects: BTreeSet<&str> =
            found.iter().filter_map(|finding| finding["subject"].as_str()).collect();
        assert_eq!(subjects.len(), wanted.len(), "{name}: {found:#?}");
        for port in &expect.acs_unknown {
            let said = findings(&report, "pcie.acs").into_iter().any(|finding| {
                finding["outcome"] == "unknown" && finding.to_string().contains(port)
            });
            assert!(said, "{name}: {port} is not said to be unknown");
        }
    }
    assert!(ports >= 8, "only {ports} ports were judged");
}

#[test]
fn report_matches_schema() {
    for name in names() {
        let (run, report) = doctor(&name, &[]);
        assert_eq!(report["schema"], "gdr.doctor/1");
        assert_eq!(report["profiles"], serde_json::json!(["rdma"]));
        assert!(report["host"].is_object());
        let all = report["findings"].as_array().expect("findings");
        for outcome in ["pass", "fail", "warn", "info", "unknown", "skip"] {
            let count = all.iter().filter(|finding| finding["outcome"] == outcome).count();
            assert_eq!(report["summary"][outcome], count, "{name}: {outcome}");
        }
        for finding in all {
            for key in
                ["id", "outcome", "severity", "subject", "message", "evidence", "needs", "fix"]
            {
                assert!(
                    !finding[key].is_null() || ["needs", "fix"].contains(&key),
                    "{name}: {key}: {finding}"
                );
            }
            for evidence in finding["evidence"].as_array().expect("evidence") {
                assert!(
                    evidence["source"].is_string() && evidence["value"].is_string(),
                    "{name}: {finding}"
                );
            }
            if finding["outcome"] == "unknown" {
                assert!(finding["needs"].is_string(), "{name}: {finding}");
            }
        }
        let failed = report["summary"]["fail"] != 0;
        assert_eq!(run.code == 1, failed, "{name}: {}", run.code);
        assert!([0, 1, 3].contains(&run.code), "{name}: {}", run.code);
    }
}

/// The page is generated and committed, so an id that changes shows in its diff.
#[test]
fn list_names_every_check() {
    let run = gdr(&["doctor", "--list"]);
    let ids: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let page = include_str!("../../docs/checks.md");
    let wanted: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert!(wanted.len() >= 80, "{}", wanted.len());
    assert_eq!(ids, wanted);
}

/// What lies around the devices fails or warns on no machine that nobody broke there.
#[test]
fn other_devices_raise_no_alarm() {
    // Ids, or families.
    const AROUND: [&str; 16] = [
        "peermem.buildable",
        "peermem.legacy",
        "peermem.boot",
        "pcie.acs-vm",
        "pcie.ats",
        "pcie.payload",
        "pcie.errors",
        "pcie.shared",
        "limits.rdma-cgroup",
        "limits.map-count",
        "limits.shm",
        "platform.",
        "mpi.",
        "tools.",
        "sw.",
        "env.",
    ];
    let mut machines: Vec<(String, Machine)> =
        names().into_iter().map(|n| (n.clone(), Machine::load(&n))).collect();
    for path in corpus() {
        machines.push((path.display().to_string(), Machine::from_corpus(&path)));
    }
    for (name, machine) in machines {
        let dir = machine.laid_out();
        let run = Gdr::new()
            .sysroot(dir.path())
            .args(["doctor", "--format", "json", "--platform", "bare-metal"])
            .args(["--profile", "rdma", "--profile", "async"])
            .run();
        let report: Value = serde_json::from_str(&run.stdout).expect("a report");
        for about in AROUND {
            let of_it = report["findings"].as_array().expect("findings").iter();
            let of_it = of_it
                .filter(|finding| finding["id"].as_str().is_some_and(|id| id.starts_with(about)));
            for finding in of_it {
                let outcome = finding["outcome"].as_str().expect("an outcome");
                assert!(!["fail", "warn"].contains(&outcome), "{name}: {finding:#}");
            }
        }
    }
}

#[test]
fn output_fits_narrow_terminal() {
    let dir = Machine::load("h200-x1").laid_out();
    let lines = |columns: &str| {
        let gdr = Gdr::new().sysroot(dir.path()).args(["doctor"]).env("COLUMNS", columns);
        let text = gdr.run().stdout;
        // Commands are copied whole.
        let body = text.lines().filter(|line| !line.is_empty());
        let lines = body.filter(|line| {
            !["fix: ", "by hand: ", "Next step"].iter().any(|word| line.contains(word))
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for columns in [60, 80, 100] {
        let lines = lines(&columns.to_string());
        let longest = lines.iter().map(|line| line.chars().count()).max().expect("lines");
        assert!(longest <= columns, "{longest} of {columns}: {lines:#?}");
        assert!(longest + 12 > columns, "{longest} of {columns}: {lines:#?}");
    }
    assert!(lines("40").len() < 3 * lines("100").len(), "one word a line: {:#?}", lines("40"));
    assert_eq!(lines("20"), lines("40"));
}

#[test]
fn reports_asserted_platform() {
    for (kind, word) in [("bare-metal", "bare metal"), ("guest", "virtual machine")] {
        let (_, report) = doctor("h200-x1", &["--platform", kind]);
        let finding = findings(&report, "platform.guest")[0];
        assert!(finding.to_string().contains("--platform"), "{finding}");
        let message = finding["message"].as_str().expect("a message");
        assert!(message.to_lowercase().contains(word), "{message}");
    }
}

#[test]
fn groups_equal_findings() {
    let dir = scratch();
    let machine = Machine::load_changed("hgx-h100-8gpu-8nic", |json| {
        let roots = json["roots"].as_object_mut().expect("roots");
        for root in roots.values_mut() {
            root["iommu"] = "DMA-FQ".into();
        }
    });
    machine.lay_out(dir.path());
    let run = |format: &str| {
        let gdr = Gdr::new().sysroot(dir.path()).args(["doctor", "--platform", "bare-metal"]);
        gdr.args(["--format", format]).run().stdout
    };
    let report: Value = serde_json::from_str(&run("json")).expect("JSON");
    let found = findings(&report, "pcie.iommu");
    assert_eq!(found.iter().filter(|finding| finding["outcome"] == "warn").count(), 16);
    assert!(found[0]["fix"]["command"].is_null());
    let text = run("table");
    assert_eq!(text.matches("pcie.iommu  ").count(), 1, "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for device in 0..8 {
        assert!(
            joined.contains(&format!("GPU{device} ("))
                && joined.contains(&format!("NIC{device} (")),
            "{text}"
        );
    }
    assert!(
        text.lines().nth(1).is_some_and(|line| line == "UNDETERMINED for rdma: 16 warnings"),
        "{text}"
    );
    let last = text.lines().last().expect("a line");
    assert!(
        last.starts_with("Next step: gdr --sysroot ")
            && last.contains(" fix ")
            && last.contains("iommu"),
        "{last}"
    );
}

#[test]
fn documents_begin_with_header() {
    let dir = Machine::load("sound").laid_out();
    let commands: &[(&str, &[&str])] = &[
        ("gdr.doctor/1", &["doctor"]),
        ("gdr.topo/1", &["topo"]),
        ("gdr.path/1", &["topo", "--path", "GPU0", "NIC0"]),
        ("gdr.explain/1", &["explain", "pcie.acs"]),
        ("gdr.plan/1", &["fix", "mrrs", "--dry-run"]),
        ("gdr.probe/1", &["probe", "copy", "--sim", "--quick", "--size", "4KiB"]),
    ];
    for (schema, args) in commands {
        let gdr = match args[0] {
            "probe" => Gdr::new(),
            _ => Gdr::new().sysroot(dir.path()),
        };
        let run = gdr.args(*args).args(["--format", "json"]).env("SOURCE_DATE_EPOCH", "0").run();
        let version = env!("CARGO_PKG_VERSION");
        let begin = format!(
            "{{\n  \"schema\": \"{schema}\",\n  \"gdr\": \"{version}\",\n  \"taken\": \"1970-01-01T00:00:00Z\",\n"
        );
        assert!(run.stdout.starts_with(&begin), "{args:?}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn healthy_node_has_no_failure() {
    let (run, report) = doctor("hgx-h100-8gpu-8nic", &[]);
    let failed: Vec<&Value> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|finding| finding["outcome"] == "fail")
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_ne!(run.code, 1);
}

#[test]
fn profile_sets_severity() {
    let weight = |profile: &str| {
        let (_, report) = doctor("h200-x1", &["--profile", profile]);
        findings(&report, "param.peer-mapping")[0]["severity"]
            .as_str()
            .expect("a severity")
            .to_owned()
    };
    assert_eq!(weight("async"), "error");
    assert_eq!(weight("rdma"), "info");
    // Several profiles ask for what any of them asks.
    let (_, report) = doctor("h200-x1", &["--profile", "rdma", "--profile", "async"]);
    assert_eq!(report["profiles"], serde_json::json!(["rdma", "async"]));
    assert_eq!(findings(&report, "param.peer-mapping")[0]["severity"], "error");
}
