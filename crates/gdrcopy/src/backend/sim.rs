//! The backend of simulated GPUs: their memory is a file in memory, mapped a second time.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu::{DevicePtr, sim};

use super::{Area, Backend, Pinned, PinnedPages};
use crate::choice::Found;
use crate::gdr::{Attribute, BackendKind};
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, GPU_PAGE, Pages};
use crate::pin::PinFlags;
use crate::vma::Vma;
use crate::Error;

/// Always there.
pub(crate) fn open() -> Result<Found, Error> {
    Ok(Found {
        backend: Arc::new(Sim),
        why: "simulated GPUs; taken only when named".to_owned(),
    })
}

#[derive(Debug)]
struct Sim;

static NEXT_HANDLE: AtomicU64 = AtomicU64::new(1);

impl Backend for Sim {
    fn kind(&self) -> BackendKind {
        BackendKind::Sim
    }

    fn version(&self) -> (u16, u16) {
        super::EQUAL_TO
    }

    fn attribute(&self, attribute: Attribute) -> i32 {
        super::without_module(attribute)
    }

    fn pin(&self, address: DevicePtr, length: usize, flags: PinFlags) -> Result<Box<dyn Pinned>, Error> {
        super::refuse_force_pcie(flags, BackendKind::Sim)?;
        let pages = pages::around(address, length as u64, GPU_PAGE).ok_or(Error::Address { address })?;
        let place = sim::locate(address).ok_or(Error::Address { address })?;
        Ok(Box::new(SimPin {
            handle: NEXT_HANDLE.fetch_add(1, Ordering::Relaxed),
            pages,
            length,
            place,
        }))
    }
}
