//! Mlx5Hca without hardware: Debian's libibverbs and libmlx5 create the queue pairs, and the fake NIC of crate `fake-uverbs`, which
//! shares no code with this one, executes what streams of a simulated GPU ring.

#![allow(clippy::unwrap_used)]

mod datagrams;
mod errors;
mod firmware;
#[path = "../../../fake-uverbs/tests/inside/mod.rs"]
mod inside;
mod kernel;
mod nic;
mod processes;
#[path = "../sides/mod.rs"]
mod sides;

use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::{Request, RetryPolicy};

use sides::Side;

/// Makes the fake NIC execute WQEs.
const NIC: [(&str, &str); 1] = [("FAKE_UVERBS_NIC", "1")];

/// A side on one of the NIC's two ports: 1 is InfiniBand, 2 Ethernet.
fn side(port: u8, request: &Request) -> Side {
    Side::new(request, |allocator| {
        let context = verbs::Context::open("mlx5_0").unwrap();
        let options = Options { port, ..Options::default() };
        Box::new(Mlx5Hca::open(allocator, &context, options).unwrap())
    })
}

/// Two connected sides on one port.
fn connected_pair(port: u8, request: &Request, timeout: RetryPolicy) -> (Side, Side) {
    let sides = (side(port, request), side(port, request));
    sides.0.connect(&sides.1, timeout);
    sides.1.connect(&sides.0, timeout);
    sides
}
