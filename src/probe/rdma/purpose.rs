//! The purpose of a connection: one test case, for which each end registers memory with the access flags that the case needs and no
//! others. Queue pairs and memory regions are destroyed with the case.

use serde::{Deserialize, Serialize};
use verbs::{Access, Transport};

use super::kind::{Kind, transport};
use super::settings::Settings;

/// The properties of a test case that both ends need to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purpose {
    /// The transport of the queue pairs.
    #[serde(with = "transport")]
    pub transport: Transport,
    /// How many queue pairs there are.
    pub pairs: u32,
    pub kind: Kind,
    /// The size of a message.
    pub bytes: usize,
    /// Which ends make requests.
    #[serde(rename = "ways")]
    pub traffic: Traffic,
    /// The NICs may relax the order of their writes.
    pub relaxed_ordering: bool,
    /// The memory is registered for on-demand paging.
    pub on_demand: bool,
    /// How packets are addressed and retried.
    pub settings: Settings,
}

/// Which ends make requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// The requester.
    #[serde(rename = "one")]
    OneWay,
    #[serde(rename = "both")]
    BothWays,
    /// The requester, from pinned memory that a copy engine fills and drains.
    Staged,
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It makes the requests.
    Requester,
    /// The requests read or write its memory.
    Responder,
}

impl Purpose {
    /// The access flags of an end's memory.
    pub fn access(self, role: Role) -> Access {
        let is_both = self.traffic == Traffic::BothWays;
        let requests = is_both || role == Role::Requester;
        let responds = is_both || role == Role::Responder;
        let is_write = matches!(self.kind, Kind::Write | Kind::WriteImmediate);
        let remote_write = responds && is_write;
        let remote_atomic = responds && self.kind.is_atomic();
        let receives = responds && self.kind.is_received();
        let fetches = requests && (self.kind == Kind::Read || self.kind.is_atomic());
        Access {
            // Verbs requires it for remote writes and atomics.
            local_write: remote_write || remote_atomic || receives || fetches,
            remote_write,
            remote_read: responds && self.kind == Kind::Read,
            remote_atomic,
            relaxed_ordering: self.relaxed_ordering,
            on_demand: self.on_demand,
        }
    }

    /// True if the remote end needs the rkey of this end's memory.
    pub fn is_remote(self, role: Role) -> bool {
        let access = self.access(role);
        access.remote_write || access.remote_read || access.remote_atomic
    }
}

impl Role {
    pub fn other(self) -> Self {
        match self {
            Self::Requester => Self::Responder,
            Self::Responder => Self::Requester,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purpose(kind: Kind, traffic: Traffic) -> Purpose {
        Purpose {
            transport: Transport::Rc,
            pairs: 1,
            kind,
            bytes: 8,
            traffic,
            relaxed_ordering: false,
            on_demand: false,
            settings: Settings::default(),
        }
    }

    /// `l` for local writes; `w`, `r`, `a` for remote writes, reads and atomics.
    fn letters(access: Access) -> String {
        let all = [
            (access.local_write, 'l'),
            (access.remote_write, 'w'),
            (access.remote_read, 'r'),
            (access.remote_atomic, 'a'),
        ];
        all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect()
    }

    #[test]
    fn access_is_minimal() {
        // Access of the requester, and of the responder.
        for (kind, traffic, requester, responder) in [
            (Kind::Write, Traffic::OneWay, "", "lw"),
            (Kind::WriteImmediate, Traffic::OneWay, "", "lw"),
            (Kind::Read, Traffic::OneWay, "l", "r"),
            (Kind::Send, Traffic::OneWay, "", "l"),
            (Kind::SendImmediate, Traffic::OneWay, "", "l"),
            (Kind::FetchAdd, Traffic::OneWay, "l", "la"),
            (Kind::CompareSwap, Traffic::OneWay, "l", "la"),
            (Kind::Write, Traffic::BothWays, "lw", "lw"),
            (Kind::Send, Traffic::BothWays, "l", "l"),
            (Kind::Send, Traffic::Staged, "", "l"),
        ] {
            let purpose = purpose(kind, traffic);
            let access = |role| letters(purpose.access(role));
            assert_eq!(
                (access(Role::Requester), access(Role::Responder)),
                (requester.into(), responder.into()),
                "{kind:?}"
            );
            for (role, letters) in [(Role::Requester, requester), (Role::Responder, responder)] {
                assert_eq!(purpose.is_remote(role), letters.contains(['w', 'r', 'a']), "{kind:?}");
            }
        }
    }
}
