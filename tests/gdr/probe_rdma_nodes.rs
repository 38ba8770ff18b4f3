//! `gdr probe rdma --numa`: CPUs and host memory of the NIC's NUMA node and of others. The nodes are those of a machine in a directory,
//! one CPU each; the NICs are fakes.

use std::path::Path;

use crate::support::nics::{Bench, Report};
use crate::support::{Gdr, Machine, merge};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A machine whose first NIC is on node 0 and whose second is on node 1.
struct Nodes {
    bench: Bench,
    root: TempDir,
}

impl Nodes {
    fn new() -> Self {
        let change = |machine: &mut Value| {
            merge(machine, &json!({"nodes": {"0": "0", "1": "1"}}));
        };
        Self {
            bench: Bench::of(
                "two",
                &json!({"verbs": {"devices": [{"name": "mlx5_2"}, {"name": "mlx5_10"}, {"name": "mlx5_11"}]}}),
            ),
            root: Machine::load_changed("dual-epyc", change).laid_out(),
        }
    }

    fn gdr(&self, options: &[&str]) -> Gdr {
        self.bench
            .on(Gdr::with_sys(&self.root.path().join("sys")))
            .args(["--memory", "host", "--size", "8", "--device", "mlx5_2"])
            .args(options)
    }

    fn probe(&self, options: &[&str]) -> Report {
        Report::of(&self.gdr(options).args(["--format", "json"]).run())
    }
}

/// Subject, node of the CPUs, and CPUs of each end.
fn ends(report: &Report) -> Vec<Value> {
    let end = |end: &Value| json!([end["subject"], end["remote"], end["cpu_node"], end["cpus"]]);
    report.ends().iter().map(end).collect()
}

#[test]
#[ignore = "needs root"]
fn ends_use_nodes_of_their_nics() {
    let report = Nodes::new().probe(&["--quick", "--remote-device", "mlx5_10"]);
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(
        ends(&report),
        [json!(["mlx5_2:1", false, 0, "0"]), json!(["mlx5_10:1", true, 0, "0"])]
    );
    let nodes = Nodes::new();
    let report = nodes.probe(&["--quick", "--remote-device", "mlx5_11"]);
    assert_eq!(report.code, 0, "{:#}", report.value);
    assert_eq!(
        ends(&report),
        [json!(["mlx5_2:1", false, 0, "0"]), json!(["mlx5_11:1", true, 1, "1"])]
    );
    // The nodes of the directory are not the kernel's: it has the memory where it is.
    let one_node = !Path::new("/sys/devices/system/node/node1").exists();
    for end in report.ends() {
        if one_node {
            assert_eq!(end["memory_node"], 0, "{end}");
        }
    }
    assert!(report.results().iter().all(|result| result["numa"] == 0));
}

#[test]
#[ignore = "needs root"]
fn node_is_selected() {
    let nodes = Nodes::new();
    let report = nodes.probe(&["--quick", "--numa", "1"]);
    assert_eq!(report.code, 0, "{:#}", report.value);
    for end in ends(&report) {
        assert_eq!((&end[2], &end[3]), (&json!(1), &json!("1")), "{end}");
    }
    assert!(report.results().iter().all(|result| result["numa"] == 1));
    let none = nodes.gdr(&["--quick", "--numa", "7"]).run();
    none.assert_code(2);
    none.assert_stderr("there is no NUMA node 7 with CPUs here; there are: 0, 1");
}

/// The cost of a node in the notes.
fn cost(report: &Report) -> &str {
    let notes = report.value["notes"].as_array().expect("notes").iter();
    let notes: Vec<&str> = notes.filter_map(Value::as_str).collect();
    let found =
        notes.iter().find(|note| note.contains("CPUs and host memory of node 1 instead of node 0"));
    found.unwrap_or_else(|| panic!("{notes:?}"))
}

#[test]
#[ignore = "needs root"]
fn cost_of_another_node_is_measured() {
    let nodes = Nodes::new();
    let all = nodes.probe(&["--quick", "--numa", "all"]);
    let subjects: Vec<&str> =
        all.results().iter().map(|result| result["subject"].as_str().expect("a subject")).collect();
    for subject in ["mlx5_2:1 on node 0", "mlx5_2:1 on node 1"] {
        assert!(subjects.contains(&subject), "{subjects:?}");
    }
    let cost_of_all = cost(&all);
    for words in ["latency of sends of 8 bytes", "bandwidth of writes of 8 bytes"] {
        assert!(cost_of_all.contains(words), "{cost_of_all}");
    }
    // By default a few figures beside the whole set from the NIC's node.
    let usual = nodes.probe(&[]);
    assert_eq!(usual.code, 0, "{:#}", usual.value);
    let names: Vec<&str> = usual
        .results()
        .iter()
        .filter(|result| result["numa"] == 1)
        .map(|result| result["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["rdma.send.latency", "rdma.write.bandwidth", "rdma.write.rate"]);
    assert!(cost(&usual).contains("latency of sends of 8 bytes"));
}
