//! Errors of a socket link.

use std::io;
use std::time::Duration;

use super::frame::MalformedHead;

/// Why a socket link could not be created, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what}")]
    Io {
        /// The failed operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The other end sent no valid hello.
    #[error("the peer of the socket is not a simulated HCA: its first bytes are {}", .0.escape_ascii())]
    NotAnHca([u8; 8]),
    /// The other end belongs to another user.
    #[error(
        "the peer of the socket has uid {peer}, this process uid {local}: simulated HCAs connect only to HCAs of the same user"
    )]
    OtherUser {
        /// This process's effective user.
        local: u32,
        /// The peer's user.
        peer: u32,
    },
    /// The other end has another protocol version.
    #[error(
        "the remote simulated HCA has protocol version {peer}, this one {local}: use the same version of gdsync"
    )]
    Version {
        /// This side's version.
        local: u16,
        /// The remote version.
        peer: u16,
    },
    /// Both ports have the same LID.
    #[error("both simulated HCAs have LID {lid}: choose different ones with SimHca::with_lid")]
    SameLid {
        /// The LID.
        lid: u16,
    },
    /// This HCA already has a link to that LID.
    #[error(
        "this HCA already has a link to LID {lid}: drop that link, or choose another LID with SimHca::with_lid"
    )]
    Taken {
        /// The LID.
        lid: u16,
    },
    /// No hello in time.
    #[error("the peer of the socket sent no hello within {} ms", .0.as_millis())]
    NoHello(Duration),
    /// A malformed message.
    #[error("malformed message from the remote HCA at byte {offset}")]
    Message {
        /// Offset of its first byte after the hello.
        offset: u64,
        /// The malformed field.
        #[source]
        source: MalformedHead,
    },
    /// A well-formed but unexpected message.
    #[error(
        "unexpected message from the remote HCA at byte {offset}: queue pair {qpn:#x}, request {sequence}: {what}"
    )]
    Unexpected {
        /// Offset of its first byte after the hello.
        offset: u64,
        /// The remote QPN.
        qpn: u32,
        /// The request's number.
        sequence: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The stream ended in the middle of a message.
    #[error("truncated message from the remote HCA at byte {offset}: {missing} bytes are missing")]
    Truncated {
        /// Offset of its first byte after the hello.
        offset: u64,
        /// Missing bytes, as far as the length is known.
        missing: u64,
    },
    /// The stream ended between two messages: the remote HCA was dropped or its process exited.
    #[error("the remote HCA is gone")]
    Closed,
    /// This side dropped the link.
    #[error("the link was dropped on this side")]
    Dropped,
    /// The remote side reads nothing.
    #[error("the remote HCA read nothing for {} ms: its process is stopped or hangs", .0.as_millis())]
    NotRead(Duration),
    /// The remote side sends nothing while a request has no answer.
    #[error("the remote HCA answered nothing for {} ms: its process is stopped or hangs", .0.as_millis())]
    Silent(Duration),
}

impl Error {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
