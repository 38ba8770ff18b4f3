//! Run, verify, summarise: the probes, and what they share.
//!
//! The hardware is touched in a child of this binary, whose every step has a deadline ([`watch`]); it tells what it does
//! and finds in [`events`]. Nothing here prints, and nothing falls back to simulation by itself.

pub mod asynchronous;
pub mod bytes;
mod chase;
pub mod child;
pub mod copy;
pub mod depth;
pub mod events;
mod expected;
mod failure;
pub mod host;
mod integrity;
mod lanes;
pub mod p2p;
mod random;
pub mod rdma;
pub mod request;
pub mod sampling;
pub mod statistics;
pub mod supervise;
pub mod verdict;
pub mod watch;

use std::io::{self, Write};

/// The hidden subcommand that a child is started with.
const CHILD: &str = "__probe";

/// If this process is such a child, does what its parent asks. The arguments are those after the program's name.
pub fn answer_for_parent(arguments: &[String], out: &mut dyn Write) -> Option<io::Result<()>> {
    let [name, request] = arguments else {
        return None;
    };
    if name != CHILD {
        return None;
    }
    Some(
        serde_json::from_str(request)
            .map_err(io::Error::from)
            .and_then(|request| {
                // Nobody waits for what an orphan finds.
                rustix::process::set_parent_process_death_signal(Some(
                    rustix::process::Signal::KILL,
                ))?;
                child::answer(request, out)
            }),
    )
}
