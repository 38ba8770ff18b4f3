//! Backend of a simulated CUDA, whose GPU memory the CPU shares: maps it a second time. For tests.

use gpu::DevicePtr;

use super::gdrdrv::host_page;
use super::{Area, Backend, Pinned, PinnedPages};
use crate::Error;
use crate::gdr::BackendKind;
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, Pages};
use crate::pin::PinFlags;
use crate::vma::Vma;

#[derive(Debug)]
pub(crate) struct Shared;

impl Backend for Shared {
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
        let pages = pages::around(address, length as u64, host_page());
        let pages = pages.ok_or(Error::Address { address })?;
        let handle = super::next_handle();
        Ok(Box::new(SharedPin { handle, pages, length }))
    }
}

#[derive(Debug)]
struct SharedPin {
    handle: u64,
    pages: Pages,
    length: usize,
}

impl Pinned for SharedPin {
    fn handle(&self) -> u64 {
        self.handle
    }

    fn pages(&self) -> Result<PinnedPages, Error> {
        Ok(PinnedPages::of(&self.pages, host_page()))
    }

    fn map(&self, request: MapRequest) -> Result<Area, Error> {
        request.accepts(MappingType::WriteCombining)?;
        let Pages { start, length, .. } = self.pages;
        let vma = Vma::duplicate(start.get() as usize, length as usize);
        let vma = vma.map_err(|source| Error::System {
            operation: "map a simulated GPU's memory".to_owned(),
            source,
        })?;
        let kind = MappingType::WriteCombining;
        Ok(Area::new(vma, &self.pages, self.length, kind))
    }
}
