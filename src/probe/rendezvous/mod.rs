//! How two gdr processes, usually on two machines, find each other and talk: control messages over TCP, and nothing else.
//!
//! One listens ([`Listener`]), the other connects ([`connect()`]), and both prove that they know one [`Secret`] first. Under a
//! launcher a [`LaunchedProcess`] gives the roles, and without a shared secret they [`meet()`] through a file that has one. Then both have a
//! [`Link`]. The end of one process (a failure, Ctrl-C, a crash, a dead machine) ends the other within five seconds, with the
//! reason. No wait is without a deadline. This module does not interpret the messages.

mod conditions;
mod connect;
mod error;
mod file;
mod link;
mod listen;
mod many;
mod meet;
mod private;
mod pulse;
mod secret;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub use conditions::{Conditions, DEFAULT_PORT, default_listen, is_exposed};
pub use connect::connect;
pub use error::Error;
pub use file::{RendezvousFile, connect_by_file, host_name};
pub use link::Link;
pub use listen::{Listener, listen};
pub use many::{Host, Meeting};
pub use meet::meet;
pub use mp::launcher::{LaunchedProcess, Launcher, expand_hosts as expand, from_environment};
pub use mp::session::{
    FrameError, FrameReader, FrameWriter, Handshake, LONGEST, MESSAGE, Next, Rejection, Session,
};
pub use secret::{SECRET_VARIABLE, Secret, SecretError};
pub use wire::{Envelope, PROTOCOL, quote, shortened};
