//! Every operation transfers its data and completes on both sides as on a NIC.

use gdsync::wire::{Event, Fence, Operation, Wqe};

use super::{Side, bytes, failure};

/// Sends, writes, reads and atomics, rung and waited for by streams.
pub fn every_operation(mut local: Side, mut peer: Side) {
    local.fill(0, &bytes(1, 4096));
    messages(&mut local, &mut peer);
    writes_and_reads(&mut local, &mut peer);
    atomic_operations(&mut local, &peer);
    assert_eq!(done(&mut local, Wqe::nop()), Event::Sent { opcode: 0 });
    stop(&mut local);
}

/// A stopped queue pair flushes posted and later work (syndrome 5).
fn stop(local: &mut Side) {
    local.pair.receive.post(&[local.at(0, 64)]).unwrap();
    local.hca.stop(local.pair.endpoint).unwrap();
    assert_eq!(failure(&local.next_received()).0, 5);
    let send = local.pair.send.prepare(&Wqe::send(&[]).inline(&[1]));
    send.unwrap().ring().unwrap();
    assert_eq!(local.next_failed().0, 5);
    local.hca.stop(local.pair.endpoint).unwrap();
}

fn done(local: &mut Side, entry: Wqe) -> Event {
    local.sent(&entry.signalled()).event
}

fn messages(local: &mut Side, peer: &mut Side) {
    let qpn = local.pair.endpoint.qpn;
    // From three segments into two.
    peer.pair.receive.post(&[peer.at(10, 100), peer.at(500, 1000)]).unwrap();
    peer.wait_received();
    let message = Wqe::send(&[local.at(0, 50), local.at(100, 1), local.at(200, 249)]);
    let sent = local.sent(&message.signalled());
    assert_eq!((sent.event, sent.qpn), (Event::Sent { opcode: 0x0a }, qpn));
    peer.synchronize();
    let received = peer.next_received();
    assert_eq!(
        (received.event, received.counter, received.bytes, received.qpn, received.source),
        (Event::Received, 0, 300, peer.pair.endpoint.qpn, qpn)
    );
    let whole = bytes(1, 4096);
    let message = [&whole[..50], &whole[100..101], &whole[200..449]].concat();
    assert_eq!([peer.seen(10, 100), peer.seen(500, 200)].concat(), message);
    assert_eq!(peer.seen(700, 1), [0]);

    // Inline with immediate data, into the second receive.
    peer.pair.receive.post(&[peer.at(2000, 64)]).unwrap();
    peer.wait_received();
    let inline = Wqe::send(&[]).inline(&bytes(2, 33)).immediate(0x0102_0304);
    assert_eq!(done(local, inline), Event::Sent { opcode: 0x0b });
    peer.synchronize();
    let received = peer.next_received();
    let immediate = 0x0102_0304;
    assert_eq!(
        (received.event, received.counter, received.bytes),
        (Event::ReceivedImmediate { immediate }, 1, 33)
    );
    assert_eq!(peer.seen(2000, 34), [bytes(2, 33), vec![0]].concat());
}

fn writes_and_reads(local: &mut Side, peer: &mut Side) {
    let whole = bytes(1, 4096);
    // Writes from registered memory and inline.
    let write = Wqe::write(peer.region.remote(3000), &[local.at(1000, 500), local.at(0, 500)]);
    assert_eq!(done(local, write), Event::Sent { opcode: 8 });
    assert_eq!(peer.seen(3000, 1001), [&whole[1000..1500], &whole[..500], &[0]].concat());
    let write = Wqe::write(peer.region.remote(5001), &[]).inline(&bytes(3, 900));
    assert_eq!(done(local, write), Event::Sent { opcode: 8 });
    assert_eq!(peer.seen(5000, 902), [vec![0], bytes(3, 900), vec![0]].concat());

    // A write with immediate data consumes a receive but not its memory.
    peer.pair.receive.post(&[]).unwrap();
    peer.wait_received();
    let write = Wqe::write(peer.region.remote(7000), &[local.at(7, 77)]).immediate(0xfedc_ba98);
    assert_eq!(done(local, write), Event::Sent { opcode: 9 });
    peer.synchronize();
    let received = peer.next_received();
    let immediate = 0xfedc_ba98;
    assert_eq!(
        (received.event, received.counter, received.bytes),
        (Event::Written { immediate }, 2, 77)
    );
    assert_eq!(peer.seen(7000, 77), whole[7..84]);

    // A read into two segments.
    let read = Wqe::read(peer.region.remote(5001), &[local.at(6000, 400), local.at(7000, 500)]);
    let completion = local.sent(&read.signalled());
    assert_eq!((completion.event, completion.bytes), (Event::Sent { opcode: 0x10 }, 900));
    assert_eq!([local.seen(6000, 400), local.seen(7000, 500)].concat(), bytes(3, 900));
}

fn atomic_operations(local: &mut Side, peer: &Side) {
    // The previous value is returned.
    peer.fill(8000, &41_u64.to_ne_bytes());
    let remote = peer.region.remote(8000);
    let add = Wqe::new(Operation::FetchAdd { remote, add: 1 }, &[local.at(8000, 8)]);
    assert_eq!(done(local, add), Event::Sent { opcode: 0x12 });
    assert_eq!(
        (local.seen(8000, 8), peer.seen(8000, 8)),
        (41_u64.to_ne_bytes().to_vec(), 42_u64.to_ne_bytes().to_vec())
    );
    for (compare, old, new) in [(41, 42, 42), (42, 42, 7)] {
        let swap = Operation::CompareSwap { remote, compare, swap: 7 };
        let completion = local.sent(&Wqe::new(swap, &[local.at(8000, 8)]).signalled());
        assert_eq!((completion.event, completion.bytes), (Event::Sent { opcode: 0x11 }, 8));
        assert_eq!(
            (local.seen(8000, 8), peer.seen(8000, 8)),
            (u64::to_ne_bytes(old).to_vec(), u64::to_ne_bytes(new).to_vec())
        );
    }
}

/// WQEs that wrap, in small queues.
pub fn rings_wrap(mut local: Side, peer: Side) {
    let mut polled = 0;
    // WQEs of three, three and one block in a ring of eight: the start moves by seven.
    for round in 0..60_u8 {
        let long = bytes(round, 150);
        for offset in [0, 1000] {
            local.ring(&Wqe::write(peer.region.remote(offset), &[]).inline(&long));
        }
        let completion =
            local.sent(&Wqe::write(peer.region.remote(2000), &[]).inline(&[round]).signalled());
        polled += 1;
        assert_eq!(
            (completion.counter, local.pair.send.free()),
            (u16::from(round) * 7 + 6, local.pair.send.parts().blocks)
        );
        let seen = [peer.seen(0, 150), peer.seen(1000, 150), peer.seen(2000, 1)].concat();
        assert_eq!(seen, [&long[..], &long[..], &[round]].concat(), "{round}");
        assert_eq!(local.pair.send_completions.consumer(), polled);
        assert_eq!(local.pair.send_completions.poll().unwrap(), None);
    }
}

/// Messages into reposted receives, in small queues.
pub fn receives_wrap(mut local: Side, mut peer: Side) {
    // Post four receives before the first send.
    let mut posted = 0;
    for _ in 0..4 {
        peer.pair.receive.post(&[peer.at(posted * 16, 16)]).unwrap();
        posted += 1;
    }
    for number in 0..50_u64 {
        let message = number.to_be_bytes();
        local.sent(&Wqe::send(&[]).inline(&message[..1 + number as usize % 8]).signalled());
        let completion = peer.next_received();
        assert_eq!((completion.counter, completion.bytes), (number as u16, 1 + number as u32 % 8));
        let at = number as usize * 16;
        assert_eq!(peer.seen(at, 1 + number as usize % 8), message[..1 + number as usize % 8]);
        peer.pair.receive.post(&[peer.at(posted * 16, 16)]).unwrap();
        posted += 1;
    }
}

/// Fenced WQEs wait.
pub fn fences(mut local: Side, peer: Side) {
    for (round, fence) in
        [Fence::None, Fence::Small, Fence::ReadsAndAtomics, Fence::Strong, Fence::SmallAndReads]
            .into_iter()
            .enumerate()
    {
        peer.fill(0, &bytes(round as u8, 64));
        local.ring(&Wqe::read(peer.region.remote(0), &[local.at(0, 64)]));
        local.ring(&Wqe::nop().fenced(fence));
        let write = Wqe::write(peer.region.remote(1000), &[local.at(0, 64)]);
        local.sent(&write.fenced(fence).signalled());
        assert_eq!(peer.seen(1000, 64), bytes(round as u8, 64), "{fence:?}");
    }
}
