//! Memory operations of a program's stream: capabilities and posting.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use engine::lower::lower;
use gdr_sys::process::PerProcess;
use gpu::{DevicePtr, MemOp, StreamCapabilities, foreign};

use crate::call_error::CallError;
use crate::checker;
use crate::environment::{environment, obsolete};
use crate::log::{self, Level};

/// Capabilities by CUDA device number. They do not change.
static KNOWN: PerProcess<Mutex<BTreeMap<i32, StreamCapabilities>>> =
    PerProcess::new(Mutex::default);

/// Stream capabilities of the current context's GPU, less those that the environment disables.
pub(crate) fn capabilities() -> Result<StreamCapabilities, CallError> {
    let device = foreign::current_device()
        .map_err(CallError::cuda("find the GPU of the current context"))?;
    let mut known = KNOWN.get().lock().unwrap_or_else(PoisonError::into_inner);
    let has = match known.get(&device) {
        Some(has) => *has,
        None => {
            let has = foreign::stream_capabilities(device)
                .map_err(CallError::cuda("query the GPU's stream capabilities"))?;
            log::write(Level::Debug, "capabilities", format_args!("device {device}: {has:?}"));
            if known.is_empty() {
                log_settings();
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

/// Logs the environment's settings, and the variables without effect.
fn log_settings() {
    let line = |level, message: std::fmt::Arguments<'_>| log::write(level, "capabilities", message);
    line(Level::Debug, format_args!("{:?}", environment()));
    for (name, why) in obsolete() {
        line(Level::Warning, format_args!("{name} no longer applies, because {why}"));
    }
}

/// Posts operations to a stream, in order, lowered for its capabilities (`can`). `descriptor_of` returns the position of an
/// operation's descriptor, for errors.
///
/// # Safety
///
/// `stream` belongs to the current context's GPU, and the words are valid for that GPU until the stream has executed the operations.
pub(crate) unsafe fn post(
    stream: *mut c_void,
    ops: &[MemOp<DevicePtr>],
    can: StreamCapabilities,
    descriptor_of: impl FnOnce(usize) -> usize,
) -> Result<(), CallError> {
    let mut ops = lower(ops, can).map_err(|unsupported| CallError::StreamUnsupported {
        source: unsupported.at(descriptor_of),
    })?;
    let set = environment();
    if set.no_barrier {
        ops.to_mut().retain(|op| *op != MemOp::Barrier);
    }
    let checks = if set.checks_waits { checker::add(ops.to_mut()) } else { Vec::new() };
    // SAFETY: the caller's promise.
    let posted = unsafe { foreign::batch(stream, &ops) };
    if set.dump || posted.is_err() {
        dump(&ops);
    }
    if posted.is_ok() {
        checker::watch(checks);
    }
    posted.map_err(CallError::cuda("post the list to the stream"))
}

/// Logs each operation of a batch.
fn dump(ops: &[MemOp<DevicePtr>]) {
    let line = |message: std::fmt::Arguments<'_>| {
        log::write(Level::Info, "gds_stream_post_descriptors", message)
    };
    line(format_args!("nops={}", ops.len()));
    for (number, op) in ops.iter().enumerate() {
        match op {
            MemOp::Write32 { at, value } => {
                line(format_args!("{number}: write32 {at} value {value:#010x}"))
            }
            MemOp::Write64 { at, value } => {
                line(format_args!("{number}: write64 {at} value {value:#018x}"))
            }
            MemOp::Wait32 { at, value, compare, flush } => {
                line(format_args!("{number}: wait32 {at} {compare:?} {value:#010x} flush {flush}"));
            }
            MemOp::Wait64 { at, value, compare, flush } => {
                line(format_args!("{number}: wait64 {at} {compare:?} {value:#018x} flush {flush}"));
            }
            MemOp::Barrier => line(format_args!("{number}: barrier")),
            MemOp::FlushRemoteWrites => line(format_args!("{number}: flush of remote writes")),
        }
    }
}
