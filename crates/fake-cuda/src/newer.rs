//! Functions that an old library lacks: crate `fakes` hides them.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use fakes::dmabuf::Part;

use crate::answer::{
    Device, INVALID_VALUE, NOT_SUPPORTED, OPERATING_SYSTEM, Return, answer, answer_here, answer_of,
    index, put,
};
use crate::machine::{self, integer};
use crate::memory::{Block, Kind, block_of};
use crate::operations::{self, Parameters, Version};

/// Since CUDA 11.4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], device: Device) -> Return {
    answer_of("cuDeviceGetUuid_v2", device, |gpu| {
        // SAFETY: cuda.h's contract.
        unsafe { put(out, crate::device::uuid(gpu)) }
    })
}

/// Since CUDA 8.0. Attributes missing in a pair's `p2p` are 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(
    out: *mut c_int,
    attribute: u32,
    from: Device,
    to: Device,
) -> Return {
    answer_of("cuDeviceGetP2PAttribute", from, |from| {
        let values = machine::pair(from, index(to)?, "p2p");
        if !(1..=5).contains(&attribute) {
            return Err(INVALID_VALUE);
        }
        let value = values.and_then(|values| values.get(attribute.to_string())).and_then(integer);
        // SAFETY: cuda.h's contract.
        unsafe { put(out, value.unwrap_or(0)) }
    })
}

/// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`.
const DMA_BUF_SUPPORTED: u32 = 124;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
const DMA_BUF: u32 = 1;
/// `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE`.
const OVER_PCIE: u64 = 1;

/// Since CUDA 11.7. With dma-bufs as in `fakes::dmabuf`. Fails in the same
/// cases as driver 580.159 on an H200. As there, a range may extend beyond its allocation, to the
/// end of its 2 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetHandleForAddressRange(
    out: *mut c_void,
    address: u64,
    bytes: usize,
    kind: u32,
    flags: u64,
) -> Return {
    answer_here("cuMemGetHandleForAddressRange", |gpu| {
        let block = block_of(address).filter(|block| block.kind == Kind::Device);
        let owner = block.as_ref().map_or(gpu, |block| block.gpu);
        if machine::attribute(owner, DMA_BUF_SUPPORTED).unwrap_or(0) == 0 {
            return Err(NOT_SUPPORTED);
        }
        if out.is_null() || kind != DMA_BUF {
            return Err(INVALID_VALUE);
        }
        let mapping = match flags {
            0 => "dmabuf_default",
            OVER_PCIE => "dmabuf_pcie",
            _ => return Err(INVALID_VALUE),
        };
        machine::configured_error(owner, mapping, INVALID_VALUE).map_or(Ok(()), Err)?;
        let block = block.ok_or(INVALID_VALUE)?;
        let file = export(&block, address, bytes, flags == OVER_PCIE)?;
        // SAFETY: cuda.h's contract. The descriptor now belongs to the caller.
        unsafe { put(out.cast::<c_int>(), file.into_raw_fd()) }
    })
}

/// New open file description of a block's file, whose position encodes the exported part.
fn export(block: &Block, address: u64, bytes: usize, pcie: bool) -> Result<File, Return> {
    let pages = block.pages.as_ref().and_then(|pages| pages.file());
    let (file, all) = pages.ok_or(INVALID_VALUE)?;
    let (start, bytes) = (address - block.start, bytes as u64);
    let position = Part { start, bytes, pcie }.position().filter(|_| bytes <= all - start);
    let position = position.ok_or(INVALID_VALUE)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let own = File::options().read(true).write(true).open(path);
    let mut own = own.map_err(|_| OPERATING_SYSTEM)?;
    own.seek(SeekFrom::Start(position)).map_err(|_| OPERATING_SYSTEM)?;
    Ok(own)
}

thread_local! {
    /// Initially `CU_STREAM_CAPTURE_MODE_GLOBAL`.
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}

/// Since CUDA 10.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> Return {
    answer("cuThreadExchangeStreamCaptureMode", || {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and cuda.h's contract.
        let wanted = unsafe { mode.read() };
        if wanted > 2 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { put(mode, CAPTURE_MODE.replace(wanted)) }
    })
}

/// Since CUDA 12.8. Same time as the older one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(out: *mut f32, from: usize, to: usize) -> Return {
    answer_here("cuEventElapsedTime_v2", |_| {
        let elapsed = crate::event::elapsed(from, to)?;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, elapsed) }
    })
}

/// Since CUDA 11.7.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBatchMemOp_v2(
    stream: usize,
    count: u32,
    list: *const Parameters,
    flags: u32,
) -> Return {
    answer_here("cuStreamBatchMemOp_v2", |gpu| {
        // SAFETY: cuda.h's contract.
        unsafe { operations::batch(Version::V2, stream, (count, list), flags, gpu) }
    })
}
