//! GPU memory at an address of the CPU: owned, checked access.

use std::fmt;
use std::ptr::NonNull;

use crate::backend::Area;
use crate::copy::{Caching, Copier};
use crate::pin::{Claim, Pin};
use crate::window::{Unit, Window};
use crate::{Error, window};

/// Which caching a mapping is asked to have. [`MapRequest::Default`] takes what the machine has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MapRequest {
    /// Whatever suits the machine.
    #[default]
    Default,
    /// Write-combined.
    WriteCombining,
    /// Cached, on coherent machines.
    Cached,
    /// Device memory of Arm processors: no combining, aligned accesses only.
    Device,
}

/// How a mapping is cached, in the numbers of gdrcopy's `gdr_mapping_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MappingType {
    /// Not mapped.
    None = 0,
    /// Stores are gathered into bursts; loads are slow and uncached.
    WriteCombining = 1,
    /// Cached like host memory.
    Caching = 2,
    /// Uncached: neither gathered nor cached; aligned accesses only.
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
    /// Whether a mapping of `offered` type is what was asked for.
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
            Err(Error::MappingType {
                asked: self,
                offered,
            })
        }
    }
}

/// The words of gdrcopy's `gdr_get_mapping_type_string`.
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

/// GPU memory at an address of the CPU, until dropped: the addresses go first, then the driver's mapping, then the pin.
///
/// The GPU may write these bytes at any time, so there is no slice of them: [`Mapping::read`] and [`Mapping::write`] copy,
/// [`Mapping::load`] and [`Mapping::store`] access one word. Two threads that write use [`Mapping::split_at`].
/// A forked child does not have the mapping: its access faults.
#[derive(Debug)]
pub struct Mapping {
    area: Area,
    copier: Copier,
    // After the area: the pin outlives what was mapped of it.
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

    /// CPU address of the first byte pinned; within a page of the CPU it lies where its device address does.
    ///
    /// Valid for [`Mapping::len`] bytes while this lives. Make no reference of it: the GPU writes there.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.area.start()
    }

    /// Bytes mapped: as many as were pinned.
    pub fn len(&self) -> usize {
        self.area.length
    }

    /// Bytes from [`Mapping::as_ptr`] to the end of the last mapped page: whole pages are mapped, as gdrdrv does, and C programs
    /// reach beyond what they asked for.
    pub fn reach(&self) -> usize {
        self.area.vma.length() - self.area.lead
    }

    /// Never: no bytes cannot be pinned.
    pub fn is_empty(&self) -> bool {
        self.area.length == 0
    }

    /// How the mapping is cached.
    pub fn mapping_type(&self) -> MappingType {
        self.area.mapping_type
    }

    /// The copy functions chosen for this caching, for callers that use [`Mapping::as_ptr`].
    pub fn copier(&self) -> Copier {
        self.copier
    }

    /// Copies with these functions from now on: to compare kernels.
    ///
    /// # Errors
    /// [`Error::MappingType`] where the mapping is uncached: only the functions chosen for that make accesses it bears.
    pub fn set_copier(&mut self, copier: Copier) -> Result<(), Error> {
        let offered = self.area.mapping_type;
        if offered == MappingType::Device && copier.caching() != Caching::Uncached {
            return Err(Error::MappingType {
                asked: MapRequest::Default,
                offered,
            });
        }
        self.copier = copier;
        Ok(())
    }

    /// What is mapped.
    pub fn pin(&self) -> Pin {
        self.claim.pin()
    }

    /// Copies `bytes` to `offset`. When it returns, the stores have left this CPU in order before any later store; the GPU sees
    /// them once they arrive.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.whole().write(offset, bytes)
    }

    /// Copies what is at `offset` into `bytes`.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.shared().read(offset, bytes)
    }

    /// One load of one word, not torn and not repeated, ordered with nothing.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`] where the address is no multiple of the word's size.
    pub fn load<T: Unit>(&self, offset: usize) -> Result<T, Error> {
        self.shared().load(offset)
    }

    /// One store of one word. It may linger in a write-combining buffer until [`Mapping::fence`].
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Alignment`].
    pub fn store<T: Unit>(&mut self, offset: usize, value: T) -> Result<(), Error> {
        self.whole().store(offset, value)
    }

    /// Loads a flag, then copies what the flag speaks of: the bytes are at least as new as the flag's value.
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

    /// All stores before it leave this CPU before any store after it.
    pub fn fence(&self) {
        window::fence();
    }

    /// A part of the mapping.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn window(&mut self, offset: usize, length: usize) -> Result<Window<'_>, Error> {
        self.whole().narrow(offset, length)
    }

    /// Two parts that two threads may use at once.
    ///
    /// # Errors
    /// [`Error::Range`] for a point beyond the end.
    pub fn split_at(&mut self, middle: usize) -> Result<(Window<'_>, Window<'_>), Error> {
        self.whole().split_at(middle)
    }

    /// The memory where it is held, and the first byte of it that is mapped.
    pub(crate) fn memory(&self) -> Option<(&gpu::DeviceMemory, usize)> {
        self.claim.memory()
    }

    fn whole(&mut self) -> Window<'_> {
        // SAFETY: the area is mapped for its length while `self` lives, and is borrowed exclusively.
        unsafe { Window::new(self.area.start(), self.area.length, self.copier) }
    }

    /// The same without the right to write: the window is used for reads alone.
    fn shared(&self) -> Window<'_> {
        // SAFETY: the area is mapped for its length while `self` lives; no caller in this file writes through it.
        unsafe { Window::new(self.area.start(), self.area.length, self.copier) }
    }
}
