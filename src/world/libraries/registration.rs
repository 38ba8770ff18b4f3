//! Trial: register memory of each GPU with each RDMA device by each memory path, and the device's doorbell with the
//! GPU.

use std::collections::BTreeMap;

use ::verbs::{
    Access, Context, MemoryPath, MemoryPathError, PathFacts, ProtectionDomain, device_names,
};
use gpu::{Allocation, Device, DeviceMemory, Gpu, Kind};

use super::doorbell::{self, Doorbell};
use super::verbs::verbs_error;
use crate::model::{
    DoorbellTrial, DoorbellTrials, GpuRegistration, MemoryPathTrial, MemoryPaths, NicTrial,
    RegistrationOutcome, RegistrationTrial, VerbsError,
};

/// The GPU's largest page size, so that a dma-buf has whole pages.
const BYTES: usize = 2 << 20;

/// There may be hundreds of virtual functions; only the first devices are tried.
const MAX_DEVICES: usize = 64;

/// The access that every NIC supports: receiving.
const RECEIVING: Access = Access {
    local_write: true,
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
    relaxed_ordering: false,
    on_demand: false,
};

/// EOPNOTSUPP: the NIC lacks the memory path or the access.
const NOT_SUPPORTED: i32 = 95;

pub fn try_each() -> RegistrationOutcome {
    tried().map_or_else(|outcome| outcome, RegistrationOutcome::Tried)
}

fn tried() -> Result<Vec<GpuRegistration>, RegistrationOutcome> {
    // Verbs first, because listing devices needs no context.
    let names = device_names().map_err(|error| {
        let VerbsError { reason, .. } = verbs_error(&error);
        if error.is_absent() {
            RegistrationOutcome::Absent { reason }
        } else {
            RegistrationOutcome::Failed { reason }
        }
    })?;
    let failed = |reason: &str| RegistrationOutcome::Failed { reason: reason.to_owned() };
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
    let nics: Nics = names.into_iter().take(MAX_DEVICES).map(open).collect();
    Ok(gpus.iter().map(|gpu| try_one(gpu, &nics)).collect())
}

/// Each device, opened once.
type Nics = BTreeMap<String, Result<Nic, VerbsError>>;

struct Nic {
    domain: ProtectionDomain,
    /// `None` for other devices than mlx5.
    doorbell: Option<Doorbell>,
}

fn open(name: String) -> (String, Result<Nic, VerbsError>) {
    let domain = Context::open(&name).and_then(|context| context.domain());
    let nic = domain.map(|domain| Nic { doorbell: doorbell::of(&domain), domain });
    (name, nic.map_err(|error| verbs_error(&error)))
}

fn try_one(device: &Device, nics: &Nics) -> GpuRegistration {
    let gpu = Gpu::open(device.ordinal);
    let memory = match &gpu {
        Ok(gpu) => gpu.allocate(Allocation::Malloc, BYTES).map_err(|error| gpu::sentence(&error)),
        Err(error) => Err(gpu::sentence(error)),
    };
    let with = |memory: &DeviceMemory, nic: &Result<Nic, VerbsError>| match nic {
        Ok(Nic { domain, .. }) => NicTrial::Opened(try_paths(domain, memory)),
        Err(error) => NicTrial::Refused(error.clone()),
    };
    GpuRegistration {
        bdf: device.pci.and_then(|pci| pci.to_string().parse().ok()),
        ordinal: device.ordinal,
        trial: match memory {
            Ok(memory) => {
                let each = nics.iter().map(|(name, nic)| (name.clone(), with(&memory, nic)));
                RegistrationTrial::Tried(each.collect())
            }
            Err(reason) => RegistrationTrial::NotTried { reason },
        },
        doorbells: Some(match &gpu {
            Ok(gpu) => {
                let each = nics.iter();
                DoorbellTrials::Tried(
                    each.filter_map(|(name, nic)| Some((name.clone(), ring(gpu, nic)?))).collect(),
                )
            }
            Err(error) => DoorbellTrials::NotTried { reason: gpu::sentence(error) },
        }),
    }
}

/// The result of a device's doorbell; `None` for other devices than mlx5.
fn ring(gpu: &Gpu, nic: &Result<Nic, VerbsError>) -> Option<DoorbellTrial> {
    match nic {
        Ok(nic) => nic.doorbell.as_ref().map(|doorbell| doorbell::ring(gpu, doorbell)),
        Err(error) => Some(DoorbellTrial::Closed(error.clone())),
    }
}

/// Tries each memory path that this GPU and this NIC may have. The PCIe mapping is tried wherever there is NVLink-C2C, also where the driver
/// is expected to refuse it: doctor compares the answer with the topology.
fn try_paths(domain: &ProtectionDomain, memory: &DeviceMemory) -> MemoryPaths {
    let facts = PathFacts::read(domain.context(), memory);
    let by = |memory_path| register(domain, memory_path, memory);
    let is_listed = |memory_path| facts.memory_paths().contains(&memory_path);
    MemoryPaths {
        data_direct: is_listed(MemoryPath::DataDirect).then(|| by(MemoryPath::DataDirect)),
        dmabuf_pcie: (facts.c2c == Some(true)).then(|| by(MemoryPath::DmabufPcie)),
        dmabuf: by(MemoryPath::Dmabuf),
        peermem: by(MemoryPath::Peermem),
    }
}

/// Registers memory by one memory path, and deregisters it.
fn register(
    domain: &ProtectionDomain,
    memory_path: MemoryPath,
    memory: &DeviceMemory,
) -> MemoryPathTrial {
    let register = |access| domain.register_by(memory_path, memory, access).map(drop);
    let registered = match register(Access::ALL) {
        // NICs without atomics or remote writes (EFA) fail with the same number as without the memory path.
        Err(error) if error.errno() == Some(NOT_SUPPORTED) => register(RECEIVING),
        registered => registered,
    };
    match registered {
        Ok(()) => MemoryPathTrial::Registered,
        Err(MemoryPathError::Verbs(error)) => MemoryPathTrial::Refused(verbs_error(&error)),
        Err(error) => MemoryPathTrial::Withheld { reason: gpu::sentence(&error) },
    }
}
