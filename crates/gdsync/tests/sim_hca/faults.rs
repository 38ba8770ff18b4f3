//! Queues or the HCA's violations detect faults between software and HCA, and no fault ends the wrong wait.

use std::time::Duration;

use gdsync::Error;
use gdsync::hca::sim::{Effect, SimHca, Violation};
use gdsync::hca::{Hca, QueuePair, Request, RetryPolicy};
use gdsync::queue::CompletionQueue;
use gdsync::wire::{Syndrome, Wqe};

use super::lane::{TIMEOUT, allocator, polled, ring, until};

/// A queue pair connected to itself.
fn pair(hca: &SimHca, completions: u32) -> QueuePair {
    let request = Request {
        send_completions: completions,
        receive_completions: completions,
        ..Request::default()
    };
    let pair = hca.create(&request).unwrap();
    hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default()).unwrap();
    pair
}

fn hca() -> SimHca {
    SimHca::new(allocator()).unwrap()
}

/// A stream of any simulated GPU: all can access host memory.
fn stream() -> gpu::Stream {
    gpu::Gpu::sim().stream().unwrap()
}

/// Posts a signalled no-op.
fn nop(pair: &mut QueuePair) {
    ring(pair, &Wqe::nop().signalled());
}

/// Waits until the HCA has written a CQE with this counter to a slot.
fn wait_written(queue: &CompletionQueue, slot: usize, counter: u16) {
    until("a completion in its slot", || {
        let mut bytes = [0; 64];
        queue.parts().ring.read(slot * 64, &mut bytes).unwrap();
        (bytes[63] >> 4 != 15 && bytes[60..62] == counter.to_be_bytes()).then_some(())
    });
}

#[test]
fn ignores_doorbell_before_record() {
    let hca = hca();
    let mut pair = pair(&hca, 8);
    let prepared = pair.send.prepare(&Wqe::nop().signalled()).unwrap();
    let [_, _, doorbell] = prepared.operations().unwrap();
    let stream = self::stream();
    stream.batch(&[doorbell]).unwrap();
    let qpn = pair.send.qpn();
    let early = Violation::DoorbellBeforeRecord { qpn, index: 0, record: 0 };
    until("the violation", || (hca.violations() == [early]).then_some(()));
    assert!(pair.send_completions.poll().unwrap().is_none());
    // A correct doorbell executes it.
    prepared.ring().unwrap();
    assert_eq!(polled(&mut pair.send_completions).counter, 0);
    assert_eq!(hca.violations().len(), 1);
}

#[test]
fn detects_bad_doorbells_and_indices() {
    let hca = hca();
    let mut pair = pair(&hca, 8);
    let qpn = pair.send.qpn();
    let parts = pair.send.parts().clone();
    // Another QPN: bytes 4 to 6 of the doorbell.
    let wrong = [0, 0, 0, 0, 0, 0, 0x77, 1];
    parts.record.store_u32(0, 1_u32.to_be()).unwrap();
    parts.register.store_u64(0, u64::from_ne_bytes(wrong)).unwrap();
    until("the violation", || {
        (hca.violations() == [Violation::WrongQueuePair { qpn, rung: 0x77 }]).then_some(())
    });
    // The default queue has 128 blocks.
    parts.record.store_u32(0, 129_u32.to_be()).unwrap();
    let mut doorbell = [0; 8];
    doorbell[4..].copy_from_slice(&(qpn << 8 | 1).to_be_bytes());
    parts.register.store_u64(0, u64::from_ne_bytes(doorbell)).unwrap();
    let beyond = Violation::RecordBeyondQueue { qpn, record: 129 };
    until("the violation", || hca.violations().contains(&beyond).then_some(()));
    // A WQE with the index of another block.
    let prepared = pair.send.prepare(&Wqe::nop().signalled()).unwrap();
    parts.ring.write(1, &[0x12, 0x34]).unwrap();
    prepared.ring().unwrap();
    let completion = polled(&mut pair.send_completions);
    let failed = completion.event.failed().unwrap();
    assert_eq!(failed.syndrome, Syndrome::LocalOperation);
    let index = Violation::WrongIndex { qpn, block: 0, index: 0x1234 };
    assert_eq!(hca.violations().last(), Some(&index));
}

#[test]
fn rejects_stale_cqes() {
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
            // Once the next CQE is there, the first one has been handled.
            nop(&mut pair);
            let completions = &mut pair.send_completions;
            wait_written(completions, (passes as usize + 1) % 2, passes + 1);
            assert!(!wait.is_over().unwrap(), "a stream would wait on");
            assert!(completions.poll().unwrap().is_none(), "the GPU has not seen it");
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
fn dropped_cqe_stays_missing() {
    let hca = hca();
    let mut pair = pair(&hca, 8);
    hca.inject(pair.send.qpn(), 1, Effect::Drop);
    for _ in 0..3 {
        nop(&mut pair);
    }
    assert_eq!(polled(&mut pair.send_completions).counter, 0);
    let completion = polled(&mut pair.send_completions);
    assert_eq!(completion.counter, 2);
    // It completes earlier WQEs too.
    assert_eq!(pair.send.complete(&completion).unwrap(), 2);
    assert_eq!(pair.send.pending(), 0);
}

#[test]
fn keeps_slot_of_open_wait() {
    let hca = hca();
    let mut pair = pair(&hca, 2);
    let wait = pair.send_completions.take_wait().unwrap();
    nop(&mut pair);
    nop(&mut pair);
    wait_written(&pair.send_completions, 1, 1);
    assert!(wait.is_over().unwrap());
    // The stream has not read the slot, so the CPU polls nothing and a third CQE overruns the queue.
    assert!(pair.send_completions.poll().unwrap().is_none());
    nop(&mut pair);
    let qpn = pair.send.qpn();
    until("the violation", || (hca.violations() == [Violation::Overrun { qpn }]).then_some(()));
    assert!(wait.is_over().unwrap(), "the slot is unchanged");
    let stream = self::stream();
    stream.batch(&wait.operations(false).unwrap()).unwrap();
    stream.synchronize_within(TIMEOUT).unwrap();
    assert_eq!(polled(&mut pair.send_completions).counter, 0);
}

/// Why waits have a busy word: without it, the CQE can be overwritten before the stream reads it.
#[test]
fn recycled_slot_ends_no_wait() {
    let hca = hca();
    let mut pair = pair(&hca, 2);
    let wait = pair.send_completions.take_wait().unwrap();
    // Claim that the stream has read it.
    wait.busy().store_u32(0, 0).unwrap();
    for counter in 0..3 {
        nop(&mut pair);
        assert_eq!(polled(&mut pair.send_completions).counter, counter);
    }
    assert!(!wait.is_over().unwrap());
    assert!(
        pair.send_completions.consumer() > wait.index(),
        "the wait is older than the consumer index"
    );
}

#[test]
fn overrun_fails_the_queue_pair() {
    let hca = hca();
    let mut pair = pair(&hca, 4);
    for _ in 0..5 {
        nop(&mut pair);
    }
    let qpn = pair.send.qpn();
    until("the violation", || (hca.violations() == [Violation::Overrun { qpn }]).then_some(()));
    for counter in 0..4 {
        assert_eq!(polled(&mut pair.send_completions).counter, counter);
    }
    // The queue pair has failed.
    nop(&mut pair);
    let failed = *polled(&mut pair.send_completions).event.failed().unwrap();
    assert_eq!(failed.syndrome, Syndrome::Flushed);
}

#[test]
fn reorders_queue_pairs() {
    let hca = hca();
    let [mut first, mut second] = [0, 1].map(|_| pair(&hca, 8));
    for _ in 0..20 {
        let behind = Effect::Behind { qpn: second.send.qpn() };
        hca.inject(first.send.qpn(), 0, behind);
        nop(&mut first);
        // It is blocked until the other queue pair completes.
        nop(&mut second);
        let (late, early) =
            (polled(&mut first.send_completions), polled(&mut second.send_completions));
        assert!(late.timestamp > early.timestamp);
        first.send.complete(&late).unwrap();
        second.send.complete(&early).unwrap();
    }
}

#[test]
fn delays_later_wqes_too() {
    let hca = hca();
    let [mut first, mut second] = [0, 1].map(|_| pair(&hca, 8));
    hca.inject(first.send.qpn(), 0, Effect::Delay(Duration::from_millis(20)));
    nop(&mut first);
    nop(&mut first);
    let delayed = polled(&mut first.send_completions);
    assert_eq!((delayed.counter, polled(&mut first.send_completions).counter), (0, 1));
    nop(&mut second);
    assert_eq!(polled(&mut second.send_completions).counter, 0);
}
