//! The ways to map GPU memory, behind two small traits: a backend pins, a pin maps.

pub(crate) mod dmabuf;
pub(crate) mod gdrdrv;
pub(crate) mod rm;
pub(crate) mod sim;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use gpu::DevicePtr;

use crate::Error;
use crate::copy::{Caching, Cpus};
use crate::gdr::{Attribute, BackendKind};
use crate::mapping::{MapRequest, MappingType};
use crate::pages::Pages;
use crate::pin::PinFlags;
use crate::vma::Vma;

/// A way to map GPU memory, opened.
pub(crate) trait Backend: Debug + Send + Sync {
    fn kind(&self) -> BackendKind;
    /// Major and minor version of what serves it, in gdrdrv's numbering.
    fn version(&self) -> (u16, u16) {
        EQUAL_TO
    }
    /// By default that of a backend without gdrdrv: our references outlive the free.
    fn attribute(&self, attribute: Attribute) -> i32 {
        match attribute {
            Attribute::PersistentMapping | Attribute::UsingDmaBuf => 1,
            Attribute::ForcePcie => 0,
        }
    }
    /// The open file it works through, where callers expect one: gdrdrv's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn pin(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Box<dyn Pinned>, Error>;
}

/// Memory that stays where it is until this falls.
pub(crate) trait Pinned: Debug + Send + Sync {
    fn handle(&self) -> u64;
    fn pages(&self) -> Result<PinnedPages, Error>;
    /// Called with no other mapping of this pin alive.
    fn map(&self, request: MapRequest) -> Result<Area, Error>;
    fn revoked(&self) -> Result<bool, Error>;
}

/// What a pin covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinnedPages {
    /// Device address of the first page.
    pub(crate) start: DevicePtr,
    /// Bytes.
    pub(crate) length: u64,
    /// Bytes of a page.
    pub(crate) page: u32,
    /// Cycles that pinning took and the clock they are of, in kHz; zero where nobody counted.
    pub(crate) cycles: (u64, u32),
}

impl PinnedPages {
    /// Pages of `page` bytes whose pinning was not timed.
    pub(crate) fn of(pages: &Pages, page: u64) -> Self {
        Self {
            start: pages.start,
            length: pages.length,
            page: page as u32,
            cycles: (0, 0),
        }
    }
}

/// Device memory at CPU addresses. The fields fall in this order: the addresses first, then what they showed.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) vma: Vma,
    /// Bytes from the range's start to the first byte asked for.
    pub(crate) lead: usize,
    /// Bytes asked for.
    pub(crate) length: usize,
    pub(crate) mapping_type: MappingType,
    pub(crate) caching: Caching,
    /// CPUs near the GPU, for the helpers of large copies.
    pub(crate) near: Option<Cpus>,
    /// Undone after the addresses are gone, never before.
    pub(crate) _held: Box<dyn Held>,
}

impl Area {
    /// A mapping of whole pages, which holds nothing else.
    pub(crate) fn new(vma: Vma, pages: &Pages, length: usize, mapping_type: MappingType) -> Self {
        Self {
            vma,
            lead: pages.lead as usize,
            length,
            mapping_type,
            caching: mapping_type.caching(),
            near: None,
            _held: Box::new(()),
        }
    }

    /// CPU address of the first byte asked for.
    pub(crate) fn start(&self) -> NonNull<u8> {
        debug_assert!(self.lead + self.length <= self.vma.length());
        // SAFETY: the lead is within the range, as every backend makes it.
        unsafe { self.vma.base().add(self.lead) }
    }
}

/// Anything whose end undoes a mapping.
pub(crate) trait Held: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Held for T {}

/// The version of gdrdrv that a backend without it reports: callers compare with gdrcopy's
/// releases, and this is the one it is equal to.
pub(crate) const EQUAL_TO: (u16, u16) = (2, 6);

/// Maps `length` bytes of a file, out of reach for forked children. `failed` names the operation, `sign` what a lost GPU shows.
pub(crate) fn map_file(
    file: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    failed: impl Fn(io::Error) -> Error,
    sign: &'static str,
) -> Result<Vma, Error> {
    let length = length as usize;
    let mut vma = Vma::reserve(length).map_err(&failed)?;
    let placed = vma.place(0, length, file, offset).map_err(&failed)?;
    placed.ok_or(Error::GpuLost { sign })?;
    vma.keep_from_children().map_err(&failed)?;
    Ok(vma)
}

pub(crate) fn refuse_force_pcie(flags: PinFlags, backend: BackendKind) -> Result<(), Error> {
    if flags.force_pcie {
        return Err(Error::Flag {
            what: "PinFlags::force_pcie",
            backend,
        });
    }
    Ok(())
}
