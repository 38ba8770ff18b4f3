//! Destruction of a queue pair: releases waiting streams, and keeps memory that a stream may still access.
//!
//! Destruction does not fail with EBUSY: a program that destroys its queue pairs usually no longer expects completions, and could not
//! end the waits of its streams otherwise.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use engine::Watched;
use engine::queue::{CompletionParts, SendParts, Wait};
use gdr_sys::process::PerProcess;

use super::{PendingWait, ProgramQueuePair, Queues, RequestState};
use crate::log::{self, Level};

/// Memory of destroyed queue pairs that streams or kernels may still access: a GPU that writes freed memory loses its context.
static RETIRED: PerProcess<Mutex<Vec<Retired>>> = PerProcess::new(Mutex::default);

/// Memory of a destroyed queue pair. The busy word shows when a stream has passed a wait; nothing shows when it has passed a doorbell,
/// so memory with posted doorbells stays until the process ends.
struct Retired {
    _places: (SendParts, [CompletionParts; 2]),
    may_be_rung: bool,
    waits: Vec<Wait>,
}

impl Retired {
    fn is_in_use(&self) -> bool {
        self.may_be_rung || self.waits.iter().any(is_open)
    }
}

fn is_open(wait: &Wait) -> bool {
    wait.busy().load_u32(0).is_ok_and(|busy| busy != 0)
}

/// How long to wait for a release.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Frees the memory of queue pairs. A NIC's memory is registered with CUDA, which ends a registration only after the GPU has finished all
/// work (H200, driver 580), also of streams that may wait for the caller's next action. So this waits up to [`TIMEOUT`] and then continues
/// in a thread; until that ends, `ibv_dealloc_pd` fails with `EBUSY`.
fn release(gone: Vec<Retired>) {
    let (done, is_done) = mpsc::channel();
    let thread = thread::Builder::new().name("gds_destroy_qp".to_owned()).spawn(move || {
        drop(gone);
        // Ignored: the receiver is gone after the timeout.
        let _ = done.send(());
    });
    // If the thread did not start, dropping the closure has freed the memory.
    if thread.is_ok() && is_done.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
        let text = format_args!("the GPU is busy: the queues are freed when its work ends");
        log::write(Level::Warning, "gds_destroy_qp", text);
    }
}

fn retired() -> MutexGuard<'static, Vec<Retired>> {
    RETIRED.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the memory of destroyed queue pairs that is no longer in use.
pub(crate) fn release_retired() {
    let mut retired = retired();
    let all = std::mem::take(&mut *retired).into_iter();
    let gone: Vec<Retired>;
    (*retired, gone) = all.partition(Retired::is_in_use);
    drop(retired);
    if !gone.is_empty() {
        release(gone);
    }
}

impl ProgramQueuePair {
    /// Destroys the verbs objects and ends every wait. False if already destroyed.
    pub(crate) fn end(&self) -> bool {
        let Some(queues) = self.queues().take() else {
            return false;
        };
        let Queues { engine, waits, .. } = &queues;
        let places = (
            engine.send.parts().clone(),
            [engine.send_completions.parts().clone(), engine.receive_completions.parts().clone()],
        );
        let waits: Vec<&PendingWait> = waits.iter().flatten().collect();
        let is_posted =
            |pending: &&&PendingWait| pending.is_exposed || pending.state == RequestState::Posted;
        let posted = waits.iter().filter(is_posted).map(|pending| pending.wait.clone());
        let open: Vec<Wait> = posted.filter(is_open).collect();
        let may_be_rung = queues.may_be_rung();
        // After this the backend writes no CQEs.
        drop(queues);
        for wait in &open {
            // Ignored: no stream waits on inaccessible memory.
            let _ = Watched::completion(wait).release();
        }
        let count = open.len();
        retired().push(Retired { _places: places, may_be_rung, waits: open });
        release_retired();
        if count > 0 {
            log::write(
                Level::Warning,
                "gds_destroy_qp",
                format_args!("{count} waits were not over: their streams are released"),
            );
        }
        true
    }
}
