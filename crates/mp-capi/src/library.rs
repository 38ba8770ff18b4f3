//! What mp_init makes and mp_finalize ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use engine::{Communicator, DescriptorQueue, Region, Request, Window};
use gdr_sys::process::PerProcess;
use gpu::Gpu;

use crate::call_error::CallError;
use crate::comm_calls::Comm;
use crate::handles::Handles;
use crate::words::Words;

/// A rank.
#[derive(Debug)]
pub(crate) struct Library {
    // Dropped first, in this order: requests and queues use the communicator's peers.
    pub requests: Handles<OpenRequest>,
    pub queues: Handles<Mutex<Queue>>,
    pub windows: Handles<Window>,
    pub regions: Handles<Registered>,
    pub comm: OnceLock<Comm>,
    pub ranks: Communicator,
    pub words: Words,
    pub gpu: Gpu,
}

/// A request, and whether mp_wait may wait for it.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub request: Request,
    /// Put with `MP_PUT_NOWAIT`: freed when it is posted.
    pub has_completion: bool,
}

/// Registered memory of the program.
#[derive(Debug)]
pub(crate) struct Registered {
    pub region: Region,
    /// Address of its first byte.
    pub start: usize,
}

/// A descriptor queue, and the handles of its puts without a completion.
#[derive(Debug)]
pub(crate) struct Queue {
    pub queue: DescriptorQueue,
    pub unwaited: Vec<usize>,
}

static OPEN: PerProcess<Mutex<Option<Arc<Library>>>> = PerProcess::new(Mutex::default);

/// True if the CPU accesses GPU memory at GPU addresses.
static IS_SIMULATED: AtomicBool = AtomicBool::new(false);

/// Uses GPU addresses for CPU access too, as the simulated CUDA requires. For tests only.
#[doc(hidden)]
pub fn simulate() {
    IS_SIMULATED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_simulated() -> bool {
    IS_SIMULATED.load(Ordering::Relaxed)
}

impl Library {
    pub fn new(ranks: Communicator, gpu: Gpu) -> Self {
        Self {
            requests: Handles::new("mp_request_t", 1),
            regions: Handles::new("mp_reg_t", 2),
            windows: Handles::new("mp_window_t", 3),
            queues: Handles::new("mp_desc_queue_t", 4),
            comm: OnceLock::new(),
            ranks,
            words: Words::default(),
            gpu,
        }
    }

    /// What `comm_init` adds.
    pub fn comm(&self) -> Result<&Comm, CallError> {
        self.comm.get().ok_or(CallError::NotInitialized)
    }
}

/// The open library.
pub(crate) fn library() -> Result<Arc<Library>, CallError> {
    slot().clone().ok_or(CallError::NotInitialized)
}

/// Holds the lock while it is opened or closed.
pub(crate) fn slot() -> MutexGuard<'static, Option<Arc<Library>>> {
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}
