//! Memory of the simulated GPUs: one address space for the process, like CUDA's unified addressing.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::mm::{MapFlags, ProtFlags};

use super::execution::Span;
use crate::{Allocation, DeviceMemory, DevicePtr, Error};

/// Size and alignment of blocks, and alignment of allocations in them, as in CUDA.
const BLOCK: usize = 2 << 20;
const GRAIN: usize = 512;
/// The largest allocation that shares a block.
const SHARED: usize = 1 << 20;

/// Allocation of a simulated GPU, described from one address in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Location {
    /// The memfd of its block, to be mapped shared. It outlives the allocation.
    pub file: Arc<OwnedFd>,
    /// Offset of the requested address in the file. A multiple of 512 for the start of an
    /// allocation, not of a page.
    pub offset: u64,
    /// Start of the allocation.
    pub base: DevicePtr,
    /// Requested size in bytes.
    pub size: usize,
    /// Unique among all simulated allocations of the process; see [`is_live`].
    pub buffer_id: u64,
    /// Kind of memory.
    pub kind: Allocation,
    /// Number of the simulated GPU, from 0.
    pub ordinal: u32,
}

/// Allocation at an address of a simulated GPU; `None` outside allocations.
#[must_use]
pub fn locate(address: DevicePtr) -> Option<Location> {
    let space = lock();
    let block = space.block(address.get())?;
    let (&offset, live) = block.live_at(address.get() - block.base)?;
    Some(Location {
        file: Arc::clone(&block.block.file),
        offset: address.get() - block.base,
        base: DevicePtr::new(block.base + offset),
        size: live.bytes,
        buffer_id: live.buffer_id,
        kind: live.kind,
        ordinal: block.ordinal,
    })
}

/// True until the simulated allocation with this number is freed.
#[must_use]
pub fn is_live(buffer_id: u64) -> bool {
    lock().blocks.values().any(|block| block.live.values().any(|live| live.buffer_id == buffer_id))
}

/// The host memory that stands for a simulated GPU's: its address in this process, valid while the memory is held. `None` for a real
/// GPU's.
#[must_use]
pub fn host_address(memory: &DeviceMemory) -> Option<NonNull<u8>> {
    let span = resolve(memory.address(), memory.len()).filter(|_| memory.gpu().is_sim())?;
    NonNull::new(span.start())
}

/// Allocates `bytes` bytes.
pub(super) fn allocate(kind: Allocation, bytes: usize, ordinal: u32) -> Result<DevicePtr, Error> {
    let mut space = lock();
    let live = Live { bytes, buffer_id: space.next_buffer_id, kind };
    let shared = kind == Allocation::Malloc && bytes <= SHARED;
    let address = match space.gap(bytes, ordinal).filter(|_| shared) {
        Some(address) => address,
        None => space.add_block(bytes, shared, ordinal)?,
    };
    if let Some(block) = space.block_mut(address) {
        block.live.insert(address - block.base, live);
    }
    space.next_buffer_id += 1;
    Ok(DevicePtr::new(address))
}

/// Frees an allocation; false if none starts there.
pub(super) fn free(address: DevicePtr) -> bool {
    let mut space = lock();
    let Some(block) = space.block_mut(address.get()) else {
        return false;
    };
    let freed = block.live.remove(&(address.get() - block.base)).is_some();
    let (base, empty) = (block.base, block.live.is_empty());
    if empty {
        space.blocks.remove(&base);
    }
    freed
}

/// Gives simulated GPUs access to host memory, at its own address.
pub(super) fn add_host(start: NonNull<u8>, bytes: usize) {
    lock().hosts.insert(start.as_ptr().addr() as u64, bytes);
}

/// True if a part of this host memory is already accessible.
pub(super) fn has_host(start: NonNull<u8>, bytes: usize) -> bool {
    let start = start.as_ptr().addr() as u64;
    let space = lock();
    let before = space.hosts.range(..start + bytes as u64).next_back();
    before.is_some_and(|(first, bytes)| first + *bytes as u64 > start)
}

pub(super) fn remove_host(start: NonNull<u8>) {
    lock().hosts.remove(&(start.as_ptr().addr() as u64));
}

/// Memory at an address; `None` unless all `bytes` bytes are inside one allocation or host range.
pub(super) fn resolve(address: DevicePtr, bytes: usize) -> Option<Span> {
    let space = lock();
    let address = address.get();
    if let Some(block) = space.block(address) {
        let inside = address - block.base;
        let (&start, live) = block.live_at(inside)?;
        let end = inside.checked_add(bytes as u64)?;
        return (end <= start + live.bytes as u64).then(|| {
            // SAFETY: the offset is inside the block's mapping, which has the block's size and
            // lifetime.
            unsafe {
                let start = block.block.mapped.as_ptr().add(inside as usize);
                Span::new(start, Some(Arc::clone(&block.block) as _))
            }
        });
    }
    let (&start, &size) = space.hosts.range(..=address).next_back()?;
    let end = (address - start).checked_add(bytes as u64)?;
    // The pointer of this address was exposed when it was pinned or registered.
    (end <= size as u64).then(|| {
        // SAFETY: pinned or registered memory stays valid until the streams that use it are done
        // (`Backend::enqueue`).
        unsafe { Span::new(std::ptr::with_exposed_provenance_mut(address as usize), None) }
    })
}

/// Allocated bytes of a GPU.
pub(super) fn used(ordinal: u32) -> u64 {
    let space = lock();
    let of_gpu = space.blocks.values().filter(|block| block.ordinal == ordinal);
    of_gpu.map(|block| block.block.size as u64).sum()
}

struct Space {
    blocks: BTreeMap<u64, Entry>,
    hosts: BTreeMap<u64, usize>,
    next_buffer_id: u64,
}

static SPACE: Mutex<Space> =
    Mutex::new(Space { blocks: BTreeMap::new(), hosts: BTreeMap::new(), next_buffer_id: 1 });

/// Poisoning is ignored: the state is always consistent.
fn lock() -> MutexGuard<'static, Space> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block and its allocations by offset.
struct Entry {
    base: u64,
    block: Arc<Block>,
    live: BTreeMap<u64, Live>,
    shared: bool,
    ordinal: u32,
}

struct Live {
    bytes: usize,
    buffer_id: u64,
    kind: Allocation,
}

impl Space {
    fn block(&self, address: u64) -> Option<&Entry> {
        let (_, entry) = self.blocks.range(..=address).next_back()?;
        (address - entry.base < entry.block.size as u64).then_some(entry)
    }

    fn block_mut(&mut self, address: u64) -> Option<&mut Entry> {
        let (_, entry) = self.blocks.range_mut(..=address).next_back()?;
        (address - entry.base < entry.block.size as u64).then_some(entry)
    }

    /// First free range in a shared block.
    fn gap(&self, bytes: usize, ordinal: u32) -> Option<u64> {
        let shared = self.blocks.values().filter(|entry| entry.shared && entry.ordinal == ordinal);
        shared.filter_map(|entry| entry.gap(bytes)).next()
    }

    fn add_block(&mut self, bytes: usize, shared: bool, ordinal: u32) -> Result<u64, Error> {
        let size = bytes.checked_next_multiple_of(BLOCK).ok_or_else(|| Error::Simulation {
            what: "allocate this much memory",
            source: io::ErrorKind::OutOfMemory.into(),
        })?;
        let block = Block::new(size)?;
        let base = block.reserved.as_ptr().addr().next_multiple_of(BLOCK) as u64;
        let entry = Entry { base, block: Arc::new(block), live: BTreeMap::new(), shared, ordinal };
        self.blocks.insert(base, entry);
        Ok(base)
    }
}

impl Entry {
    /// Allocation that contains an offset.
    fn live_at(&self, offset: u64) -> Option<(&u64, &Live)> {
        let (start, live) = self.live.range(..=offset).next_back()?;
        (offset - start < live.bytes as u64).then_some((start, live))
    }

    fn gap(&self, bytes: usize) -> Option<u64> {
        let mut free = 0;
        for (&start, live) in &self.live {
            if start - free >= bytes as u64 {
                break;
            }
            free = start + live.bytes.next_multiple_of(GRAIN) as u64;
        }
        (free + bytes as u64 <= self.block.size as u64).then_some(self.base + free)
    }
}

/// Memory of a simulated GPU: a memfd, its mapping for the streams, and inaccessible addresses as
/// device addresses.
#[derive(Debug)]
struct Block {
    file: Arc<OwnedFd>,
    mapped: NonNull<u8>,
    reserved: NonNull<u8>,
    size: usize,
}

// SAFETY: mappings belong to the process; the memory is accessed through `bytes` only.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(size: usize) -> Result<Self, Error> {
        let failed =
            |what| move |errno: rustix::io::Errno| Error::Simulation { what, source: errno.into() };
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file =
            rustix::fs::memfd_create("gdr-sim-gpu", flags).map_err(failed("create a memfd"))?;
        rustix::fs::ftruncate(&file, size as u64).map_err(failed("resize its memfd"))?;
        let (read_write, shared) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at a kernel-chosen address replaces no existing one.
        let mapped =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size, read_write, shared, &file, 0) };
        let mapped = nonnull(mapped.map_err(failed("map its memory"))?);
        let (nothing, private) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // Larger by a block, to align the start.
        // SAFETY: as above.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), size + BLOCK, nothing, private)
        };
        match reserved {
            Ok(reserved) => {
                Ok(Self { file: Arc::new(file), mapped, reserved: nonnull(reserved), size })
            }
            Err(errno) => {
                unmap(mapped, size);
                Err(failed("reserve its addresses")(errno))
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        unmap(self.mapped, self.size);
        unmap(self.reserved, self.size + BLOCK);
    }
}

fn nonnull(start: *mut std::ffi::c_void) -> NonNull<u8> {
    // mmap returns address 0 only on request.
    NonNull::new(start.cast()).unwrap_or(NonNull::dangling())
}

fn unmap(start: NonNull<u8>, size: usize) {
    // SAFETY: our own mapping, with no holders left. It fails only for arguments that mmap did not
    // return.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), size) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gpu;

    // Tests of one process share the address space, so each uses its own GPU number.

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot map files")]
    fn host_memory_stands_for_gpu_memory() {
        let gpu = Gpu::sim();
        let both = [(); 2].map(|()| gpu.allocate(Allocation::Malloc, 4096).unwrap());
        for (memory, text) in both.iter().zip(*b"ab") {
            let stream = gpu.stream().unwrap();
            stream.write(memory, 8, &[text]).unwrap();
            let start = host_address(memory).unwrap();
            // SAFETY: within the memory, which nothing writes now.
            assert_eq!(unsafe { start.add(8).read_volatile() }, text);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot map files")]
    fn small_allocations_share_blocks() {
        let ordinal = 9001;
        let sizes = [512, 1, 4096, 513];
        let places = sizes.map(|bytes| allocate(Allocation::Malloc, bytes, ordinal).unwrap());
        let base = places[0].get();
        assert!(base.is_multiple_of(2 << 20));
        let offsets = places.map(|place| place.get() - base);
        assert_eq!(offsets, [0, 512, 1024, 5120]);
        assert_eq!(used(ordinal), 2 << 20);
        // A freed range is reused, its number is not.
        let before = locate(places[1]).unwrap().buffer_id;
        assert!(free(places[1]) && !is_live(before));
        let again = allocate(Allocation::Malloc, 300, ordinal).unwrap();
        assert_eq!(again, places[1]);
        assert_ne!(locate(again).unwrap().buffer_id, before);
        for place in [places[0], again, places[2], places[3]] {
            assert!(free(place));
        }
        assert_eq!(used(ordinal), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot map files")]
    fn large_allocations_have_own_blocks() {
        let ordinal = 9002;
        let (a, b) = (
            allocate(Allocation::Malloc, (1 << 20) + 1, ordinal).unwrap(),
            allocate(Allocation::Malloc, 3 << 20, ordinal).unwrap(),
        );
        assert_eq!((a.get() % (2 << 20), b.get() % (2 << 20)), (0, 0));
        assert_eq!(used(ordinal), (2 << 20) + (4 << 20));
        assert!(free(a) && free(b) && !free(b));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot map files")]
    fn locates_addresses_inside_allocations() {
        let ordinal = 9003;
        let first = allocate(Allocation::Malloc, 100, ordinal).unwrap();
        let second = allocate(Allocation::Malloc, 100, ordinal).unwrap();
        let found = locate(second.offset(99)).unwrap();
        assert_eq!(
            (found.base, found.size, found.offset, found.ordinal),
            (second, 100, 512 + 99, ordinal)
        );
        assert!(locate(first.offset(100)).is_none(), "between the two");
        assert!(resolve(first, 100).is_some() && resolve(first, 101).is_none());
        assert!(resolve(first, usize::MAX).is_none());
        assert!(free(first) && free(second));
    }
}
