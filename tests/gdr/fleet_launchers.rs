//! `gdr fleet` in the environments of an Indexed Job and of an mpirun, as processes of this machine.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Gdr, free_port, gdr, scratch};

const SNAPSHOT: &str = "tests/recorded/h200-x2/snapshot.json";
pub const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let mut gdr = Gdr::new()
        .args(["--from", SNAPSHOT, "fleet"])
        .args(arguments);
    for (name, value) in variables {
        gdr = gdr.env(name, value);
    }
    let mut command: Command = gdr.command();
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gdr starts")
}

/// Exit status, standard output and standard error.
pub fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn pods_of_an_indexed_job_meet_at_pod_0() {
    let port = free_port();
    let pod = |index: &'static str, node: &'static str| {
        let variables = [
            ("JOB_COMPLETION_INDEX", index),
            ("GDR_FLEET_SIZE", "4"),
            ("GDR_FLEET_HOST", "127.0.0.1"),
            ("GDR_FLEET_PORT", port.as_str()),
            ("GDR_FLEET_NODE", node),
            ("GDR_PROBE_SECRET", SECRET),
        ];
        start(
            &[
                "doctor",
                "--format",
                "json",
                "--arrival",
                "6",
                "--",
                "--only",
                "gpu",
            ],
            &variables,
        )
    };
    // The pod of worker-3 was never scheduled.
    let pods = [
        pod("0", "worker-0"),
        pod("2", "worker-2"),
        pod("1", "worker-1"),
    ];
    let [first, others @ ..] = pods.map(end);
    for (code, out, err) in others {
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    }
    let report: Value =
        serde_json::from_str(&first.1).unwrap_or_else(|error| panic!("{error}: {}", first.2));
    assert_eq!(report["groups"][0]["nodes"], "worker-[0-2]");
    assert_eq!(report["absent"][0]["node"], "rank 3");
    assert_eq!(report["absent"][0]["why"], "missing");
    assert_eq!(first.0, Some(1));
}

#[test]
fn processes_of_an_mpirun_meet_by_file() {
    let dir = scratch();
    let file = dir.path().join("meet").to_string_lossy().into_owned();
    let rank = |rank: &'static str, more: &[&str]| {
        let variables = [("PMI_RANK", rank), ("PMI_SIZE", "3")];
        let arguments = [
            &["topo", "--rendezvous", &file, "--arrival", "20", "--mask"],
            more,
        ]
        .concat();
        start(&arguments, &variables)
    };
    let ranks = [
        rank("0", &[]),
        rank("1", &[]),
        rank("2", &["--", "--no-such-option"]),
    ];
    let [first, second, third] = ranks.map(end);
    assert_eq!(
        (second.0, third.0),
        (Some(0), Some(0)),
        "{} {}",
        second.2,
        third.2
    );
    let (code, out, err) = first;
    assert_eq!(code, Some(1), "{err}");
    // All three run on this host; their names are masked.
    assert!(out.contains("ENDED     node"), "{out}");
    assert!(out.starts_with("failed: "), "{out}");
    assert!(!std::path::Path::new(&file).exists());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert!(host.trim().len() < 4 || !out.contains(host.trim()), "{out}");
}

#[test]
fn a_launcher_is_needed() {
    let run = gdr(&["fleet", "doctor"]);
    run.assert_code(2);
    run.assert_stderr("use srun, mpirun or a Kubernetes Indexed Job");
    let run = Gdr::new()
        .args(["fleet", "doctor"])
        .env("JOB_COMPLETION_INDEX", "0")
        .run();
    run.assert_code(2);
    run.assert_stderr("GDR_FLEET_SIZE");
    let run = Gdr::new()
        .args(["fleet", "probe", "host", "--", "--sim", "--quick"])
        .env("PMI_RANK", "0")
        .env("PMI_SIZE", "1")
        .run();
    run.assert_code(0);
    run.assert_stdout("SIMULATED");
}
