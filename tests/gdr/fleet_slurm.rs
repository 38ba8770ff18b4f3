//! Fleets under a real Slurm with eight nodes. For doctor each has a snapshot of its own: one is broken, one never starts gdr, one hangs,
//! one is killed. For the probe between nodes each has a NIC in software. Also what Slurm's prolog and health check do with gdr.

use std::path::Path;
use std::process::Output;

use fakes::uverbs;
use serde_json::Value;

use crate::fleet_links::dead;
use crate::support::{Gdr, NODES, Node, Slurm};

const GDR: &str = env!("CARGO_BIN_EXE_gdr");

/// Writes `n1.json` to `n8.json`: equal nodes, but `n4`, whose switch port redirects a GPU's traffic.
pub fn snapshots(dir: &Path) {
    let record = |name: &str, node: &Node| {
        let root = node.laid_out();
        let run =
            Gdr::new().sysroot(root.path()).args(["snapshot", "-o"]).args([dir.join(name)]).run();
        run.assert_code(0);
    };
    record("good.json", &Node::good());
    let mut broken = Node::good();
    let port = broken.at("0000:17:02.0");
    port.acs_ctl = Some(serde_json::from_value("001d".into()).expect("a number"));
    record("n4.json", &broken);
    for name in ["n1", "n2", "n3", "n5", "n6", "n7", "n8"] {
        std::fs::copy(dir.join("good.json"), dir.join(format!("{name}.json"))).expect("a copy");
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn absent(report: &Value) -> Vec<(&str, &str)> {
    let nodes = report["absent"].as_array().expect("nodes").iter();
    nodes
        .map(|node| {
            (node["node"].as_str().expect("a name"), node["why"].as_str().expect("a reason"))
        })
        .collect()
}

#[test]
#[ignore = "needs root and slurm (Debian: slurmctld, slurmd, slurm-client, munge)"]
fn nodes_that_are_broken_missing_hanging_or_killed_are_named() {
    let slurm = Slurm::start("");
    let work = slurm.dir.path().join("work");
    snapshots(&work);
    // All is well but for n4.
    let script = format!(
        "exec {GDR} --from $SLURMD_NODENAME.json fleet doctor --format json --arrival 20\n"
    );
    let run = slurm.on_all_nodes(&script, &[]);
    let report = json(&run);
    assert_eq!(absent(&report), [], "{report:#}");
    assert_eq!(report["summary"]["nodes"], 8);
    assert_eq!(report["groups"][0]["nodes"], "n[1-3,5-8]");
    assert_eq!(report["groups"][1]["nodes"], "n4");
    let finding = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .find(|finding| finding["id"] == "pcie.acs")
        .expect("a finding");
    assert_eq!(
        (&finding["nodes"], &finding["subject"]),
        (&Value::from("n4"), &Value::from("0000:17:02.0"))
    );
    assert_eq!(slurm.left_behind(), [""; 0]);
    // A node that never starts gdr, one whose snapshot never comes, one that is killed.
    let script = format!(
        "run() {{ exec {GDR} --from \"$1\" fleet doctor --format json --arrival 5 --timeout 4; }}\n\
         case $SLURMD_NODENAME in\n\
         n5) exit 0 ;;\n\
         n7) mkfifo silent; run silent ;;\n\
         n8) {GDR} --from silent fleet doctor --arrival 5 --timeout 60 & sleep 1.5; kill -9 $!; exit 0 ;;\n\
         *) run $SLURMD_NODENAME.json ;;\n\
         esac\n"
    );
    let run = slurm.on_all_nodes(&script, &[]);
    let report = json(&run);
    assert_eq!(
        absent(&report),
        [("n5", "missing"), ("n7", "timed_out"), ("n8", "ended")],
        "{report:#}"
    );
    assert_eq!(report["groups"][0]["nodes"], "n[1-3,6]");
    assert_eq!(report["groups"][1]["nodes"], "n4");
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(slurm.left_behind(), [""; 0]);
    // Several tasks of a node are one node.
    let script = format!("exec {GDR} --from good.json fleet topo --arrival 20\n");
    let run = slurm.on_all_nodes(&script, &["--ntasks-per-node=2"]);
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(
        text.starts_with("ok: 8 nodes: 8 ok\n"),
        "{text}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(text.contains("8 nodes are alike: n[1-8]"), "{text}");
}

/// The script of a node: gdr with a NIC in software, which reaches those of the other nodes.
fn links_script(slurm: &Slurm, options: &str, nodes: &str) -> String {
    let dir = slurm.dir.path();
    for name in ["peers", "elsewhere"] {
        std::fs::create_dir_all(dir.join(name)).expect("a directory");
    }
    let nic = uverbs::nic(&dir.join("sys")).expect("a NIC").into_iter();
    let nic = nic.map(|(name, value)| format!("{name}={} ", value.display()));
    let nic: String = nic.collect();
    let at = dir.display();
    format!(
        "run() {{ exec env {nic}FAKE_UVERBS_PEERS={at}/$1 {GDR} fleet probe rdma --format json {options} -- --quick \
         --memory host --size 8,4096 --device mlx5_0:1; }}\n\
         measures() {{ for child in $(cat /proc/$1/task/*/children); do grep -q -e '->' /proc/$child/cmdline && return; done; false; }}\n\
         case $SLURMD_NODENAME in\n{nodes}\n*) run peers ;;\nesac\n"
    )
}

#[test]
#[ignore = "needs root, libmlx5 and slurm (Debian: ibverbs-providers, slurmctld, slurmd, slurm-client, munge)"]
fn links_of_nodes_that_are_missing_stopped_or_dead_are_named() {
    let slurm = Slurm::start("KillWait=2");
    let daemons = slurm.processes();
    assert!(daemons.len() > NODES, "slurmctld and each slurmd: {daemons:?}");
    // n2 never starts gdr, n4 stops while it measures, and the cable of n6 leads into another network. Slurm ends what is left when the
    // others have ended.
    let nodes = "n2) exec sleep 100 ;;\n\
                 n4) run peers & until measures $!; do sleep 0.1; done; kill -STOP $!; wait ;;\n\
                 n6) run elsewhere ;;";
    let script = links_script(&slurm, "--arrival 6 --timeout 20", nodes);
    let run = slurm.on_all_nodes(&script, &["--wait=3"]);
    slurm.wait("the end of all other processes", |slurm| slurm.processes() == daemons);
    assert_eq!(slurm.left_behind(), [""; 0]);
    let report = json(&run);
    let absent = absent(&report);
    assert_eq!(absent, [("n2", "missing"), ("n4", "ended")], "{report:#}");
    let network = &report["network"];
    assert_eq!(dead(&report), ["n6"], "{report:#}");
    // Six nodes are left, and each of them measured with each other one.
    assert!(network["failed"].as_u64() >= Some(5), "{report:#}");
    assert!(network["pairs"].as_u64() >= Some(15), "{report:#}");
    let names = report["nodes"].as_array().expect("nodes").iter();
    let names: Vec<&Value> = names.map(|node| &node["name"]).collect();
    assert_eq!(names, ["n1", "n3", "n5", "n6", "n7", "n8"], "{report:#}");
    // That of a process that Slurm killed, which is higher than that of rank 0.
    assert_eq!(run.status.code(), Some(128 + 9));
}
