//! The end of a queue pair. Streams that wait for its completions are released, and what a stream may still touch stays.
//!
//! It is released rather than refused (EBUSY), since a program that ends its queue pairs mostly does so because what it waits for will not
//! come any more: a refusal would leave its streams waiting for ever, and it would have nothing to end that with.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use engine::Watched;
use engine::queue::{CompletionParts, SendParts, Wait};
use process::PerProcess;

use super::{Given, Pair, Queues, Waiting};
use crate::log::{self, Level};

/// Queue pairs that were destroyed while streams or kernels were not known to be done with their places: a GPU that writes memory that
/// is gone loses its context.
static BURIED: PerProcess<Mutex<Vec<Buried>>> = PerProcess::new(Mutex::default);

/// What stays of a queue pair. A stream that has passed a wait says so by its busy word. Nobody tells when one has passed a doorbell: where
/// such are left, the places stay until the process ends.
struct Buried {
    _places: (SendParts, [CompletionParts; 2]),
    may_be_rung: bool,
    waits: Vec<Wait>,
}

impl Buried {
    fn may_be_touched(&self) -> bool {
        self.may_be_rung || self.waits.iter().any(is_open)
    }
}

fn is_open(wait: &Wait) -> bool {
    wait.busy().load_u32(0).is_ok_and(|busy| busy != 0)
}

/// How long a destruction is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Gives the places of queue pairs back. A NIC's are registered with CUDA, which ends a registration only once the GPU has done all of
/// its work (H200, driver 580), that of other streams too; these may wait for what the caller does next. So it is waited for so long, and
/// then goes on by itself: until it is done, `ibv_dealloc_pd` is refused with `EBUSY`.
fn let_go(gone: Vec<Buried>) {
    let (done, is_done) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("gds_destroy_qp".to_owned())
        .spawn(move || {
            drop(gone);
            // Nobody may be waiting any more.
            let _ = done.send(());
        });
    // Without a thread they went with the closure, and were waited for.
    if thread.is_ok() && is_done.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
        let words = format_args!("the GPU is at work: the queues are given back when it is done");
        log::say(Level::Warning, "gds_destroy_qp", words);
    }
}

fn buried() -> MutexGuard<'static, Vec<Buried>> {
    BURIED.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives back what is left of queue pairs that nobody touches any more.
pub(crate) fn give_back() {
    let mut buried = buried();
    let all = std::mem::take(&mut *buried).into_iter();
    let gone: Vec<Buried>;
    (*buried, gone) = all.partition(Buried::may_be_touched);
    drop(buried);
    if !gone.is_empty() {
        let_go(gone);
    }
}

impl Pair {
    /// Destroys the verbs objects and ends every wait. False where it was destroyed before.
    pub(crate) fn end(&self) -> bool {
        let Some(queues) = self.queues().take() else {
            return false;
        };
        let Queues { engine, waits, .. } = &queues;
        let places = (
            engine.send.parts().clone(),
            [
                engine.send_completions.parts().clone(),
                engine.receive_completions.parts().clone(),
            ],
        );
        let waits: Vec<&Waiting> = waits.iter().flatten().collect();
        let is_given = |waiting: &&&Waiting| waiting.is_shown || waiting.given == Given::Posted;
        let given = waits
            .iter()
            .filter(is_given)
            .map(|waiting| waiting.wait.clone());
        let open: Vec<Wait> = given.filter(is_open).collect();
        let may_be_rung = queues.may_be_rung();
        // Whoever is behind the queues writes no completions from here on.
        drop(queues);
        for wait in &open {
            // Memory that cannot be written holds no stream any more.
            let _ = Watched::completion(wait).release();
        }
        let count = open.len();
        buried().push(Buried {
            _places: places,
            may_be_rung,
            waits: open,
        });
        give_back();
        if count > 0 {
            log::say(
                Level::Warning,
                "gds_destroy_qp",
                format_args!("{count} waits had not ended: the streams that wait are released"),
            );
        }
        true
    }
}
