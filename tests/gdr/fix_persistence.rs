//! persistence on machines in directories, with stand-ins for systemctl and nvidia-smi that change NVML's answer.

use crate::support::{Bench, Run};
use serde_json::{Value, json};

fn flat(run: &Run) -> String {
    run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Units of distributions.
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

/// A machine whose GPU has persistence mode off, with stand-ins for the daemon and nvidia-smi.
fn idle(patch: &Value) -> Bench {
    let bench = Bench::of("sound", patch);
    let mode = |from: &str, to: &str| {
        format!(
            "sed -i '/\"persistence\": {{/,/}}/s/\"known\": {from}/\"known\": {to}/' \"$GDR_ROOT/gdr/nvml.json\""
        )
    };
    let group = "\"$GDR_ROOT/sys/fs/cgroup/system.slice/nvidia-persistenced.service\"";
    let (on, off) = (mode("false", "true"), mode("true", "false"));
    // systemd itself evaluates the unit and its drop-ins.
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

/// Finding, repair, check, nothing the second time, undo, finding.
fn round(bench: &Bench, made: &[&str], undone: &[&str]) {
    let before = bench.tree();
    assert_eq!(outcome(bench), "info");
    let run = bench.repair(&["fix", "persistence", "--yes"]);
    run.assert_code(0);
    assert_eq!(bench.calls(), made);
    run.assert_stdout("gpu.persistence: fixed.");
    assert_eq!(outcome(bench), "pass");
    bench.assert_nothing_to_change(&["fix", "persistence", "--yes"]);
    bench.repair(&["undo"]).assert_code(0);
    assert_eq!(bench.calls(), undone);
    assert_eq!(bench.tree(), before);
    assert_eq!(outcome(bench), "info");
}

#[test]
#[ignore = "needs systemd"]
fn enables_and_starts_daemon() {
    let unit = "nvidia-persistenced.service";
    round(
        &idle(&with_unit(&DEBIAN)),
        &[&format!("systemctl enable {unit}"), &format!("systemctl start {unit}")],
        &[&format!("systemctl stop {unit}"), &format!("systemctl disable {unit}")],
    );
}

#[test]
#[ignore = "needs systemd"]
fn overrides_command_of_ubuntu_daemon() {
    let bench = idle(&with_unit(&UBUNTU));
    bench.root_command("mkdir sys/fs/cgroup/system.slice/nvidia-persistenced.service");
    // It runs without effect, and cannot be enabled because no target wants it.
    let reload = ["systemctl daemon-reload", "systemctl restart nvidia-persistenced.service"];
    round(&bench, &reload, &reload);

    bench.repair(&["fix", "persistence", "--yes"]).assert_code(0);
    bench.root_command(
        "cp /bin/true usr/bin/nvidia-persistenced && mkdir -p bin && cp /bin/true bin/rm",
    );
    assert_eq!(bench.verify("nvidia-persistenced.service"), "");
    let text =
        bench.text("etc/systemd/system/nvidia-persistenced.service.d/zz-gdr-persistence.conf");
    assert!(
        text.contains("\nExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose\n"),
        "{text}"
    );
}

#[test]
fn uses_nvidia_smi_without_daemon() {
    let bench = idle(&json!({}));
    let set = |to: u8| format!("nvidia-smi -i 0000:03:00.0 -pm {to}");
    round(&bench, &[&set(1)], &[&set(0)]);
    let dry = bench.gdr(&["fix", "persistence", "--dry-run"]);
    assert!(flat(&dry).contains("A reboot reverts the change"), "{}", dry.stdout);
}

#[test]
fn does_not_restart_running_daemon() {
    let bench = idle(&with_unit(&DEBIAN));
    bench.root_command(
        "mkdir sys/fs/cgroup/system.slice/nvidia-persistenced.service etc/systemd/system/multi-user.target.wants && \
         ln -s /usr/lib/systemd/system/nvidia-persistenced.service etc/systemd/system/multi-user.target.wants/",
    );
    // The mode was switched off by hand.
    round(&bench, &["nvidia-smi -i 0000:03:00.0 -pm 1"], &["nvidia-smi -i 0000:03:00.0 -pm 0"]);
}
