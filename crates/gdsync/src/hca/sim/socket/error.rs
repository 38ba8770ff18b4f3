//! Why two HCAs cannot be joined over a socket, and why a link over one ended.

use std::io;
use std::time::Duration;

use super::frame::NotAMessage;

/// What went wrong with a socket between two HCAs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket, or a thread that serves it.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What is there said something else than a software HCA says first.
    #[error("no software HCA is at the other end of the socket: it began with {}", .0.escape_ascii())]
    NotAnHca([u8; 8]),
    /// Another user's process has the other end of the socket.
    #[error(
        "the other end of the socket is a process of uid {peer}, and this one has uid {local}: software HCAs of one user alone are joined"
    )]
    OtherUser {
        /// This process's effective user.
        local: u32,
        /// The user that connected, or made the pair.
        peer: u32,
    },
    /// A software HCA that speaks otherwise.
    #[error(
        "the software HCA at the other end speaks version {peer} and this one {local}: use the same version of gdsync"
    )]
    Version {
        /// What this side speaks.
        local: u16,
        /// What it said.
        peer: u16,
    },
    /// Both ports have the same LID.
    #[error("both software HCAs have LID {lid}: give one another by SimHca::with_lid")]
    SameLid {
        /// The LID.
        lid: u16,
    },
    /// This HCA has a way to a port of that LID already.
    #[error(
        "this HCA is joined to a port with LID {lid} already: drop that link first, or give one another LID by SimHca::with_lid"
    )]
    Taken {
        /// The LID.
        lid: u16,
    },
    /// It did not say who it is.
    #[error("the other end of the socket did not say within {} ms who it is", .0.as_millis())]
    Unnamed(Duration),
    /// Bytes that are no message.
    #[error("malformed message from the remote HCA at byte {offset}")]
    Message {
        /// Where its first byte is, counted after the hello.
        offset: u64,
        /// What is wrong with it.
        #[source]
        source: NotAMessage,
    },
    /// A message that is well made and makes no sense now.
    #[error(
        "the far HCA's message at byte {offset} of what it sent is out of place: queue pair {qpn:#x}, number {sequence}: {what}"
    )]
    OutOfPlace {
        /// Where its first byte is, counted after the hello.
        offset: u64,
        /// The far queue pair.
        qpn: u32,
        /// The request's number.
        sequence: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It ended in the middle of a message.
    #[error("the far HCA ended {missing} bytes before the end of its message at byte {offset}")]
    Torn {
        /// Where its first byte is, counted after the hello.
        offset: u64,
        /// Bytes that did not come, of those that were known to come.
        missing: u64,
    },
    /// It ended between two messages: it was dropped, or its process is gone.
    #[error("the far HCA is gone")]
    Closed,
    /// This side dropped the link.
    #[error("the link was dropped on this side")]
    Dropped,
    /// It takes nothing.
    #[error("the far HCA read nothing for {} ms: its process is stopped, or hangs", .0.as_millis())]
    NotRead(Duration),
    /// It says nothing, and a request waits for its answer.
    #[error("the far HCA answered nothing for {} ms: its process is stopped, or hangs", .0.as_millis())]
    Silent(Duration),
}

impl Error {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
