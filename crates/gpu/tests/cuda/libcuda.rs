//! A SIMULATION of `libcuda.so.1`, for tests: one GPU without memory of its own, whose every answer a test can spoil. Compiled by
//! the tests themselves (`build.rs` beside it); no target of the package.
//!
//! Signatures are written here from cuda.h 13.0, not taken from gdr-sys. With `--cfg old` the functions that an old driver lacks
//! are missing; no real version lacks just these.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};

const INVALID_VALUE: u32 = 1;
const NOT_READY: u32 = 600;
const PRIMARY: usize = 0xc0;

static FAILURES: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
static MEMORY: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
static RETAINED: AtomicI32 = AtomicI32::new(0);
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static BUSY: AtomicU32 = AtomicU32::new(0);
/// The capture mode that the last allocation was made in.
static MODE_SEEN: AtomicU32 = AtomicU32::new(99);

thread_local! {
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static MODE: Cell<u32> = const { Cell::new(0) };
}

/// Makes a function return this code; 0 mends it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_fail(function: *const c_char, code: u32) {
    // SAFETY: the test passes a string.
    let name = unsafe { CStr::from_ptr(function) }.to_string_lossy().into_owned();
    FAILURES.lock().unwrap().insert(name, code);
}

/// Makes streams busy for ever, or idle.
#[unsafe(no_mangle)]
pub extern "C" fn fake_busy(busy: u32) {
    BUSY.store(busy, SeqCst);
}

/// 0 primary contexts retained, 1 allocations alive, 2 contexts on this thread's stack, 3 this thread's capture mode,
/// 4 the capture mode of the last allocation, 5 memory operations done.
#[unsafe(no_mangle)]
pub extern "C" fn fake_count(what: u32) -> i64 {
    match what {
        0 => i64::from(RETAINED.load(SeqCst)),
        1 => MEMORY.lock().unwrap().len() as i64,
        2 => CONTEXTS.with_borrow(|contexts| contexts.len() as i64),
        3 => i64::from(MODE.get()),
        4 => i64::from(MODE_SEEN.load(SeqCst)),
        _ => OPERATIONS.load(SeqCst) as i64,
    }
}

fn failure(function: &str) -> u32 {
    FAILURES.lock().unwrap().get(function).copied().unwrap_or(0)
}

macro_rules! functions {
    ($( $(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),*) $body:block )*) => { $(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            match failure(stringify!($name)) {
                0 => $body,
                code => code,
            }
        }
    )* };
}

/// # Safety
///
/// `out` is valid for a write.
unsafe fn put<T>(out: *mut T, value: T) -> u32 {
    // SAFETY: this function's condition.
    unsafe { out.write(value) };
    0
}

/// # Safety
///
/// `out` is valid for writes of `length` bytes.
unsafe fn put_text(out: *mut c_char, length: c_int, text: &CStr) -> u32 {
    let bytes = text.to_bytes_with_nul();
    let count = bytes.len().min(length as usize);
    // SAFETY: this function's condition.
    unsafe { out.copy_from(bytes.as_ptr().cast(), count) };
    0
}

fn current() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

fn block(address: u64) -> Option<(u64, usize)> {
    let memory = MEMORY.lock().unwrap();
    let (&base, &size) = memory.range(..=address).next_back()?;
    (address - base < size as u64).then_some((base, size))
}

functions! {
    fn cuInit(_flags: u32) { 0 }
    fn cuDriverGetVersion(out: *mut c_int) { unsafe { put(out, 11_040) } }
    fn cuDeviceGetCount(out: *mut c_int) { unsafe { put(out, 1) } }
    fn cuDeviceGet(out: *mut c_int, ordinal: c_int) {
        if ordinal == 0 { unsafe { put(out, 40) } } else { 101 }
    }
    fn cuDeviceGetName(out: *mut c_char, length: c_int, _device: c_int) {
        unsafe { put_text(out, length, c"Fake GPU") }
    }
    fn cuDeviceGetPCIBusId(out: *mut c_char, length: c_int, _device: c_int) {
        unsafe { put_text(out, length, c"0000:3B:00.0") }
    }
    fn cuDeviceTotalMem_v2(out: *mut usize, _device: c_int) { unsafe { put(out, 1 << 34) } }
    fn cuDeviceGetAttribute(out: *mut c_int, attribute: u32, _device: c_int) {
        if attribute > 147 { INVALID_VALUE } else { unsafe { put(out, attribute as c_int * 10) } }
    }
    fn cuDeviceGetUuid(out: *mut [u8; 16], _device: c_int) { unsafe { put(out, [0x11; 16]) } }
    #[cfg(not(old))]
    fn cuDeviceGetUuid_v2(out: *mut [u8; 16], _device: c_int) { unsafe { put(out, [0x22; 16]) } }

    fn cuDevicePrimaryCtxRetain(out: *mut usize, _device: c_int) {
        RETAINED.fetch_add(1, SeqCst);
        unsafe { put(out, PRIMARY) }
    }
    #[cfg(not(old))]
    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) { RETAINED.fetch_sub(1, SeqCst); 0 }
    #[cfg(old)]
    fn cuDevicePrimaryCtxRelease(_device: c_int) { RETAINED.fetch_sub(1, SeqCst); 0 }
    fn cuDevicePrimaryCtxGetState(_device: c_int, flags: *mut u32, active: *mut c_int) {
        unsafe { put(flags, 0); put(active, c_int::from(RETAINED.load(SeqCst) > 0)) }
    }
    fn cuCtxPushCurrent_v2(context: usize) { CONTEXTS.with_borrow_mut(|contexts| contexts.push(context)); 0 }
    fn cuCtxPopCurrent_v2(out: *mut usize) {
        match CONTEXTS.with_borrow_mut(Vec::pop) {
            Some(context) => unsafe { put(out, context) },
            None => 201,
        }
    }
    fn cuCtxGetCurrent(out: *mut usize) { unsafe { put(out, current()) } }
    fn cuCtxGetDevice(out: *mut c_int) { if current() == 0 { 201 } else { unsafe { put(out, 40) } } }
    #[cfg(not(old))]
    fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) {
        unsafe { put(mode, MODE.replace(mode.read())) }
    }

    fn cuMemAlloc_v2(out: *mut u64, bytes: usize) {
        if current() != PRIMARY { return 201; }
        MODE_SEEN.store(MODE.get(), SeqCst);
        let memory = Box::leak(vec![0_u8; bytes].into_boxed_slice());
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        MEMORY.lock().unwrap().insert(address, bytes);
        unsafe { put(out, address) }
    }
    fn cuMemFree_v2(address: u64) {
        // Never really freed, so that what is wrongly used afterwards shows as a wrong count and not as a crash.
        if MEMORY.lock().unwrap().remove(&address).is_some() { 0 } else { INVALID_VALUE }
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, _stream: usize) {
        unsafe { from.copy_to(std::ptr::with_exposed_provenance_mut(to as usize), bytes) };
        0
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, _stream: usize) {
        unsafe { to.copy_from(std::ptr::with_exposed_provenance(from as usize), bytes) };
        0
    }

    fn cuPointerGetAttribute(out: *mut c_void, attribute: u32, address: u64) {
        let Some((base, size)) = block(address) else { return INVALID_VALUE };
        match attribute {
            1 => unsafe { put(out.cast(), PRIMARY) },
            2 => unsafe { put(out.cast(), 2_u32) },
            7 => unsafe { put(out.cast(), base ^ 0xff) },
            8 => unsafe { put(out.cast(), false) },
            9 => unsafe { put(out.cast(), 0_i32) },
            10 => unsafe { put(out.cast(), true) },
            11 => unsafe { put(out.cast(), base) },
            12 => unsafe { put(out.cast(), size) },
            // Newer ones are unknown to this driver, old or not.
            _ => INVALID_VALUE,
        }
    }
    fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, address: u64) {
        let Some(found) = block(address) else { return 500 };
        unsafe { put(base, found.0); put(size, found.1) }
    }
    fn cuIpcGetMemHandle(out: *mut [u8; 64], address: u64) {
        if current() != PRIMARY { return 201; }
        if block(address).is_none() { return INVALID_VALUE; }
        unsafe { put(out, [7; 64]) }
    }

    fn cuStreamCreate(out: *mut usize, flags: u32) { if flags == 1 { unsafe { put(out, 0x57) } } else { INVALID_VALUE } }
    fn cuStreamDestroy_v2(_stream: usize) { 0 }
    fn cuStreamSynchronize(_stream: usize) { 0 }
    fn cuStreamQuery(_stream: usize) { if BUSY.load(SeqCst) == 0 { 0 } else { NOT_READY } }
    #[cfg(not(old))]
    fn cuStreamBatchMemOp_v2(_stream: usize, count: u32, operations: *const [u64; 6], flags: u32) {
        if count == 0 || count > 255 || flags != 0 { return INVALID_VALUE; }
        for position in 0..count as usize {
            // Only 32-bit writes, to memory of ours.
            let [operation, address, value, ..] = unsafe { operations.add(position).read() };
            if operation as u32 != 2 || block(address).is_none() { return INVALID_VALUE; }
            unsafe { put(std::ptr::with_exposed_provenance_mut::<u32>(address as usize), value as u32) };
            OPERATIONS.fetch_add(1, SeqCst);
        }
        0
    }
    // There from CUDA 8 on, and off by default.
    fn cuStreamBatchMemOp(_stream: usize, _count: u32, _operations: *const [u64; 6], _flags: u32) { 801 }
}
