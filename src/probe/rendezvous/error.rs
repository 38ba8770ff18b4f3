//! Errors of the rendezvous and of the connection.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::secret::SECRET_VARIABLE;
use super::wire::PROTOCOL;

/// Why there is no peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {why}; choose another port or an address of this machine")]
    Listen {
        address: SocketAddr,
        /// In the system's words.
        why: String,
    },
    /// No client connected in time.
    #[error("no client connected to {address} within {}{rejected}; start gdr on the other machine with this machine's address and the same secret, and check that no firewall blocks the port", format_duration(*.waited))]
    NoClient {
        /// The listening address.
        address: SocketAddr,
        waited: Duration,
        /// Text about rejected clients; empty if there were none.
        rejected: String,
    },
    /// Without a secret, gdr connects to this machine only.
    #[error(
        "without a secret gdr uses loopback addresses only, and {address} is not one; omit --no-secret"
    )]
    Exposed { address: SocketAddr },
    /// The name of the peer's machine has no address.
    #[error("cannot resolve host '{host}': {why}; check the spelling, or use the IP address")]
    Resolve {
        host: String,
        /// In the resolver's words.
        why: String,
    },
    /// The peer was not reached in time.
    #[error("no gdr answered at {at} within {}: {why}; start the listening side there first, and check that it listens on an address that this machine can reach", format_duration(*.waited))]
    NotReached {
        /// The server's host and port.
        at: String,
        waited: Duration,
        /// Error of the last try.
        why: String,
    },
    /// Another program listens there.
    #[error(
        "the program at {peer} is not a listening gdr: it sent {quote}; check the address and the port"
    )]
    NotGdr {
        peer: SocketAddr,
        /// Its beginning, in quotation marks.
        quote: String,
    },
    /// The protocol versions differ.
    #[error(
        "gdr at {peer} uses rendezvous protocol {theirs}, and this gdr uses {PROTOCOL}; use the same version of gdr on both machines"
    )]
    Protocol { peer: SocketAddr, theirs: u32 },
    /// The server rejected this client.
    #[error(
        "gdr at {peer} rejected this client: the secrets differ; use the secret that it printed, or the same file on both machines"
    )]
    Rejected { peer: SocketAddr },
    /// The server did not prove the secret.
    #[error(
        "the program at {peer} uses gdr's protocol, but did not prove the secret; check the address and the port"
    )]
    Impostor { peer: SocketAddr },
    /// A frame's authentication code is wrong.
    #[error(
        "a frame from {peer} has a wrong authentication code: a frame was changed, repeated or lost between the two machines; check the network"
    )]
    Forged { peer: SocketAddr },
    /// The peer failed.
    #[error("peer {peer} failed: {why}")]
    PeerFailed {
        peer: SocketAddr,
        /// In its words.
        why: String,
    },
    /// The connection ended without a reason.
    #[error("peer {peer} disconnected: {why}; check its last output, its machine and the network")]
    PeerGone { peer: SocketAddr, why: String },
    /// The peer finished, but this process still expects a message.
    #[error("peer {peer} finished before this process")]
    PeerDone { peer: SocketAddr },
    /// The peer sent an invalid message.
    #[error(
        "malformed message from peer {peer}: {quote}; use the same version of gdr on both machines"
    )]
    Malformed {
        peer: SocketAddr,
        /// Its beginning, in quotation marks, and the error.
        quote: String,
    },
    /// The user interrupted gdr.
    #[error("interrupted")]
    Interrupted,
    /// The peer is alive, but sent no message in time.
    #[error("peer {peer} is alive, but sent nothing for {}", format_duration(*.waited))]
    TimedOut {
        peer: SocketAddr,
        /// Time since the wait began.
        waited: Duration,
    },
    /// The message cannot be encoded.
    #[error("cannot send a message: {why}")]
    InvalidMessage {
        /// What is wrong with it.
        why: String,
    },
    /// A launcher's variable is invalid.
    #[error("{0}; use HOST or --listen instead of the launcher's variables")]
    Environment(#[from] mp::launcher::Error),
    /// The launcher did not start two processes.
    #[error(
        "the launcher started {size} processes, and this probe needs two: start one on each machine"
    )]
    Size {
        /// How many there are.
        size: u32,
    },
    /// A process that is neither the first nor the second.
    #[error(
        "invalid rank {rank} from the launcher: this probe needs ranks 0 and 1; start one process on each machine"
    )]
    Rank { rank: u32 },
    /// The rendezvous file cannot be written, or names no peer in time.
    #[error(
        "the two processes cannot connect through {}: {why}; use a directory of this user that both machines see, or export {SECRET_VARIABLE}=$(openssl rand -hex 32) for both: then srun needs no file, and mpirun -x {SECRET_VARIABLE} any directory that both see",
        .path.display()
    )]
    File { path: PathBuf, why: String },
    /// An operating system call failed.
    #[error("{what}: {why}")]
    System {
        what: String,
        /// In the system's words.
        why: String,
    },
}

/// Formats a duration for messages.
pub fn format_duration(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        _ => format!("{} s", (time.as_secs_f64() * 10.0).round() / 10.0),
    }
}
