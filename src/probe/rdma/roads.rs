//! The road by which a card reaches GPU memory: tried in the order of NCCL and UCX, each with what became of it.

use gpu::{HostMemory, sentence};
use verbs::{Access, Domain, Region, RoadError};

use super::memory::Store;
use super::staged::STAGING;
use super::{Memory, Road};
use crate::model::{BackendChoice, BackendOutcome};
use crate::probe::trouble::Trouble;

/// What the card moves of an end's memory.
pub struct Way {
    /// What it reaches.
    pub region: Region,
    /// By which road it reaches a GPU's; none of host memory.
    pub road: Option<Road>,
    /// Pinned memory between the card and a GPU's: where the road is staged, and for comparison where not.
    pub pinned: Option<(HostMemory, Region)>,
    /// What became of each road.
    pub choices: Vec<BackendChoice>,
}

/// Registers what the card is to move.
pub fn register(domain: &Domain, memory: &Memory, store: &Store) -> Result<Way, Trouble> {
    let plain = |region| Way {
        region,
        road: None,
        pinned: None,
        choices: Vec::new(),
    };
    match store {
        Store::Host(buffer) => Ok(plain(domain.register(buffer, Access::ALL)?)),
        Store::Pinned(memory) => Ok(plain(domain.register_host(memory, Access::ALL)?)),
        Store::Device { .. } => device(domain, memory, store),
    }
}

fn device(domain: &Domain, memory: &Memory, store: &Store) -> Result<Way, Trouble> {
    let wanted = match memory {
        Memory::Gpu(_, wanted) => *wanted,
        _ => None,
    };
    let Some((gpu_memory, _)) = store.device() else {
        return Err(Trouble::OutOfStep);
    };
    let mut choices = Vec::new();
    let mut taken = None;
    for (road, by) in [
        (Road::Dmabuf, verbs::Road::Dmabuf),
        (Road::Peermem, verbs::Road::Peermem),
    ] {
        if wanted.is_some_and(|wanted| wanted != road) {
            continue;
        }
        let (outcome, why) = match domain.register_by(by, gpu_memory, Access::ALL) {
            Ok(_) if taken.is_some() => (BackendOutcome::Usable, "another comes first".to_owned()),
            Ok(region) => {
                taken = Some((road, region));
                (BackendOutcome::Chosen, "the card registers the GPU's memory".to_owned())
            }
            Err(error) if wanted == Some(road) => return Err(Trouble::Road(road.name(), error)),
            Err(error) => (BackendOutcome::Refused, reason(road, &error)),
        };
        choices.push(choice(road, outcome, why));
    }
    // Two regions of large memory may be more than may be pinned: a road that could be had is better than none.
    let room = match taken {
        Some(_) => STAGING,
        None => gpu_memory.len().max(STAGING),
    };
    let pinned = pinned(domain, gpu_memory.gpu(), room);
    if let Some((road, region)) = taken {
        return Ok(Way {
            region,
            road: Some(road),
            pinned: pinned.ok(),
            choices,
        });
    }
    let (host, region) = pinned?;
    let why = "copies through pinned memory, without GPUDirect RDMA".to_owned();
    choices.push(choice(Road::Staged, BackendOutcome::Chosen, why));
    Ok(Way {
        region: region.clone(),
        road: Some(Road::Staged),
        pinned: Some((host, region)),
        choices,
    })
}

fn pinned(domain: &Domain, gpu: &gpu::Gpu, bytes: usize) -> Result<(HostMemory, Region), Trouble> {
    let host = gpu.pinned(bytes)?;
    let region = domain.register_host(&host, Access::ALL)?;
    Ok((host, region))
}

fn choice(road: Road, outcome: BackendOutcome, why: String) -> BackendChoice {
    BackendChoice {
        backend: road.name().to_owned(),
        outcome,
        why,
    }
}

/// Why a road does not lead there, and what to do about it.
fn reason(road: Road, error: &RoadError) -> String {
    let advice = advice(road.name(), error);
    format!("{}{advice}", sentence(error))
}

/// What to look at next, as words that follow.
fn advice(road: &str, error: &RoadError) -> &'static str {
    match (road, error.errno()) {
        ("peermem", Some(EFAULT)) => {
            "; no module of the kernel takes the GPU's address: gdr doctor --only peermem.loaded, gdr fix peermem"
        }
        ("dmabuf", Some(EOPNOTSUPP)) => "; the card's provider registers no dma-buf: gdr doctor --only rdma.core",
        ("dmabuf", Some(EPROTONOSUPPORT)) => "; the kernel's driver registers no dma-buf: gdr doctor --only rdma.core",
        (_, Some(ENOMEM)) => {
            "; the limit of locked memory or the GPU's BAR1 is too small: gdr doctor --only limits.memlock,gpu.bar1"
        }
        _ => "",
    }
}

const ENOMEM: i32 = 12;
const EFAULT: i32 = 14;
const EPROTONOSUPPORT: i32 = 93;
const EOPNOTSUPP: i32 = 95;

/// A trouble in words, with what to look at next.
pub fn advised(trouble: &Trouble) -> String {
    let words = sentence(trouble);
    match trouble {
        Trouble::Road(road, error) => format!("{words}{}", advice(road, error)),
        Trouble::Verbs(error @ verbs::Error::Register { .. }) if error.errno() == Some(ENOMEM) => {
            format!("{words}; see the limit of locked memory: gdr doctor --only limits.memlock, gdr fix memlock")
        }
        Trouble::Verbs(verbs::Error::Memory {
            pages: verbs::Pages::Huge,
            ..
        }) => {
            format!("{words}; the kernel has reserved too few: sysctl vm.nr_hugepages")
        }
        _ => words,
    }
}
