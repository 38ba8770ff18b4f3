//! ProxyHca on a SIMULATED libibverbs: streams of a simulated GPU ring doorbells and wait, and successes, errors and lost
//! completions of the verbs device become CQEs.

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

/// Two connected sides, one per NIC.
fn connected_pair(request: &Request, timeout: RetryPolicy) -> (Side, Side) {
    let sides = (side("mlx5_0", request), side("mlx5_1", request));
    sides.0.connect(&sides.1, timeout);
    sides.1.connect(&sides.0, timeout);
    sides
}
