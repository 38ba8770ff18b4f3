//! A trial of every GPU with every RDMA device: some of its memory is registered by each road, and the device's doorbell with
//! it, and both are given back at once.

use std::collections::BTreeMap;

use ::verbs::{Access, Context, Domain, Road, RoadError, device_names};
use gpu::{Allocation, Device, DeviceMemory, Gpu, Kind};

use super::doorbell::{self, Doorbell};
use super::verbs::refusal;
use crate::model::{
    CardTrial, DoorbellTrial, DoorbellTrials, GpuRegistration, RegistrationOutcome, RegistrationTrial, RoadTrial,
    Roads, VerbsRefusal,
};

/// A page of the GPU's largest kind, so that a dma-buf holds whole pages.
const BYTES: usize = 2 << 20;

/// Virtual functions may be hundreds: of more devices than these the first are tried.
const MOST_DEVICES: usize = 64;

/// What a card does in any case: memory receives what was sent.
const RECEIVING: Access = Access {
    local_write: true,
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
    relaxed_ordering: false,
};

/// EOPNOTSUPP: a road or an access that the card has not.
const NOT_SUPPORTED: i32 = 95;

/// Tries each GPU in this process.
pub fn try_each() -> RegistrationOutcome {
    tried().map_or_else(|outcome| outcome, RegistrationOutcome::Tried)
}

fn tried() -> Result<Vec<GpuRegistration>, RegistrationOutcome> {
    // Verbs first: to list devices costs no context.
    let names = device_names().map_err(|error| {
        let VerbsRefusal { reason, .. } = refusal(&error);
        match error.is_absent() {
            true => RegistrationOutcome::Absent { reason },
            false => RegistrationOutcome::Failed { reason },
        }
    })?;
    let failed = |reason: &str| RegistrationOutcome::Failed {
        reason: reason.to_owned(),
    };
    if names.is_empty() {
        return Err(failed("libibverbs serves no RDMA device"));
    }
    let gpus = gpu::devices().map_err(|error| {
        let reason = gpu::sentence(&error);
        match (&error, error.kind()) {
            (gpu::Error::Library(_), Kind::Absent) => RegistrationOutcome::Absent { reason },
            _ => RegistrationOutcome::Failed { reason },
        }
    })?;
    if gpus.is_empty() {
        return Err(failed("CUDA counts no GPU"));
    }
    let cards: Cards = names.into_iter().take(MOST_DEVICES).map(open).collect();
    Ok(gpus.iter().map(|gpu| try_one(gpu, &cards)).collect())
}

/// Each device, opened once.
type Cards = BTreeMap<String, Result<Card, VerbsRefusal>>;

struct Card {
    domain: Domain,
    /// None where it is of another make than mlx5.
    doorbell: Option<Doorbell>,
}

fn open(name: String) -> (String, Result<Card, VerbsRefusal>) {
    let domain = Context::open(&name).and_then(|context| context.domain());
    let card = domain.map(|domain| Card {
        doorbell: doorbell::of(&domain),
        domain,
    });
    (name, card.map_err(|error| refusal(&error)))
}

fn try_one(device: &Device, cards: &Cards) -> GpuRegistration {
    let gpu = Gpu::open(device.ordinal);
    let memory = match &gpu {
        Ok(gpu) => gpu
            .allocate(Allocation::Malloc, BYTES)
            .map_err(|error| gpu::sentence(&error)),
        Err(error) => Err(gpu::sentence(error)),
    };
    let with = |memory: &DeviceMemory, card: &Result<Card, VerbsRefusal>| match card {
        Ok(Card { domain, .. }) => CardTrial::Opened(Roads {
            dmabuf: register(domain, Road::Dmabuf, memory),
            peermem: register(domain, Road::Peermem, memory),
        }),
        Err(refusal) => CardTrial::Refused(refusal.clone()),
    };
    GpuRegistration {
        bdf: device.pci.and_then(|pci| pci.to_string().parse().ok()),
        ordinal: device.ordinal,
        trial: match memory {
            Ok(memory) => {
                let each = cards.iter().map(|(name, card)| (name.clone(), with(&memory, card)));
                RegistrationTrial::Tried(each.collect())
            }
            Err(reason) => RegistrationTrial::NotTried { reason },
        },
        doorbells: Some(match &gpu {
            Ok(gpu) => {
                let each = cards.iter();
                DoorbellTrials::Tried(
                    each.filter_map(|(name, card)| Some((name.clone(), ring(gpu, card)?)))
                        .collect(),
                )
            }
            Err(error) => DoorbellTrials::NotTried {
                reason: gpu::sentence(error),
            },
        }),
    }
}

/// What comes of a device's doorbell; none where it is of another make.
fn ring(gpu: &Gpu, card: &Result<Card, VerbsRefusal>) -> Option<DoorbellTrial> {
    match card {
        Ok(card) => card.doorbell.as_ref().map(|doorbell| doorbell::ring(gpu, doorbell)),
        Err(refusal) => Some(DoorbellTrial::Closed(refusal.clone())),
    }
}

/// Registers memory by one road; the registration ends before this returns.
fn register(domain: &Domain, road: Road, memory: &DeviceMemory) -> RoadTrial {
    let register = |access| domain.register_by(road, memory, access).map(drop);
    let registered = match register(Access::ALL) {
        // A card without atomic operations, or without writes from afar (EFA), says so with the number of a missing road.
        Err(error) if error.errno() == Some(NOT_SUPPORTED) => register(RECEIVING),
        registered => registered,
    };
    match registered {
        Ok(()) => RoadTrial::Registered,
        Err(RoadError::Verbs(error)) => RoadTrial::Refused(refusal(&error)),
        Err(error) => RoadTrial::Withheld {
            reason: gpu::sentence(&error),
        },
    }
}
