//! How two gdr processes, usually on two machines, find each other and talk: control messages over TCP, and nothing else.
//!
//! One listens ([`Listener`]), the other connects ([`connect()`]); under a launcher a [`Place`] says which is which, and
//! where rank 0 is not known they [`meet()`] by a shared file. Then both have a [`Link`]. Whatever ends one
//! side (a failure, Ctrl-C, a crash, a machine that is gone) ends the other within five seconds, with the reason.
//! Nothing here waits without a deadline, and nothing knows what the messages say.

mod connect;
mod error;
mod file;
mod hostlist;
mod link;
mod listen;
mod meet;
mod place;
mod porter;
mod pulse;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use connect::connect;
pub use error::Error;
pub use file::{Meeting, meet_by_file};
pub use hostlist::expand;
pub use link::{Link, Peer};
pub use listen::{Listener, listen};
pub use meet::meet;
pub use place::{Launcher, Place, from_environment};
pub use wire::{Envelope, Greeting, LONGEST, Lines, PROTOCOL, TooLong, Unread, quote};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// The port where one side listens if nothing else is asked for: the one after perftest's.
pub const DEFAULT_PORT: u16 = 18516;

/// Where one side listens if nothing else is asked for: this machine alone. A program that opens a port to whoever
/// reaches the machine does so because somebody asked for it.
pub fn default_listen() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT)
}

/// What a side brings to a rendezvous.
#[derive(Clone)]
pub struct Conditions<'a> {
    /// The version of this program.
    pub version: &'a str,
    /// What it can do, in words the other side may look for.
    pub capabilities: &'a [&'a str],
    /// What the two processes of one run know and others do not; without it whoever comes first is the peer.
    pub token: Option<String>,
    /// When to give up.
    pub until: Instant,
    /// Whether somebody asked to stop; asked often while this waits.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}
