//! A SIMULATION of `libcuda.so.1`, for tests: GPUs without memory, whose results a test can
//! control. Compiled by `build.rs`; not a target of the package.
//!
//! Signatures are written from cuda.h 13.0, independently of gdr-sys. `--cfg old` omits functions
//! that an old driver lacks; no real version lacks exactly these.

#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};

const INVALID_VALUE: u32 = 1;
const NOT_READY: u32 = 600;
/// First GPU's primary context, and its device; the others follow.
const PRIMARY: usize = 0xc0;
const DEVICE: c_int = 40;

static FAILURES: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
static MEMORY: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
static RETAINED: AtomicI32 = AtomicI32::new(0);
/// Flags of the primary contexts.
static FLAGS: AtomicU32 = AtomicU32::new(0);
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
/// Number of GPUs.
static DEVICES: AtomicI32 = AtomicI32::new(1);
/// Pairs of contexts with access.
static PEERS: Mutex<BTreeSet<(usize, usize)>> = Mutex::new(BTreeSet::new());
/// Destination and source contexts of the last peer copy.
static PEER_COPY: Mutex<(usize, usize)> = Mutex::new((0, 0));
/// Launches as text.
static LAUNCHES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static BUSY: AtomicU32 = AtomicU32::new(0);
/// Capture mode of the last allocation.
static MODE_SEEN: AtomicU32 = AtomicU32::new(99);

thread_local! {
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static MODE: Cell<u32> = const { Cell::new(0) };
}

/// Makes a function return this code; 0 resets it.
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

/// Sets the number of GPUs.
#[unsafe(no_mangle)]
pub extern "C" fn fake_devices(count: u32) {
    DEVICES.store(count as i32, SeqCst);
}

/// Enables or disables access between two GPUs, like other code in the process.
#[unsafe(no_mangle)]
pub extern "C" fn fake_peer(from: u32, to: u32, on: u32) {
    let pair = (PRIMARY + from as usize, PRIMARY + to as usize);
    let mut peers = PEERS.lock().unwrap();
    if on == 0 { peers.remove(&pair) } else { peers.insert(pair) };
}

/// Writes the launches since the last call, one per line; returns the length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_launches(out: *mut u8, size: usize) -> usize {
    let text = std::mem::take(&mut *LAUNCHES.lock().unwrap()).join("\n");
    let count = text.len().min(size);
    // SAFETY: the test passes this many bytes.
    unsafe { out.copy_from(text.as_ptr(), count) };
    count
}

/// 0 primary contexts retained, 1 allocations, 2 contexts on this thread's stack, 3 this thread's
/// capture mode, 4 the capture mode of the last allocation, 5 memory operations, 6 pairs with
/// access, 7 and 8 destination and source contexts of the last peer copy, counted from the first
/// GPU's, 9 flags of the primary contexts.
#[unsafe(no_mangle)]
pub extern "C" fn fake_count(what: u32) -> i64 {
    match what {
        0 => i64::from(RETAINED.load(SeqCst)),
        1 => MEMORY.lock().unwrap().len() as i64,
        2 => CONTEXTS.with_borrow(|contexts| contexts.len() as i64),
        3 => i64::from(MODE.get()),
        4 => i64::from(MODE_SEEN.load(SeqCst)),
        6 => PEERS.lock().unwrap().len() as i64,
        7 => PEER_COPY.lock().unwrap().0 as i64 - PRIMARY as i64,
        8 => PEER_COPY.lock().unwrap().1 as i64 - PRIMARY as i64,
        9 => i64::from(FLAGS.load(SeqCst)),
        _ => OPERATIONS.load(SeqCst) as i64,
    }
}

/// Kernels of the loaded module; true for 64-bit parameters, false for 32-bit ones.
#[cfg(not(old))]
static KERNELS: Mutex<Vec<(String, Vec<bool>)>> = Mutex::new(Vec::new());

/// Parses the declarations of a PTX text: `.entry name(`, and lines `.param .u64 name` or `.param
/// .u32 name`.
#[cfg(not(old))]
fn declared(text: &str) -> Vec<(String, Vec<bool>)> {
    let entries = text.split(".entry ").skip(1);
    entries
        .map(|entry| {
            let (name, rest) = entry.split_once('(').unwrap();
            let (parameters, _) = rest.split_once(')').unwrap();
            let wide = parameters.split(',').map(|parameter| parameter.contains(".u64"));
            (name.to_owned(), wide.collect())
        })
        .collect()
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

fn is_primary(context: usize) -> bool {
    (PRIMARY..PRIMARY + DEVICES.load(SeqCst) as usize).contains(&context)
}

fn block(address: u64) -> Option<(u64, usize)> {
    let memory = MEMORY.lock().unwrap();
    let (&base, &size) = memory.range(..=address).next_back()?;
    (address - base < size as u64).then_some((base, size))
}

functions! {
    fn cuInit(_flags: u32) { 0 }
    fn cuDriverGetVersion(out: *mut c_int) { unsafe { put(out, 11_040) } }
    fn cuDeviceGetCount(out: *mut c_int) { unsafe { put(out, DEVICES.load(SeqCst)) } }
    fn cuDeviceGet(out: *mut c_int, ordinal: c_int) {
        if (0..DEVICES.load(SeqCst)).contains(&ordinal) { unsafe { put(out, DEVICE + ordinal) } } else { 101 }
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

    fn cuDevicePrimaryCtxRetain(out: *mut usize, device: c_int) {
        RETAINED.fetch_add(1, SeqCst);
        unsafe { put(out, PRIMARY + (device - DEVICE) as usize) }
    }
    #[cfg(not(old))]
    fn cuDevicePrimaryCtxRelease_v2(_device: c_int) { RETAINED.fetch_sub(1, SeqCst); 0 }
    #[cfg(old)]
    fn cuDevicePrimaryCtxRelease(_device: c_int) { RETAINED.fetch_sub(1, SeqCst); 0 }
    #[cfg(not(old))]
    fn cuDevicePrimaryCtxSetFlags_v2(_device: c_int, flags: u32) {
        if ![0, 1, 2, 4].contains(&(flags & 7)) { return INVALID_VALUE }
        FLAGS.store(flags, SeqCst);
        0
    }
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
        if !is_primary(current()) { return 201; }
        MODE_SEEN.store(MODE.get(), SeqCst);
        let memory = Box::leak(vec![0_u8; bytes].into_boxed_slice());
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        MEMORY.lock().unwrap().insert(address, bytes);
        unsafe { put(out, address) }
    }
    fn cuMemFree_v2(address: u64) {
        // Leaked, so that a use after free shows as a wrong count instead of a crash.
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

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, _stream: usize) {
        let (to, from) = (std::ptr::with_exposed_provenance_mut::<u8>(to as usize), from as usize);
        unsafe { to.copy_from(std::ptr::with_exposed_provenance(from), bytes) };
        0
    }
    #[cfg(not(old))]
    fn cuMemcpyPeerAsync(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, _stream: usize) {
        *PEER_COPY.lock().unwrap() = (to_context, from_context);
        let (to, from) = (std::ptr::with_exposed_provenance_mut::<u8>(to as usize), from as usize);
        unsafe { to.copy_from(std::ptr::with_exposed_provenance(from), bytes) };
        0
    }

    fn cuDeviceCanAccessPeer(out: *mut c_int, from: c_int, to: c_int) {
        unsafe { put(out, c_int::from(from != to)) }
    }
    #[cfg(not(old))]
    fn cuCtxEnablePeerAccess(peer: usize, flags: u32) {
        if flags != 0 { return INVALID_VALUE; }
        if peer == current() || !is_primary(peer) { return 101; }
        if PEERS.lock().unwrap().insert((current(), peer)) { 0 } else { 704 }
    }
    #[cfg(not(old))]
    fn cuCtxDisablePeerAccess(peer: usize) {
        if PEERS.lock().unwrap().remove(&(current(), peer)) { 0 } else { 705 }
    }

    fn cuMemsetD32Async(to: u64, value: u32, words: usize, _stream: usize) {
        let to = std::ptr::with_exposed_provenance_mut::<u32>(to as usize);
        for word in 0..words { unsafe { to.add(word).write_unaligned(value) }; }
        0
    }
    #[cfg(not(old))]
    fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, _flags: u32) {
        unsafe { put(out, Box::leak(vec![0_u64; bytes.div_ceil(8)].into_boxed_slice()).as_mut_ptr().cast()) }
    }
    // Leaked, as above.
    fn cuMemFreeHost(_start: *mut c_void) { 0 }
    fn cuMemHostGetDevicePointer_v2(out: *mut u64, start: *mut c_void, _flags: u32) {
        unsafe { put(out, start.expose_provenance() as u64) }
    }

    // A function's handle is its index among the kernels, from 1.
    #[cfg(not(old))]
    fn cuModuleLoadData(out: *mut usize, text: *const c_char) {
        *KERNELS.lock().unwrap() = declared(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
        unsafe { put(out, 0x40d) }
    }
    #[cfg(not(old))]
    fn cuModuleUnload(_module: usize) { 0 }
    #[cfg(not(old))]
    fn cuModuleGetFunction(out: *mut usize, _module: usize, name: *const c_char) {
        let name = unsafe { CStr::from_ptr(name) };
        match KERNELS.lock().unwrap().iter().position(|(kernel, _)| *kernel == name.to_string_lossy()) {
            Some(position) => unsafe { put(out, position + 1) },
            None => 500,
        }
    }
    // Runs nothing: records the arguments, each parameter with its declared width.
    #[cfg(not(old))]
    fn cuLaunchKernel(
        function: usize, x: u32, y: u32, z: u32, threads: u32, threads_y: u32, threads_z: u32, shared: u32, _stream: usize,
        parameters: *const *const c_void, _extra: *const c_void
    ) {
        if (y, z, threads_y, threads_z, shared) != (1, 1, 1, 1, 0) { return INVALID_VALUE; }
        let (name, widths) = KERNELS.lock().unwrap()[function - 1].clone();
        let mut words = format!("{name} {x}x{threads}:");
        for (position, wide) in widths.into_iter().enumerate() {
            let place = unsafe { parameters.add(position).read() };
            let value = if wide {
                unsafe { place.cast::<u64>().read() }
            } else {
                u64::from(unsafe { place.cast::<u32>().read() })
            };
            words.push_str(&format!(" {value:#x}"));
        }
        LAUNCHES.lock().unwrap().push(words);
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
            // Unknown to this driver, old or not.
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
            // Only 32-bit writes to valid memory.
            let [operation, address, value, ..] = unsafe { operations.add(position).read() };
            if operation as u32 != 2 || block(address).is_none() { return INVALID_VALUE; }
            unsafe { put(std::ptr::with_exposed_provenance_mut::<u32>(address as usize), value as u32) };
            OPERATIONS.fetch_add(1, SeqCst);
        }
        0
    }
    // Since CUDA 8, disabled by default.
    fn cuStreamBatchMemOp(_stream: usize, _count: u32, _operations: *const [u64; 6], _flags: u32) { 801 }
}
