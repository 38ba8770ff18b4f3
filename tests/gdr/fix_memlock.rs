//! memlock on machines in directories; systemd itself reads the files.

use std::fs;
use std::process::Command;

use crate::support::{Bench, Run};
use serde_json::{Value, json};

fn flat(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A user's shell with limit 0, and three services, of which crio is unlimited.
fn bounded() -> Value {
    let unit = |name: &str| {
        json!([
            "[Unit]",
            format!("Description={name}"),
            "[Service]",
            format!("ExecStart=/usr/bin/{name}"),
            "[Install]",
            "WantedBy=multi-user.target"
        ])
    };
    json!({
        "files": {
            "proc/self/limits": ["Limit                     Soft Limit           Hard Limit           Units     ", "Max locked memory         0                    0                    bytes     "],
            "proc/self/status": ["Name:\tgdr", "Uid:\t1000\t1000\t1000\t1000", "CapEff:\t0000000000000000"],
            "etc/security/limits.d/memlock.conf": ["* soft memlock 65536", "alice - memlock 1024"],
            "usr/lib/systemd/system/slurmd.service": unit("slurmd"),
            "usr/lib/systemd/system/docker.service": unit("dockerd"),
            "usr/lib/systemd/system/crio.service": unit("crio"),
            // Drop-ins apply by name across directories.
            "etc/systemd/system/crio.service.d/10-low.conf": ["[Service]", "LimitMEMLOCK=8M"],
            "usr/lib/systemd/system/crio.service.d/20-site.conf": ["[Service]", "LimitMEMLOCK=infinity"],
            "etc/systemd/system/slurmd.service.d/override.conf": ["[Service]", "LimitMEMLOCK=8M"],
            "etc/systemd/system.conf": ["[Manager]", "#DefaultLimitMEMLOCK=8M"]
        },
        "empty_dirs": ["run/systemd/system", "usr/lib/systemd/system", "etc/systemd/system"]
    })
}

/// The limit of a login by limits.conf(5): files in name order, the last `*` line of each kind.
fn login(bench: &Bench) -> [Option<String>; 2] {
    let directory = bench.root().join("etc/security/limits.d");
    let mut files: Vec<_> = fs::read_dir(directory)
        .expect("limits.d")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let mut limits = [None, None];
    for file in files {
        for line in fs::read_to_string(file).expect("a file").lines() {
            let line = line.split('#').next().expect("a line");
            let ["*", kind, "memlock", value] = line.split_whitespace().collect::<Vec<_>>()[..]
            else {
                continue;
            };
            for (limit, own) in limits.iter_mut().zip(["soft", "hard"]) {
                if kind == own || kind == "-" {
                    *limit = Some(value.to_owned());
                }
            }
        }
    }
    limits
}

/// systemd's own view: the last assignment of a key in a file and its drop-ins.
fn configured(bench: &Bench, file: &str, key: &str) -> Option<String> {
    let mut analyze = Command::new("systemd-analyze");
    analyze.arg(format!("--root={}", bench.root().display())).args(["cat-config", file]);
    let output = analyze.output().expect("systemd-analyze");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_prefix(key)).next_back().map(str::to_owned)
}

#[test]
#[ignore = "needs systemd"]
fn removes_limit_for_next_login() {
    let bench = Bench::of("sound", &bounded());
    bench.tool("systemctl", "[ \"$1\" = daemon-reload ]");
    let before = bench.tree();
    let check = || bench.outcomes("limits.memlock", &["--profile", "rdma"]);
    let found = check();
    assert_eq!(found["this process"], "fail");
    assert_eq!(found["slurmd, docker"], "info", "{found:?}");

    let run = bench.repair(&["fix", "--yes", "--profile", "rdma"]);
    run.assert_code(0);
    assert_eq!(bench.calls(), ["systemctl daemon-reload"]);
    let text = flat(&run);
    for word in [
        "limits.d/memlock.conf limits a user (memlock 1024)",
        "then: Log in again",
        "then: Restart the services while they are idle: systemctl restart slurmd docker",
        "PropagateResourceLimitsExcept=MEMLOCK",
        "limits.memlock: fixed after the remaining actions",
    ] {
        assert!(text.contains(word), "'{word}' in: {text}");
    }
    // PAM's and systemd's own readers agree.
    assert_eq!(login(&bench), [Some("unlimited".to_owned()), Some("unlimited".to_owned())]);
    assert_eq!(
        configured(&bench, "systemd/system.conf", "DefaultLimitMEMLOCK=").as_deref(),
        Some("infinity")
    );
    let drop_in = "etc/systemd/system/slurmd.service.d/zz-gdr-memlock.conf";
    let wrong = tempfile::tempdir().expect("a directory");
    let other = wrong.path().join("root");
    Command::new("cp").arg("-a").arg(bench.root()).arg(&other).status().expect("cp");
    for (unit, program) in [("slurmd", "slurmd"), ("docker", "dockerd")] {
        assert_eq!(verify(&other, unit, program), "", "{unit}");
    }
    let text = bench.text(drop_in);
    fs::write(other.join(drop_in), text.replace("infinity", "infinitely")).expect("a drop-in");
    assert!(
        verify(&other, "slurmd", "slurmd").contains("infinitely"),
        "systemd would have said so"
    );
    let of_crio = configured(&bench, "systemd/system/crio.service", "LimitMEMLOCK=");
    assert_eq!(of_crio.as_deref(), Some("infinity"), "by systemd's own order it has no bound");
    assert!(!bench.root().join("etc/systemd/system/crio.service.d/zz-gdr-memlock.conf").exists());

    // The new login.
    let limits = bench.root().join("proc/self/limits");
    let old = fs::read_to_string(&limits).expect("limits");
    let [soft, hard] = login(&bench).map(|limit| limit.expect("a limit"));
    let line = format!("Max locked memory         {soft:<20} {hard:<20} bytes     \n");
    fs::write(&limits, line).expect("limits");
    assert_eq!(
        check().into_iter().collect::<Vec<_>>(),
        [("this process".to_owned(), "pass".to_owned())]
    );
    fs::write(&limits, &old).expect("limits");

    let again = bench.repair(&["fix", "memlock", "--yes"]);
    again.assert_code(0);
    let text = flat(&again);
    assert!(text.contains("Nothing to change") && text.contains("Log in again."), "{text}");
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), ["systemctl daemon-reload"], "and systemd forgets it");
    assert_eq!(bench.tree(), before);
    assert_eq!(check()["this process"], "fail");
}

/// `systemd-analyze verify` of a copy, with the unit's program.
fn verify(root: &std::path::Path, unit: &str, program: &str) -> String {
    let system = root.join("usr/lib/systemd/system");
    for target in ["sysinit", "basic", "shutdown", "multi-user"] {
        fs::write(system.join(format!("{target}.target")), "[Unit]\nDescription=a target\n")
            .expect("a target");
    }
    fs::copy("/bin/true", root.join("usr/bin").join(program)).expect("a program");
    let mut analyze = Command::new("systemd-analyze");
    analyze.arg("verify").arg(format!("--root={}", root.display())).arg(format!("{unit}.service"));
    let output = analyze.output().expect("systemd-analyze");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn prints_commands_without_programs() {
    let bench = Bench::of("sound", &bounded());
    let before = bench.tree();
    // systemctl cannot reload the manager of a root: the user has to, and the repair continues.
    let run = bench.gdr(&["fix", "memlock", "--yes"]);
    run.assert_code(0);
    assert!(flat(&run).contains("1 more to run yourself"), "{}", run.stdout);
    let undo = bench.gdr(&["undo"]);
    undo.assert_code(0);
    undo.assert_stdout("run this yourself: systemctl daemon-reload");
    assert_eq!(bench.tree(), before);
}

#[test]
fn refuses_in_container() {
    let mut patch = bounded();
    crate::support::merge(&mut patch, &json!({"links": {"proc/self/ns/pid": "pid:[4026532999]"}}));
    let bench = Bench::of("sound", &patch);
    let run = bench.repair(&["fix", "memlock", "--yes"]);
    run.assert_code(1);
    assert!(flat(&run).contains("--ulimit memlock=-1"), "{}", run.stdout);
}

#[test]
fn changes_only_logins_without_systemd() {
    let mut patch = bounded();
    crate::support::merge(&mut patch, &json!({"empty_dirs": ["run"]}));
    let run = Bench::of("sound", &patch).gdr(&["fix", "memlock", "--dry-run", "--format", "json"]);
    run.assert_code(0);
    let plan: Value = serde_json::from_str(&run.stdout).expect("a plan");
    let steps = plan["repairs"][0]["steps"].as_array().expect("steps");
    let paths: Vec<&str> = steps.iter().filter_map(|step| step["path"].as_str()).collect();
    assert_eq!((steps.len(), paths), (1, vec!["/etc/security/limits.d/zz-gdr-memlock.conf"]));
}
