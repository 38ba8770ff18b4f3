//! Run, verify, summarise: the probes, and what they share.
//!
//! The hardware is touched in a child of this binary ([`task::Task`]), whose every step has a deadline ([`watch`]); it reports what
//! it does and finds in [`events`]. A [`supervise::Probe`] is the parent's side. Nothing here prints, and nothing falls back to
//! simulation by itself. Only this file knows all probes; DESIGN.md has the order in which the files depend on each other.

pub mod asynchronous;
pub mod bytes;
pub mod channel;
mod chase;
pub mod children;
pub mod copy;
pub mod cpus;
pub mod depth;
mod devices;
pub mod events;
mod failure;
pub mod host;
mod integrity;
mod lanes;
pub mod machine;
pub mod p2p;
mod random;
pub mod rdma;
pub mod sampling;
pub mod scope;
pub mod statistics;
pub mod supervise;
mod target;
mod task;
pub mod verdict;
pub mod watch;

use std::io::{self, Write};

use serde::Deserialize;

use task::answer;

/// What a child does, by the name of its task.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    List(devices::ListGpus),
    Nics(devices::ListRdmaDevices),
    Copy(copy::Task),
    Host(host::Task),
    P2p(p2p::Task),
    Rdma(Box<rdma::Task>),
    Async(asynchronous::Task),
}

/// If this process is such a child, does what its parent asks. The arguments are those after the program's name.
pub fn answer_for_parent(arguments: &[String], out: &mut dyn Write) -> Option<io::Result<()>> {
    let [name, request] = arguments else {
        return None;
    };
    if name != task::CHILD {
        return None;
    }
    Some(
        serde_json::from_str(request)
            .map_err(io::Error::from)
            .and_then(|request| {
                // An orphan's results have no reader.
                rustix::process::set_parent_process_death_signal(Some(
                    rustix::process::Signal::KILL,
                ))?;
                match request {
                    Request::List(task) => answer(&task, out),
                    Request::Nics(task) => answer(&task, out),
                    Request::Copy(task) => answer(&task, out),
                    Request::Host(task) => answer(&task, out),
                    Request::P2p(task) => answer(&task, out),
                    Request::Rdma(task) => answer(&*task, out),
                    Request::Async(task) => answer(&task, out),
                }
            }),
    )
}
