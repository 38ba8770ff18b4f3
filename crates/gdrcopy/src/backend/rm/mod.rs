//! Backend of NVIDIA's resource manager (RM): maps CUDA memory through `/dev/nvidiactl`, without
//! root and without a module.
//!
//! Our RM client duplicates the memory object of CUDA's allocation ([`route`]), RM prepares a file
//! of the GPU's node to map it ([`view`]), and the mapping is compared with what the GPU reads
//! ([`verify`]) before the caller gets the pointer. Each method is first proven on this driver with
//! our own memory ([`trust`]). RM does not revoke mappings when memory is freed, so the drop order
//! is fixed: addresses, RM's mapping, our reference.

mod caching;
mod calls;
mod client;
mod device;
#[cfg(test)]
mod fake;
mod fault;
mod handle;
mod live;
mod owner;
mod pin;
mod route;
#[cfg(test)]
mod tests;
mod trust;
mod verify;
mod view;
mod walk;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use gdr_sys::process::{PerProcess, SetOnce};
use gpu::{DevicePtr, PciAddress};

use self::calls::Calls;
use self::client::Client;
use self::device::Device;
use self::owner::{Allocation, Owner};
use super::{Backend, Pinned};
use crate::Error;
use crate::choice::Found;
use crate::error::Kind;
use crate::gdr::BackendKind;
use crate::mapping::MappingType;
use crate::pin::PinFlags;

pub(super) use self::caching::major;
pub(super) use self::owner::is_coherent;
pub(super) use self::verify::{Span, check};

/// Client shared by every [`crate::Gdr`]; lives as long as the process.
static SHARED: SetOnce<Arc<Shared>> = SetOnce::new();

/// Checks that RM answers and a GPU node exists. Uses no CUDA, creates no client, leaves nothing
/// open.
pub(crate) fn open() -> Result<Found, Error> {
    let release = read_release(&live::Live)?;
    if !live::any_node() {
        return Err(super::unavailable(
            BackendKind::Rm,
            "there is no /dev/nvidiaN: a container needs the GPU's node",
            Kind::Absent,
        ));
    }
    let shown = if release.is_empty() {
        "a driver before 530".to_owned()
    } else {
        format!("driver {release}")
    };
    Ok(Found {
        backend: Arc::new(Rm {
            shared: Arc::clone(
                SHARED.get_or_set(|| {
                    Arc::new(Shared::new(Arc::new(live::Live), Arc::new(owner::Cuda)))
                }),
            ),
        }),
        why: format!("the resource manager of {shown} answers"),
    })
}

/// Driver release as RM reports it; empty before 530.
pub(crate) fn release() -> Result<String, Error> {
    read_release(&live::Live)
}

fn read_release(calls: &dyn Calls) -> Result<String, Error> {
    let control = calls.open_control().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => super::unavailable(
            BackendKind::Rm,
            "there is no /dev/nvidiactl: NVIDIA's driver is not loaded, or not passed to this container",
            Kind::Absent,
        ),
        Some(libc::EACCES | libc::EPERM) => super::unavailable(
            BackendKind::Rm,
            "cannot open /dev/nvidiactl: its mode or the container's device rules forbid it",
            Kind::Denied,
        ),
        _ => Error::System {
            operation: "open /dev/nvidiactl".to_owned(),
            source: error,
        },
    })?;
    calls.release(control.as_fd()).map_err(|source| Error::System {
        operation: "read the resource manager's version".to_owned(),
        source,
    })
}

#[derive(Debug)]
struct Rm {
    shared: Arc<Shared>,
}

/// State shared by all pins.
#[derive(Debug)]
struct Shared {
    calls: Arc<dyn Calls>,
    owner: Arc<dyn Owner>,
    /// Client and devices. A forked child has its own: it cannot use the parent's, and their locks
    /// may be held.
    state: PerProcess<Mutex<Option<State>>>,
    expected: MappingType,
}

#[derive(Debug, Clone)]
struct State {
    client: Arc<Client>,
    devices: Arc<Mutex<HashMap<PciAddress, Arc<Device>>>>,
}

impl Shared {
    fn new(calls: Arc<dyn Calls>, owner: Arc<dyn Owner>) -> Self {
        let release = read_release(&*calls).unwrap_or_default();
        Self {
            calls,
            owner,
            state: PerProcess::new(Mutex::default),
            expected: caching::expected(&release),
        }
    }

    /// Client and devices, opened on first use.
    fn state(&self) -> Result<State, Error> {
        let mut state = self.state.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = state.as_ref() {
            return Ok(state.clone());
        }
        let fresh = State {
            client: Arc::new(Client::open(Arc::clone(&self.calls))?),
            devices: Arc::default(),
        };
        *state = Some(fresh.clone());
        Ok(fresh)
    }

    /// GPU of an allocation.
    fn device(&self, found: &Allocation) -> Result<Arc<Device>, Error> {
        let unmappable = |why: &str| fault::memory_error(found.base, why);
        if let owner::AllocationKind::Other(what) = found.kind {
            return Err(unmappable(what));
        }
        let pci = found.pci.ok_or_else(|| unmappable("its GPU is not a PCI device"))?;
        let state = self.state()?;
        let known = |state: &State| {
            state.devices.lock().unwrap_or_else(PoisonError::into_inner).get(&pci).cloned()
        };
        if let Some(device) = known(&state) {
            return Ok(device);
        }
        let objection = self
            .owner
            .objection(found.ordinal)
            .map_err(|source| Error::Cuda { operation: "query the GPU in CUDA", source })?;
        if let Some(why) = objection {
            return Err(unmappable(why));
        }
        let device = Arc::new(Device::open(Arc::clone(&state.client), pci)?);
        // If two threads opened it at once, the first one is kept.
        let mut devices = state.devices.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(devices.entry(pci).or_insert(device)))
    }
}

impl Backend for Rm {
    fn kind(&self) -> BackendKind {
        BackendKind::Rm
    }

    fn pin(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Box<dyn Pinned>, Error> {
        super::reject_force_pcie(flags, BackendKind::Rm)?;
        Ok(Box::new(pin::pin(&self.shared, address, length)?))
    }
}
