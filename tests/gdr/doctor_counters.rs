//! `gdr doctor --live`: counters of a port, its network interface and its PCI function, read twice. The machine's `/sys` and the
//! statistics of its interfaces are fakes that change meanwhile.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::{Gdr, Machine, fake_ethtool, merge};
use serde_json::{Value, json};

/// The sound machine with a RoCE port.
fn machine() -> tempfile::TempDir {
    let nic = json!({
        "is": "cx7-eth", "net": "eth0",
        "rdma": {"name": "mlx5_0", "layer": "Ethernet",
            "gids": [["0000:0000:0000:0000:0000:ffff:c000:0201", "RoCE v2", "eth0"]]},
    });
    let patch = json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below":
        {"02:01.0": {"below": {"04:00.0": nic}}}}}}}}}});
    Machine::load_changed("sound", |machine| merge(machine, &patch)).laid_out()
}

const PORT: &str = "class/infiniband/mlx5_0/ports/1/hw_counters";
const ERRORS: &str = "bus/pci/devices/0000:04:00.0/aer_dev_correctable";

/// The findings of a run during which these files of `/sys` and the statistics of `eth0` change.
fn findings(changes: &[(&str, &str)], statistics: &str) -> Vec<Value> {
    let root = machine();
    let sys = root.path().join("sys");
    let file = root.path().join("statistics");
    fs::write(&file, "eth0 rx_prio0_discards 3\neth0 rx_bytes 5\n").expect("a file");
    let library = fake_ethtool(root.path());
    let run = || {
        let gdr = Gdr::with_sys(&sys).env("LD_PRELOAD", &library).env("FAKE_ETHTOOL", &file);
        let only = "rdma.counters,pcie.errors";
        gdr.args(["doctor", "--live", "--only", only, "--format", "json"]).run()
    };
    let change = || {
        // The first reading is made within milliseconds, the second one after 2 s.
        std::thread::sleep(Duration::from_secs(1));
        for (path, text) in changes {
            fs::write(sys.join(path), text).expect("a file");
        }
        fs::write(&file, statistics).expect("a file");
    };
    let run = std::thread::scope(|scope| {
        let running = scope.spawn(run);
        change();
        running.join().expect("it ends")
    });
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let findings = report["findings"].as_array().expect("findings").clone();
    assert!(Path::new(&file).exists());
    findings
}

fn of<'a>(findings: &'a [Value], subject: &str) -> &'a Value {
    let found = findings.iter().find(|found| found["subject"] == subject);
    found.unwrap_or_else(|| panic!("{findings:#?}"))
}

#[test]
#[ignore = "needs root, a C compiler"]
fn rising_counters_are_findings() {
    let findings = findings(
        &[
            (&format!("{PORT}/out_of_sequence"), "9\n"),
            (&format!("{PORT}/rx_write_requests"), "100077\n"),
            (ERRORS, "RxErr 0\nBadTLP 4\nTOTAL_ERR_COR 4\n"),
        ],
        "eth0 rx_prio0_discards 8\neth0 rx_bytes 500\n",
    );
    let port = of(&findings, "mlx5_0");
    assert_eq!(port["outcome"], "warn", "{port:#}");
    let text = port.to_string();
    for words in ["out_of_sequence +9", "rx_prio0_discards +5"] {
        assert!(text.contains(words), "{port:#}");
    }
    assert!(!text.contains("rx_write_requests") && !text.contains("rx_bytes"), "{port:#}");
    let function = of(&findings, "0000:04:00.0");
    assert_eq!(function["outcome"], "warn", "{function:#}");
    assert!(function.to_string().contains("BadTLP +4"), "{function:#}");
}

#[test]
#[ignore = "needs root, a C compiler"]
fn traffic_alone_is_no_finding() {
    let findings = findings(
        &[(&format!("{PORT}/rx_write_requests"), "100077\n")],
        "eth0 rx_prio0_discards 3\neth0 rx_bytes 500\n",
    );
    let port = of(&findings, "mlx5_0");
    assert_eq!(port["outcome"], "pass", "{port:#}");
    assert!(
        port["message"].as_str().is_some_and(|text| text.contains("No counter of errors rose")),
        "{port:#}"
    );
    for found in &findings {
        assert!(found["outcome"] == "pass" || found["outcome"] == "unknown", "{found:#}");
    }
}
