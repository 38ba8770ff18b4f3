//! The end of a queue pair. Streams that wait for its completions are released, and what a stream may still touch stays.
//!
//! It is released rather than refused (EBUSY), since a program that ends its queue pairs mostly does so because what it waits for will not
//! come any more: a refusal would leave its streams waiting for ever, and it would have nothing to end that with.

use std::sync::{Mutex, PoisonError};

use engine::Watched;
use engine::queue::{CompletionParts, SendParts, Wait};

use super::{Given, Pair, Queues, Waiting};
use crate::log::{self, Level};

/// Places of destroyed queue pairs that streams or kernels were given and are not known to be done with. They stay until the process
/// ends: nobody tells when a stream has passed a doorbell, and a GPU that writes memory that is gone loses its context.
static BURIED: Mutex<Vec<Places>> = Mutex::new(Vec::new());

#[expect(dead_code, reason = "holding them is their use")]
struct Places(SendParts, [CompletionParts; 2]);

impl Pair {
    /// Destroys the verbs objects and ends every wait. False where it was destroyed before.
    pub(crate) fn end(&self) -> bool {
        let Some(queues) = self.queues().take() else {
            return false;
        };
        let Queues { engine, waits, .. } = &queues;
        let places = Places(
            engine.send.parts().clone(),
            [
                engine.send_completions.parts().clone(),
                engine.receive_completions.parts().clone(),
            ],
        );
        let waits: Vec<&Waiting> = waits.iter().flatten().collect();
        let is_waited = |waiting: &&&Waiting| {
            let is_given = waiting.is_shown || waiting.given == Given::Posted;
            is_given && waiting.wait.busy().load_u32(0).is_ok_and(|busy| busy != 0)
        };
        let open: Vec<Wait> = waits
            .iter()
            .filter(is_waited)
            .map(|waiting| waiting.wait.clone())
            .collect();
        let may_be_touched = !open.is_empty() || queues.may_be_rung();
        // Whoever is behind the queues writes no completions from here on.
        drop(queues);
        for wait in &open {
            // Memory that cannot be written holds no stream any more.
            let _ = Watched::completion(wait).release();
        }
        if may_be_touched {
            BURIED.lock().unwrap_or_else(PoisonError::into_inner).push(places);
        }
        if !open.is_empty() {
            let count = open.len();
            log::say(
                Level::Warning,
                "gds_destroy_qp",
                format_args!("{count} waits had not ended: the streams that wait are released"),
            );
        }
        true
    }
}
