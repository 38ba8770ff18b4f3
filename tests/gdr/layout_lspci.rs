//! The test machines as read by lspci, an independent parser.

use std::path::Path;
use std::process::Command;

use crate::support::{Machine, names};

fn lspci(root: &Path, options: &[&str]) -> String {
    let path = format!("sysfs.path={}", root.join("sys/bus/pci").display());
    let output =
        Command::new("lspci").args(["-O", &path]).args(options).output().expect("lspci runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // Without the running kernel's modules.
    let errors = errors.lines().filter(|line| !line.contains("libkmod"));
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors.collect::<String>()
}

/// Expects these lines in this order; names at their ends may differ.
fn shows(output: &str, expected: &[&str]) {
    let mut lines = output.lines();
    for expected_line in expected {
        assert!(
            lines.any(|line| line.trim().starts_with(expected_line.trim())),
            "'{expected_line}' is not there, or not in this order, in:\n{output}"
        );
    }
}

#[test]
#[ignore = "needs lspci"]
fn lspci_reads_every_machine() {
    for name in names() {
        let machine = Machine::load(&name);
        let dir = machine.laid_out();
        let output = lspci(dir.path(), &["-vvv", "-nn", "-D"]);
        if name == "broken" {
            // `broken` must make lspci complain.
            assert!(output.contains("!!!") || output.contains("lspci: "), "{output}");
            continue;
        }
        for fault in ["!!!", "lspci: ", "Unknown header", "chain broken", "looped"] {
            assert!(!output.contains(fault), "{name}: '{fault}' in\n{output}");
        }
        for device in &machine.devices {
            let line = format!("{} ", device.bdf);
            assert!(output.lines().any(|l| l.starts_with(&line)), "{name}: {line}is missing");
        }
    }
}

#[test]
#[ignore = "needs lspci"]
fn lspci_draws_cascade() {
    let dir = Machine::load("cascade-asymmetric").laid_out();
    let tree = lspci(dir.path(), &["-t", "-n"]);
    let drawn = "\
-[0000:00]-+-00.0
           +-01.0-[01-09]----00.0-[02-09]--+-00.0-[03-06]----00.0-[04-06]--+-00.0-[05]----00.0
           |                               |                               \\-01.0-[06]----00.0
           |                               +-01.0-[07]----00.0
           |                               +-02.0-[08]----00.0
           |                               \\-03.0-[09]--+-00.0
           |                                            \\-00.1
           \\-02.0-[0a]----00.0
";
    assert_eq!(tree, drawn, "lspci drew:\n{tree}");
}

/// The captured lspci tree equals that of the directory laid out from it.
#[test]
#[ignore = "needs lspci"]
fn lspci_tree_of_captured_machine_matches() {
    for name in ["vm-iommu-on", "vm-iommu-off"] {
        let dir = Machine::load(name).laid_out();
        let path = format!("{}/tests/machines/{name}/lspci-tv.txt", env!("CARGO_MANIFEST_DIR"));
        let there = std::fs::read_to_string(&path).expect("lspci-tv.txt");
        // Names follow an address after two blanks, from that machine's pci.ids.
        let bare = |line: &str| {
            let named = line.rmatch_indices("  ").map(|(at, _)| at);
            let drawn = named
                .map(|at| &line[..at])
                .find(|drawn| drawn.ends_with(|c: char| c.is_ascii_digit()));
            format!("{}\n", drawn.unwrap_or(line))
        };
        let expected: String = there.lines().map(bare).collect();
        assert_eq!(lspci(dir.path(), &["-t"]), expected, "{name}");
    }
}

#[test]
#[ignore = "needs lspci"]
fn lspci_reads_registers() {
    let dir = Machine::load("hgx-acs-redirect").laid_out();
    let show = |bdf: &str| lspci(dir.path(), &["-vvv", "-s", bdf]);
    shows(
        &show("0000:17:02.0"),
        &[
            "17:02.0 PCI bridge",
            "Bus: primary=17, secondary=1a, subordinate=1a",
            "Capabilities: [40] Express (v2) Downstream Port",
            "LnkCap:\tPort #16, Speed 32GT/s, Width x16",
            "LnkSta:\tSpeed 32GT/s, Width x16",
            "Capabilities: [100 v1] Access Control Services",
            "ACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+",
            "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
        ],
    );
    shows(
        &show("0000:99:03.0"),
        &[
            "ACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl+ DirectTrans-",
        ],
    );
    let config = std::fs::read(dir.path().join("sys/bus/pci/devices/0000:99:03.0/config"))
        .expect("a port's config");
    assert_eq!(config.len(), 4096);
    // Id 000d version 1; capability with a 32-bit vector; control; bits 0, 1, 2 and 24.
    let acs = [0x0d, 0, 1, 0, 0x7f, 0x20, 0x21, 0, 0x07, 0, 0, 0x01];
    assert_eq!(config[0x100..0x10c], acs);
    let gpu = show("0000:18:00.0");
    shows(
        &gpu,
        &[
            "18:00.0 3D controller",
            "Region 0: Memory at",
            "Region 2: Memory at",
            "DevCtl:",
            "RlxdOrd+",
            "Capabilities: [100 v1] Device Serial Number 00-00-00-00-00-00-00-00",
            "Kernel driver in use: nvidia",
        ],
    );
    assert!(gpu.contains("(64-bit, prefetchable) [size=128G]"), "{gpu}");
}

#[test]
#[ignore = "needs lspci"]
fn lspci_reads_virtual_functions_and_vpd() {
    let dir = Machine::load("virtual-functions").laid_out();
    shows(
        &lspci(dir.path(), &["-vvv", "-s", "02:00.0"]),
        &[
            "Capabilities: [100 v1] Single Root I/O Virtualization (SR-IOV)",
            "IOVCtl:\tEnable+",
            "Initial VFs: 8, Total VFs: 8, Number of VFs: 2",
            "VF offset: 1, stride: 1, Device ID: 101e",
        ],
    );
    let dir = Machine::load("hgx-h100-8gpu-8nic").laid_out();
    shows(
        &lspci(dir.path(), &["-vvv", "-s", "27:00.0"]),
        &[
            "27:00.0 Infiniband controller",
            "Capabilities: [90] Vital Product Data",
            "Product Name: Nvidia ConnectX-7 mezz, fabric management",
            "[VA] Vendor specific: SW_MNG",
            "[RV] Reserved: checksum good, 0 byte(s) reserved",
        ],
    );
}
