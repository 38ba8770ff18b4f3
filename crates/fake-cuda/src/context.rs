//! Primary contexts: reference counts, the current context of a thread, and peer access.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::Mutex;

use crate::answer::{
    Device, INVALID_CONTEXT, INVALID_VALUE, PEER_ACCESS_ALREADY_ENABLED, PEER_ACCESS_NOT_ENABLED,
    PEER_ACCESS_UNSUPPORTED, Return, answer, answer_here, answer_of, held, put, whole,
};
use crate::machine::MACHINE;
use crate::visible::VISIBLE;
use crate::{device, memory, stream};

/// A GPU's primary context.
#[derive(Default)]
struct Primary {
    retained: usize,
    /// GPUs whose memory it can access.
    peers: BTreeSet<usize>,
}

/// Flags that primary contexts get or have.
static FLAGS: Mutex<BTreeMap<usize, u32>> = Mutex::new(BTreeMap::new());

static PRIMARIES: Mutex<BTreeMap<usize, Primary>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Contexts pushed on this thread; 0 is none.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// GPU of the thread's current context.
pub fn current() -> Option<usize> {
    gpu_of(top()).ok()
}

/// Handle of a GPU's primary context: its index in the machine file plus one.
pub fn handle(gpu: usize) -> usize {
    gpu + 1
}

pub fn gpu_of(context: usize) -> Result<usize, Return> {
    let gpu = context.checked_sub(1).filter(|gpu| *gpu < MACHINE.count());
    gpu.ok_or(INVALID_CONTEXT)
}

/// True if kernels of one GPU can access another's memory.
pub fn reaches(from: usize, to: usize) -> bool {
    from == to || held(&PRIMARIES).get(&from).is_some_and(|primary| primary.peers.contains(&to))
}

fn top() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut usize, device: Device) -> Return {
    answer_of("cuDevicePrimaryCtxRetain", device, |gpu| {
        held(&PRIMARIES).entry(gpu).or_default().retained += 1;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, handle(gpu)) }
    })
}

/// The last release frees the context's resources.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: Device) -> Return {
    answer_of("cuDevicePrimaryCtxRelease_v2", device, |gpu| {
        let mut primaries = held(&PRIMARIES);
        let primary = primaries.get_mut(&gpu).ok_or(INVALID_CONTEXT)?;
        primary.retained -= 1;
        if primary.retained == 0 {
            primaries.remove(&gpu);
            drop(primaries);
            memory::free_all(gpu);
        }
        Ok(())
    })
}

/// Bits 0 to 2 are the schedule, of which one at most is set; the others are valid alone or together.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: Device, flags: u32) -> Return {
    answer_of("cuDevicePrimaryCtxSetFlags_v2", device, |gpu| {
        if (flags & 7).count_ones() > 1 || flags > 0xff {
            return Err(INVALID_VALUE);
        }
        held(&FLAGS).insert(gpu, flags);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: Device,
    flags: *mut u32,
    active: *mut c_int,
) -> Return {
    answer_of("cuDevicePrimaryCtxGetState", device, |gpu| {
        let is_active = held(&PRIMARIES).contains_key(&gpu);
        // SAFETY: cuda.h's contract.
        unsafe {
            put(flags, held(&FLAGS).get(&gpu).copied().unwrap_or(0))?;
            put(active, c_int::from(is_active))
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: usize) -> Return {
    answer("cuCtxPushCurrent_v2", || {
        gpu_of(context)?;
        STACK.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(out: *mut usize) -> Return {
    answer("cuCtxPopCurrent_v2", || {
        let context = STACK.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)?;
        // Null if the caller does not need it.
        if out.is_null() {
            return Ok(());
        }
        // SAFETY: cuda.h's contract.
        unsafe { put(out, context) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: usize) -> Return {
    answer("cuCtxSetCurrent", || {
        if context != 0 {
            gpu_of(context)?;
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(out: *mut usize) -> Return {
    // SAFETY: cuda.h's contract.
    answer("cuCtxGetCurrent", || unsafe { put(out, top()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(out: *mut Device) -> Return {
    answer_here("cuCtxGetDevice", |gpu| {
        // SAFETY: cuda.h's contract.
        unsafe { put(out, ordinal(gpu)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Return {
    answer_here("cuCtxSynchronize", |gpu| {
        stream::finish_all(gpu);
        whole(gpu)
    })
}

/// Gives the current context access to the peer's memory.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxEnablePeerAccess(peer: usize, flags: u32) -> Return {
    answer_here("cuCtxEnablePeerAccess", |gpu| {
        let peer = gpu_of(peer)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let mut primaries = held(&PRIMARIES);
        if gpu == peer || !primaries.contains_key(&peer) {
            return Err(INVALID_CONTEXT);
        }
        if !device::can_access(gpu, peer) {
            return Err(PEER_ACCESS_UNSUPPORTED);
        }
        if primaries.entry(gpu).or_default().peers.insert(peer) {
            Ok(())
        } else {
            Err(PEER_ACCESS_ALREADY_ENABLED)
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDisablePeerAccess(peer: usize) -> Return {
    answer_here("cuCtxDisablePeerAccess", |gpu| {
        let peer = gpu_of(peer)?;
        let mut primaries = held(&PRIMARIES);
        let was = primaries.get_mut(&gpu).is_some_and(|primary| primary.peers.remove(&peer));
        was.then_some(()).ok_or(PEER_ACCESS_NOT_ENABLED)
    })
}

/// Ordinal of a GPU.
pub fn ordinal(gpu: usize) -> Device {
    let position = VISIBLE.iter().position(|seen| *seen == gpu);
    // Contexts exist only for visible GPUs.
    position.and_then(|position| c_int::try_from(position).ok()).unwrap_or(-1)
}
