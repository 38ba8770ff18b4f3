//! An mlx5 NIC behind the queues, without one: Debian's libibverbs and libmlx5 make the queue pairs, and a NIC in software (crate
//! `fake-uverbs`, written apart from this one) executes what streams of a simulated GPU ring for.

#![allow(clippy::unwrap_used)]

mod datagrams;
mod errors;
mod firmware;
#[path = "../../../fake-uverbs/tests/inside/mod.rs"]
mod inside;
mod nic;
#[path = "../sides/mod.rs"]
mod sides;

use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::{Request, RetryPolicy};

use sides::Side;

/// Has the double execute what is rung.
const CARD: [(&str, &str); 1] = [("FAKE_UVERBS_NIC", "1")];

/// A side on one of the NIC's two ports: 1 is InfiniBand, 2 Ethernet.
fn side(port: u8, request: &Request) -> Side {
    Side::new(request, |allocator| {
        let context = verbs::Context::open("mlx5_0").unwrap();
        let options = Options {
            port,
            ..Options::default()
        };
        Box::new(Mlx5Hca::open(allocator, &context, options).unwrap())
    })
}

/// Two sides that are connected, at one port.
fn connected_pair(port: u8, request: &Request, timeout: RetryPolicy) -> (Side, Side) {
    let sides = (side(port, request), side(port, request));
    sides.0.connect(&sides.1, timeout);
    sides.1.connect(&sides.0, timeout);
    sides
}
