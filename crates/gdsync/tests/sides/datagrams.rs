//! Datagrams: arrive at the queue pair and key of their address, or are lost.

use std::time::Duration;

use gdsync::hca::Request;
use gdsync::wire::{Datagram, Event, Transport, Wqe};

use super::{Side, bytes};

/// The Q_Key of [`request`].
pub const KEY: u32 = 0x0bad_cafe;
/// Bytes before each message.
const ROUTE: u32 = 40;

/// Queue pairs of datagrams, with small queues.
pub fn request() -> Request {
    Request { transport: Transport::Datagram, key: KEY, send_blocks: 16, ..super::SMALL() }
}

/// Sends from one side to the other and back, by streams; more messages than the queues have slots. `pause` is how long an HCA takes to
/// see a posted receive.
pub fn arrive(mut local: Side, mut peer: Side, pause: Duration) {
    for round in 0..30_u8 {
        let (from, to) = match round % 2 {
            0 => (&mut local, &mut peer),
            _ => (&mut peer, &mut local),
        };
        let message = bytes(round, 100 + usize::from(round));
        from.fill(7, &message);
        let length = message.len() as u32;
        to.pair.receive.post(&[to.at(2000, ROUTE + 200)]).unwrap();
        to.wait_received();
        std::thread::sleep(pause);
        let there = from.hca.datagram(from.pair.endpoint, to.pair.endpoint, KEY).unwrap();
        let entry = match round % 3 {
            0 => Wqe::send(&[from.at(7, length)]),
            1 => Wqe::send(&[]).inline(&message),
            _ => Wqe::send(&[from.at(7, 10), from.at(17, length - 10)]).immediate(round.into()),
        };
        let sent = from.sent(&entry.to(there).signalled());
        assert!(matches!(sent.event, Event::Sent { .. }), "{sent:?}");
        to.synchronize();
        let received = to.next_received();
        let event = match round % 3 {
            2 => Event::ReceivedImmediate { immediate: round.into() },
            _ => Event::Received,
        };
        assert_eq!(
            (received.event, received.bytes, received.source),
            (event, ROUTE + length, from.pair.endpoint.qpn)
        );
        assert_eq!(received.qpn, to.pair.endpoint.qpn);
        assert_eq!(to.seen(2000 + ROUTE as usize, message.len()), message);
    }
}

/// Without a receiver or the right key a datagram is lost, and its send succeeds.
pub fn are_lost(mut local: Side, mut peer: Side, pause: Duration) {
    let (from, to) = (local.pair.endpoint, peer.pair.endpoint);
    let right = local.hca.datagram(from, to, KEY).unwrap();
    let wrong = local.hca.datagram(from, to, KEY ^ 1).unwrap();
    let mut nobody = to;
    nobody.qpn ^= 0x40;
    let nobody = local.hca.datagram(from, nobody, KEY).unwrap();
    peer.pair.receive.post(&[peer.at(0, 100)]).unwrap();
    std::thread::sleep(pause);
    send(&mut local, wrong, b"wrong key");
    send(&mut local, nobody, b"no queue pair");
    arrives(&mut local, &mut peer, right);
}

pub fn send(local: &mut Side, there: Datagram, text: &[u8]) {
    let sent = local.sent(&Wqe::send(&[]).inline(text).to(there).signalled());
    assert!(matches!(sent.event, Event::Sent { .. }), "{sent:?}");
}

/// The next message is the first that arrives.
pub fn arrives(local: &mut Side, peer: &mut Side, there: Datagram) {
    peer.wait_received();
    send(local, there, b"arrives");
    peer.synchronize();
    let received = peer.next_received();
    assert_eq!(received.bytes, ROUTE + 7);
    assert_eq!(peer.seen(ROUTE as usize, 7), b"arrives");
}
