//! Pinned GPU memory: pages that stay until the pin falls, and can be mapped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu::DeviceMemory;
use process::Process;

use crate::Error;
use crate::backend::{Backend, Pinned};
use crate::mapping::{MapRequest, Mapping, MappingType};

/// How to pin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PinFlags {
    /// On a coherent machine, map through PCIe all the same. Backends without
    /// [`Attribute::ForcePcie`](crate::Attribute::ForcePcie) refuse it.
    pub force_pcie: bool,
}

/// Pinned memory. Clones share the pin; it ends with the last of them and the last mapping.
///
/// A pin keeps its pages also where the memory is freed under it (gdrcopy calls that persistent): they stay valid and are
/// given to nobody else until the pin ends. A gdrdrv module set to the old way revokes instead: [`Pin::revoked`].
#[derive(Debug, Clone)]
pub struct Pin(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    // Falls first: nothing shows the memory any more when its owner may free it.
    pinned: Box<dyn Pinned>,
    mapped: AtomicBool,
    mapping_type: std::sync::atomic::AtomicU32,
    owner: Process,
    length: usize,
    /// What keeps the memory allocated, where it is ours, and the first byte of it that is pinned.
    memory: Option<(DeviceMemory, usize)>,
    _backend: Arc<dyn Backend>,
}

/// What a pin is: the answer of gdrcopy's `gdr_get_info_v2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Device address of the first pinned page: the requested address rounded down to [`Info::page_size`].
    pub va: u64,
    /// Bytes pinned, whole pages.
    pub mapped_size: u64,
    /// Bytes of a page: 65536, with dma-buf the host's.
    pub page_size: u32,
    /// CPU cycles that pinning took; 0 where it is not counted (all but old gdrdrv modules).
    pub tm_cycles: u64,
    /// Cycles of that counter a millisecond; 0 like the above.
    pub cycles_per_ms: u32,
    /// Whether a mapping of this pin lives.
    pub mapped: bool,
    /// Its type; [`MappingType::None`] where none lives.
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

    /// Maps the pinned memory at a CPU address: one mapping at a time.
    ///
    /// # Errors
    /// [`Error::AlreadyMapped`]; [`Error::MappingType`] where the memory does not map as `request` wants;
    /// [`Error::Forked`] in a child; [`Error::Revoked`]; and what the backend meets: [`Error::Bar1`] where the window of the GPU
    /// is full, [`Error::Verification`] where the mapping shows other memory, [`Error::Rm`], [`Error::System`].
    pub fn map(&self, request: MapRequest) -> Result<Mapping, Error> {
        let inner = &self.0;
        inner.check_process()?;
        let claim = Claim::take(inner)?;
        let area = inner.pinned.map(request)?;
        inner
            .mapping_type
            .store(area.mapping_type as u32, Ordering::Release);
        Mapping::new(area, claim)
    }

    /// What this pin is.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::System`] where gdrdrv refuses.
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
            mapping_type: if mapped {
                MappingType::of(number)
            } else {
                MappingType::None
            },
        })
    }

    /// Whether the memory was freed and the pin taken away: only a gdrdrv module with `use_persistent_mapping=0` does that. True
    /// may come at any time after this said false.
    ///
    /// # Errors
    /// [`Error::Forked`]; [`Error::System`] where gdrdrv refuses.
    pub fn revoked(&self) -> Result<bool, Error> {
        self.0.check_process()?;
        self.0.pinned.revoked()
    }

    /// The number that stands for this pin in the backend: gdrdrv's handle, else one of our own that is never zero.
    pub fn handle(&self) -> u64 {
        self.0.pinned.handle()
    }

    /// Bytes asked for when pinning.
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Never: no bytes cannot be pinned.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Inner {
    fn check_process(&self) -> Result<(), Error> {
        if self.owner == Process::current() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }
}

/// The right to the pin's only mapping, given back on drop. Keeps the pin.
#[derive(Debug)]
pub(crate) struct Claim(Arc<Inner>);

impl Claim {
    fn take(inner: &Arc<Inner>) -> Result<Self, Error> {
        if inner.mapped.swap(true, Ordering::AcqRel) {
            return Err(Error::AlreadyMapped);
        }
        Ok(Self(Arc::clone(inner)))
    }

    /// A second hold of the pin.
    pub(crate) fn pin(&self) -> Pin {
        Pin(Arc::clone(&self.0))
    }

    pub(crate) fn memory(&self) -> Option<(&DeviceMemory, usize)> {
        self.0
            .memory
            .as_ref()
            .map(|(memory, start)| (memory, *start))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.mapping_type.store(0, Ordering::Release);
        self.0.mapped.store(false, Ordering::Release);
    }
}
