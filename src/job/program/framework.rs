//! What Ray, Horovod, XLA, SGLang and TensorRT-LLM say of a job that fails.

use super::block::{STALLED, missing, task};
use super::{RETURNED, Said, short, texts};
use crate::job::failure::{self, Detail, Warning};
use crate::model::FailureKind;

pub fn read(text: &str) -> Option<Said> {
    ray(text)
        .or_else(|| horovod(text))
        .or_else(|| xla(text))
        .or_else(|| server(text))
        .or_else(|| nccl(text))
}

fn said(kind: FailureKind, detail: String) -> Option<Said> {
    Some(Said { kind, rank: None, detail })
}

/// `The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: …`
fn ray(text: &str) -> Option<Said> {
    if text.contains(" has been marked dead") && text.contains("node") {
        return said(FailureKind::NodeLost, short(text));
    }
    let (before, detail) = text.split_once("orker exit detail: ")?;
    if before.contains("INTENDED_") {
        return None;
    }
    let node = before.split_once("Owner Ip address: ").and_then(|(_, rest)| rest.split(' ').next());
    let is_node = detail.contains("node has crashed") || detail.contains("node died");
    match node.filter(|_| is_node) {
        Some(node) => said(FailureKind::NodeLost, format!("node {node}: {}", short(detail))),
        None if is_node => said(FailureKind::NodeLost, short(detail)),
        // What follows are causes that Ray thinks possible.
        None => {
            let detail = detail.split(" There are some potential root causes").next()?;
            said(FailureKind::Exited, format!("Ray's worker: {}", short(detail)))
        }
    }
}

/// `HorovodBroadcast_x [missing ranks: 1]`
fn horovod(text: &str) -> Option<Said> {
    let (_, rest) = text.split_once("[missing ranks: ")?;
    let list = rest.split(']').next()?;
    let ranks: Vec<u32> = list.split(',').filter_map(|rank| rank.trim().parse().ok()).collect();
    let detail = missing(&ranks, STALLED);
    (!ranks.is_empty()).then_some(Said { kind: FailureKind::Timeout, rank: None, detail })
}

/// `NCCL operation ncclCommInitRank(…) failed: unhandled cuda error. Last NCCL warning(error) log entry (may be unrelated) '…'`;
/// `Task /job:jax_worker/replica:0/task:3 heartbeat timeout.`
fn xla(text: &str) -> Option<Said> {
    if let Some((before, _)) = text.split_once(" heartbeat timeout") {
        let task = task(before.rsplit_once(' ').map_or(before, |(_, task)| task))?;
        return said(FailureKind::Timeout, format!("task {task} sent no heartbeat"));
    }
    let (_, rest) = text.split_once("NCCL operation ")?;
    let (_, rest) = rest.split_once(" failed: ")?;
    let warning = rest.split_once("log entry (may be unrelated) '");
    let warning = warning.and_then(|(_, rest)| rest.split('\'').next()).unwrap_or_default();
    if let Some(Warning::Failure(found)) = failure::warning(warning) {
        let detail = match found.detail {
            Some(Detail::Text(text)) => text,
            _ => short(warning),
        };
        return Some(Said { kind: found.kind, rank: found.rank, detail });
    }
    let result = texts::nccl_result(text).map(|result| format!("{RETURNED}{result}"));
    match (warning, result) {
        ("", None) => said(FailureKind::Other, short(rest)),
        ("", Some(result)) => said(FailureKind::Other, result),
        (warning, _) => said(FailureKind::Other, short(warning)),
    }
}

/// `[2026-02-24 14:09:34 TP14] Scheduler hit an exception: Traceback …`; `[TensorRT-LLM][ERROR] Assertion failed: …`
fn server(text: &str) -> Option<Said> {
    if text.contains("Scheduler hit an exception") {
        return said(FailureKind::Exited, "the scheduler of SGLang got an exception".to_owned());
    }
    if text.contains("Mooncake Transfer Engine Return Error") {
        return said(
            FailureKind::Library,
            "Mooncake's transfer engine returned an error".to_owned(),
        );
    }
    let (_, rest) = text.split_once("[TensorRT-LLM][ERROR] ")?;
    let is_end = rest.starts_with("Assertion failed") || rest.contains("Exception: ");
    is_end.then(|| Said { kind: FailureKind::Exception, rank: None, detail: short(rest) })
}

/// What NCCL returned, in the words of a program.
fn nccl(text: &str) -> Option<Said> {
    let result = texts::nccl_result(text)?;
    said(FailureKind::Other, format!("{RETURNED}{result}"))
}
