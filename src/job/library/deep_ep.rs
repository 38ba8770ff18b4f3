//! DeepEP: its timeouts (csrc/kernels, csrc/deep_ep.cpp) and the NCCL that it loaded. Its path is in the lines of NVSHMEM or NCCL.

use super::{Statement, failed};
use crate::model::FailureKind;

pub const NAME: &str = "DeepEP";

pub fn read(line: &str) -> Vec<Statement> {
    let Some((_, message)) = line.split_once("DeepEP ") else { return Vec::new() };
    // `DeepEP dispatch NVL receiver timeout, channel: 3, …`, `DeepEP error: timeout (dispatch CPU)`
    let is_timeout = message.starts_with("error: timeout (")
        || message.starts_with("timeout ")
        || message.contains(" timeout, channel: ")
        || message.contains(" timeout (") && message.contains("), channel: ");
    if is_timeout {
        let what = message.split(", channel").next().unwrap_or(message);
        return vec![failed(FailureKind::Timeout, &format!("DeepEP {what}"))];
    }
    let version = message.split_once("initialized with NCCL version: ").map(|(_, rest)| rest);
    let version = version.and_then(|rest| rest.split(' ').next());
    version.map(|version| Statement::Version(format!("with NCCL {version}"))).into_iter().collect()
}
