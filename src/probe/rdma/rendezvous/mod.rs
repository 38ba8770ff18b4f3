//! How two gdr processes, usually on two machines, find each other and talk: control messages over TCP, and nothing else.
//!
//! One listens ([`Listener`]), the other connects ([`connect()`]), and both prove that they know one [`Secret`] before anything else
//! is said; under a launcher a [`Place`] says which is which, and where they share no secret they [`meet()`] by a file that has
//! one. Then both have a [`Link`]. Whatever ends one
//! side (a failure, Ctrl-C, a crash, a machine that is gone) ends the other within five seconds, with the reason.
//! Nothing here waits without a deadline, and nothing knows what the messages say.

mod connect;
mod error;
mod file;
mod frames;
mod handshake;
mod hostlist;
mod link;
mod listen;
mod meet;
mod place;
mod private;
mod pulse;
mod secret;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use connect::connect;
pub use error::Error;
pub use file::{RendezvousFile, connect_by_file, host_name};
pub use frames::{FrameError, FrameReader, FrameWriter, LONGEST};
pub use handshake::{
    ClientHandshake, MESSAGE, Next, PROTOCOL, Rejection, ServerHandshake, Session,
};
pub use hostlist::expand;
pub use link::Link;
pub use listen::{Listener, listen};
pub use meet::meet;
pub use place::{Launcher, Place, from_environment};
pub use secret::{SECRET_VARIABLE, Secret, SecretError};
pub use wire::{Envelope, quote, shortened};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// The port where one side listens if nothing else is asked for: the one after perftest's.
pub const DEFAULT_PORT: u16 = 18516;

/// Where a server without a secret listens: only this machine reaches it.
pub fn default_listen() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT)
}

/// Whether other machines could connect without a secret.
pub fn is_exposed(ip: IpAddr, secret: &Secret) -> bool {
    secret.is_none() && !ip.to_canonical().is_loopback()
}

/// When a rendezvous ends.
#[derive(Clone)]
pub struct Conditions<'a> {
    /// When to give up.
    pub until: Instant,
    /// Whether somebody asked to stop; asked often while this waits.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}
