//! What an end offers for on-demand paging (ODP) of its memory.

use serde::{Deserialize, Serialize};
use verbs::{OnDemand, OnDemandOperations};

use super::kind::Kind;
use super::purpose::Role;
use super::task::Memory;
use crate::model::ProbedPaging;

/// What an end offers for its memory over reliable connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paging {
    send: bool,
    receive: bool,
    write: bool,
    read: bool,
    atomic: bool,
}

impl Paging {
    fn of(device: OnDemand) -> Self {
        let OnDemandOperations { send, receive, write, read, atomic, .. } = device.rc;
        Self { send, receive, write, read, atomic }
    }

    /// True if the end can do its part of an operation.
    pub fn covers(self, kind: Kind, role: Role) -> bool {
        match (kind, role) {
            (Kind::Write, _) => self.write,
            (Kind::Read, _) => self.read,
            (Kind::Send, Role::Requester) => self.send,
            (Kind::Send, Role::Responder) => self.receive,
            (Kind::FetchAdd | Kind::CompareSwap, _) => self.atomic,
            (Kind::WriteImmediate | Kind::SendImmediate, _) => false,
        }
    }
}

/// What an end offers, or why nothing. `register` tries a registration of its memory.
pub fn offered(
    device: &str,
    memory: &Memory,
    found: &Result<Option<OnDemand>, String>,
    register: impl FnOnce() -> Result<(), String>,
) -> Result<Paging, String> {
    if *memory != Memory::Host {
        // The kernel finds pages of the process only; those that a driver pinned are there already.
        return Err("on-demand paging is for ordinary host memory".to_owned());
    }
    match found {
        Ok(Some(found)) => match register() {
            Ok(()) => Ok(Paging::of(*found)),
            Err(why) => {
                Err(format!("{device} offers on-demand paging, but the registration fails: {why}"))
            }
        },
        Ok(None) => Err(format!("{device} offers no on-demand paging (ibv_query_device_ex)")),
        Err(why) => Err(why.clone()),
    }
}

/// In a report.
pub fn reported(found: Option<OnDemand>) -> ProbedPaging {
    let names = |operations: OnDemandOperations| {
        let OnDemandOperations { send, receive, write, read, atomic, shared_receive } = operations;
        [
            (send, "send"),
            (receive, "recv"),
            (write, "write"),
            (read, "read"),
            (atomic, "atomic"),
            (shared_receive, "srq-recv"),
        ]
        .into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, name)| name.to_owned())
        .collect()
    };
    match found {
        None => ProbedPaging::default(),
        Some(found) => ProbedPaging {
            offered: true,
            implicit: found.implicit,
            rc: names(found.rc),
            uc: names(found.uc),
            ud: names(found.ud),
        },
    }
}
