//! Reports of many nodes, as `gdr fleet report` reads them: what doctor says about the good node, with the name of each node, and
//! a written probe of its 56 pairs of GPUs with a little noise.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::node::Node;
use super::run::Gdr;

/// What `gdr doctor --format json` says about a node, under a name.
pub fn doctor(node: &Node, name: &str, more: &[&str]) -> Value {
    let root = node.laid_out();
    fs::create_dir_all(root.path().join("proc/sys/kernel")).expect("a directory");
    fs::write(root.path().join("proc/sys/kernel/hostname"), format!("{name}\n")).expect("a file");
    let run = Gdr::new().sysroot(root.path()).args(["doctor", "--format", "json"]).args(more).run();
    let mut report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    report["host"]["name"] = json!(name);
    report["host"]["source"] = json!("live");
    report
}

/// Bandwidths of all pairs of eight GPUs: about 150 GB/s, `share` of it between two of them.
pub fn p2p(name: &str, seed: usize, slow: Option<(usize, usize, f64)>) -> Value {
    let mut results = Vec::new();
    for from in 0..8 {
        for to in (0..8).filter(|to| *to != from) {
            for (size, rate) in [(65_536_u64, 20.0), (16_777_216, 150.0)] {
                // Up to 1 % up and down, the same in every run of this test.
                let wave = ((seed * 7 + from * 13 + to * 29) % 21) as f64 / 10.0 - 1.0;
                let share = match slow {
                    Some((a, b, share)) if (a, b) == (from, to) => share,
                    _ => 1.0,
                };
                let median = rate * share * (1.0 + wave / 100.0);
                results.push(json!({
                    "name": "p2p.copy.write.bandwidth", "subject": format!("GPU{from} > GPU{to}"), "backend": "cuda", "bytes": size,
                    "verified": size, "unit": "GB/s", "median": median, "p5": median * 0.99, "p95": median * 1.01, "max": median * 1.02,
                    "mad": median * 0.002, "samples": 50, "expected": null, "verdict": "ok", "reason": null, "required": false, "numa": null,
                }));
            }
        }
    }
    json!({
        "schema": "gdr.probe/1", "gdr": env!("CARGO_PKG_VERSION"), "taken": "2026-11-24T12:00:00Z", "probe": "p2p",
        "host": { "source": "live", "name": name, "os": "Linux", "kernel": "6.8.0", "cpu": "Example CPU", "cpus": 224, "memory": 2_164_000_000_000_u64 },
        "simulated": false, "complete": true, "gpus": [], "results": results, "notes": [],
    })
}

/// Writes the reports of this many equal nodes, two files for each, and returns the size of all in bytes.
pub fn write_equal(dir: &Path, count: usize) -> usize {
    let template = doctor(&Node::good(), "NAME-OF-NODE", &[]).to_string();
    let mut size = 0;
    for number in 1..=count {
        let name = format!("n{number}");
        let report = template.replace("NAME-OF-NODE", &name);
        let probe = p2p(&name, number, None).to_string();
        size += report.len() + probe.len();
        fs::write(dir.join(format!("{name}.json")), report).expect("a file");
        fs::write(dir.join(format!("{name}-p2p.json")), probe).expect("a file");
    }
    size
}
