//! What goes wrong between software and HCA is caught: by the queue, or by the HCA's notes. No fault ends a wait that it should not.

use std::time::Duration;

use gdsync::Error;
use gdsync::hca::sim::{Effect, SimHca, Violation};
use gdsync::hca::{Hca, QueuePair, Request, RetryPolicy};
use gdsync::queue::CompletionQueue;
use gdsync::wire::{Syndrome, Wqe};

use super::lane::{TIMEOUT, allocator, polled, ring, until};

/// A queue pair connected to itself, with completion queues of so many entries.
fn pair(hca: &SimHca, completions: u32) -> QueuePair {
    let request = Request {
        send_completions: completions,
        receive_completions: completions,
        ..Request::default()
    };
    let pair = hca.create(&request).unwrap();
    hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())
        .unwrap();
    pair
}

fn hca() -> SimHca {
    SimHca::new(allocator()).unwrap()
}

/// A stream: one of any simulated GPU reaches host memory.
fn stream() -> gpu::Stream {
    gpu::Gpu::sim().stream().unwrap()
}

/// Sends a NOP that completes.
fn nop(pair: &mut QueuePair) {
    ring(pair, &Wqe::nop().signalled());
}

/// Waits until the HCA has written the completion in a slot: its counter.
fn written(queue: &CompletionQueue, slot: usize, counter: u16) {
    until("a completion in its slot", || {
        let mut bytes = [0; 64];
        queue.parts().ring.read(slot * 64, &mut bytes).unwrap();
        (bytes[63] >> 4 != 15 && bytes[60..62] == counter.to_be_bytes()).then_some(())
    });
}

#[test]
fn a_doorbell_without_its_record_is_noted_and_does_nothing() {
    let hca = hca();
    let mut pair = pair(&hca, 8);
    let prepared = pair.send.prepare(&Wqe::nop().signalled()).unwrap();
    let [_, _, doorbell] = prepared.operations().unwrap();
    let stream = self::stream();
    stream.batch(&[doorbell]).unwrap();
    let qpn = pair.send.qpn();
    let early = Violation::DoorbellBeforeRecord {
        qpn,
        index: 0,
        record: 0,
    };
    until("the note", || (hca.violations() == [early]).then_some(()));
    assert!(pair.send_completions.poll().unwrap().is_none());
    // Rung as it should be, it is done.
    prepared.ring().unwrap();
    assert_eq!(polled(&mut pair.send_completions).counter, 0);
    assert_eq!(hca.violations().len(), 1);
}

#[test]
fn a_wrong_number_a_wrong_index_and_a_record_too_far_are_noted() {
    let hca = hca();
    let mut pair = pair(&hca, 8);
    let qpn = pair.send.qpn();
    let parts = pair.send.parts().clone();
    // Another queue pair's number: bytes 4 to 6 of the doorbell.
    let wrong = [0, 0, 0, 0, 0, 0, 0x77, 1];
    parts.record.store_u32(0, 1_u32.to_be()).unwrap();
    parts
        .register
        .store_u64(0, u64::from_ne_bytes(wrong))
        .unwrap();
    until("the note", || {
        (hca.violations() == [Violation::WrongQueuePair { qpn, rung: 0x77 }]).then_some(())
    });
    // The default queue has 128 blocks.
    parts.record.store_u32(0, 129_u32.to_be()).unwrap();
    let mut doorbell = [0; 8];
    doorbell[4..].copy_from_slice(&(qpn << 8 | 1).to_be_bytes());
    parts
        .register
        .store_u64(0, u64::from_ne_bytes(doorbell))
        .unwrap();
    let beyond = Violation::RecordBeyondQueue { qpn, record: 129 };
    until("the note", || {
        hca.violations().contains(&beyond).then_some(())
    });
    // An entry with another block's index.
    let prepared = pair.send.prepare(&Wqe::nop().signalled()).unwrap();
    parts.ring.write(1, &[0x12, 0x34]).unwrap();
    prepared.ring().unwrap();
    let completion = polled(&mut pair.send_completions);
    let failed = completion.event.failed().unwrap();
    assert_eq!(failed.syndrome, Syndrome::LocalOperation);
    let index = Violation::WrongIndex {
        qpn,
        block: 0,
        index: 0x1234,
    };
    assert_eq!(hca.violations().last(), Some(&index));
}

#[test]
fn a_stale_cqe_or_one_with_the_wrong_owner_bit_is_no_completion() {
    for (effect, is_overrun) in [(Effect::WrongOwner, true), (Effect::Stale, false)] {
        for passes in 0..5 {
            let hca = hca();
            let mut pair = pair(&hca, 2);
            for _ in 0..passes {
                nop(&mut pair);
                let completion = polled(&mut pair.send_completions);
                pair.send.complete(&completion).unwrap();
            }
            hca.inject(pair.send.qpn(), 0, effect);
            let wait = pair.send_completions.take_wait().unwrap();
            nop(&mut pair);
            // The next one is good, so the first has been written.
            nop(&mut pair);
            let completions = &mut pair.send_completions;
            written(completions, (passes as usize + 1) % 2, passes + 1);
            assert!(!wait.is_over().unwrap(), "a stream would wait on");
            assert!(
                completions.poll().unwrap().is_none(),
                "the GPU has not seen it"
            );
            wait.abandon().unwrap();
            match completions.poll() {
                Err(Error::Overrun { entries: 2, .. }) if is_overrun => {}
                Ok(None) if !is_overrun => {}
                polled => panic!("{effect:?}: {polled:?}"),
            }
        }
    }
}

#[test]
fn a_completion_that_never_comes_is_not_made_up() {
    let hca = hca();
    let mut pair = pair(&hca, 8);
    hca.inject(pair.send.qpn(), 1, Effect::Drop);
    for _ in 0..3 {
        nop(&mut pair);
    }
    assert_eq!(polled(&mut pair.send_completions).counter, 0);
    let completion = polled(&mut pair.send_completions);
    assert_eq!(completion.counter, 2);
    // It says so of those before it, too.
    assert_eq!(pair.send.complete(&completion).unwrap(), 2);
    assert_eq!(pair.send.pending(), 0);
}

#[test]
fn a_slot_that_a_stream_still_watches_is_not_written_again() {
    let hca = hca();
    let mut pair = pair(&hca, 2);
    let wait = pair.send_completions.take_wait().unwrap();
    nop(&mut pair);
    nop(&mut pair);
    written(&pair.send_completions, 1, 1);
    assert!(wait.is_over().unwrap());
    // The stream has not looked: the CPU polls nothing, so the HCA finds no place for a third, and says so.
    assert!(pair.send_completions.poll().unwrap().is_none());
    nop(&mut pair);
    let qpn = pair.send.qpn();
    until("the note", || {
        (hca.violations() == [Violation::Overrun { qpn }]).then_some(())
    });
    assert!(
        wait.is_over().unwrap(),
        "what the stream will look at is still there"
    );
    let stream = self::stream();
    stream.batch(&wait.operations(false).unwrap()).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(polled(&mut pair.send_completions).counter, 0);
}

/// Why there is a busy word: without it, the wait would be for a word that has gone by.
#[test]
fn a_slot_recycled_before_the_stream_looks_never_ends_its_wait() {
    let hca = hca();
    let mut pair = pair(&hca, 2);
    let wait = pair.send_completions.take_wait().unwrap();
    // Somebody says that the stream has seen it.
    wait.busy().store_u32(0, 0).unwrap();
    for counter in 0..3 {
        nop(&mut pair);
        assert_eq!(polled(&mut pair.send_completions).counter, counter);
    }
    assert!(!wait.is_over().unwrap());
    assert!(
        pair.send_completions.consumer() > wait.index(),
        "and this is how it shows"
    );
}

#[test]
fn a_queue_that_is_not_polled_is_overrun_and_fails() {
    let hca = hca();
    let mut pair = pair(&hca, 4);
    for _ in 0..5 {
        nop(&mut pair);
    }
    let qpn = pair.send.qpn();
    until("the note", || {
        (hca.violations() == [Violation::Overrun { qpn }]).then_some(())
    });
    for counter in 0..4 {
        assert_eq!(polled(&mut pair.send_completions).counter, counter);
    }
    // The queue pair is of no use any more.
    nop(&mut pair);
    let failed = *polled(&mut pair.send_completions).event.failed().unwrap();
    assert_eq!(failed.syndrome, Syndrome::Flushed);
}

#[test]
fn queue_pairs_finish_in_another_order_than_they_were_rung() {
    let hca = hca();
    let [mut first, mut second] = [0, 1].map(|_| pair(&hca, 8));
    for _ in 0..20 {
        let behind = Effect::Behind {
            qpn: second.send.qpn(),
        };
        hca.inject(first.send.qpn(), 0, behind);
        nop(&mut first);
        // It is held: nothing comes of it, however often the other one is asked.
        nop(&mut second);
        let (late, early) = (
            polled(&mut first.send_completions),
            polled(&mut second.send_completions),
        );
        assert!(late.timestamp > early.timestamp);
        first.send.complete(&late).unwrap();
        second.send.complete(&early).unwrap();
    }
}

#[test]
fn a_delayed_entry_holds_up_those_behind_it_and_is_done() {
    let hca = hca();
    let [mut first, mut second] = [0, 1].map(|_| pair(&hca, 8));
    hca.inject(
        first.send.qpn(),
        0,
        Effect::Delay(Duration::from_millis(20)),
    );
    nop(&mut first);
    nop(&mut first);
    let held = polled(&mut first.send_completions);
    assert_eq!(
        (held.counter, polled(&mut first.send_completions).counter),
        (0, 1)
    );
    nop(&mut second);
    assert_eq!(polled(&mut second.send_completions).counter, 0);
}
