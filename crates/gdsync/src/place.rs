//! Memory that both the CPU and the GPU can access. It holds queues and the words streams poll.

use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use gdrcopy::{Gdr, MapRequest, Mapping, PinFlags};
use gpu::{Allocation, DeviceMemory, DevicePtr, Gpu, HostMemory, Word};

use crate::Error;

/// A range of memory. Clones and [parts](Self::part) share the memory and keep it alive.
///
/// Others may write it at any time, so CPU methods access each word once. Word loads acquire,
/// word stores release.
#[derive(Clone)]
pub struct MappedMemory {
    memory: Backing,
    start: usize,
    bytes: usize,
}

#[derive(Clone)]
enum Backing {
    Host(HostMemory),
    Device(Arc<Mapped>),
}

/// GPU memory and its mapping for the CPU, if any.
struct Mapped {
    memory: DeviceMemory,
    mapping: Option<RwLock<Mapping>>,
}

/// The allocation that contains a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MemoryRef<'a> {
    Host(&'a HostMemory),
    Device(&'a DeviceMemory),
}

/// Where memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemoryLocation {
    /// Pinned host memory.
    #[default]
    Host,
    /// The GPU's memory, mapped for the CPU.
    Gpu,
}

/// Allocates places: a GPU and, optionally, GDRCopy to map its memory for the CPU.
#[derive(Debug, Clone)]
pub struct Allocator {
    gpu: Gpu,
    gdr: Option<Gdr>,
    /// If set, host places come from these pages.
    pages: Option<Pages>,
}

/// Host pages registered with a GPU's driver: see [`Allocator::own_pages`]. Clones share them.
///
/// Pages are reused for later places of the same size, not unregistered: CUDA unregisters only
/// after all GPU work has ended (observed on an H200), so a waiting stream could cause a deadlock.
#[derive(Debug, Clone, Default)]
pub struct Pages(Arc<Mutex<Vec<HostMemory>>>);

impl Pages {
    /// Returns zeroed pages that the current context's GPU can access.
    fn take(&self, gpu: &Gpu, bytes: usize) -> Result<HostMemory, Error> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Drop pages whose registration ended with its CUDA context.
        kept.retain(|memory| memory.is_shared() || is_registered(memory));
        if let Some(memory) =
            kept.iter().find(|memory| memory.len() == bytes && !memory.is_shared())
        {
            let memory = memory.clone();
            let zeros = vec![0; bytes];
            memory.write(0, &zeros).map_err(gpu_failed("write host memory"))?;
            return Ok(memory);
        }
        let memory = gpu.registered(bytes).map_err(gpu_failed("register host memory"))?;
        kept.push(memory.clone());
        Ok(memory)
    }
}

/// True if the memory is still mapped at the same device address in the current context.
fn is_registered(memory: &HostMemory) -> bool {
    let address = memory.as_ptr().addr().get();
    memory.gpu().is_sim()
        || gpu::foreign::device_address(address).is_ok_and(|found| found == memory.device_address())
}

impl Allocator {
    /// Creates an allocator for this GPU.
    #[must_use]
    pub fn new(gpu: Gpu, gdr: Option<Gdr>) -> Self {
        let pages = None;
        Self { gpu, gdr, pages }
    }

    /// Creates an allocator whose host places outlive the calling thread's CUDA context.
    ///
    /// Memory from the driver, GPU memory too, disappears with its context, even while another thread polls it.
    #[must_use]
    pub fn own_pages(gpu: Gpu, gdr: Option<Gdr>, pages: &Pages) -> Self {
        let pages = Some(pages.clone());
        Self { gpu, gdr, pages }
    }

    /// The GPU of this allocator.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The GDRCopy handle that maps GPU memory, if any.
    #[must_use]
    pub fn gdr(&self) -> Option<&Gdr> {
        self.gdr.as_ref()
    }

    /// Allocates a zeroed place of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`], [`Error::Mapping`]; [`Error::NoMapping`] for GPU memory without GDRCopy.
    pub fn place(&self, location: MemoryLocation, bytes: usize) -> Result<MappedMemory, Error> {
        match location {
            MemoryLocation::Host => {
                let memory = match &self.pages {
                    Some(pages) => pages.take(&self.gpu, bytes)?,
                    None => self.gpu.pinned(bytes).map_err(gpu_failed("pin host memory"))?,
                };
                Ok(MappedMemory::host(memory))
            }
            MemoryLocation::Gpu => {
                let gdr = self.gdr.as_ref().ok_or(Error::NoMapping)?;
                let memory = self.gpu.allocate(Allocation::Malloc, bytes);
                let place =
                    MappedMemory::device(memory.map_err(gpu_failed("allocate GPU memory"))?, gdr)?;
                place.write(0, &vec![0; bytes])?;
                Ok(place)
            }
        }
    }
}

impl MappedMemory {
    /// A place that covers all of `memory`. Only the CPU can access pageable memory.
    #[must_use]
    pub fn host(memory: HostMemory) -> Self {
        Self { start: 0, bytes: memory.len(), memory: Backing::Host(memory) }
    }

    /// A place that covers all of `memory`, mapped for the CPU.
    ///
    /// # Errors
    ///
    /// [`Error::Mapping`].
    pub fn device(memory: DeviceMemory, gdr: &Gdr) -> Result<Self, Error> {
        let pin = gdr.pin(&memory, 0..memory.len(), PinFlags::default());
        let mapping = pin.and_then(|pin| pin.map(MapRequest::Default));
        let mapping = RwLock::new(mapping.map_err(mapping_failed("map GPU memory"))?);
        Ok(Self::of_device(memory, Some(mapping)))
    }

    /// A place that covers all of `memory`, for a NIC and a GPU: the CPU cannot access it ([`Error::NoMapping`]).
    #[must_use]
    pub fn unmapped(memory: DeviceMemory) -> Self {
        Self::of_device(memory, None)
    }

    fn of_device(memory: DeviceMemory, mapping: Option<RwLock<Mapping>>) -> Self {
        Self {
            start: 0,
            bytes: memory.len(),
            memory: Backing::Device(Arc::new(Mapped { memory, mapping })),
        }
    }

    /// A part of this place.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Self, Error> {
        Ok(Self { start: self.at(offset, bytes)?, bytes, memory: self.memory.clone() })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// True if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// True if this is GPU memory.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self.memory, Backing::Device(_))
    }

    /// True if the CPU can access it.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        match &self.memory {
            Backing::Host(_) => true,
            Backing::Device(mapped) => mapped.mapping.is_some(),
        }
    }

    /// The address to register: the CPU address of host memory, the device address of GPU memory.
    #[must_use]
    pub fn address(&self) -> u64 {
        let memory = match &self.memory {
            Backing::Host(memory) => memory.as_ptr().addr().get() as u64,
            Backing::Device(mapped) => mapped.memory.address().get(),
        };
        memory + self.start as u64
    }

    /// The GPU's address; 0 for pageable memory, which no GPU can access.
    #[must_use]
    pub fn device_address(&self) -> DevicePtr {
        match &self.memory {
            Backing::Host(memory) if memory.is_pageable() => DevicePtr::new(0),
            Backing::Host(memory) => memory.device_address().offset(self.start as u64),
            Backing::Device(mapped) => mapped.memory.address().offset(self.start as u64),
        }
    }

    /// The allocation that contains this place, and the offset in it.
    pub(crate) fn whole(&self) -> (MemoryRef<'_>, usize) {
        let memory = match &self.memory {
            Backing::Host(memory) => MemoryRef::Host(memory),
            Backing::Device(mapped) => MemoryRef::Device(&mapped.memory),
        };
        (memory, self.start)
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let at = self.at(offset, to.len())?;
        match &self.memory {
            Backing::Host(memory) => memory.read(at, to).map_err(gpu_failed("read host memory")),
            Backing::Device(mapped) => {
                mapped.shared()?.read(at, to).map_err(mapping_failed("read GPU memory"))
            }
        }
    }

    /// Writes bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let at = self.at(offset, from.len())?;
        match &self.memory {
            Backing::Host(memory) => {
                memory.write(at, from).map_err(gpu_failed("write host memory"))
            }
            Backing::Device(mapped) => {
                mapped.exclusive()?.write(at, from).map_err(mapping_failed("write GPU memory"))
            }
        }
    }

    /// Reads a 32-bit word.
    ///
    /// # Errors
    ///
    /// [`Error::Range`]; [`Error::Gpu`] or [`Error::Mapping`] for an offset not aligned to 4.
    pub fn load_u32(&self, offset: usize) -> Result<u32, Error> {
        let at = self.at(offset, 4)?;
        match &self.memory {
            Backing::Host(memory) => {
                memory.load_u32(at).map_err(gpu_failed("load a word of host memory"))
            }
            Backing::Device(mapped) => mapped.load(at),
        }
    }

    /// Reads a 64-bit word.
    ///
    /// # Errors
    ///
    /// As [`Self::load_u32`], with alignment 8.
    pub fn load_u64(&self, offset: usize) -> Result<u64, Error> {
        let at = self.at(offset, 8)?;
        match &self.memory {
            Backing::Host(memory) => {
                memory.load_u64(at).map_err(gpu_failed("load a word of host memory"))
            }
            Backing::Device(mapped) => mapped.load(at),
        }
    }

    /// Writes a 32-bit word.
    ///
    /// # Errors
    ///
    /// As [`Self::load_u32`].
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<(), Error> {
        let at = self.at(offset, 4)?;
        match &self.memory {
            Backing::Host(memory) => {
                memory.store_u32(at, value).map_err(gpu_failed("store a word of host memory"))
            }
            Backing::Device(mapped) => mapped.store(at, value),
        }
    }

    /// Writes a 64-bit word.
    ///
    /// # Errors
    ///
    /// As [`Self::load_u64`].
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), Error> {
        let at = self.at(offset, 8)?;
        match &self.memory {
            Backing::Host(memory) => {
                memory.store_u64(at, value).map_err(gpu_failed("store a word of host memory"))
            }
            Backing::Device(mapped) => mapped.store(at, value),
        }
    }

    /// The word of `bytes` bytes (4 or 8) at an offset, for a stream's [`MemOp`](gpu::MemOp).
    ///
    /// # Errors
    ///
    /// [`Error::Range`]; [`Error::Gpu`] for memory that the GPU cannot access, or an unaligned offset.
    pub fn word(&self, offset: usize, bytes: usize) -> Result<Word, Error> {
        let at = self.at(offset, bytes)?;
        let word = match &self.memory {
            Backing::Host(memory) => Word::new(memory, at, bytes),
            Backing::Device(mapped) => Word::new(&mapped.memory, at, bytes),
        };
        word.map_err(gpu_failed("pass a word to a stream"))
    }

    /// True if both are the same range of the same memory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.address(), self.bytes, self.is_device())
            == (other.address(), other.bytes, other.is_device())
    }

    /// The offset in the allocation of `bytes` bytes at `offset` of this place.
    fn at(&self, offset: usize, bytes: usize) -> Result<usize, Error> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.start + offset),
            _ => Err(Error::Range { offset, bytes, available: self.bytes }),
        }
    }
}

impl fmt::Debug for MappedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_device() { "GPU" } else { "host" };
        write!(f, "{} bytes of {kind} memory at {:#x}", self.bytes, self.address())
    }
}

impl Mapped {
    /// Loads with acquire ordering.
    fn load<T: gdrcopy::Unit>(&self, at: usize) -> Result<T, Error> {
        let value = self.shared()?.load(at).map_err(mapping_failed("load a word of GPU memory"))?;
        fence(Ordering::Acquire);
        Ok(value)
    }

    /// Stores after earlier writes, and flushes the CPU's write-combining buffers before returning.
    fn store<T: gdrcopy::Unit>(&self, at: usize, value: T) -> Result<(), Error> {
        let mut mapping = self.exclusive()?;
        mapping.fence();
        fence(Ordering::Release);
        let stored = mapping.store(at, value);
        mapping.fence();
        stored.map_err(mapping_failed("store a word of GPU memory"))
    }

    /// Ignores poisoning: a panic leaves no partial state in a mapping.
    fn shared(&self) -> Result<RwLockReadGuard<'_, Mapping>, Error> {
        let mapping = self.mapping.as_ref().ok_or(Error::NoMapping)?;
        Ok(mapping.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn exclusive(&self) -> Result<RwLockWriteGuard<'_, Mapping>, Error> {
        let mapping = self.mapping.as_ref().ok_or(Error::NoMapping)?;
        Ok(mapping.write().unwrap_or_else(PoisonError::into_inner))
    }
}

fn gpu_failed(operation: &'static str) -> impl FnOnce(gpu::Error) -> Error {
    move |source| Error::Gpu { operation, source }
}

fn mapping_failed(operation: &'static str) -> impl FnOnce(gdrcopy::Error) -> Error {
    move |source| Error::Mapping { operation, source }
}

#[cfg(test)]
pub(crate) mod tests;
