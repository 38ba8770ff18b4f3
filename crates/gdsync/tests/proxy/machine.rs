//! Runs a test case in a child process with the simulated libibverbs, which reads its machine once per process.

use std::process::Command;

use fakes::verbs;
use serde_json::{Value, json};

/// Environment variable of the child: test name and case number.
const CASE: &str = "GDSYNC_PROXY_CASE";

/// Two InfiniBand NICs with one port each.
pub fn infiniband() -> Value {
    json!({"verbs": {"devices": [
        {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": [{"lid": 7}]},
        {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": [{"lid": 9}]},
    ]}})
}

/// Two RoCE NICs with one port each.
pub fn roce() -> Value {
    let port = |last: u8| {
        json!([{"link_layer": "ethernet", "active_mtu": 1024, "gids": [
            {"gid": format!("fe80::{last}"), "type": "roce2", "ifindex": 3},
            {"gid": format!("::ffff:192.0.2.{last}"), "type": "roce2", "ifindex": 3},
        ]}])
    };
    json!({"verbs": {"devices": [
        {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": port(1)},
        {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": port(2)},
    ]}})
}

/// The InfiniBand machine with an additional member of its first NIC.
pub fn with(member: &str, value: Value) -> Value {
    let mut machine = infiniband();
    machine["verbs"]["devices"][0][member] = value;
    machine
}

/// Runs `case` in a child process for each machine. Its argument is the index of the machine.
pub fn on(test: &str, machines: &[Value], case: impl FnOnce(usize)) {
    if let Ok(selected) = std::env::var(CASE) {
        if let Some((name, number)) = selected.split_once(' ')
            && name == test
        {
            case(number.parse().expect("a number"));
        }
        return;
    }
    let library = verbs::build().expect("the simulated libibverbs");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("machine.json");
    for (number, machine) in machines.iter().enumerate() {
        std::fs::write(&file, machine.to_string()).expect("a file");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", test, "--nocapture"]);
        command.env(CASE, format!("{test} {number}"));
        command.envs(verbs::environment(&library, &file));
        let output = command.output().expect("it starts");
        let texts = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // With a wrong test name the child would pass without running a test.
        let has_run = texts[0].contains("1 passed");
        assert!(output.status.success() && has_run, "{machine}: {}", texts.concat());
    }
}
