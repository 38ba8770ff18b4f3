//! Owned CPU mappings of GPU memory with checked access.

use std::fmt;
use std::ptr::NonNull;

use crate::backend::Area;
use crate::copy::{Caching, Copier};
use crate::pin::{Claim, Pin};
use crate::window::{Unit, Window};
use crate::{Error, window};

/// Requested caching of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MapRequest {
    /// The machine's default.
    #[default]
    Default,
    /// Write-combined.
    WriteCombining,
    /// Cached, on coherent machines.
    Cached,
    /// Arm Device memory: no write combining, aligned accesses only.
    Device,
}

/// Actual caching, numbered like gdrcopy's `gdr_mapping_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MappingType {
    /// Not mapped.
    None = 0,
    /// Stores are combined into bursts; loads are slow and uncached.
    WriteCombining = 1,
    /// Cached like host memory.
    Caching = 2,
    /// Uncached, not combined; aligned accesses only.
    Device = 3,
}

impl MappingType {
    pub(crate) fn of(number: u32) -> Self {
        match number {
            1 => Self::WriteCombining,
            2 => Self::Caching,
            3 => Self::Device,
            _ => Self::None,
        }
    }

    pub(crate) fn caching(self) -> Caching {
        match self {
            Self::WriteCombining => Caching::WriteCombining,
            Self::Caching => Caching::Cached,
            Self::None | Self::Device => Caching::Uncached,
        }
    }
}

impl MapRequest {
    /// Checks that an `offered` type satisfies the request.
    pub(crate) fn accepts(self, offered: MappingType) -> Result<(), Error> {
        let wanted = match self {
            Self::Default => return Ok(()),
            Self::WriteCombining => MappingType::WriteCombining,
            Self::Cached => MappingType::Caching,
            Self::Device => MappingType::Device,
        };
        if wanted == offered {
            Ok(())
        } else {
            Err(Error::MappingType { requested: self, offered })
        }
    }
}

/// Names of gdrcopy's `gdr_get_mapping_type_string`.
impl fmt::Display for MappingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::WriteCombining => "Write Combining",
            Self::Caching => "Caching",
            Self::Device => "Device",
        })
    }
}

/// CPU mapping of GPU memory. Drop releases the addresses, then the driver's mapping, then the pin.
///
/// The GPU may write these bytes at any time, so there is no slice: [`Mapping::read`] and
/// [`Mapping::write`] copy, [`Mapping::load`] and [`Mapping::store`] access one word. Two writing
/// threads use [`Mapping::split_at`]. In a forked child, access to the mapping faults.
#[derive(Debug)]
pub struct Mapping {
    area: Area,
    copier: Copier,
    // Dropped after the area: the pin must outlive its mapping.
    claim: Claim,
}

impl Mapping {
    pub(crate) fn new(area: Area, claim: Claim) -> Result<Self, Error> {
        let copier = Copier::for_caching(area.caching).map_err(Error::CopyKernel)?;
        Ok(Self {
            copier: area.near.as_ref().map_or(copier, |cpus| copier.near(cpus)),
            area,
            claim,
        })
    }

    /// CPU address of the first pinned byte, with the same offset in a CPU page as its device
    /// address.
    ///
    /// Valid for [`Mapping::len`] bytes while this lives. Do not create references to it: the GPU
    /// writes there.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.area.start()
    }

    /// Mapped length in bytes, equal to the pinned length.
    pub fn len(&self) -> usize {
        self.area.length
    }

    /// Bytes from [`Mapping::as_ptr`] to the end of the last mapped page: like gdrdrv this maps
    /// whole pages, and C programs access beyond the requested length.
    pub fn reach(&self) -> usize {
        self.area.vma.length() - self.area.lead
    }

    /// Always false: empty ranges cannot be pinned.
    pub fn is_empty(&self) -> bool {
        self.area.length == 0
    }

    /// Caching of the mapping.
    pub fn mapping_type(&self) -> MappingType {
        self.area.mapping_type
    }

    /// Copy functions for this caching, for callers that use [`Mapping::as_ptr`].
    pub fn copier(&self) -> Copier {
        self.copier
    }

    /// Replaces the copy functions, to compare kernels.
    ///
    /// # Errors
    /// [`Error::MappingType`] for an uncached mapping, which needs its own copy functions.
    pub fn set_copier(&mut self, copier: Copier) -> Result<(), Error> {
        let offered = self.area.mapping_type;
        if offered == MappingType::Device && copier.caching() != Caching::Uncached {
            return Err(Error::MappingType { requested: MapRequest::Default, offered });
        }
        self.copier = copier;
        Ok(())
    }

    /// The mapped pin.
    pub fn pin(&self) -> Pin {
        self.claim.pin()
    }

    /// Copies `bytes` to `offset`. On return the stores have left this CPU before any later store;
    /// the GPU sees them when they arrive.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.whole().write(offset, bytes)
    }

    /// Copies from `offset` into `bytes`.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.shared().read(offset, bytes)
    }

    /// Loads one word: atomic, not repeated, unordered.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`] if the address is not a multiple of the word size.
    pub fn load<T: Unit>(&self, offset: usize) -> Result<T, Error> {
        self.shared().load(offset)
    }

    /// Stores one word. It may stay in a write-combining buffer until [`Mapping::fence`].
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn store<T: Unit>(&mut self, offset: usize, value: T) -> Result<(), Error> {
        self.whole().store(offset, value)
    }

    /// Loads a flag, then copies data at least as new as the flag's value.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn read_after<T: Unit>(
        &self,
        flag: usize,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<T, Error> {
        self.shared().read_after(flag, offset, bytes)
    }

    /// Orders all earlier stores of this CPU before later ones.
    pub fn fence(&self) {
        window::fence();
    }

    /// Borrows a part of the mapping.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn window(&mut self, offset: usize, length: usize) -> Result<Window<'_>, Error> {
        self.whole().narrow(offset, length)
    }

    /// Splits into two parts that two threads may use at once.
    ///
    /// # Errors
    /// [`Error::Range`] for a point beyond the end.
    pub fn split_at(&mut self, middle: usize) -> Result<(Window<'_>, Window<'_>), Error> {
        self.whole().split_at(middle)
    }

    /// The underlying memory and the offset of the first mapped byte.
    pub(crate) fn memory(&self) -> Option<(&gpu::DeviceMemory, usize)> {
        self.claim.memory()
    }

    fn whole(&mut self) -> Window<'_> {
        // SAFETY: the area is mapped for its length while `self` lives, and is borrowed
        // exclusively.
        unsafe { Window::new(self.area.start(), self.area.length, self.copier) }
    }

    /// Window used only for reads.
    fn shared(&self) -> Window<'_> {
        // SAFETY: the area is mapped for its length while `self` lives; no caller in this file
        // writes through it.
        unsafe { Window::new(self.area.start(), self.area.length, self.copier) }
    }
}
