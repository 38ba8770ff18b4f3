//! When a rendezvous ends, and where one without a secret may take place.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::secret::Secret;

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
