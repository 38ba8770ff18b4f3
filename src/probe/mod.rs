//! The probes: they run transfers, verify the data and summarise the measurements.
//!
//! A child of this binary touches the hardware (`task::Task`). It reports `events`, and each of its steps has a deadline
//! (`watch`). `supervise::Probe` is the parent's side, `arguments::Arguments` its command line. Nothing here prints, and nothing
//! falls back to simulation by itself. Only this file knows all probes; DESIGN.md has the order in which the files depend on each other.

pub mod arguments;
pub mod asynchronous;
pub mod baseline;
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
pub mod gather;
mod hca;
pub mod host;
mod integrity;
pub mod interrupts;
mod lanes;
pub mod machine;
pub mod mp;
pub mod mpi;
pub mod p2p;
mod processes;
pub mod rdma;
pub mod rendezvous;
pub mod sampling;
pub mod scope;
pub mod statistics;
pub mod supervise;
mod target;
mod task;
pub mod terms;
pub mod transfer;
pub mod verdict;
pub mod watch;

use std::io::{self, Write};

use serde::Deserialize;

use task::answer;

/// The task of a child, by [`task::Task::NAME`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    List(devices::ListGpus),
    Nics(devices::ListRdmaDevices),
    Copy(copy::Task),
    Host(host::Task),
    P2p(p2p::Task),
    Rdma(Box<rdma::Task>),
    RdmaTogether(rdma::TogetherTask),
    Async(asynchronous::Task),
    Mp(Box<mp::Task>),
    Mpi(Box<mpi::Task>),
}

/// Runs the parent's task if this process is a child, else returns `None`. `arguments` excludes the program's name.
pub fn answer_for_parent(arguments: &[String], out: &mut dyn Write) -> Option<io::Result<()>> {
    let [name, request] = arguments else {
        return None;
    };
    if name != task::CHILD {
        return None;
    }
    Some(serde_json::from_slice(request.as_bytes()).map_err(io::Error::from).and_then(|request| {
        crate::keeper::end_with_parent()?;
        match request {
            Request::List(task) => answer(&task, out),
            Request::Nics(task) => answer(&task, out),
            Request::Copy(task) => answer(&task, out),
            Request::Host(task) => answer(&task, out),
            Request::P2p(task) => answer(&task, out),
            Request::Rdma(task) => answer(&*task, out),
            Request::RdmaTogether(task) => answer(&task, out),
            Request::Async(task) => answer(&task, out),
            Request::Mp(task) => answer(&*task, out),
            Request::Mpi(task) if task.writes() => answer(&*task, out),
            Request::Mpi(task) => answer(&*task, &mut io::sink()),
        }
    }))
}
