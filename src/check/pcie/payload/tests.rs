//! What no record of a machine says: a list that may lack ports.

use crate::check::testing::{Edit, GPU, GPU_PORT, findings, machine};
use crate::model::Outcome;

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
