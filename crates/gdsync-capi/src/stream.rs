//! Memory operations for a program's stream: what its GPU supports of them, and the call that puts them in.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use engine::lower::lower;
use gpu::{DevicePtr, MemOp, StreamCapabilities, foreign};
use process::PerProcess;

use crate::call_error::CallError;
use crate::environment::environment;
use crate::log::{self, Level};

/// By CUDA's number of the device. They do not change while the process lives.
static KNOWN: PerProcess<Mutex<BTreeMap<i32, StreamCapabilities>>> =
    PerProcess::new(Mutex::default);

/// What the streams of the calling thread's context support, less what the environment turns off.
pub(crate) fn capabilities() -> Result<StreamCapabilities, CallError> {
    let device = foreign::current_device()
        .map_err(CallError::cuda("tell the GPU of the current context"))?;
    let mut known = KNOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
    let has = match known.get(&device) {
        Some(has) => *has,
        None => {
            let has = foreign::stream_capabilities(device)
                .map_err(CallError::cuda("ask the GPU what it can do"))?;
            log::say(
                Level::Debug,
                "capabilities",
                format_args!("device {device}: {has:?}"),
            );
            if environment().no_write_memory {
                let words = "GDS_DISABLE_WRITEMEMORY is set: memory is written in words anyway";
                log::say(Level::Debug, "capabilities", format_args!("{words}"));
            }
            known.insert(device, has);
            has
        }
    };
    let set = environment();
    Ok(StreamCapabilities {
        words_of_64_bits: has.words_of_64_bits && !set.no_write64,
        nor: has.nor && !set.no_wait_nor,
        flush: has.flush && !set.no_remote_flush,
    })
}

/// Puts operations into a stream, in order, as its GPU supports them (`can`). `descriptor_of` gives the program's descriptor of an
/// operation, for the error.
///
/// # Safety
///
/// `stream` is one of the current context's GPU, and the words are valid for that GPU until the stream has done the operations.
pub(crate) unsafe fn put(
    stream: *mut c_void,
    ops: impl ExactSizeIterator<Item = MemOp<DevicePtr>>,
    can: StreamCapabilities,
    descriptor_of: impl FnOnce(usize) -> usize,
) -> Result<(), CallError> {
    let ops = lower(ops, can).map_err(|unsupported| CallError::StreamUnsupported {
        source: unsupported.at(descriptor_of),
    })?;
    // SAFETY: this function's own condition.
    let put = unsafe { foreign::batch(stream, &ops) };
    if environment().dump || put.is_err() {
        dump(&ops);
    }
    put.map_err(CallError::cuda("put the list into the stream"))
}

/// Logs each operation of a batch.
fn dump(ops: &[MemOp<DevicePtr>]) {
    let say = |message: std::fmt::Arguments<'_>| {
        log::say(Level::Info, "gds_stream_post_descriptors", message)
    };
    say(format_args!("nops={}", ops.len()));
    for (number, op) in ops.iter().enumerate() {
        match op {
            MemOp::Write32 { at, value } => {
                say(format_args!("{number}: write32 {at} value {value:#010x}"))
            }
            MemOp::Write64 { at, value } => {
                say(format_args!("{number}: write64 {at} value {value:#018x}"))
            }
            MemOp::Wait32 {
                at,
                value,
                compare,
                flush,
            } => {
                say(format_args!(
                    "{number}: wait32 {at} {compare:?} {value:#010x} flush {flush}"
                ));
            }
            MemOp::Wait64 {
                at,
                value,
                compare,
                flush,
            } => {
                say(format_args!(
                    "{number}: wait64 {at} {compare:?} {value:#018x} flush {flush}"
                ));
            }
            MemOp::Barrier => say(format_args!("{number}: barrier")),
            MemOp::FlushRemoteWrites => say(format_args!("{number}: flush of remote writes")),
        }
    }
}
