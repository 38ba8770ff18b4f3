//! aws-ofi-nccl in programs without NCCL's log, such as its own tests: `WARN: Function: … Line: 459: NET/OFI Couldn't open AV. …`.

use super::{Statement, failed, is_fault};
use crate::job::known;
use crate::model::FailureKind;

pub const NAME: &str = "aws-ofi-nccl";

pub fn read(line: &str) -> Vec<Statement> {
    let message = line.split_once("WARN: Function: ").and_then(|(_, rest)| {
        let at = rest.find("NET/OFI ")?;
        rest.get(at..)
    });
    let message = message.filter(|text| {
        known::kind(text).map_or_else(|| is_fault(text), |kind| kind == FailureKind::NetworkPlugin)
    });
    message.map(|text| failed(FailureKind::NetworkPlugin, text)).into_iter().collect()
}
