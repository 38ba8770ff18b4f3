//! `gds_stream_post_descriptors` and `gds_post_descriptors`: a list is done, by a stream or by the CPU.

use std::ffi::{c_int, c_void};

use engine::cpu::{self, Bounds, Stopped};
use gdrcopy::copy::fence;
use gpu::pointer::{self, MemoryKind};
use gpu::{DevicePtr, Registration};

use crate::abi::Descriptor;
use crate::call_error::CallError;
use crate::claims::Claims;
use crate::cpu::Word;
use crate::environment::environment;
use crate::flags::{self, MemoryType};
use crate::list::Finds;
use crate::registry::Lookup;
use crate::{guard, list, mapped, pair, stream as streams};

/// Puts a list into a stream, in order. Either all of it is looked at and found well, or nothing is put in; where the list makes
/// more than 255 of CUDA's operations and CUDA refuses one of the later batches, those before it are in.
///
/// Returns 0; `EINVAL` for flags other than 0, NULL, an unknown tag or what `gds_prepare_…` refuses, and for requests that were posted
/// before, are over, or are none; otherwise what CUDA's answer comes to (`EPERM` for what it does not support or permit). A request
/// of a list that was refused may be posted again.
///
/// # Safety
///
/// `stream` is one of the current context's GPU. `descs` is NULL or has `n_descs` descriptors, whose words stay memory until the
/// stream has done them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_stream_post_descriptors(
    stream: *mut c_void,
    n_descs: usize,
    descs: *mut Descriptor,
    flags: c_int,
) -> c_int {
    guard::call("gds_stream_post_descriptors", || {
        flags::none(flags)?;
        // SAFETY: the caller's promise.
        let given = unsafe { list::given(n_descs, descs) }?;
        // SAFETY: as above.
        unsafe { on_stream(stream, given) }
    })
}

/// Puts a list into a stream.
///
/// # Safety
///
/// As [`gds_stream_post_descriptors`].
pub(crate) unsafe fn on_stream(stream: *mut c_void, given: &[Descriptor]) -> Result<(), CallError> {
    if given.is_empty() {
        return Ok(());
    }
    let can = streams::capabilities()?;
    let mut claims = Claims::default();
    // SAFETY: the caller's promise; the words are memory.
    let list = unsafe { list::read(given, &mut claims, &mut ForGpu(Lookup::default())) }?;
    let ops = list.ops.iter().copied();
    // SAFETY: the caller promises that the words stay until the stream has done them; those of queues are kept.
    unsafe { streams::put(stream, ops, can, |op| list.descriptor(op)) }?;
    for pair in claims.keep() {
        pair.wake();
    }
    Ok(())
}

/// Has the CPU do a list, in order; it returns when the last word is written. A wait lasts ten minutes at most, or as
/// `GDS_CPU_WAIT_TIMEOUT_MS` says; libgdsync waits for ever. After two milliseconds the thread sleeps between looks.
///
/// Returns as [`gds_stream_post_descriptors`]; `EFAULT` for GPU memory that the CPU does not reach. Nothing is done then. `ETIMEDOUT` where
/// a wait lasted too long: the descriptors before it are done, and the requests of it and of those after it may be posted again.
/// `ECANCELED` where a queue pair of the list was destroyed meanwhile, which ends the waits.
///
/// # Safety
///
/// `descs` is NULL or has `n_descs` descriptors, whose words stay memory until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_post_descriptors(
    n_descs: usize,
    descs: *mut Descriptor,
    flags: c_int,
) -> c_int {
    guard::call("gds_post_descriptors", || {
        flags::none(flags)?;
        // SAFETY: the caller's promise.
        let given = unsafe { list::given(n_descs, descs) }?;
        // SAFETY: as above.
        unsafe { by_cpu(given) }
    })
}

/// Has the CPU do a list.
///
/// # Safety
///
/// As [`gds_post_descriptors`].
pub(crate) unsafe fn by_cpu(given: &[Descriptor]) -> Result<(), CallError> {
    let mut claims = Claims::default();
    // SAFETY: the caller's promise.
    let list = unsafe { list::read(given, &mut claims, &mut ForCpu) }?;
    let is_gone = || claims.is_gone();
    let bounds = Bounds::of(environment().cpu_wait_timeout).cancelled_by(&is_gone);
    let done = cpu::run(&list.ops, bounds);
    // What was stored has left the CPU's buffers.
    fence::writes();
    let (pairs, done) = match done {
        // Its end ended waits that stand in the list.
        Ok(()) if is_gone() => (claims.keep(), Err(CallError::Cancelled)),
        Ok(()) => (claims.keep(), Ok(())),
        Err(Stopped::Cancelled { step }) => {
            let position = list.descriptor(step);
            (claims.keep_before(position), Err(CallError::Cancelled))
        }
        Err(Stopped::TimedOut {
            step,
            seen,
            compare,
            value,
            waited,
        }) => {
            let position = list.descriptor(step);
            let timed_out = CallError::TimedOut {
                position,
                seen,
                compare,
                value,
                waited,
            };
            (claims.keep_before(position), Err(timed_out))
        }
    };
    for pair in pairs {
        pair.serve();
    }
    if matches!(done, Err(CallError::Cancelled)) {
        // Nobody else would before the next queue pair is destroyed, and the program may close the device.
        pair::give_back();
    }
    done
}

struct ForGpu(Lookup);

impl Finds<DevicePtr> for ForGpu {
    fn word(
        &mut self,
        address: usize,
        bytes: usize,
        memory: MemoryType,
    ) -> Result<DevicePtr, CallError> {
        let how = match memory {
            MemoryType::Gpu => return Ok(DevicePtr::new(address as u64)),
            MemoryType::Host => Registration::Memory,
            MemoryType::Io => Registration::Registers,
        };
        // SAFETY: whoever posts a list promises that its words are memory, and stay that.
        unsafe { self.0.device_address(address, bytes, how) }
    }

    fn place(&mut self, place: &engine::Place) -> DevicePtr {
        place.device_address()
    }
}

struct ForCpu;

impl Finds<Word> for ForCpu {
    fn word(
        &mut self,
        address: usize,
        bytes: usize,
        memory: MemoryType,
    ) -> Result<Word, CallError> {
        // SAFETY: whoever posts a list promises that its words are memory until it is done; those of a GPU are looked up.
        let word = |address, is_peer| Ok(unsafe { Word::new(address, is_peer) });
        match memory {
            MemoryType::Host => word(address, false),
            MemoryType::Io => word(address, true),
            MemoryType::Gpu => {
                if let Some(address) = mapped::host_address(address, bytes) {
                    return word(address, true);
                }
                match pointer::describe(DevicePtr::new(address as u64)) {
                    Ok(known) if matches!(known.kind, MemoryKind::Host | MemoryKind::Managed) => {
                        word(address, false)
                    }
                    _ => Err(CallError::Unreachable { address }),
                }
            }
        }
    }

    fn place(&mut self, place: &engine::Place) -> Word {
        // SAFETY: the queues of a posted request are kept.
        unsafe { Word::of_queue(place) }
    }
}
