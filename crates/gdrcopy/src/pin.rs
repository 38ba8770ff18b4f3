//! Pinned GPU memory, which can be mapped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gdr_sys::process::Process;
use gpu::DeviceMemory;

use crate::Error;
use crate::backend::{Backend, Pinned};
use crate::mapping::{MapRequest, Mapping, MappingType};

/// Pin options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PinFlags {
    /// Map through PCIe even on a coherent machine. Backends without
    /// [`Attribute::ForcePcie`](crate::Attribute::ForcePcie) reject it.
    pub force_pcie: bool,
}

/// Pinned GPU memory. Clones share the pin; it ends with the last clone and mapping.
///
/// Pages stay valid and reserved until the pin ends, even if the memory is freed (gdrcopy calls
/// this persistent). A gdrdrv module in legacy mode revokes the pin instead: [`Pin::revoked`].
#[derive(Debug, Clone)]
pub struct Pin(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    // Dropped first: memory must not be freed while it is still mapped.
    pinned: Box<dyn Pinned>,
    mapped: AtomicBool,
    mapping_type: std::sync::atomic::AtomicU32,
    owner: Process,
    length: usize,
    /// Keeps owned memory allocated, with the offset of the first pinned byte.
    memory: Option<(DeviceMemory, usize)>,
    _backend: Arc<dyn Backend>,
}

/// Pin properties, as in gdrcopy's `gdr_get_info_v2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Device address of the first pinned page: the requested address rounded down to
    /// [`Info::page_size`].
    pub va: u64,
    /// Pinned bytes, in whole pages.
    pub mapped_size: u64,
    /// Page size in bytes: 65536, or the host's for dma-buf.
    pub page_size: u32,
    /// CPU cycles spent pinning; 0 if not counted (all but old gdrdrv modules).
    pub tm_cycles: u64,
    /// Counter cycles per millisecond; 0 if not counted.
    pub cycles_per_ms: u32,
    /// True if the pin is mapped.
    pub mapped: bool,
    /// Type of the mapping; [`MappingType::None`] if unmapped.
    pub mapping_type: MappingType,
}

impl Pin {
    pub(crate) fn new(
        pinned: Box<dyn Pinned>,
        length: usize,
        memory: Option<(DeviceMemory, usize)>,
        backend: Arc<dyn Backend>,
    ) -> Self {
        Self(Arc::new(Inner {
            pinned,
            mapped: AtomicBool::new(false),
            mapping_type: std::sync::atomic::AtomicU32::new(0),
            owner: Process::current(),
            length,
            memory,
            _backend: backend,
        }))
    }

    /// Maps the pinned memory; a pin has one mapping at a time.
    ///
    /// # Errors
    /// [`Error::AlreadyMapped`]; [`Error::MappingType`] if the memory cannot be mapped as
    /// `request`; [`Error::Forked`] in a child; [`Error::Revoked`]; [`Error::Bar1`] if the GPU's
    /// BAR1 is full; [`Error::Verification`] if the mapping shows other memory; [`Error::Rm`];
    /// [`Error::System`].
    pub fn map(&self, request: MapRequest) -> Result<Mapping, Error> {
        let inner = &self.0;
        inner.check_process()?;
        let claim = Claim::take(inner)?;
        let area = inner.pinned.map(request)?;
        inner.mapping_type.store(area.mapping_type as u32, Ordering::Release);
        Mapping::new(area, claim)
    }

    /// Pin properties.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::System`] if gdrdrv fails.
    pub fn info(&self) -> Result<Info, Error> {
        self.0.check_process()?;
        let pages = self.0.pinned.pages()?;
        let mapped = self.0.mapped.load(Ordering::Acquire);
        let number = self.0.mapping_type.load(Ordering::Acquire);
        Ok(Info {
            va: pages.start.get(),
            mapped_size: pages.length,
            page_size: pages.page,
            tm_cycles: pages.cycles.0,
            cycles_per_ms: pages.cycles.1,
            mapped,
            mapping_type: if mapped { MappingType::of(number) } else { MappingType::None },
        })
    }

    /// True if the memory was freed and the pin revoked: only a gdrdrv module with
    /// `use_persistent_mapping=0` does that. May change to true at any time.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::System`] if gdrdrv fails.
    pub fn revoked(&self) -> Result<bool, Error> {
        self.0.check_process()?;
        self.0.pinned.revoked()
    }

    /// Backend handle of the pin: gdrdrv's, else a nonzero number.
    pub fn handle(&self) -> u64 {
        self.0.pinned.handle()
    }

    /// Requested length in bytes.
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Always false: empty ranges cannot be pinned.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Inner {
    fn check_process(&self) -> Result<(), Error> {
        if self.owner == Process::current() { Ok(()) } else { Err(Error::Forked) }
    }
}

/// Exclusive right to map the pin, returned on drop. Holds the pin.
#[derive(Debug)]
pub(crate) struct Claim(Arc<Inner>);

impl Claim {
    fn take(inner: &Arc<Inner>) -> Result<Self, Error> {
        if inner.mapped.swap(true, Ordering::AcqRel) {
            return Err(Error::AlreadyMapped);
        }
        Ok(Self(Arc::clone(inner)))
    }

    /// Clones the pin.
    pub(crate) fn pin(&self) -> Pin {
        Pin(Arc::clone(&self.0))
    }

    pub(crate) fn memory(&self) -> Option<(&DeviceMemory, usize)> {
        self.0.memory.as_ref().map(|(memory, start)| (memory, *start))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.mapping_type.store(0, Ordering::Release);
        self.0.mapped.store(false, Ordering::Release);
    }
}
