//! The HCA by proxy against a SIMULATED libibverbs: streams of a simulated GPU ring doorbells and wait for completions, and what the
//! verbs device does, refuses and forgets comes back as a NIC's completion entries.

#![allow(clippy::unwrap_used)]

mod errors;
mod machine;
mod operations;
mod refused;
#[path = "../sides/mod.rs"]
mod sides;

use gdsync::hca::proxy::{Options, ProxyHca};
use gdsync::hca::{Request, RetryPolicy};

use sides::Side;

/// A side on one of the two NICs.
fn side(device: &str, request: &Request) -> Side {
    Side::new(request, |allocator| {
        let context = verbs::Context::open(device).unwrap();
        Box::new(ProxyHca::open(allocator, &context, Options::default()).unwrap())
    })
}

/// Two sides that are connected, of the two NICs.
fn connected_pair(request: &Request, timeout: RetryPolicy) -> (Side, Side) {
    let sides = (side("mlx5_0", request), side("mlx5_1", request));
    sides.0.connect(&sides.1, timeout);
    sides.1.connect(&sides.0, timeout);
    sides
}
