//! The road by which a card reaches GPU memory: tried in the order of NCCL and UCX, each with what became of it. The trial
//! registration is destroyed: memory is registered for one test case at a time.

use gpu::{HostMemory, sentence};
use verbs::{Access, Domain, Region, RoadError};

use super::end::half;
use super::memory::Store;
use super::purpose::{Purpose, Role, Ways};
use super::staged::STAGING;
use super::{Memory, Road};
use crate::model::{BackendChoice, BackendOutcome};
use crate::probe::trouble::Trouble;

/// What the card moves of an end's memory.
pub struct Way {
    /// By which road it reaches a GPU's; none of host memory.
    pub road: Option<Road>,
    /// Pinned memory between the card and a GPU's: where the road is staged, and for comparison where not.
    pub pinned: Option<HostMemory>,
    /// What became of each road.
    pub choices: Vec<BackendChoice>,
}

/// Access of a trial registration: none from the other end.
const TRIAL: Access = Access {
    local_write: true,
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
    relaxed_ordering: false,
};

/// Tries which way the NIC can register the memory under test.
pub fn choose(domain: &Domain, memory: &Memory, store: &Store) -> Result<Way, Trouble> {
    match store {
        Store::Host(buffer) => drop(domain.register(buffer, TRIAL)?),
        Store::Pinned(memory) => drop(domain.register_host(memory, TRIAL)?),
        Store::Device { .. } => return device(domain, memory, store),
    }
    Ok(Way {
        road: None,
        pinned: None,
        choices: Vec::new(),
    })
}

impl Way {
    /// Registers the memory of a test case, with the access that the case needs.
    pub fn register(&self, domain: &Domain, store: &Store, purpose: Purpose, role: Role) -> Result<Region, Trouble> {
        let access = purpose.access(role);
        // One message that is sent, and one that arrives.
        let part = 0..half(purpose.bytes) * 2;
        let by = |road: Road, by: verbs::Road| match store.device() {
            Some((memory, _)) => domain
                .register_by(by, memory, access)
                .map_err(|error| Trouble::Road(road.name(), error)),
            None => Err(Trouble::OutOfStep),
        };
        let pinned = || self.pinned.as_ref().ok_or(Trouble::OutOfStep);
        Ok(match (self.road, store) {
            _ if purpose.ways == Ways::Staged => domain.register_host_part(pinned()?, 0..STAGING, access)?,
            (Some(Road::Staged), _) => domain.register_host_part(pinned()?, part, access)?,
            (Some(road @ Road::Dmabuf), _) => by(road, verbs::Road::Dmabuf)?,
            (Some(road @ Road::Peermem), _) => by(road, verbs::Road::Peermem)?,
            (None, Store::Host(buffer)) => domain.register_part(buffer, part, access)?,
            (None, Store::Pinned(memory)) => domain.register_host_part(memory, part, access)?,
            (None, Store::Device { .. }) => return Err(Trouble::OutOfStep),
        })
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
        let (outcome, why) = match domain.register_by(by, gpu_memory, TRIAL) {
            Ok(_) if taken.is_some() => (BackendOutcome::Usable, "another comes first".to_owned()),
            Ok(_) => {
                taken = Some(road);
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
    if let Some(road) = taken {
        return Ok(Way {
            road: Some(road),
            pinned: pinned.ok(),
            choices,
        });
    }
    let host = pinned?;
    let why = "copies through pinned memory, without GPUDirect RDMA".to_owned();
    choices.push(choice(Road::Staged, BackendOutcome::Chosen, why));
    Ok(Way {
        road: Some(Road::Staged),
        pinned: Some(host),
        choices,
    })
}

fn pinned(domain: &Domain, gpu: &gpu::Gpu, bytes: usize) -> Result<HostMemory, Trouble> {
    let host = gpu.pinned(bytes)?;
    drop(domain.register_host(&host, TRIAL)?);
    Ok(host)
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
