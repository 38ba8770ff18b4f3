//! The backend of simulated GPUs: their memory is a file in memory, mapped a second time.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu::DevicePtr;
use gpu::sim::{self, Located};

use super::{Area, Backend, Pinned, PinnedPages};
use crate::Error;
use crate::choice::Found;
use crate::gdr::BackendKind;
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, GPU_PAGE, Pages};
use crate::pin::PinFlags;

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

    fn pin(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Box<dyn Pinned>, Error> {
        super::refuse_force_pcie(flags, BackendKind::Sim)?;
        let pages =
            pages::around(address, length as u64, GPU_PAGE).ok_or(Error::Address { address })?;
        let located = sim::locate(address).ok_or(Error::Address { address })?;
        let offset = (address.get() - located.base.get()) as usize;
        if located.size - offset < length {
            return Err(Error::Range {
                offset,
                length,
                available: located.size,
            });
        }
        Ok(Box::new(SimPin {
            handle: NEXT_HANDLE.fetch_add(1, Ordering::Relaxed),
            pages,
            length,
            located,
        }))
    }
}

/// Holds the file, and with it the memory also after it is freed.
#[derive(Debug)]
struct SimPin {
    handle: u64,
    pages: Pages,
    length: usize,
    located: Located,
}

impl Pinned for SimPin {
    fn handle(&self) -> u64 {
        self.handle
    }

    fn pages(&self) -> Result<PinnedPages, Error> {
        Ok(PinnedPages::of(&self.pages, GPU_PAGE))
    }

    /// Cached in truth; said to be write-combined, because that is what the programs tested with it
    /// meet on a GPU.
    fn map(&self, request: MapRequest) -> Result<Area, Error> {
        request.accepts(MappingType::WriteCombining)?;
        let failed = |source| Error::System {
            operation: "map a simulated GPU's memory".to_owned(),
            source,
        };
        let start = self.located.offset - self.pages.lead;
        let sign = "a simulated mapping gave no address";
        let vma = super::map_file(
            self.located.file.as_fd(),
            start,
            self.pages.length,
            failed,
            sign,
        )?;
        let mapping_type = MappingType::WriteCombining;
        Ok(Area::new(vma, &self.pages, self.length, mapping_type))
    }

    fn revoked(&self) -> Result<bool, Error> {
        Ok(false)
    }
}
