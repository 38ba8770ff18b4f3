//! The device: a verbs device, or the simulated NIC of `--sim`, which is the software HCA of [`gdsync`].

use std::sync::Arc;

use gdrcopy::{BackendKind, Gdr};
use gdsync::Allocator;
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Hca};
use gpu::{Gpu, HostMemory};
use verbs::{Context, ProtectionDomain};

use super::control::Window;
use super::memory::Store;
use super::task::Port;
use crate::probe::failure::StepError;

/// MTU of the simulated NIC, and its RDMA reads in flight. It has no packets; the values are those of a real NIC.
pub const SIMULATED_MTU: u32 = 4096;
pub const SIMULATED_READS: u8 = 16;

#[derive(Clone)]
pub enum Device {
    Verbs {
        context: Context,
        domain: ProtectionDomain,
    },
    /// The simulated NIC. Both ends have the same one: it reaches itself.
    Sim(Arc<SimHca>),
}

impl Device {
    /// Opens a port's device.
    pub fn open(port: &Port) -> Result<Self, StepError> {
        if port.simulated {
            return Ok(Self::Sim(Arc::new(SimHca::new(Allocator::new(Gpu::sim(), None))?)));
        }
        let context = Context::open(&port.device)?;
        let domain = context.domain()?;
        Ok(Self::Verbs { context, domain })
    }
}

#[derive(Clone)]
pub enum MemoryRegion {
    /// With a verbs device.
    Verbs(verbs::MemoryRegion),
    /// With the simulated NIC.
    Sim(Arc<gdsync::hca::MemoryRegion>),
}

impl MemoryRegion {
    /// The address and rkey that the remote end needs.
    pub fn window(&self) -> Window {
        match self {
            Self::Verbs(region) => {
                let verbs::Remote { address, rkey } = region.remote();
                Window { address, rkey }
            }
            Self::Sim(region) => Window { address: region.address, rkey: region.rkey },
        }
    }
}

/// Registers the start of memory with the simulated NIC, with the access that a test case needs.
pub fn register_simulated(
    hca: &SimHca,
    memory: SimMemory<'_>,
    bytes: usize,
    access: verbs::Access,
) -> Result<MemoryRegion, StepError> {
    let place = match memory {
        SimMemory::Pinned(memory) | SimMemory::Store(Store::Pinned(memory)) => {
            gdsync::MappedMemory::host(memory.clone())
        }
        SimMemory::Store(Store::Device { memory, .. }) => {
            gdsync::MappedMemory::device(memory.clone(), &Gdr::open_with(BackendKind::Sim)?)?
        }
        // The simulated NIC has the memory of simulated GPUs alone.
        SimMemory::Store(Store::Host(_)) => return Err(StepError::OutOfStep),
    };
    let access = Access {
        local_write: access.local_write,
        remote_write: access.remote_write,
        remote_read: access.remote_read,
        remote_atomic: access.remote_atomic,
    };
    let registered = hca.register(&place.part(0, bytes)?, access)?;
    Ok(MemoryRegion::Sim(Arc::new(registered)))
}

/// Memory for the simulated NIC.
pub enum SimMemory<'a> {
    /// The memory under test.
    Store(&'a Store),
    /// Pinned memory of staged copies.
    Pinned(&'a HostMemory),
}
