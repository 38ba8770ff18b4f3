//! `gds_stream_post_descriptors` and `gds_post_descriptors`: a list is done, by a stream or by the CPU.

use std::ffi::{c_int, c_void};

use engine::cpu;
use engine::descriptor::{self, Capabilities, Step};
use gpu::pointer::{self, MemoryKind};
use gpu::{DevicePtr, MemoryOperation, Registration, foreign};

use crate::abi::Descriptor;
use crate::cpu::{Place, Words};
use crate::environment::environment;
use crate::flags::MemoryType;
use crate::log::{self, Level};
use crate::refusal::Refusal;
use crate::registry::Lookup;
use crate::{device, guard, list, mapped};

/// Puts a list into a stream, in order. Either all of it is looked at and found well, or nothing is put in; where the list makes
/// more than 255 of CUDA's operations and CUDA refuses one of the later batches, those before it are in.
///
/// Returns 0; `EINVAL` for flags other than 0, NULL, an unknown tag or what `gds_prepare_…` refuses; `ENOSYS` for send and wait
/// requests; otherwise what CUDA's answer comes to (`EPERM` for what it does not support or permit).
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
        no_flags(flags)?;
        // SAFETY: the caller's promise.
        let given = unsafe { list::given(n_descs, descs) }?;
        if given.is_empty() {
            return Ok(());
        }
        let can = device::capabilities()?;
        let mut lookup = Lookup::default();
        // SAFETY: as above, and the words are memory.
        let list = unsafe { list::read(given, |word, bytes, memory| for_gpu(&mut lookup, word, bytes, memory)) }?;
        let steps = descriptor::steps(&list, can).map_err(|source| Refusal::Impossible { source })?;
        // SAFETY: the caller promises that the words stay until the stream has done them.
        let operations: Vec<MemoryOperation> = steps.iter().map(|&step| unsafe { operation(step) }).collect();
        // SAFETY: as above, of the stream too.
        let put = unsafe { foreign::batch(stream, &operations) };
        if environment().dump || put.is_err() {
            dump(&steps);
        }
        put.map_err(Refusal::cuda("put the list into the stream"))
    })
}

/// Has the CPU do a list, in order; it returns when the last word is written. A wait lasts as long as it takes.
///
/// Returns as [`gds_stream_post_descriptors`]; `EFAULT` for GPU memory that the CPU does not reach. Nothing is done then.
///
/// # Safety
///
/// `descs` is NULL or has `n_descs` descriptors, whose words stay memory until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_post_descriptors(n_descs: usize, descs: *mut Descriptor, flags: c_int) -> c_int {
    guard::call("gds_post_descriptors", || {
        no_flags(flags)?;
        // SAFETY: the caller's promise.
        let given = unsafe { list::given(n_descs, descs) }?;
        // SAFETY: as above.
        let list = unsafe { list::read(given, for_cpu) }?;
        let steps = descriptor::steps(&list, Capabilities::ALL).map_err(|source| Refusal::Impossible { source })?;
        // SAFETY: the caller promises that the words are there; those of GPUs were found.
        let words = unsafe { Words::new() };
        cpu::run(&steps, &words, None)?;
        words.settle();
        Ok(())
    })
}

fn no_flags(flags: c_int) -> Result<(), Refusal> {
    match flags {
        0 => Ok(()),
        _ => Err(Refusal::Flags { flags, allowed: 0 }),
    }
}

/// Where the GPU sees a word, which is memory: the caller's promise.
fn for_gpu(lookup: &mut Lookup, word: usize, bytes: usize, memory: MemoryType) -> Result<DevicePtr, Refusal> {
    let how = match memory {
        MemoryType::Gpu => return Ok(DevicePtr::new(word as u64)),
        MemoryType::Host => Registration::Memory,
        MemoryType::Io => Registration::Registers,
    };
    // SAFETY: whoever posts a list promises that its words are memory, and stay that.
    unsafe { lookup.device_address(word, bytes, how) }
}

/// Where the CPU sees a word.
fn for_cpu(word: usize, bytes: usize, memory: MemoryType) -> Result<Place, Refusal> {
    let place = |address, is_far| Ok(Place { address, is_far });
    match memory {
        MemoryType::Host => place(word, false),
        MemoryType::Io => place(word, true),
        MemoryType::Gpu => {
            if let Some(address) = mapped::host_address(word, bytes) {
                return place(address, true);
            }
            match pointer::describe(DevicePtr::new(word as u64)) {
                Ok(known) if matches!(known.kind, MemoryKind::Host | MemoryKind::Managed) => place(word, false),
                _ => Err(Refusal::Unreachable { address: word }),
            }
        }
    }
}

/// # Safety
///
/// The word is valid for the GPU until the operation is done.
unsafe fn operation(step: Step<DevicePtr>) -> MemoryOperation {
    let flushed = |wait: MemoryOperation, flush: bool| if flush { wait.flushed() } else { wait };
    // SAFETY: this function's own condition.
    unsafe {
        match step {
            Step::Write32(at, value) => MemoryOperation::write32_at(at, value),
            Step::Write64(at, value) => MemoryOperation::write64_at(at, value),
            Step::Wait32(at, value, compare, flush) => flushed(MemoryOperation::wait32_at(at, value, compare), flush),
            Step::Wait64(at, value, compare, flush) => flushed(MemoryOperation::wait64_at(at, value, compare), flush),
            Step::Barrier => MemoryOperation::barrier(),
            Step::Flush => MemoryOperation::flush_remote_writes(),
        }
    }
}

/// Tells each operation of a batch.
fn dump(steps: &[Step<DevicePtr>]) {
    let say = |message: std::fmt::Arguments<'_>| log::say(Level::Info, "gds_stream_post_descriptors", message);
    say(format_args!("nops={}", steps.len()));
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Write32(at, value) => say(format_args!("{number}: write32 {at} value {value:#010x}")),
            Step::Write64(at, value) => say(format_args!("{number}: write64 {at} value {value:#018x}")),
            Step::Wait32(at, value, compare, flush) => {
                say(format_args!(
                    "{number}: wait32 {at} {compare:?} {value:#010x} flush {flush}"
                ));
            }
            Step::Wait64(at, value, compare, flush) => {
                say(format_args!(
                    "{number}: wait64 {at} {compare:?} {value:#018x} flush {flush}"
                ));
            }
            Step::Barrier => say(format_args!("{number}: barrier")),
            Step::Flush => say(format_args!("{number}: flush of remote writes")),
        }
    }
}
