//! The CPUs that this process may use, and those it is bound to.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::model::IdList;

/// Why this process cannot be bound to CPUs.
#[derive(Debug, thiserror::Error)]
pub enum Unbound {
    /// This process may use no CPU of that node.
    #[error(
        "this process may use no CPU of NUMA node {0}: see its affinity (taskset -p) and cpuset"
    )]
    NoCpu(u32),
    /// The kernel refused to bind it.
    #[error("this process cannot be bound to NUMA node {0}")]
    Bind(u32, #[source] io::Error),
}

/// Those of the CPUs that this process may use.
pub fn usable(cpus: &IdList) -> IdList {
    match sched_getaffinity(None) {
        Ok(allowed) => {
            let number = |cpu: &u32| {
                usize::try_from(*cpu).is_ok_and(|cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu))
            };
            let most = u32::try_from(CpuSet::MAX_CPU).unwrap_or(u32::MAX);
            IdList::new((0..most).filter(|cpu| cpus.contains(*cpu)).filter(number))
        }
        // What cannot be asked is found out when a child binds itself.
        Err(_) => cpus.clone(),
    }
}

/// Binds this thread to one half of the CPUs that it may use, so that it and the other one never wait for the same CPU. Every other
/// two of them: each half has CPUs of every node, and two threads of one core, which are neighbours on some machines, are in one
/// half. Where there is one CPU, or it may not be bound, they share.
pub fn keep_to_half(first: bool) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
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
    // Measured where they share, they are slower, and no less right.
    let _ = sched_setaffinity(None, &half);
}

/// Binds this process, and all threads it will start, to the CPUs of a node that it may use.
pub fn bind(node: u32, cpus: &IdList) -> Result<(), Unbound> {
    let allowed = sched_getaffinity(None).map_err(|errno| Unbound::Bind(node, errno.into()))?;
    let mut wanted = CpuSet::new();
    let mut any = false;
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
        if u32::try_from(cpu).is_ok_and(|cpu| cpus.contains(cpu)) {
            wanted.set(cpu);
            any = true;
        }
    }
    if !any {
        return Err(Unbound::NoCpu(node));
    }
    sched_setaffinity(None, &wanted).map_err(|errno| Unbound::Bind(node, errno.into()))
}
