//! Payload and read request sizes that match or not.

use super::*;
use crate::check::testing::{
    Edit, GPU, GPU_PORT, NIC, NIC_PORT, ROOT_PORT, assert_says, findings, fix, machine, only,
};
use crate::model::{Facts, Outcome};

fn set(facts: &mut Facts, bdf: &str, payload: u16, read: u16) {
    match &mut facts.device_mut(bdf).config.express {
        Fact::Known(Some(express)) => {
            (express.max_payload, express.max_read_request) = (payload, read)
        }
        _ => panic!("no capability"),
    }
}

#[test]
fn missing_ports_leave_it_open() {
    // lspci of one vendor: no port above the GPU.
    let mut facts = machine();
    facts.partial = true;
    facts.devices_mut().retain(|device| device.bdf.to_string() != GPU_PORT);
    let found = findings("pcie.payload", &facts, &[]);
    let unknown = found.iter().find(|found| found.outcome == Outcome::Unknown);
    assert_eq!(unknown.map(|found| found.subject.as_str()), Some(GPU), "{found:#?}");
}

#[test]
fn equal_payloads_pass() {
    let found = only("pcie.payload", &machine());
    assert_eq!(found.outcome, Outcome::Pass);
    assert_eq!(found.subject, format!("GPU0 ({GPU}), NIC0 ({NIC})"));
    assert_eq!(found.evidence[0].value, "MaxPayload 256 bytes, MaxReadReq 4096 bytes");
    assert_eq!(found.evidence[0].source, format!("{GPU} config 0x068, Device Control"));
}

#[test]
fn root_port_with_larger_payload_warns() {
    let mut facts = machine();
    set(&mut facts, ROOT_PORT, 512, 512);
    let found = findings("pcie.payload", &facts, &[]);
    assert_eq!(found[0].outcome, Outcome::Warn, "it requests 4096 bytes at once");
    for device in [GPU, NIC] {
        set(&mut facts, device, 256, 256);
    }
    let outcomes: Vec<_> =
        findings("pcie.payload", &facts, &[]).iter().map(|f| f.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Pass, Outcome::Info],
        "pcie_bus_perf sets it so; reads are small"
    );
}

#[test]
fn small_packets_and_reads_are_info() {
    let mut facts = machine();
    for device in [ROOT_PORT, "0000:01:00.0", GPU_PORT, NIC_PORT, GPU] {
        set(&mut facts, device, 128, 512);
    }
    set(&mut facts, NIC, 128, 512);
    let found = findings("pcie.payload", &facts, &[]);
    assert_eq!(found[0].outcome, Outcome::Info);
    assert_says(&found[0], "the minimum");
    assert_eq!(fix(&found[1]).0, "mrrs");
    facts.kernel.command_line = Fact::Known("pci=pcie_bus_peer2peer".to_owned());
    assert!(
        findings("pcie.payload", &facts, &[])[0]
            .message
            .contains("as pci=pcie_bus_peer2peer requests")
    );
}

#[test]
fn ignores_virtual_functions() {
    let mut facts = machine();
    set(&mut facts, NIC, 128, 128);
    facts.nic_mut().physical_function = Fact::Known(Some(crate::check::testing::bdf(NIC_PORT)));
    assert_eq!(only("pcie.payload", &facts).subject, format!("GPU0 ({GPU})"));
}

#[test]
fn unread_registers_are_unknown_and_guests_skip() {
    let mut facts = machine();
    facts.device_mut(GPU_PORT).config.express = Fact::Unknown(Why::Denied);
    let found = findings("pcie.payload", &facts, &[]);
    assert_eq!(found[1].outcome, Outcome::Unknown);
    assert_eq!((found[1].subject.as_str(), found[1].needs.as_deref()), (GPU, Some("root")));
    facts.platform.hypervisor_flag = Fact::Known(true);
    assert_eq!(only("pcie.payload", &facts).outcome, Outcome::Skip);
}
