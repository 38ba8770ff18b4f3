//! CUDA's descriptions of addresses.

use std::ffi::c_void;

use crate::answer::{INVALID_VALUE, NOT_FOUND, Return, answer, answer_here, put};
use crate::memory::{Kind, block_of};
use crate::{context, machine};

/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`.
const SYNC_MEMOPS: u32 = 6;
/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED`.
const RDMA_SUPPORTED: u32 = 116;

/// For context, memory type, device, base, size and GPUDirect RDMA support. The
/// context is that of the allocating device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(
    out: *mut c_void,
    attribute: u32,
    address: u64,
) -> Return {
    answer("cuPointerGetAttribute", || {
        let block = block_of(address).ok_or(INVALID_VALUE)?;
        // CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST.
        let kind: u32 = if block.kind == Kind::Device { 2 } else { 1 };
        // SAFETY: cuda.h's contract; the types are cuda.h's.
        unsafe {
            match attribute {
                1 => put(out.cast(), context::handle(block.gpu)),
                2 => put(out.cast(), kind),
                9 => put(out.cast(), context::ordinal(block.gpu)),
                11 => put(out.cast(), block.start),
                12 => put(out.cast(), block.bytes),
                15 if block.kind == Kind::Device => {
                    let is_capable =
                        machine::attribute(block.gpu, RDMA_SUPPORTED).ok_or(INVALID_VALUE)? != 0;
                    put(out.cast(), u32::from(is_capable))
                }
                _ => Err(INVALID_VALUE),
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut u64,
    bytes: *mut usize,
    address: u64,
) -> Return {
    answer_here("cuMemGetAddressRange_v2", |_| {
        let block = block_of(address).filter(|block| block.kind == Kind::Device);
        let block = block.ok_or(NOT_FOUND)?;
        if !base.is_null() {
            // SAFETY: cuda.h's contract.
            unsafe { put(base, block.start)? };
        }
        if !bytes.is_null() {
            // SAFETY: as above.
            unsafe { put(bytes, block.bytes)? };
        }
        Ok(())
    })
}

/// For `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS` of device memory; has no effect here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerSetAttribute(
    value: *const c_void,
    attribute: u32,
    address: u64,
) -> Return {
    answer("cuPointerSetAttribute", || {
        let block = block_of(address).filter(|block| block.kind == Kind::Device);
        let is_it = attribute == SYNC_MEMOPS && !value.is_null();
        block.filter(|_| is_it).map(drop).ok_or(INVALID_VALUE)
    })
}
