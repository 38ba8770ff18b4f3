//! Every operation moves its bytes, and completes on both sides as a card's would.

use gdsync::hca::{Patience, Request};
use gdsync::queue::Step;
use gdsync::wire::{Entry, Event};

use crate::machine::{infiniband, on, roce};
use crate::sides::{SMALL, operations};
use crate::{joined, side};

#[test]
fn every_operation_moves_its_bytes_and_a_stream_goes_on() {
    let test = "operations::every_operation_moves_its_bytes_and_a_stream_goes_on";
    on(test, &[infiniband(), roce()], |_| {
        let (near, far) = joined(&Request::default(), Patience::default());
        operations::every_operation(near, far);
    });
}

#[test]
fn rings_go_round_with_entries_that_wrap_and_only_what_is_signalled_completes() {
    let test = "operations::rings_go_round_with_entries_that_wrap_and_only_what_is_signalled_completes";
    on(test, &[infiniband()], |_| {
        let (near, far) = joined(&SMALL(), Patience::default());
        operations::rings_go_round(near, far);
    });
}

#[test]
fn receives_are_told_by_their_own_counter_round_after_round() {
    let test = "operations::receives_are_told_by_their_own_counter_round_after_round";
    on(test, &[infiniband()], |_| {
        let (near, far) = joined(&SMALL(), Patience::default());
        operations::receives_are_told(near, far);
    });
}

#[test]
fn what_is_posted_before_it_is_connected_waits_and_a_sender_waits_for_a_receive() {
    let test = "operations::what_is_posted_before_it_is_connected_waits_and_a_sender_waits_for_a_receive";
    on(test, &[infiniband()], |_| {
        let mut near = side("mlx5_0", &SMALL());
        let mut far = side("mlx5_1", &SMALL());
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
        let (near, far) = joined(&SMALL(), Patience::default());
        operations::fences(near, far);
    });
}
