//! `mp_query_param`, `mp_init`, `mp_finalize`.

use std::ffi::c_int;
use std::sync::Arc;

use engine::bootstrap::{self, give_up};
use engine::mpi::Mpi;
use engine::{Bootstrap, Communicator, HcaKind, Options, Selection};
use gdr_sys::exports;
use gdr_sys::process::PerProcess;
use gdrcopy::Gdr;
use gdsync::{Allocator, MemoryLocation, Pages};
use gpu::Gpu;

use crate::abi::{self, MpiHandle};
use crate::call_error::CallError;
use crate::environment::{self, environment};
use crate::library::{Library, is_simulated, library, slot};
use crate::log::{self, Level};
use crate::{buffer, guard, handles};

const INIT: &str = "mp_init";

/// Memory of queues, reused after another `mp_init`.
static PAGES: PerProcess<Pages> = PerProcess::new(Pages::default);

exports!(
    use guard::call;

    /// Writes the version of the library. `EINVAL` for NULL, a misaligned pointer and unknown parameters.
    ///
    /// # Safety
    ///
    /// `value` is NULL, misaligned or writable.
    pub unsafe fn mp_query_param(param: c_int, value: *mut c_int) -> c_int {
        handles::check("value", value)?;
        if param != abi::PARAM_VERSION {
            let (what, value) = ("mp_param_t", param.into());
            return Err(CallError::Value { what, value });
        }
        // SAFETY: not NULL and aligned; the caller promises that it is writable.
        unsafe { value.write(abi::API_VERSION) };
        Ok(())
    }

    /// Connects to the peers.
    ///
    /// # Safety
    ///
    /// `comm` is a communicator of the MPI library in this process; `peers` is NULL, misaligned, or has `count` numbers.
    pub unsafe fn mp_init(
        comm: MpiHandle,
        peers: *mut c_int,
        count: c_int,
        flags: c_int,
        gpu_id: c_int,
    ) -> c_int {
        let count = buffer::size(count)?;
        let peers = match count {
            0 => Vec::new(),
            count => {
                handles::check("peers", peers)?;
                // SAFETY: not NULL and aligned; the caller promises `count` numbers.
                unsafe { std::slice::from_raw_parts(peers, count) }.to_vec()
            }
        };
        // SAFETY: the caller's promise.
        unsafe { init(comm, Some(peers), flags, gpu_id) }
    }
);

/// # Safety
///
/// As [`mp_init`].
pub(crate) unsafe fn init(
    comm: MpiHandle,
    peers: Option<Vec<c_int>>,
    flags: c_int,
    gpu_id: c_int,
) -> Result<(), CallError> {
    // SAFETY: the caller's promise.
    let communicator = unsafe { Mpi::find()?.communicator(comm) }?;
    connect(Box::new(bootstrap::Mpi::new(communicator)), peers, flags, gpu_id)
}

/// [`mp_init`] with another bootstrap, for fuzzing.
#[doc(hidden)]
pub fn mp_init_with(bootstrap: Box<dyn Bootstrap>, peers: Vec<c_int>) -> c_int {
    guard::call(INIT, || connect(bootstrap, Some(peers), 0, 0))
}

pub(crate) fn connect(
    mut bootstrap: Box<dyn Bootstrap>,
    peers: Option<Vec<c_int>>,
    flags: c_int,
    gpu_id: c_int,
) -> Result<(), CallError> {
    let mut slot = slot();
    if slot.is_some() {
        return Err(CallError::Initialized);
    }
    log::set_rank(bootstrap.rank());
    log_settings();
    let prepared = options(peers, flags).and_then(|options| {
        let (gpu, allocator) = open(gpu_id, &options)?;
        Ok((options, gpu, allocator))
    });
    let (options, gpu, allocator) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // The other ranks fail too, instead of waiting for this one.
            let _ = give_up(&mut *bootstrap, &gpu::sentence(&error), environment().timeout);
            return Err(error);
        }
    };
    let selection = Selection {
        kind: environment().hca,
        device: environment().device.clone(),
        gid_index: environment().gid_index,
    };
    let opened = selection.open(&mut *bootstrap, &allocator, options.timeout)?;
    let name = &opened.name;
    match selection.kind {
        HcaKind::Software => log::write(Level::Warning, INIT, format_args!("HCA: {name}")),
        _ => log::write(Level::Info, INIT, format_args!("HCA: {name}")),
    }
    if let Some(why) = opened.fallback {
        log::write(Level::Warning, INIT, format_args!("{why}; using the proxy"));
    }
    let ranks = Communicator::connect(bootstrap, opened.hca, allocator, options)?;
    *slot = Some(Arc::new(Library::new(ranks, gpu)));
    Ok(())
}

/// The GPU of the current context, else the named one.
fn open(gpu_id: c_int, options: &Options) -> Result<(Gpu, Allocator), CallError> {
    let ordinal = u32::try_from(gpu_id)
        .map_err(|_| CallError::Value { what: "gpu_id", value: gpu_id.into() })?;
    let gpu = match Gpu::current() {
        Ok(gpu) => gpu,
        Err(_) => Gpu::open(ordinal).map_err(CallError::cuda("open the GPU"))?,
    };
    let current = gpu.device().ordinal;
    if current != ordinal {
        let text = format_args!(
            "GPU {ordinal} was requested, but the current context is on GPU {current}; using GPU {current}"
        );
        log::write(Level::Warning, INIT, text);
    }
    // The software HCA accesses GPU memory by the CPU, and so do queues in GPU memory.
    let locations = [options.queues, options.records, options.completions];
    let gdr = if locations.contains(&MemoryLocation::Gpu) {
        Some(Gdr::open().map_err(CallError::Queues)?)
    } else if environment().hca == HcaKind::Software && !is_simulated() {
        Gdr::open().ok()
    } else {
        None
    };
    let allocator = Allocator::own_pages(gpu.clone(), gdr, PAGES.get());
    Ok((gpu, allocator))
}

fn options(peers: Option<Vec<c_int>>, flags: c_int) -> Result<Options, CallError> {
    let ranks = |peers: Vec<c_int>| peers.into_iter().map(buffer::rank).collect();
    let peers = peers.map(ranks).transpose()?;
    let (mut queues, mut records, mut completions) = (false, false, false);
    match flags {
        0 => {}
        abi::INIT_WQ_ON_GPU => queues = true,
        abi::INIT_RX_CQ_ON_GPU | abi::INIT_TX_CQ_ON_GPU => completions = true,
        abi::INIT_DBREC_ON_GPU => records = true,
        value => {
            return Err(CallError::Value {
                what: "enum mp_init_flags: its values are not bits",
                value: value.into(),
            });
        }
    }
    let set = environment();
    let location = |on_gpu| if on_gpu { MemoryLocation::Gpu } else { MemoryLocation::Host };
    Ok(Options {
        peers,
        depth: set.depth,
        timeout: set.timeout,
        retries: None,
        queues: location(queues),
        records: location(set.records_on_gpu.unwrap_or(records)),
        completions: location(set.completions_on_gpu.unwrap_or(completions)),
        stages: set.stages,
        report: Some(Arc::new(|text: &str| {
            log::write(Level::Error, "monitor", format_args!("{text}"));
        })),
    })
}

fn log_settings() {
    log::write(Level::Debug, INIT, format_args!("{:?}", environment()));
    if environment::names_device_by_old_variable() {
        let text = format_args!("USE_IB_HCA is deprecated: use MP_USE_IB_HCA");
        log::write(Level::Warning, INIT, text);
    }
    for (name, why) in environment::obsolete() {
        let text = format_args!("{name} no longer applies, because {why}");
        log::write(Level::Warning, INIT, text);
    }
}

/// Waits for all ranks, then ends all connections.
#[unsafe(no_mangle)]
pub extern "C" fn mp_finalize() {
    guard::call("mp_finalize", finalize);
}

pub(crate) fn finalize() -> Result<(), CallError> {
    let open = library()?;
    let all = open.ranks.barrier();
    let requests = open.ranks.open_requests();
    // The connections end with the last call that uses them.
    slot().take();
    drop(open);
    if requests > 0 {
        let text =
            format_args!("{requests} requests were neither waited for nor freed: they are ended");
        log::write(Level::Warning, "mp_finalize", text);
    }
    Ok(all?)
}
