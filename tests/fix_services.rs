//! memlock and persistence on laid-out machines: what they write is read by systemd itself.

mod support;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use support::{Bench, Need, Run, need};

fn ended(run: &Run, code: i32) {
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
}

fn said(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A user's shell that may lock nothing, and three services, of which crio has no bound.
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
            // Drop-ins count in the order of their names, wherever they lie.
            "etc/systemd/system/crio.service.d/10-low.conf": ["[Service]", "LimitMEMLOCK=8M"],
            "usr/lib/systemd/system/crio.service.d/20-site.conf": ["[Service]", "LimitMEMLOCK=infinity"],
            "etc/systemd/system/slurmd.service.d/override.conf": ["[Service]", "LimitMEMLOCK=8M"],
            "etc/systemd/system.conf": ["[Manager]", "#DefaultLimitMEMLOCK=8M"]
        },
        "empty_dirs": ["run/systemd/system", "usr/lib/systemd/system", "etc/systemd/system"]
    })
}

/// The bound that pam_limits gives a login, by limits.conf(5): the files in the order of their names, for everybody the last
/// line of each kind.
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
            let ["*", kind, "memlock", value] = line.split_whitespace().collect::<Vec<_>>()[..] else {
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

/// systemd's own view of a configuration file with its drop-ins, the last assignment of a key.
fn configured(bench: &Bench, file: &str, key: &str) -> Option<String> {
    let mut analyze = Command::new("systemd-analyze");
    analyze
        .arg(format!("--root={}", bench.root().display()))
        .args(["cat-config", file]);
    let output = analyze.output().expect("systemd-analyze");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.strip_prefix(key))
        .next_back()
        .map(str::to_owned)
}

#[test]
fn memory_may_be_locked_after_the_next_login() {
    if !need(Need::Systemd) {
        return;
    }
    let bench = Bench::of("sound", &bounded());
    bench.tool("systemctl", "[ \"$1\" = daemon-reload ]");
    let before = bench.tree();
    let check = || bench.outcomes("limits.memlock", &["--profile", "rdma"]);
    let found = check();
    assert_eq!(found["this process"], "fail");
    assert_eq!(found["slurmd, docker"], "info", "{found:?}");

    let run = bench.repair(&["fix", "--yes", "--profile", "rdma"]);
    ended(&run, 0);
    assert_eq!(bench.calls(), ["systemctl daemon-reload"]);
    let text = said(&run);
    for word in [
        "limits.d/memlock.conf bounds a user (memlock 1024)",
        "then: Log in again",
        "then: Restart the services, where nothing runs in them: systemctl restart slurmd docker",
        "PropagateResourceLimitsExcept=MEMLOCK",
        "limits.memlock: it will hold once the rest is done",
    ] {
        assert!(text.contains(word), "'{word}' in: {text}");
    }
    // What reads these files reads them so.
    assert_eq!(
        login(&bench),
        [Some("unlimited".to_owned()), Some("unlimited".to_owned())]
    );
    assert_eq!(
        configured(&bench, "systemd/system.conf", "DefaultLimitMEMLOCK=").as_deref(),
        Some("infinity")
    );
    let drop_in = "etc/systemd/system/slurmd.service.d/zz-gdr-memlock.conf";
    let wrong = tempfile::tempdir().expect("a directory");
    let other = wrong.path().join("root");
    Command::new("cp")
        .arg("-a")
        .arg(bench.root())
        .arg(&other)
        .status()
        .expect("cp");
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
    assert_eq!(
        of_crio.as_deref(),
        Some("infinity"),
        "by systemd's own order it has no bound"
    );
    assert!(
        !bench
            .root()
            .join("etc/systemd/system/crio.service.d/zz-gdr-memlock.conf")
            .exists()
    );

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
    ended(&again, 0);
    let text = said(&again);
    assert!(
        text.contains("Nothing is to be changed") && text.contains("Log in again."),
        "{text}"
    );
    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(bench.calls(), ["systemctl daemon-reload"], "and systemd forgets it");
    assert_eq!(bench.tree(), before);
    assert_eq!(check()["this process"], "fail");
}

/// `systemd-analyze verify` of a copy, with the program that the unit runs.
fn verify(root: &std::path::Path, unit: &str, program: &str) -> String {
    let system = root.join("usr/lib/systemd/system");
    for target in ["sysinit", "basic", "shutdown", "multi-user"] {
        fs::write(
            system.join(format!("{target}.target")),
            "[Unit]\nDescription=a target\n",
        )
        .expect("a target");
    }
    fs::copy("/bin/true", root.join("usr/bin").join(program)).expect("a program");
    let mut analyze = Command::new("systemd-analyze");
    analyze
        .arg("verify")
        .arg(format!("--root={}", root.display()))
        .arg(format!("{unit}.service"));
    let output = analyze.output().expect("systemd-analyze");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_container_gets_its_limit_from_what_started_it() {
    let mut patch = bounded();
    support::merge(&mut patch, &json!({"links": {"proc/self/ns/pid": "pid:[4026532999]"}}));
    let bench = Bench::of("sound", &patch);
    let run = bench.repair(&["fix", "memlock", "--yes"]);
    ended(&run, 1);
    assert!(said(&run).contains("--ulimit memlock=-1"), "{}", run.stdout);
}

#[test]
fn without_systemd_there_are_logins_alone() {
    let mut patch = bounded();
    support::merge(&mut patch, &json!({"empty_dirs": ["run"]}));
    let run = Bench::of("sound", &patch).gdr(&["fix", "memlock", "--dry-run", "--format", "json"]);
    ended(&run, 0);
    let plan: Value = serde_json::from_str(&run.stdout).expect("a plan");
    let steps = plan["repairs"][0]["steps"].as_array().expect("steps");
    let paths: Vec<&str> = steps.iter().filter_map(|step| step["path"].as_str()).collect();
    assert_eq!(
        (steps.len(), paths),
        (1, vec!["/etc/security/limits.d/zz-gdr-memlock.conf"])
    );
}

/// Units as distributions have them.
const DEBIAN: [&str; 9] = [
    "[Unit]",
    "Description=NVIDIA Persistence Daemon",
    "[Service]",
    "Type=forking",
    "PIDFile=/run/nvidia-persistenced/nvidia-persistenced.pid",
    "ExecStart=/usr/bin/nvidia-persistenced --user nvpd",
    "ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced",
    "[Install]",
    "WantedBy=multi-user.target",
];
const UBUNTU: [&str; 7] = [
    "[Unit]",
    "Description=NVIDIA Persistence Daemon",
    "StopWhenUnneeded=true",
    "[Service]",
    "Type=forking",
    "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose",
    "ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced",
];

/// A machine whose GPU has persistence mode off, and programs that do to it what the daemon and nvidia-smi do.
fn idle(patch: &Value) -> Bench {
    let bench = Bench::of("sound", patch);
    let mode = |from: &str, to: &str| {
        format!("sed -i '/\"persistence\": {{/,/}}/s/\"known\": {from}/\"known\": {to}/' \"$GDR_ROOT/gdr/nvml.json\"")
    };
    let group = "\"$GDR_ROOT/sys/fs/cgroup/system.slice/nvidia-persistenced.service\"";
    let (on, off) = (mode("false", "true"), mode("true", "false"));
    // systemd's own words for a unit and its drop-ins decide what the daemon is told.
    let start = format!(
        "command=$(cat \"$GDR_ROOT\"/usr/lib/systemd/system/nvidia-persistenced.service \
         \"$GDR_ROOT\"/etc/systemd/system/nvidia-persistenced.service.d/*.conf 2> /dev/null | grep ^ExecStart= | tail -n 1)\n\
         mkdir -p {group}\ncase $command in *--no-persistence-mode*) {off} ;; *) {on} ;; esac"
    );
    bench.tool(
        "systemctl",
        &format!("case $1 in\nstart|restart) {start} ;;\nstop) rmdir {group}; {off} ;;\ndaemon-reload) ;;\n*) exec systemctl --root=\"$GDR_ROOT\" \"$@\" ;;\nesac"),
    );
    bench.tool("nvidia-smi", &format!("case $4 in 1) {on} ;; *) {off} ;; esac"));
    bench.root_command(&off.replace("$GDR_ROOT/", ""));
    bench
}

fn outcome(bench: &Bench) -> String {
    let found = bench.outcomes("gpu.persistence", &[]);
    assert_eq!(found.len(), 1);
    found.into_values().next().expect("a finding")
}

fn with_unit(lines: &[&str]) -> Value {
    json!({
        "files": {"usr/lib/systemd/system/nvidia-persistenced.service": lines},
        "empty_dirs": ["run/systemd/system", "etc/systemd/system", "sys/fs/cgroup/user.slice", "sys/fs/cgroup/system.slice", "usr/bin"]
    })
}

/// Finding, repair, the check that holds, nothing the second time, undo, the finding again.
fn round(bench: &Bench, made: &[&str], undone: &[&str]) {
    let before = bench.tree();
    assert_eq!(outcome(bench), "info");
    let run = bench.repair(&["fix", "persistence", "--yes"]);
    ended(&run, 0);
    assert_eq!(bench.calls(), made);
    assert!(run.stdout.contains("gpu.persistence: it holds now."), "{}", run.stdout);
    assert_eq!(outcome(bench), "pass");
    let again = bench.repair(&["fix", "persistence", "--yes"]);
    ended(&again, 0);
    assert!(again.stdout.contains("Nothing is to be changed"), "{}", again.stdout);
    ended(&bench.repair(&["undo"]), 0);
    assert_eq!(bench.calls(), undone);
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(bench), "info");
}

#[test]
fn the_daemon_is_enabled_and_started() {
    if !need(Need::Systemd) {
        return;
    }
    let unit = "nvidia-persistenced.service";
    round(
        &idle(&with_unit(&DEBIAN)),
        &[&format!("systemctl enable {unit}"), &format!("systemctl start {unit}")],
        &[&format!("systemctl stop {unit}"), &format!("systemctl disable {unit}")],
    );
}

#[test]
fn ubuntus_daemon_is_told_to_keep_the_gpus() {
    if !need(Need::Systemd) {
        return;
    }
    let bench = idle(&with_unit(&UBUNTU));
    bench.root_command("mkdir sys/fs/cgroup/system.slice/nvidia-persistenced.service");
    // It runs and keeps nothing; no target wants it, so that it cannot be enabled.
    let reload = [
        "systemctl daemon-reload",
        "systemctl restart nvidia-persistenced.service",
    ];
    round(&bench, &reload, &reload);

    ended(&bench.repair(&["fix", "persistence", "--yes"]), 0);
    bench.root_command("cp /bin/true usr/bin/nvidia-persistenced && mkdir -p bin && cp /bin/true bin/rm");
    assert_eq!(bench.verify("nvidia-persistenced.service"), "");
    let text = bench.text("etc/systemd/system/nvidia-persistenced.service.d/zz-gdr-persistence.conf");
    assert!(
        text.contains("\nExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose\n"),
        "{text}"
    );
}

#[test]
fn without_the_daemon_nvidia_smi_does_it_until_the_next_boot() {
    let bench = idle(&json!({}));
    let set = |to: u8| format!("nvidia-smi -i 0000:03:00.0 -pm {to}");
    round(&bench, &[&set(1)], &[&set(0)]);
    let dry = bench.gdr(&["fix", "persistence", "--dry-run"]);
    assert!(said(&dry).contains("This lasts until the next boot"), "{}", dry.stdout);
}

#[test]
fn a_daemon_that_runs_is_not_started_again() {
    let bench = idle(&with_unit(&DEBIAN));
    bench.root_command(
        "mkdir sys/fs/cgroup/system.slice/nvidia-persistenced.service etc/systemd/system/multi-user.target.wants && \
         ln -s /usr/lib/systemd/system/nvidia-persistenced.service etc/systemd/system/multi-user.target.wants/",
    );
    // Somebody has switched it off by hand.
    round(
        &bench,
        &["nvidia-smi -i 0000:03:00.0 -pm 1"],
        &["nvidia-smi -i 0000:03:00.0 -pm 0"],
    );
}
