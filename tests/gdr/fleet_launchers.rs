//! `gdr fleet` in the environments of an Indexed Job and of an mpirun, as processes of this machine; and below Debian's mpirun of Open MPI and
//! of MPICH.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use fakes::uverbs;
use serde_json::Value;

use crate::fleet_links::{LONG_WAIT, assert_measured};
use crate::support::{Gdr, free_port, gdr, scratch, script};

const SNAPSHOT: &str = "tests/recorded/h200-x2/snapshot.json";
pub const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let mut gdr = Gdr::new().args(["--from", SNAPSHOT, "fleet"]).args(arguments);
    for (name, value) in variables {
        gdr = gdr.env(name, value);
    }
    let mut command: Command = gdr.command();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("gdr starts")
}

/// Exit status, standard output and standard error.
pub fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("its output");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
#[ignore = "slow: waits for timeouts"]
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
        start(&["doctor", "--format", "json", "--arrival", "6", "--", "--only", "gpu"], &variables)
    };
    // The pod of worker-3 was never scheduled.
    let pods = [pod("0", "worker-0"), pod("2", "worker-2"), pod("1", "worker-1")];
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
        let arguments =
            [&["topo", "--rendezvous", &file, "--arrival", "20", "--mask"], more].concat();
        start(&arguments, &variables)
    };
    let ranks = [rank("0", &[]), rank("1", &[]), rank("2", &["--", "--no-such-option"])];
    let [first, second, third] = ranks.map(end);
    assert_eq!((second.0, third.0), (Some(0), Some(0)), "{} {}", second.2, third.2);
    let (code, out, err) = first;
    assert_eq!(code, Some(1), "{err}");
    // All three run on this host; their names are masked.
    assert!(out.contains("absent  node"), "{out}");
    assert!(out.contains("  no report: ended"), "{out}");
    assert!(out.starts_with("failed: "), "{out}");
    assert!(!std::path::Path::new(&file).exists());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert!(host.trim().len() < 4 || !out.contains(host.trim()), "{out}");
}

/// The kernel of rank 0 has no IPv6.
#[test]
#[ignore = "needs strace"]
fn rank_0_without_ipv6_listens_with_ipv4() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (file, log) = (at("meet"), at("log"));
    let arguments = ["topo", "--rendezvous", &file, "--arrival", "20", "--format", "json"];
    let second = start(&arguments, &[("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
    let first = Gdr::of(Path::new("strace"))
        .args(["-f", "-qq", "-o", &log, "-e", "trace=bind", "-e"])
        .args(["inject=bind:error=EAFNOSUPPORT:when=1", env!("CARGO_BIN_EXE_gdr")])
        .args(["--from", SNAPSHOT, "fleet"])
        .args(arguments)
        .env("PMI_RANK", "0")
        .env("PMI_SIZE", "2")
        .run();
    let bound = std::fs::read_to_string(&log).expect("a log");
    assert!(bound.contains("AF_INET6") && bound.contains("INJECTED"), "{bound}");
    assert!(bound.contains("sin_addr=inet_addr(\"0.0.0.0\")"), "{bound}");
    let (code, _, err) = end(second);
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&first.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", first.stderr));
    assert_eq!(
        (&report["summary"]["nodes"], &report["absent"]),
        (&2.into(), &serde_json::json!([]))
    );
}

#[test]
fn a_launcher_is_needed() {
    let run = gdr(&["fleet", "doctor"]);
    run.assert_code(2);
    run.assert_stderr("use srun, mpirun or a Kubernetes Indexed Job");
    let run = Gdr::new().args(["fleet", "doctor"]).env("JOB_COMPLETION_INDEX", "0").run();
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

/// Runs `gdr fleet probe rdma` below an mpirun, with a NIC in software for each process.
fn mpirun(launcher: &str, options: &[&str], dir: &Path) -> Output {
    let nic = uverbs::nic(&dir.join("sys")).expect("a NIC");
    std::fs::create_dir_all(dir.join("peers")).expect("a directory");
    let mut command = Command::new("timeout");
    command.args(["60", launcher]).args(options).args(["-n", "4", "env"]);
    // For gdr alone: the launcher has no NIC.
    for (name, value) in nic {
        command.arg(format!("{name}={}", value.display()));
    }
    command
        .arg(format!("FAKE_UVERBS_PEERS={}/peers", dir.display()))
        .arg(format!("{}={}", LONG_WAIT.0, LONG_WAIT.1))
        .arg(env!("CARGO_BIN_EXE_gdr"))
        .args(["fleet", "probe", "rdma", "--format", "json", "--arrival", "15", "--timeout", "20"])
        .args(["--rendezvous"])
        .arg(dir.join("meet"))
        .args(["--", "--quick", "--memory", "host", "--size", "8,4096", "--device", "mlx5_0:1"])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null());
    command.output().expect("a launcher")
}

/// Four nodes are four host names of this machine: the launcher's ssh runs the command here under that name.
fn measures_between_nodes(launcher: &str, options: &[&str], agent: &str) {
    let dir = scratch();
    let hosts = dir.path().join("hosts");
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    std::fs::write(&hosts, format!("127.0.0.1 localhost n1 n2 n3 n4 {own}")).expect("a file");
    let ssh = dir.path().join("ssh");
    script(
        &ssh,
        &format!(
            "#!/bin/sh\n[ \"$1\" = -x ] && shift\nhost=$1\nshift\n\
             exec unshare --uts --mount sh -c \"hostname $host; mount --bind {} /etc/hosts; $*\"\n",
            hosts.display()
        ),
    );
    let ssh = ssh.to_string_lossy().into_owned();
    let output = mpirun(launcher, &[options, &[agent, &ssh]].concat(), dir.path());
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
    });
    let names = report["nodes"].as_array().expect("nodes").iter();
    let names: Vec<&Value> = names.map(|node| &node["name"]).collect();
    assert_eq!(names, ["n1", "n2", "n3", "n4"], "{report:#}");
    assert_measured(&report, 6);
    assert!(!dir.path().join("meet").exists());
}

#[test]
#[ignore = "needs root, libmlx5 and Open MPI"]
fn open_mpi_starts_a_fleet() {
    let options = ["--map-by", "ppr:1:node", "--host", "n1,n2,n3,n4", "--mca"];
    measures_between_nodes("mpirun.openmpi", &options, "plm_rsh_agent");
}

#[test]
#[ignore = "needs root, libmlx5 and MPICH"]
fn mpich_starts_a_fleet() {
    let options = ["-ppn", "1", "-hosts", "n1,n2,n3,n4", "-launcher", "ssh"];
    measures_between_nodes("mpirun.mpich", &options, "-launcher-exec");
}

#[test]
#[ignore = "needs libmlx5, Open MPI and MPICH"]
fn several_processes_of_one_node_are_no_fleet() {
    for (launcher, option) in
        [("mpirun.openmpi", "mpirun --map-by ppr:1:node"), ("mpirun.mpich", "-ppn 1")]
    {
        let dir = scratch();
        let output = mpirun(launcher, &[], dir.path());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("one process on each node") && errors.contains(option), "{errors}");
    }
}
