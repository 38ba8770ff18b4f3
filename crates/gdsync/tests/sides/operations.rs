//! Every operation moves its bytes, and completes on both sides as a card's would.

use gdsync::wire::{Entry, Event, Fence, Operation};

use super::{Side, bytes};

/// Sends, writes, reads and atomic operations, each with a stream that rings and one that waits.
pub fn every_operation(mut near: Side, mut far: Side) {
    let qpn = near.pair.endpoint.qpn;
    near.fill(0, &bytes(1, 4096));

    // A message of three pieces into two.
    far.pair.receive.post(&[far.at(10, 100), far.at(500, 1000)]).unwrap();
    far.wait_received();
    let message = Entry::send(&[near.at(0, 50), near.at(100, 1), near.at(200, 249)]);
    let sent = near.sent(&message.signalled());
    assert_eq!((sent.event, sent.qpn), (Event::Sent { opcode: 0x0a }, qpn));
    far.synchronize();
    let received = far.next_received();
    assert_eq!(
        (
            received.event,
            received.counter,
            received.bytes,
            received.qpn,
            received.source
        ),
        (Event::Received, 0, 300, far.pair.endpoint.qpn, qpn)
    );
    let whole = bytes(1, 4096);
    let message = [&whole[..50], &whole[100..101], &whole[200..449]].concat();
    assert_eq!([far.seen(10, 100), far.seen(500, 200)].concat(), message);
    assert_eq!(far.seen(700, 1), [0]);

    // With immediate data, inline; its receive is the second.
    far.pair.receive.post(&[far.at(2000, 64)]).unwrap();
    far.wait_received();
    let inline = Entry::send(&[]).inline(&bytes(2, 33)).immediate(0x0102_0304);
    assert_eq!(near.sent(&inline.signalled()).event, Event::Sent { opcode: 0x0b });
    far.synchronize();
    let received = far.next_received();
    let immediate = 0x0102_0304;
    assert_eq!(
        (received.event, received.counter, received.bytes),
        (Event::ReceivedImmediate { immediate }, 1, 33)
    );
    assert_eq!(far.seen(2000, 34), [bytes(2, 33), vec![0]].concat());

    // Writes, of registered memory and of the entry's own.
    let write = Entry::write(far.region.remote(3000), &[near.at(1000, 500), near.at(0, 500)]);
    assert_eq!(near.sent(&write.signalled()).event, Event::Sent { opcode: 8 });
    assert_eq!(far.seen(3000, 1001), [&whole[1000..1500], &whole[..500], &[0]].concat());
    let write = Entry::write(far.region.remote(5001), &[]).inline(&bytes(3, 900));
    assert_eq!(near.sent(&write.signalled()).event, Event::Sent { opcode: 8 });
    assert_eq!(far.seen(5000, 902), [vec![0], bytes(3, 900), vec![0]].concat());

    // A write that is told takes a receive and none of its memory.
    far.pair.receive.post(&[]).unwrap();
    far.wait_received();
    let write = Entry::write(far.region.remote(7000), &[near.at(7, 77)]).immediate(0xfedc_ba98);
    assert_eq!(near.sent(&write.signalled()).event, Event::Sent { opcode: 9 });
    far.synchronize();
    let received = far.next_received();
    let immediate = 0xfedc_ba98;
    assert_eq!(
        (received.event, received.counter, received.bytes),
        (Event::Written { immediate }, 2, 77)
    );
    assert_eq!(far.seen(7000, 77), whole[7..84]);

    // A read, into two pieces.
    let read = Entry::read(far.region.remote(5001), &[near.at(6000, 400), near.at(7000, 500)]);
    let completion = near.sent(&read.signalled());
    assert_eq!(
        (completion.event, completion.bytes),
        (Event::Sent { opcode: 0x10 }, 900)
    );
    assert_eq!([near.seen(6000, 400), near.seen(7000, 500)].concat(), bytes(3, 900));

    // What was there comes back.
    far.fill(8000, &41_u64.to_ne_bytes());
    let remote = far.region.remote(8000);
    let add = Entry::new(Operation::FetchAdd { remote, add: 1 }, &[near.at(8000, 8)]);
    assert_eq!(near.sent(&add.signalled()).event, Event::Sent { opcode: 0x12 });
    assert_eq!(
        (near.seen(8000, 8), far.seen(8000, 8)),
        (41_u64.to_ne_bytes().to_vec(), 42_u64.to_ne_bytes().to_vec())
    );
    for (compare, old, new) in [(41, 42, 42), (42, 42, 7)] {
        let swap = Operation::CompareSwap {
            remote,
            compare,
            swap: 7,
        };
        let completion = near.sent(&Entry::new(swap, &[near.at(8000, 8)]).signalled());
        assert_eq!((completion.event, completion.bytes), (Event::Sent { opcode: 0x11 }, 8));
        assert_eq!(
            (near.seen(8000, 8), far.seen(8000, 8)),
            (u64::to_ne_bytes(old).to_vec(), u64::to_ne_bytes(new).to_vec())
        );
    }
    assert_eq!(near.sent(&Entry::nop().signalled()).event, Event::Sent { opcode: 0 });
}

/// Entries that wrap; of small rings.
pub fn rings_go_round(mut near: Side, far: Side) {
    let mut polled = 0;
    // Three blocks, three and one of eight: the start moves by seven.
    for round in 0..60_u8 {
        let long = bytes(round, 150);
        for offset in [0, 1000] {
            near.ring(&Entry::write(far.region.remote(offset), &[]).inline(&long));
        }
        let completion = near.sent(&Entry::write(far.region.remote(2000), &[]).inline(&[round]).signalled());
        polled += 1;
        assert_eq!(
            (completion.counter, near.pair.send.free()),
            (u16::from(round) * 7 + 6, near.pair.send.parts().blocks)
        );
        let seen = [far.seen(0, 150), far.seen(1000, 150), far.seen(2000, 1)].concat();
        assert_eq!(seen, [&long[..], &long[..], &[round]].concat(), "{round}");
        assert_eq!(near.pair.send_completions.consumer(), polled);
        assert_eq!(near.pair.send_completions.poll().unwrap(), None);
    }
}

/// Messages into receives that are posted again; of small rings.
pub fn receives_are_told(mut near: Side, mut far: Side) {
    // The first four are posted before anything is sent, and so before the doorbell of any.
    let mut posted = 0;
    for _ in 0..4 {
        far.pair.receive.post(&[far.at(posted * 16, 16)]).unwrap();
        posted += 1;
    }
    for number in 0..50_u64 {
        let message = number.to_be_bytes();
        near.sent(&Entry::send(&[]).inline(&message[..1 + number as usize % 8]).signalled());
        let completion = far.next_received();
        assert_eq!(
            (completion.counter, completion.bytes),
            (number as u16, 1 + number as u32 % 8)
        );
        let at = number as usize * 16;
        assert_eq!(
            far.seen(at, 1 + number as usize % 8),
            message[..1 + number as usize % 8]
        );
        far.pair.receive.post(&[far.at(posted * 16, 16)]).unwrap();
        posted += 1;
    }
}

/// What is behind a fence waits.
pub fn fences(mut near: Side, far: Side) {
    for (round, fence) in [
        Fence::None,
        Fence::Small,
        Fence::ReadsAndAtomics,
        Fence::Strong,
        Fence::SmallAndReads,
    ]
    .into_iter()
    .enumerate()
    {
        far.fill(0, &bytes(round as u8, 64));
        near.ring(&Entry::read(far.region.remote(0), &[near.at(0, 64)]));
        near.ring(&Entry::nop().fenced(fence));
        let write = Entry::write(far.region.remote(1000), &[near.at(0, 64)]);
        near.sent(&write.fenced(fence).signalled());
        assert_eq!(far.seen(1000, 64), bytes(round as u8, 64), "{fence:?}");
    }
}
