//! An mlx5 card behind the queues, without one: Debian's libibverbs and libmlx5 make the queue pairs, and a card in software (crate
//! `fake-uverbs`, written apart from this one) executes what streams of a simulated GPU ring for.

#![allow(clippy::unwrap_used)]

mod card;
mod datagrams;
mod errors;
mod firmware;
#[path = "../../../fake-uverbs/tests/inside/mod.rs"]
mod inside;
#[path = "../sides/mod.rs"]
mod sides;

use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::{Patience, Request};

use sides::Side;

/// Has the double execute what is rung.
const CARD: [(&str, &str); 1] = [("FAKE_UVERBS_CARD", "1")];

/// A side on one of the card's two ports: 1 is InfiniBand, 2 Ethernet.
fn side(port: u8, request: &Request) -> Side {
    Side::new(request, |supply| {
        let context = verbs::Context::open("mlx5_0").unwrap();
        let options = Options {
            port,
            ..Options::default()
        };
        Box::new(Mlx5Hca::open(supply, &context, options).unwrap())
    })
}

/// Two sides that are connected, at one port.
fn joined(port: u8, request: &Request, patience: Patience) -> (Side, Side) {
    let sides = (side(port, request), side(port, request));
    sides.0.connect(&sides.1, patience);
    sides.1.connect(&sides.0, patience);
    sides
}
