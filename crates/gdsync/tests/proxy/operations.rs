//! Every operation moves its bytes, and completes on both sides as a card's would.

use gdsync::hca::{Patience, Request};
use gdsync::queue::Step;
use gdsync::wire::{Entry, Event, Fence, Operation};

use crate::machine::{infiniband, on, roce};
use crate::side::{SMALL, bytes, joined};

#[test]
fn every_operation_moves_its_bytes_and_a_stream_goes_on() {
    let test = "operations::every_operation_moves_its_bytes_and_a_stream_goes_on";
    on(test, &[infiniband(), roce()], |_| {
        let (mut near, mut far) = joined(&Request::default(), Patience::default());
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
    });
}

#[test]
fn rings_go_round_with_entries_that_wrap_and_only_what_is_signalled_completes() {
    let test = "operations::rings_go_round_with_entries_that_wrap_and_only_what_is_signalled_completes";
    on(test, &[infiniband()], |_| {
        let (mut near, far) = joined(&SMALL(), Patience::default());
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
                (u16::from(round) * 7 + 6, 8)
            );
            let seen = [far.seen(0, 150), far.seen(1000, 150), far.seen(2000, 1)].concat();
            assert_eq!(seen, [&long[..], &long[..], &[round]].concat(), "{round}");
            assert_eq!(near.pair.send_completions.consumer(), polled);
            assert_eq!(near.pair.send_completions.poll().unwrap(), None);
        }
    });
}

#[test]
fn receives_are_told_by_their_own_counter_round_after_round() {
    let test = "operations::receives_are_told_by_their_own_counter_round_after_round";
    on(test, &[infiniband()], |_| {
        let (mut near, mut far) = joined(&SMALL(), Patience::default());
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
    });
}

#[test]
fn what_is_posted_before_it_is_connected_waits_and_a_sender_waits_for_a_receive() {
    let test = "operations::what_is_posted_before_it_is_connected_waits_and_a_sender_waits_for_a_receive";
    on(test, &[infiniband()], |_| {
        let mut near = crate::side::Side::new("mlx5_0", &SMALL());
        let mut far = crate::side::Side::new("mlx5_1", &SMALL());
        far.pair.receive.post(&[far.at(0, 8)]).unwrap();
        near.ring(&Entry::send(&[]).inline(b"early").signalled());
        near.synchronize();
        near.wait_sent();
        far.connect(&near, Patience::default());
        near.connect(&far, Patience::default());
        near.synchronize();
        assert_eq!(near.next_sent().event, Event::Sent { opcode: 0x0a });
        assert_eq!((far.next_received().bytes, far.seen(0, 5)), (5, b"early".to_vec()));
        // Nothing is posted: by default the sender tries for ever.
        near.ring(&Entry::send(&[]).inline(b"late").signalled());
        near.wait_sent();
        far.pair.receive.post(&[far.at(8, 8)]).unwrap();
        near.synchronize();
        assert_eq!(near.next_sent().event, Event::Sent { opcode: 0x0a });
        assert_eq!((far.next_received().counter, far.seen(8, 4)), (1, b"late".to_vec()));
        // Several wait at once, and each keeps its bytes.
        let entries = [b"one", b"two", b"six"].map(|text| Entry::send(&[]).inline(text).signalled());
        let [_, _, last] = entries.map(|entry| near.pair.send.prepare(&entry).unwrap());
        let [.., Step::Write64 { place: register, .. }] = last.steps() else {
            panic!("{last:?}")
        };
        last.ring().unwrap();
        while register.load_u64(0).unwrap() != 0 {
            std::thread::yield_now();
        }
        for at in 0..3 {
            far.pair.receive.post(&[far.at(16 + at * 3, 3)]).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(far.next_received().bytes, 3);
            near.next_sent();
        }
        assert_eq!(far.seen(16, 9), b"onetwosix");
    });
}

#[test]
fn what_is_behind_a_fence_sends_what_was_read() {
    let test = "operations::what_is_behind_a_fence_sends_what_was_read";
    on(test, &[infiniband()], |_| {
        let (mut near, far) = joined(&SMALL(), Patience::default());
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
    });
}
