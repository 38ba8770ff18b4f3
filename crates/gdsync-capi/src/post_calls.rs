//! `gds_stream_post_descriptors` and `gds_post_descriptors`: execute a list by a stream or by the CPU.

use std::ffi::{c_int, c_void};

use engine::cpu::{self, Bounds, Stopped};
use gdr_sys::exports;
use gdrcopy::copy::fence;
use gpu::pointer::{self, MemoryKind};
use gpu::{DevicePtr, Registration};

use crate::abi::Descriptor;
use crate::call_error::CallError;
use crate::claims::Claims;
use crate::cpu::Word;
use crate::environment::environment;
use crate::flags::{self, MemoryType};
use crate::list::Resolve;
use crate::registry::Lookup;
use crate::{guard, list, mapped, pair, stream as streams};

exports!(
    use guard::call;

    /// Posts a list to a stream, in order. An invalid list is rejected as a whole. If a list needs more than 255 of CUDA's operations and
    /// CUDA rejects a later batch, the earlier batches stay posted.
    ///
    /// Returns 0; `EINVAL` for flags other than 0, NULL, an unknown tag, arguments that `gds_prepare_…` rejects, and requests that are
    /// invalid, posted or completed; otherwise CUDA's errno (`EPERM` for unsupported or denied operations). Requests of a rejected list can
    /// be posted again.
    ///
    /// # Safety
    ///
    /// `stream` belongs to the current context's GPU. `descs` is NULL or has `n_descs` descriptors, whose words stay valid until the stream
    /// has executed them.
    pub unsafe fn gds_stream_post_descriptors(
        stream: *mut c_void,
        n_descs: usize,
        descs: *mut Descriptor,
        flags: c_int,
    ) -> c_int {
        flags::none(flags)?;
        // SAFETY: the caller's promise.
        let given = unsafe { list::descriptors(n_descs, descs) }?;
        // SAFETY: as above.
        unsafe { on_stream(stream, given) }
    }

    /// Executes a list on the CPU, in order. Returns after the last write. Each wait has a timeout of `GDS_CPU_WAIT_TIMEOUT_MS`, by default ten
    /// minutes; libgdsync waits without limit. After two milliseconds the thread sleeps between polls.
    ///
    /// Returns as [`gds_stream_post_descriptors`]; `EFAULT` for GPU memory that the CPU cannot access, and nothing is executed; `ETIMEDOUT`
    /// after a timeout: earlier descriptors are done, and requests of this and later ones can be posted again; `ECANCELED` if a queue pair of
    /// the list is destroyed meanwhile.
    ///
    /// # Safety
    ///
    /// `descs` is NULL or has `n_descs` descriptors, whose words stay valid during the call.
    pub unsafe fn gds_post_descriptors(
        n_descs: usize,
        descs: *mut Descriptor,
        flags: c_int,
    ) -> c_int {
        flags::none(flags)?;
        // SAFETY: the caller's promise.
        let given = unsafe { list::descriptors(n_descs, descs) }?;
        // SAFETY: as above.
        unsafe { by_cpu(given) }
    }
);

/// Posts a list to a stream.
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
    // SAFETY: the caller's promise.
    let list = unsafe { list::read(given, &mut claims, &mut GpuResolver(Lookup::default())) }?;
    // SAFETY: the caller promises that the words stay valid; destroyed queue pairs keep the words of their queues.
    unsafe { streams::post(stream, &list.ops, can, |op| list.descriptor(op)) }?;
    for pair in claims.keep() {
        pair.wake();
    }
    Ok(())
}

/// Executes a list on the CPU.
///
/// # Safety
///
/// As [`gds_post_descriptors`].
pub(crate) unsafe fn by_cpu(given: &[Descriptor]) -> Result<(), CallError> {
    let mut claims = Claims::default();
    // SAFETY: the caller's promise.
    let list = unsafe { list::read(given, &mut claims, &mut CpuResolver) }?;
    let is_gone = || claims.is_gone();
    let bounds = Bounds::of(environment().cpu_wait_timeout).cancelled_by(&is_gone);
    let done = cpu::run(&list.ops, bounds);
    // Flush write-combining buffers.
    fence::writes();
    let (pairs, done) = match done {
        // Destroying the queue pair has ended waits of the list.
        Ok(()) if is_gone() => (claims.keep(), Err(CallError::Cancelled)),
        Ok(()) => (claims.keep(), Ok(())),
        Err(Stopped::Cancelled { step }) => {
            let position = list.descriptor(step);
            (claims.keep_before(position), Err(CallError::Cancelled))
        }
        Err(Stopped::TimedOut { step, seen, compare, value, waited }) => {
            let position = list.descriptor(step);
            let timed_out = CallError::TimedOut { position, seen, compare, value, waited };
            (claims.keep_before(position), Err(timed_out))
        }
    };
    for pair in pairs {
        pair.serve();
    }
    if matches!(done, Err(CallError::Cancelled)) {
        // Release now: the program may close the device before it destroys another queue pair.
        pair::release_retired();
    }
    done
}

struct GpuResolver(Lookup);

impl Resolve<DevicePtr> for GpuResolver {
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
        // SAFETY: the caller of the C function promises that its words stay valid.
        unsafe { self.0.device_address(address, bytes, how) }
    }

    fn place(&mut self, place: &engine::MappedMemory) -> DevicePtr {
        place.device_address()
    }
}

struct CpuResolver;

impl Resolve<Word> for CpuResolver {
    fn word(
        &mut self,
        address: usize,
        bytes: usize,
        memory: MemoryType,
    ) -> Result<Word, CallError> {
        // SAFETY: the caller of the C function promises that its words are valid; GPU addresses are translated below.
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

    fn place(&mut self, place: &engine::MappedMemory) -> Word {
        // SAFETY: the queues of a claimed request are kept.
        unsafe { Word::of_queue(place) }
    }
}
