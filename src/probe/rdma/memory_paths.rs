//! The memory path by which a NIC reaches GPU memory: tried in the order of NCCL, each with its result. The trial
//! registration is destroyed: memory is registered for one test case at a time.

use gpu::{HostMemory, sentence};
use verbs::{Access, MemoryPathError, PathFacts, ProtectionDomain};

use super::device::{Device, MemoryRegion, SimMemory, register_simulated};
use super::memory::{Store, half};
use super::purpose::{Purpose, Role, Traffic};
use super::task::{Memory, MemoryPath};
use crate::model::{BackendChoice, BackendOutcome, Dmabuf, NicDriver};
use crate::probe::failure::StepError;

/// Bytes of a chunk of staged copies: long enough for a copy engine, and short enough to overlap.
pub const CHUNK: usize = 512 << 10;
/// Chunks in flight.
pub const SLOTS: usize = 8;
/// The pinned memory that staged copies need.
pub const STAGING: usize = CHUNK * SLOTS;

/// The selected memory path of an end.
pub struct PathSelection {
    /// The memory path; none for host memory.
    pub memory_path: Option<MemoryPath>,
    /// Pinned memory of staged copies, which are also measured for comparison.
    pub pinned: Option<HostMemory>,
    /// The result for each memory path.
    pub choices: Vec<BackendChoice>,
    /// What is known of the NIC's driver.
    driver: Option<&'static NicDriver>,
}

/// Access of a trial registration: local only.
const TRIAL: Access = Access {
    local_write: true,
    remote_write: false,
    remote_read: false,
    remote_atomic: false,
    relaxed_ordering: false,
    on_demand: false,
};

/// Tries the memory paths and selects one.
pub fn select_path(
    device: &Device,
    driver: Option<&'static NicDriver>,
    memory: &Memory,
    store: &Store,
) -> Result<PathSelection, StepError> {
    let domain = match (device, memory, store.device()) {
        (Device::Verbs { domain, .. }, ..) => domain,
        (Device::Sim(_), Memory::Gpu(_, Some(path)), Some((memory, _))) if path.is_staged() => {
            let room = memory.len().max(STAGING);
            return Ok(PathSelection {
                memory_path: Some(*path),
                pinned: Some(staging(memory.gpu(), room, Some(*path))?),
                choices: Vec::new(),
                driver,
            });
        }
        // The simulated NIC reaches the simulated GPU's memory; staged copies are measured for comparison.
        (Device::Sim(_), ..) => {
            let pinned = store.device().map(|(memory, _)| memory.gpu().pinned(STAGING));
            return Ok(PathSelection {
                memory_path: None,
                pinned: pinned.transpose()?,
                choices: Vec::new(),
                driver,
            });
        }
    };
    match store {
        Store::Host(buffer) => drop(domain.register(buffer, TRIAL)?),
        Store::Pinned(memory) => drop(domain.register_host(memory, TRIAL)?),
        Store::Device { .. } => return select_gpu_path(domain, driver, memory, store),
    }
    Ok(PathSelection { memory_path: None, pinned: None, choices: Vec::new(), driver })
}

impl PathSelection {
    /// Why the NIC cannot access this memory of a GPU itself; none if it can, or if the user chose staged copies.
    pub fn without_gpudirect(&self, memory: &Memory) -> Option<String> {
        let is_fallback = matches!(memory, Memory::Gpu(gpu, None) if gpu.ordinal.is_some());
        if !is_fallback || self.memory_path != Some(MemoryPath::Staged) {
            return None;
        }
        let tried: Vec<&str> = self
            .choices
            .iter()
            .filter(|choice| choice.outcome == BackendOutcome::Refused)
            .map(|choice| choice.backend.as_str())
            .collect();
        Some(format!(
            "no GPUDirect RDMA: the NIC cannot register the GPU's memory by {}, so copies through pinned memory carry the data; \
             gdr doctor names the cause",
            tried.join(" or ")
        ))
    }

    /// Tries a registration with relaxed ordering; it is destroyed. Returns why it fails.
    pub fn try_relaxed_ordering(&self, device: &Device, store: &Store) -> Result<(), String> {
        let access = Access { relaxed_ordering: true, ..TRIAL };
        let domain = match device {
            Device::Verbs { domain, .. } => domain,
            Device::Sim(_) => return Err("the simulated NIC writes in order".to_owned()),
        };
        let tried = match (store, self.memory_path, &self.pinned) {
            (Store::Host(buffer), ..) => domain.register(buffer, access).map_err(describe),
            (Store::Pinned(memory), ..) => domain.register_host(memory, access).map_err(describe),
            (Store::Device { memory, .. }, Some(memory_path), pinned) => {
                match (memory_path.direct(), pinned) {
                    (Some(direct), _) => {
                        let tried = domain.register_by(direct, memory, access);
                        tried.map_err(describe)
                    }
                    (None, Some(host)) => domain.register_host(host, access).map_err(describe),
                    (None, None) => return Ok(()),
                }
            }
            (Store::Device { .. }, None, _) => return Ok(()),
        };
        tried.map(drop)
    }

    /// Tries a registration of host memory for on-demand paging; it is destroyed. Returns why it fails.
    pub fn try_on_demand(device: &Device, store: &Store) -> Result<(), String> {
        let access = Access { on_demand: true, ..TRIAL };
        match (device, store) {
            (Device::Verbs { domain, .. }, Store::Host(buffer)) => {
                domain.register(buffer, access).map(drop).map_err(describe)
            }
            _ => Err("it is not host memory".to_owned()),
        }
    }

    /// Registers the memory of a test case, with the access that the case needs.
    pub fn register(
        &self,
        device: &Device,
        store: &Store,
        purpose: Purpose,
        role: Role,
    ) -> Result<MemoryRegion, StepError> {
        let access = purpose.access(role);
        // One message to send, and one to receive.
        let part = 0..half(purpose.bytes) * 2;
        let pinned = || self.pinned.as_ref().ok_or(StepError::OutOfStep);
        let domain = match device {
            Device::Verbs { domain, .. } => domain,
            Device::Sim(hca) => {
                return match purpose.traffic {
                    Traffic::OneWay | Traffic::BothWays if self.memory_path.is_some() => {
                        register_simulated(hca, SimMemory::Pinned(pinned()?), part.end, access)
                    }
                    Traffic::Staged => {
                        register_simulated(hca, SimMemory::Pinned(pinned()?), STAGING, access)
                    }
                    Traffic::OneWay | Traffic::BothWays => {
                        register_simulated(hca, SimMemory::Store(store), part.end, access)
                    }
                };
            }
        };
        let direct = self.memory_path.and_then(MemoryPath::direct);
        if let (Some(direct), true) = (direct, purpose.traffic != Traffic::Staged) {
            let Some((memory, _)) = store.device() else {
                return Err(StepError::OutOfStep);
            };
            let region = domain.register_by(direct, memory, access);
            let failed = |error| {
                let advice = advice(self.driver, direct.name(), &error);
                StepError::MemoryPath(direct.name(), error, advice)
            };
            return Ok(MemoryRegion::Verbs(region.map_err(failed)?));
        }
        Ok(MemoryRegion::Verbs(match (self.memory_path, store) {
            _ if purpose.traffic == Traffic::Staged => {
                domain.register_host_part(pinned()?, 0..STAGING, access)?
            }
            (Some(MemoryPath::Simulated), Store::Device { memory, .. }) => {
                domain.register_simulated(memory, access)?
            }
            (Some(_), _) => domain.register_host_part(pinned()?, part, access)?,
            (None, Store::Host(buffer)) => domain.register_part(buffer, part, access)?,
            (None, Store::Pinned(memory)) => domain.register_host_part(memory, part, access)?,
            (None, Store::Device { .. }) => return Err(StepError::OutOfStep),
        }))
    }
}

fn select_gpu_path(
    domain: &ProtectionDomain,
    driver: Option<&'static NicDriver>,
    memory: &Memory,
    store: &Store,
) -> Result<PathSelection, StepError> {
    let wanted = match memory {
        Memory::Gpu(_, wanted) => *wanted,
        _ => None,
    };
    let Some((gpu_memory, _)) = store.device() else {
        return Err(StepError::OutOfStep);
    };
    let mut choices = Vec::new();
    if wanted == Some(MemoryPath::Simulated) {
        drop(domain.register_simulated(gpu_memory, TRIAL)?);
        let why = "the NIC registers the host memory that stands for the GPU's".to_owned();
        choices.push(choice(MemoryPath::Simulated, BackendOutcome::Chosen, why));
        return Ok(PathSelection { memory_path: wanted, pinned: None, choices, driver });
    }
    let mut taken = None;
    let tried = match wanted {
        Some(wanted) => wanted.direct().into_iter().collect(),
        None => PathFacts::read(domain.context(), gpu_memory).memory_paths(),
    };
    for direct in tried {
        let memory_path = MemoryPath::of(direct);
        let (outcome, why) = match domain.register_by(direct, gpu_memory, TRIAL) {
            Ok(_) if taken.is_some() => {
                (BackendOutcome::Usable, "an earlier path works".to_owned())
            }
            Ok(_) => {
                taken = Some(memory_path);
                (BackendOutcome::Chosen, "the NIC registers the GPU's memory".to_owned())
            }
            Err(error) if wanted.is_some() => {
                let advice = advice(driver, memory_path.name(), &error);
                return Err(StepError::MemoryPath(memory_path.name(), error, advice));
            }
            Err(error) => (BackendOutcome::Refused, reason(driver, memory_path, &error)),
        };
        choices.push(choice(memory_path, outcome, why));
    }
    // Two large regions may exceed the limit of pinned memory: a direct path needs only the staging buffer.
    let room = match taken {
        Some(_) => STAGING,
        None => gpu_memory.len().max(STAGING),
    };
    let pinned = pinned(domain, gpu_memory.gpu(), room, wanted);
    if let Some(memory_path) = taken {
        return Ok(PathSelection {
            memory_path: Some(memory_path),
            pinned: pinned.ok(),
            choices,
            driver,
        });
    }
    let host = pinned?;
    let memory_path = wanted.unwrap_or(MemoryPath::Staged);
    let kind = match memory_path {
        MemoryPath::Pageable => "pageable",
        _ => "pinned",
    };
    let why = format!("copies through {kind} memory, without GPUDirect RDMA");
    choices.push(choice(memory_path, BackendOutcome::Chosen, why));
    Ok(PathSelection { memory_path: Some(memory_path), pinned: Some(host), choices, driver })
}

fn pinned(
    domain: &ProtectionDomain,
    gpu: &gpu::Gpu,
    bytes: usize,
    path: Option<MemoryPath>,
) -> Result<HostMemory, StepError> {
    let host = staging(gpu, bytes, path)?;
    drop(domain.register_host(&host, TRIAL)?);
    Ok(host)
}

/// The host memory of staged copies.
fn staging(
    gpu: &gpu::Gpu,
    bytes: usize,
    path: Option<MemoryPath>,
) -> Result<HostMemory, StepError> {
    Ok(match path {
        Some(MemoryPath::Pageable) => gpu.pageable(bytes)?,
        _ => gpu.pinned(bytes)?,
    })
}

fn choice(memory_path: MemoryPath, outcome: BackendOutcome, why: String) -> BackendChoice {
    BackendChoice { backend: memory_path.name().to_owned(), outcome, why }
}

/// Why a memory path failed, and what to do.
fn reason(driver: Option<&NicDriver>, memory_path: MemoryPath, error: &MemoryPathError) -> String {
    let advice = advice(driver, memory_path.name(), error);
    format!("{}{advice}", sentence(error))
}

fn describe(error: impl std::error::Error + 'static) -> String {
    sentence(&error)
}

/// Advice to append to an error. What is known of the NIC's driver comes before what is true of any.
fn advice(driver: Option<&NicDriver>, memory_path: &str, error: &MemoryPathError) -> String {
    const BY_DMABUF: [&str; 3] = ["data-direct", "dma-buf-pcie", "dma-buf"];
    let is_dmabuf = BY_DMABUF.contains(&memory_path);
    match (driver, error.errno()) {
        (Some(driver), Some(EFAULT)) if memory_path == "peermem" && !driver.peer_memory => {
            return format!(
                "; {} does not know nvidia-peermem: dma-buf is its only path to GPU memory",
                driver.name
            );
        }
        (Some(driver), Some(EOPNOTSUPP | EPROTONOSUPPORT)) if is_dmabuf => {
            let versions = driver.dmabuf_versions();
            return match driver.dmabuf {
                Dmabuf::Since { .. } => format!("; {versions}: gdr doctor --only rdma.core"),
                Dmabuf::Never => format!("; {versions}"),
            };
        }
        _ => {}
    }
    match (memory_path, error.errno()) {
        ("peermem", Some(EFAULT)) => {
            "; no module of the kernel takes the GPU's address: gdr doctor --only peermem.loaded, gdr fix peermem"
        }
        ("dma-buf", Some(ENOTSUPP)) => {
            "; the GPU's driver does not map its memory for this NIC: gdr doctor --only param.grdma-topo"
        }
        (_, Some(ENOTSUPP)) => {
            "; the PCIe mapping needs the GPU and the NIC's function in one IOMMU group: gdr doctor --only rdma.data-direct"
        }
        (_, Some(EOPNOTSUPP)) if is_dmabuf => {
            "; the NIC's provider or driver does not support dma-buf registration: gdr doctor --only rdma.core"
        }
        (_, Some(EPROTONOSUPPORT)) if is_dmabuf => {
            "; the kernel does not support dma-buf registration: gdr doctor --only rdma.core"
        }
        (_, Some(ENOMEM)) => {
            "; the limit of locked memory or the GPU's BAR1 is too small: gdr doctor --only limits.memlock,gpu.bar1"
        }
        _ => "",
    }
    .to_owned()
}

const ENOMEM: i32 = 12;
const EFAULT: i32 = 14;
const EPROTONOSUPPORT: i32 = 93;
const EOPNOTSUPP: i32 = 95;
const ENOTSUPP: i32 = 524;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: i32) -> MemoryPathError {
        MemoryPathError::Verbs(verbs::Error::Register {
            name: "bnxt_re0".to_owned(),
            function: "ibv_reg_dmabuf_mr",
            bytes: 4096,
            source: std::io::Error::from_raw_os_error(errno),
        })
    }

    #[test]
    fn driver_is_named_as_the_cause() {
        for (function, memory_path, errno, words) in [
            (
                "bnxt_en",
                "dma-buf",
                EOPNOTSUPP,
                "; bnxt_re registers dma-bufs from Linux 6.6 and rdma-core 48 on",
            ),
            ("ice", "peermem", EFAULT, "; irdma does not know nvidia-peermem"),
            ("erdma", "dma-buf", EOPNOTSUPP, "; erdma registers no dma-buf"),
            // Of these errors a driver is not the cause.
            ("bnxt_en", "peermem", EFAULT, "; no module of the kernel"),
            ("ice", "dma-buf", ENOTSUPP, "; the GPU's driver does not map"),
            ("newnic", "dma-buf", EOPNOTSUPP, "; the NIC's provider or driver"),
        ] {
            let found = advice(NicDriver::of(function), memory_path, &refused(errno));
            assert!(found.starts_with(words), "{function}: {found}");
        }
    }
}
