//! NVML through crate `gpu`.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use gpu::Kind;
use gpu::nvml::{Answer, Device, Failure, Nvml as Session, OpenError};

use super::{NvmlQuery, unknown};
use crate::model::{
    Bar1, Bdf, Fact, Nvml, NvmlGpu, NvmlOutcome, NvmlPair, P2pCapability, P2pStatus, Why,
};

mod links;
mod words;

pub fn read(query: NvmlQuery) -> NvmlOutcome {
    let session = match Session::open() {
        Ok(session) => session,
        Err(OpenError::Absent(reason)) => return NvmlOutcome::Absent { reason },
        Err(OpenError::Initialise(failure)) => return failed(failure),
        Err(error) => return NvmlOutcome::Failed { code: None, reason: error.to_string() },
    };
    match nvml(&session, query) {
        Ok(nvml) => NvmlOutcome::Read(Box::new(nvml)),
        Err(failure) => failed(failure),
    }
}

fn failed(failure: Failure) -> NvmlOutcome {
    NvmlOutcome::Failed { code: failure.code(), reason: format!("{}: {failure}", failure.name()) }
}

/// Reduces an answer to what was queried.
pub fn reduce(outcome: NvmlOutcome, query: NvmlQuery) -> NvmlOutcome {
    let NvmlOutcome::Read(mut nvml) = outcome else {
        return outcome;
    };
    for gpu in &mut nvml.gpus {
        if !query.links {
            gpu.active_links = Fact::default();
            gpu.inactive_links = Fact::default();
        }
        if !query.details {
            *gpu = NvmlGpu {
                index: gpu.index,
                bdf: gpu.bdf,
                name: gpu.name.clone(),
                uuid: gpu.uuid.clone(),
                minor: gpu.minor.clone(),
                active_links: gpu.active_links.clone(),
                inactive_links: gpu.inactive_links.clone(),
                link_errors: gpu.link_errors.clone(),
                ..NvmlGpu::unread(gpu.index, gpu.bdf)
            };
        }
        if !query.errors {
            gpu.link_errors = Fact::default();
        }
    }
    if !query.p2p {
        nvml.pairs.clear();
    }
    if let Some(only) = query.p2p_only {
        for pair in &mut nvml.pairs {
            for (capability, status) in &mut pair.p2p {
                if *capability != only {
                    *status = Fact::default();
                }
            }
        }
    }
    NvmlOutcome::Read(nvml)
}

/// Reads what is queried; fails only if the GPUs cannot be counted.
fn nvml(session: &Session, query: NvmlQuery) -> Result<Nvml, Failure> {
    let mut nvml = Nvml {
        library: session.library().map(|path| path.display().to_string()),
        driver_version: fact(session.driver_version()),
        cuda_version: if query.details { cuda_version(session) } else { Fact::default() },
        confidential_compute: fact(session.confidential_compute()),
        protected_links: fact(session.multi_gpu_mode()).map(words::protected_links),
        ..Nvml::default()
    };
    let open = |index| -> Answer<_> {
        let device = session.device(index)?;
        let bdf = device.bus_id()?.parse().ok();
        Ok((device, bdf.map(|bdf| gpu(device, index, bdf, query))))
    };
    let mut devices = Vec::new();
    for (index, opened) in (0..).zip(at_once(session.device_count()?, open)) {
        match opened {
            Ok((device, gpu)) => {
                devices.push((index, device));
                nvml.gpus.extend(gpu);
            }
            // A GPU without a handle or an address is unreachable: its other facts could not be attributed.
            Err(failure) => nvml.unreachable.push(format!("GPU {index}: {failure}")),
        }
    }
    if query.p2p {
        nvml.pairs = pairs(&devices, query.p2p_only);
    }
    Ok(nvml)
}

/// Maximum number of GPUs that are read at the same time.
const THREADS: u32 = 16;

/// The answers for all GPUs, in their order. NVML opens a GPU in 6.6 ms (H200, driver 580), and several at the same time.
fn at_once<T: Send>(gpus: u32, read: impl Fn(u32) -> T + Sync) -> Vec<T> {
    let read = &read;
    let mut answers = Vec::new();
    for first in (0..gpus).step_by(THREADS as usize) {
        let others = first + 1..gpus.min(first.saturating_add(THREADS));
        answers.extend(thread::scope(|scope| {
            let others: Vec<_> = others
                .map(|index| {
                    (index, thread::Builder::new().spawn_scoped(scope, move || read(index)))
                })
                .collect();
            let mut answers = vec![read(first)];
            answers.extend(others.into_iter().map(|(index, started)| match started {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => read(index),
            }));
            answers
        }));
    }
    answers
}

/// Without libcuda NVML does not know the version.
fn cuda_version(session: &Session) -> Fact<u32> {
    match session.cuda_driver_version() {
        Err(failure) if failure.kind() == Kind::Absent => Fact::Unknown(Why::NotCovered),
        answer => fact(answer).and_then(|version| {
            u32::try_from(version).map_or(Fact::Unknown(Why::Broken), Fact::Known)
        }),
    }
}

fn gpu(device: Device<'_>, index: u32, bdf: Bdf, query: NvmlQuery) -> NvmlGpu {
    let mut gpu = NvmlGpu {
        name: fact(device.name()),
        uuid: fact(device.uuid()),
        minor: fact(device.minor_number()),
        ..NvmlGpu::unread(index, bdf)
    };
    if query.links {
        (gpu.active_links, gpu.inactive_links) = links::read(device);
    }
    if query.errors {
        gpu.link_errors = links::errors(device);
    }
    if !query.details {
        return gpu;
    }
    let fabric = fact(device.fabric());
    NvmlGpu {
        memory_node: fact(device.numa_node()),
        bar1: fact(device.bar1()).map(|(total, used)| Bar1 { total, used }),
        memory_total: fact(device.memory_total()),
        persistence: fact(device.persistence_mode()).map(|mode| mode != 0),
        mig: fact(device.mig_mode()),
        fabric: fabric.as_ref().map(|fabric| words::fabric_state(fabric.state)),
        fabric_registration: fabric.map(links::registration),
        performance_state: fact(device.performance_state()),
        virtualization: fact(device.virtualization_mode()).map(words::virtualization),
        architecture: fact(device.architecture()).map(words::architecture),
        ..gpu
    }
}

/// Each pair is queried once, because a status takes 1.65 ms; it holds in both directions.
fn pairs(gpus: &[(u32, Device<'_>)], only: Option<P2pCapability>) -> Vec<NvmlPair> {
    let mut pairs = Vec::new();
    for (position, &(a, first)) in gpus.iter().enumerate() {
        for &(b, second) in gpus.iter().skip(position + 1) {
            let status = |capability| {
                if only.is_some_and(|only| only != capability) {
                    return Fact::default();
                }
                // The capabilities are in NVML's order.
                fact(first.p2p_status(second, capability as u32)).map(status)
            };
            let p2p: BTreeMap<P2pCapability, Fact<P2pStatus>> =
                P2pCapability::ALL.map(|capability| (capability, status(capability))).into();
            let pair = |(from, to)| NvmlPair { from, to, p2p: p2p.clone() };
            pairs.extend([(a, b), (b, a)].map(pair));
        }
    }
    pairs
}

/// `nvmlGpuP2PStatus_t`.
fn status(number: u32) -> P2pStatus {
    match number {
        0 => P2pStatus::Ok,
        1 => P2pStatus::Chipset,
        2 => P2pStatus::Gpu,
        3 => P2pStatus::Topology,
        4 => P2pStatus::Disabled,
        5 => P2pStatus::NotSupported,
        _ => P2pStatus::Unknown,
    }
}

fn fact<T>(answer: Answer<T>) -> Fact<T> {
    answer.map_or_else(|failure| Fact::Unknown(unknown(failure.kind())), Fact::Known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVML's answer on a machine with two H200, reduced to the query.
    fn reduced(query: NvmlQuery) -> Box<Nvml> {
        let all = include_str!("../../../tests/machines/h200-x2/nvml.json");
        match reduce(serde_json::from_str(all).expect("an answer"), query) {
            NvmlOutcome::Read(nvml) => nvml,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_come_in_order_of_gpus() {
        for gpus in [0, 1, 2, 15, 16, 17, 40] {
            let answers = at_once(gpus, |index| {
                thread::yield_now();
                index
            });
            assert_eq!(answers, (0..gpus).collect::<Vec<_>>());
        }
    }

    #[test]
    fn reduces_answer_to_query() {
        let none = NvmlQuery::default();
        let links = reduced(NvmlQuery { links: true, ..none });
        assert_eq!((links.gpus.len(), links.pairs.len()), (2, 0));
        let gpu = &links.gpus[0];
        assert!(gpu.name.known().is_some() && gpu.active_links.known().is_some());
        assert_eq!((&gpu.bar1, &gpu.memory_total), (&Fact::default(), &Fact::default()));

        let only = P2pCapability::Read;
        let peers = reduced(NvmlQuery { p2p: true, p2p_only: Some(only), ..none });
        assert_eq!(peers.gpus[0].active_links, Fact::default());
        assert!(!peers.pairs.is_empty());
        for (capability, status) in peers.pairs.iter().flat_map(|pair| &pair.p2p) {
            assert_eq!(status.known().is_some(), *capability == only, "{capability:?}");
        }
        assert!(reduced(NvmlQuery::EVERYTHING).gpus[0].bar1.known().is_some());
    }
}
