//! Backends that map GPU memory, behind two traits: a backend pins, a pin maps.

pub(crate) mod dmabuf;
pub(crate) mod gdrdrv;
pub(crate) mod rm;
pub(crate) mod shared;
pub(crate) mod sim;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu::DevicePtr;

use crate::Error;
use crate::copy::{Caching, Cpus};
use crate::error::Kind;
use crate::gdr::{Attribute, BackendKind};
use crate::mapping::{MapRequest, MappingType};
use crate::pages::Pages;
use crate::pin::PinFlags;
use crate::vma::Vma;

/// Open backend.
pub(crate) trait Backend: Debug + Send + Sync {
    fn kind(&self) -> BackendKind;
    /// Major and minor driver version, in gdrdrv's numbering.
    fn version(&self) -> (u16, u16) {
        EQUIVALENT_VERSION
    }
    /// Default for backends without gdrdrv: pins outlive the free of their memory.
    fn attribute(&self, attribute: Attribute) -> i32 {
        match attribute {
            Attribute::PersistentMapping | Attribute::UsingDmaBuf => 1,
            Attribute::ForcePcie => 0,
        }
    }
    /// Open `/dev/gdrdrv`, for callers that need it.
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

/// Memory pinned until drop.
pub(crate) trait Pinned: Debug + Send + Sync {
    fn handle(&self) -> u64;
    fn pages(&self) -> Result<PinnedPages, Error>;
    /// Called only while this pin has no mapping.
    fn map(&self, request: MapRequest) -> Result<Area, Error>;
    /// Only gdrdrv revokes: other backends keep the memory.
    fn revoked(&self) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Pages of a pin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinnedPages {
    /// Device address of the first page.
    pub(crate) start: DevicePtr,
    /// Length in bytes.
    pub(crate) length: u64,
    /// Page size in bytes.
    pub(crate) page: u32,
    /// Cycles spent pinning and the counter frequency in kHz; zero if not measured.
    pub(crate) cycles: (u64, u32),
}

impl PinnedPages {
    /// Pages of `page` bytes, without pinning time.
    pub(crate) fn of(pages: &Pages, page: u64) -> Self {
        Self { start: pages.start, length: pages.length, page: page as u32, cycles: (0, 0) }
    }
}

/// Device memory mapped at CPU addresses. Field order is drop order: the addresses go first.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) vma: Vma,
    /// Bytes from the start of the range to the first requested byte.
    pub(crate) lead: usize,
    /// Requested bytes.
    pub(crate) length: usize,
    pub(crate) mapping_type: MappingType,
    pub(crate) caching: Caching,
    /// CPUs near the GPU, for helpers of large copies.
    pub(crate) near: Option<Cpus>,
    /// Dropped after the addresses are unmapped.
    pub(crate) _held: Box<dyn Held>,
}

impl Area {
    /// Mapping of whole pages without further resources.
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

    /// CPU address of the first requested byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        debug_assert!(self.lead + self.length <= self.vma.length());
        // SAFETY: every backend places the lead within the range.
        unsafe { self.vma.base().add(self.lead) }
    }
}

/// Anything whose drop undoes a mapping.
pub(crate) trait Held: Debug + Send + Sync {}

impl<T: Debug + Send + Sync> Held for T {}

/// gdrdrv version that backends without gdrdrv report, because callers compare it with gdrcopy
/// releases.
pub(crate) const EQUIVALENT_VERSION: (u16, u16) = (2, 6);

/// Maps `length` bytes of a file, excluded from forked children. `failed` builds the error; `sign`
/// is the symptom of a lost GPU.
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
    vma.exclude_from_children().map_err(&failed)?;
    Ok(vma)
}

/// New handle for a pin of a backend without gdrdrv.
pub(crate) fn next_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn unavailable(backend: BackendKind, why: impl Into<String>, kind: Kind) -> Error {
    Error::Refused { backend, why: why.into(), kind }
}

pub(crate) fn reject_force_pcie(flags: PinFlags, backend: BackendKind) -> Result<(), Error> {
    if flags.force_pcie {
        return Err(Error::Flag { what: "PinFlags::force_pcie", backend });
    }
    Ok(())
}
