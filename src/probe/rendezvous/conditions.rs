//! Deadline and interruption of a rendezvous, and addresses allowed without a secret.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::secret::Secret;

/// The default port: the one after perftest's.
pub const DEFAULT_PORT: u16 = 18516;

/// Address of a server without a secret: only this machine reaches it.
pub fn default_listen() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT)
}

/// True if other machines could connect without a secret.
pub fn is_exposed(ip: IpAddr, secret: &Secret) -> bool {
    secret.is_none() && !ip.to_canonical().is_loopback()
}

/// When a rendezvous ends.
#[derive(Clone)]
pub struct Conditions<'a> {
    /// When to give up.
    pub until: Instant,
    /// True after an interrupt; polled while waiting.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
}
