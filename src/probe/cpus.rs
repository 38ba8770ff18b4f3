//! CPU affinity of this process.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::model::IdList;

/// Why this process cannot be bound to CPUs.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "this process may use no CPU of NUMA node {0}: see its affinity (taskset -p) and cpuset"
    )]
    NoCpu(u32),
    #[error("this process cannot be bound to NUMA node {0}")]
    Bind(u32, #[source] io::Error),
}

/// The CPUs that this thread may use.
pub fn current_cpus() -> Option<IdList> {
    let allowed = sched_getaffinity(None).ok()?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    Some(IdList::new(cpus.filter_map(|cpu| u32::try_from(cpu).ok())))
}

/// The subset of `cpus` that this process may use.
pub fn usable(cpus: &IdList) -> IdList {
    match current_cpus() {
        Some(allowed) => allowed.intersection(cpus),
        // A child that binds itself reports the error.
        None => cpus.clone(),
    }
}

/// Binds this thread to one half of its CPUs, so that two threads do not compete for one CPU. The halves alternate in pairs of CPUs:
/// each has CPUs of every node, and hardware threads of one core with adjacent numbers stay together. Does nothing with one CPU.
pub fn keep_to_half(first: bool) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    if cpus.len() < 2 {
        return;
    }
    let together = if cpus.len() < 4 { 1 } else { 2 };
    let mut half = CpuSet::new();
    for (position, cpu) in cpus.iter().enumerate() {
        if (position / together).is_multiple_of(2) == first {
            half.set(*cpu);
        }
    }
    // Ignored: unbound threads are slower, and as correct.
    let _ = sched_setaffinity(None, &half);
}

/// Does work on the CPUs of a node, so that memory that it touches first is the node's. Afterwards this thread may use the CPUs that it
/// could use before.
pub fn on_node<T>(
    binding: Option<&(u32, IdList)>,
    work: impl FnOnce() -> T,
) -> Result<T, BindError> {
    let Some((node, cpus)) = binding else {
        return Ok(work());
    };
    let failed = |errno: rustix::io::Errno| BindError::Bind(*node, errno.into());
    let before = sched_getaffinity(None).map_err(failed)?;
    bind(*node, cpus)?;
    let done = work();
    sched_setaffinity(None, &before).map_err(failed)?;
    Ok(done)
}

/// Binds this thread, and the threads it will start, to the usable CPUs of a node.
pub fn bind(node: u32, cpus: &IdList) -> Result<(), BindError> {
    let allowed = sched_getaffinity(None).map_err(|errno| BindError::Bind(node, errno.into()))?;
    let mut wanted = CpuSet::new();
    let mut any = false;
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
        if u32::try_from(cpu).is_ok_and(|cpu| cpus.contains(cpu)) {
            wanted.set(cpu);
            any = true;
        }
    }
    if !any {
        return Err(BindError::NoCpu(node));
    }
    sched_setaffinity(None, &wanted).map_err(|errno| BindError::Bind(node, errno.into()))
}
