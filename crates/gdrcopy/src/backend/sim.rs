//! Backend of simulated GPUs: maps the memfd of their memory a second time.

use std::os::fd::AsFd;
use std::sync::Arc;

use gpu::DevicePtr;
use gpu::sim::{self, Location};

use super::{Area, Backend, Pinned, PinnedPages};
use crate::Error;
use crate::choice::Found;
use crate::gdr::BackendKind;
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, GPU_PAGE, Pages};
use crate::pin::PinFlags;

/// Always available.
pub(crate) fn open() -> Result<Found, Error> {
    Ok(Found { backend: Arc::new(Sim), why: "simulated GPUs; only used when named".to_owned() })
}

#[derive(Debug)]
struct Sim;

impl Backend for Sim {
    fn kind(&self) -> BackendKind {
        BackendKind::Sim
    }

    fn pin(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Box<dyn Pinned>, Error> {
        super::reject_force_pcie(flags, BackendKind::Sim)?;
        let pages =
            pages::around(address, length as u64, GPU_PAGE).ok_or(Error::Address { address })?;
        let located = sim::locate(address).ok_or(Error::Address { address })?;
        let offset = (address.get() - located.base.get()) as usize;
        if located.size - offset < length {
            return Err(Error::Range { offset, length, available: located.size });
        }
        Ok(Box::new(SimPin { handle: super::next_handle(), pages, length, located }))
    }
}

/// Holds the file, which keeps the memory after it is freed.
#[derive(Debug)]
struct SimPin {
    handle: u64,
    pages: Pages,
    length: usize,
    located: Location,
}

impl Pinned for SimPin {
    fn handle(&self) -> u64 {
        self.handle
    }

    fn pages(&self) -> Result<PinnedPages, Error> {
        Ok(PinnedPages::of(&self.pages, GPU_PAGE))
    }

    /// Reported as requested, and by default as write-combined like on a real GPU, though it is cached.
    fn map(&self, request: MapRequest) -> Result<Area, Error> {
        let failed =
            |source| Error::System { operation: "map a simulated GPU's memory".to_owned(), source };
        let start = self.located.offset - self.pages.lead;
        let sign = "mmap of simulated memory returned no address";
        let vma =
            super::map_file(self.located.file.as_fd(), start, self.pages.length, failed, sign)?;
        let mapping_type = match request {
            MapRequest::Default | MapRequest::WriteCombining => MappingType::WriteCombining,
            MapRequest::Cached => MappingType::Caching,
            MapRequest::Device => MappingType::Device,
        };
        Ok(Area::new(vma, &self.pages, self.length, mapping_type))
    }
}
