//! Queue pairs that the card's firmware makes in GPU memory: what every HCA does, with rings, records and completions there.

use gdsync::Home;
use gdsync::hca::{Patience, Request};
use gdsync::wire::Entry;

use crate::inside::inside;
use crate::sides::{SMALL, Side, operations};
use crate::{CARD, joined};

/// The card executes, and the kernel has DEVX.
const FIRMWARE: [(&str, &str); 2] = [CARD[0], ("FAKE_UVERBS_DEVX", "1")];

/// Both kinds of link, and each way to have something in GPU memory.
fn each(request: &Request, run: fn(Side, Side)) {
    let home = |is_gpu: bool| if is_gpu { Home::Gpu } else { Home::Host };
    for port in [1, 2] {
        for bits in 1..8_u8 {
            let request = Request {
                queues: home(bits & 1 != 0),
                records: home(bits & 2 != 0),
                completions: home(bits & 4 != 0),
                ..*request
            };
            let (near, far) = joined(port, &request, Patience::default());
            run(near, far);
        }
    }
}

#[test]
fn every_operation_moves_its_bytes_and_a_stream_goes_on() {
    let test = "firmware::every_operation_moves_its_bytes_and_a_stream_goes_on";
    inside(test, &FIRMWARE, || {
        each(&Request::default(), operations::every_operation);
    });
}

#[test]
fn rings_go_round_with_entries_that_wrap() {
    let test = "firmware::rings_go_round_with_entries_that_wrap";
    inside(test, &FIRMWARE, || {
        each(&SMALL(), operations::rings_go_round);
    });
}

#[test]
fn receives_are_told_by_their_own_counter() {
    let test = "firmware::receives_are_told_by_their_own_counter";
    inside(test, &FIRMWARE, || {
        each(&SMALL(), operations::receives_are_told);
    });
}

#[test]
fn what_is_behind_a_fence_sends_what_was_read() {
    let test = "firmware::what_is_behind_a_fence_sends_what_was_read";
    inside(test, &FIRMWARE, || {
        each(&SMALL(), operations::fences);
    });
}

/// Everything in GPU memory.
fn on_gpu() -> Request {
    Request {
        queues: Home::Gpu,
        records: Home::Gpu,
        completions: Home::Gpu,
        ..SMALL()
    }
}

#[test]
fn what_a_card_refuses_ends_the_wait_and_all_behind_it_is_flushed() {
    let test = "firmware::what_a_card_refuses_ends_the_wait_and_all_behind_it_is_flushed";
    inside(test, &FIRMWARE, || {
        let patience = Patience {
            retries: Some(2),
            ..Patience::default()
        };
        let joined = || joined(2, &on_gpu(), patience);
        // Remote access, and flushed behind it.
        let (mut near, far) = joined();
        let mut remote = far.region.remote(0);
        remote.key ^= 0x100;
        near.ring(&Entry::write(remote, &[near.at(0, 8)]).signalled());
        near.ring(&Entry::nop().signalled());
        near.wait_sent();
        near.wait_sent();
        near.synchronize();
        assert_eq!([near.next_failed().0, near.next_failed().0], [0x13, 0x05]);
        // Nothing is posted there, so often; nobody is there.
        let (mut near, far) = joined();
        near.ring(&Entry::send(&[]).inline(b"nobody").signalled());
        near.wait_sent();
        near.synchronize();
        assert_eq!(near.next_failed().0, 0x16);
        drop(far);
        let (mut near, far) = joined();
        let remote = far.region.remote(0);
        drop(far);
        near.ring(&Entry::write(remote, &[]).inline(b"nowhere").signalled());
        near.wait_sent();
        near.synchronize();
        assert_eq!(near.next_failed().0, 0x15);
    });
}

#[test]
fn a_queue_pair_of_verbs_and_one_of_the_firmware_are_connected() {
    let test = "firmware::a_queue_pair_of_verbs_and_one_of_the_firmware_are_connected";
    inside(test, &FIRMWARE, || {
        for port in [1, 2] {
            let near = crate::side(port, &SMALL());
            let far = crate::side(port, &on_gpu());
            near.connect(&far, Patience::default());
            far.connect(&near, Patience::default());
            operations::every_operation(near, far);
        }
    });
}
