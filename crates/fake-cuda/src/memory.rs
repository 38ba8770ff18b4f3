//! Memory at real addresses: of a GPU, pinned, or registered. An address is the same for the CPU
//! and every GPU, as with CUDA's unified addressing.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use fakes::machine::number;
use gpu::sim::execution::{Keeper, Span};
use serde_json::Value;

use crate::answer::{
    HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE, OUT_OF_MEMORY,
    Return, answer_here, held, put,
};
use crate::device;
use crate::machine::MACHINE;
use crate::pages::Pages;

/// `CU_MEMHOSTREGISTER_IOMEMORY`: another device's registers.
const IOMEMORY: u32 = 4;

/// Kind of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Device,
    Pinned,
    Registered,
}

/// Allocation or registration. Holds its pages, even after a free.
#[derive(Clone)]
pub struct Block {
    pub start: u64,
    pub bytes: usize,
    pub kind: Kind,
    /// GPU of the context that was current.
    pub gpu: usize,
    /// `None` for registered memory, which belongs to the caller.
    pub pages: Option<Arc<Pages>>,
}

impl Block {
    /// Memory at an address of this block, for work that stays inside it.
    pub fn span(&self, address: u64) -> Span {
        let keeper = self.pages.clone().map(|pages| pages as Keeper);
        let start = match &self.pages {
            Some(pages) => pages.pointer(address),
            None => pointer(address),
        };
        // SAFETY: every caller has checked that its range is in this block. The span holds the
        // pages; the program keeps registered memory valid while work uses it, as CUDA requires.
        unsafe { Span::new(start, keeper) }
    }
}

/// Blocks by start address.
static BLOCKS: Mutex<BTreeMap<u64, Block>> = Mutex::new(BTreeMap::new());

pub fn block_of(address: u64) -> Option<Block> {
    let blocks = held(&BLOCKS);
    let (start, block) = blocks.range(..=address).next_back()?;
    (address - start < block.bytes as u64).then(|| block.clone())
}

/// Block that contains the whole range.
pub fn range(address: u64, bytes: usize) -> Option<Block> {
    block_of(address).filter(|block| bytes as u64 <= block.start + block.bytes as u64 - address)
}

/// As above for device memory, with CUDA's error.
pub fn device_range(address: u64, bytes: usize) -> Result<Block, Return> {
    range(address, bytes).filter(|block| block.kind == Kind::Device).ok_or(INVALID_VALUE)
}

/// Address as the CPU uses it.
pub fn pointer<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Frees all allocations of a GPU's context.
pub fn free_all(gpu: usize) {
    held(&BLOCKS).retain(|_, block| block.gpu != gpu);
}

fn used(blocks: &BTreeMap<u64, Block>, gpu: usize) -> usize {
    let device = blocks.values().filter(|block| block.gpu == gpu && block.kind == Kind::Device);
    device.map(|block| block.bytes).sum()
}

fn allocate(gpu: usize, bytes: usize, kind: Kind) -> Result<u64, Return> {
    if bytes == 0 {
        return Err(INVALID_VALUE);
    }
    let mut blocks = held(&BLOCKS);
    if kind == Kind::Device && bytes > device::memory(gpu).saturating_sub(used(&blocks, gpu)) {
        return Err(OUT_OF_MEMORY);
    }
    let pages = match kind {
        Kind::Device if MACHINE.gpu(gpu, "cpu_access") == Some(&Value::Bool(false)) => {
            Pages::of_gpu_alone(gpu, bytes)
        }
        Kind::Device => Pages::of_gpu(gpu, bytes),
        Kind::Pinned | Kind::Registered => Pages::of_host(bytes),
    };
    let pages = pages.ok_or(OUT_OF_MEMORY)?;
    let start = pages.address();
    let block = Block { start, bytes, kind, gpu, pages: Some(Arc::new(pages)) };
    blocks.insert(start, block);
    Ok(start)
}

/// Removes the block of this kind that starts there.
fn release(address: u64, kind: Kind) -> Option<()> {
    let mut blocks = held(&BLOCKS);
    blocks.get(&address).filter(|block| block.kind == kind)?;
    blocks.remove(&address).map(drop)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(out: *mut u64, bytes: usize) -> Return {
    answer_here("cuMemAlloc_v2", |gpu| {
        let address = allocate(gpu, bytes, Kind::Device)?;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, address) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Return {
    answer_here("cuMemFree_v2", |_| release(address, Kind::Device).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Return {
    answer_here("cuMemGetInfo_v2", |gpu| {
        let memory = device::memory(gpu);
        let used = used(&held(&BLOCKS), gpu);
        // SAFETY: cuda.h's contract.
        unsafe {
            put(free, memory.saturating_sub(used))?;
            put(total, memory)
        }
    })
}

/// Every GPU can access pinned memory regardless of the flags, as with unified
/// addressing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: u32) -> Return {
    answer_here("cuMemHostAlloc", |gpu| {
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        let address = allocate(gpu, bytes, Kind::Pinned)?;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, pointer(address)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(memory: *mut c_void) -> Return {
    answer_here("cuMemFreeHost", |_| {
        release(memory.addr() as u64, Kind::Pinned).ok_or(INVALID_VALUE)
    })
}

/// Does not touch the pages, which may be another device's registers.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: u32) -> Return {
    answer_here("cuMemHostRegister_v2", |gpu| {
        let start = memory.expose_provenance() as u64;
        if memory.is_null() || bytes == 0 || flags > 15 {
            return Err(INVALID_VALUE);
        }
        if flags & IOMEMORY != 0
            && let Some(code) = MACHINE.gpu(gpu, "io_memory").and_then(number)
        {
            return Err(code);
        }
        let end = start.checked_add(bytes as u64).ok_or(INVALID_VALUE)?;
        let mut blocks = held(&BLOCKS);
        let before = blocks.range(..end).next_back().map(|(_, block)| block);
        if before.is_some_and(|block| block.start + block.bytes as u64 > start) {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        let block = Block { start, bytes, kind: Kind::Registered, gpu, pages: None };
        blocks.insert(start, block);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(memory: *mut c_void) -> Return {
    answer_here("cuMemHostUnregister", |_| {
        release(memory.addr() as u64, Kind::Registered).ok_or(HOST_MEMORY_NOT_REGISTERED)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    out: *mut u64,
    memory: *mut c_void,
    flags: u32,
) -> Return {
    answer_here("cuMemHostGetDevicePointer_v2", |_| {
        let address = memory.addr() as u64;
        let block = block_of(address).filter(|block| block.kind != Kind::Device && flags == 0);
        block.ok_or(INVALID_VALUE)?;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, address) }
    })
}
