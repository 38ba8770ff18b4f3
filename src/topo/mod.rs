//! Facts → Topology: the PCI forest, the class of each pair, the way between two devices, the best NIC of each GPU.
//! Pure: it reads nothing.

mod acs;
mod classify;
mod forest;
mod limits;
mod nearest;
mod nvlinks;
mod pairing;
mod path;
mod rows;
mod topology;

#[cfg(test)]
mod tests;

pub use acs::{Redirect, redirects, verb};
pub use forest::{Forest, Role};
pub use limits::{MAX_PATHS, MAX_ROWS};
pub use path::{Narrowest, narrowest};
pub use topology::{Topology, topology};
