//! Queues without an HCA: the bytes they write, compared with literals.

use std::time::Duration;

use gdrcopy::{BackendKind, Gdr};
use gpu::{Compare, Gpu, MemOp};

use super::*;
use crate::place::tests::locations;
use crate::wire::{Completion, DataSegment, Event, Failed, Syndrome, Transport, Wqe};
use crate::{Allocator, MemoryLocation};

const TIMEOUT: Duration = Duration::from_secs(60);
const QPN: u32 = 0x01_0203;

struct Bench {
    allocator: Allocator,
    ring: MappedMemory,
    record: MappedMemory,
    register: MappedMemory,
}

fn bench(location: MemoryLocation, bytes: usize) -> Bench {
    let allocator = Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok());
    let place = |bytes| allocator.place(location, bytes).unwrap();
    Bench {
        ring: place(bytes),
        record: place(4),
        register: allocator.place(MemoryLocation::Host, 8).unwrap(),
        allocator,
    }
}

fn send_queue(bench: &Bench, blocks: u32) -> SendQueue {
    SendQueue::new(SendParts {
        blocks,
        ring: bench.ring.clone(),
        record: bench.record.clone(),
        has_record: true,
        register: bench.register.clone(),
        flame: None,
        qpn: QPN,
        transport: Transport::Connected,
    })
    .unwrap()
}

fn bytes(place: &MappedMemory) -> Vec<u8> {
    let mut bytes = vec![0; place.len()];
    place.read(0, &mut bytes).unwrap();
    bytes
}

fn done(counter: u16) -> Completion {
    Completion::new(Event::Sent { opcode: 0x0a }, QPN, counter)
}

/// The kinds of stream operations, in order.
fn kinds(operations: &[MemOp]) -> Vec<&'static str> {
    let kind = |operation| {
        let words = format!("{operation:?}");
        let known = ["Write32", "Write64", "Wait32", "Barrier"];
        known.into_iter().find(|kind| words.contains(kind)).expect("one of them")
    };
    operations.iter().map(kind).collect()
}

/// An inline send of `blocks` blocks.
fn long(blocks: usize, mark: u8) -> Wqe {
    Wqe::send(&[]).inline(&vec![mark; blocks * 64 - 16 - 4])
}

#[test]
fn doorbell_writes_record_before_register() {
    for &location in locations() {
        let bench = bench(location, 4 * 64);
        let mut queue = send_queue(&bench, 4);
        let prepared = queue.prepare(&long(1, 0x5a)).unwrap();
        assert_eq!(bytes(&bench.ring)[..8], [0, 0, 0, 0x0a, 1, 2, 3, 4]);
        assert_eq!(bytes(&bench.ring)[16..24], [0x80, 0, 0, 44, 0x5a, 0x5a, 0x5a, 0x5a]);
        assert_eq!((bytes(&bench.record), bytes(&bench.register)), (vec![0; 4], vec![0; 8]));
        let [first, barrier, last] = prepared.ops();
        let MemOp::Write32 { at: place, value } = first else { panic!("{first:?}") };
        assert_eq!((place.address(), value.to_ne_bytes()), (bench.record.address(), [0, 0, 0, 1]));
        assert!(matches!(barrier, MemOp::Barrier));
        let MemOp::Write64 { at: place, value } = last else { panic!("{last:?}") };
        assert_eq!(place.address(), bench.register.address());
        assert_eq!(value.to_ne_bytes(), [0, 0, 0, 0x0a, 1, 2, 3, 4]);
        let second = queue.prepare(&long(2, 1)).unwrap();
        assert_eq!(kinds(&prepared.operations().unwrap()), ["Write32", "Barrier", "Write64"]);
        assert!(!prepared.is_rung().unwrap() && !second.is_rung().unwrap());
        // By a stream, and by the CPU.
        let stream = bench.allocator.gpu().stream().unwrap();
        stream.batch(&prepared.operations().unwrap()).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();
        assert_eq!(bytes(&bench.record), [0, 0, 0, 1]);
        assert_eq!(bytes(&bench.register), [0, 0, 0, 0x0a, 1, 2, 3, 4]);
        assert!(prepared.is_rung().unwrap() && !second.is_rung().unwrap());
        second.ring().unwrap();
        assert_eq!(bytes(&bench.record), [0, 0, 0, 3]);
        assert_eq!(bytes(&bench.register), [0, 0, 1, 0x0a, 1, 2, 3, 8]);
        assert!(prepared.is_rung().unwrap());
    }
}

#[test]
fn wraps_between_blocks() {
    let bench = bench(MemoryLocation::Host, 4 * 64);
    let mut queue = send_queue(&bench, 4);
    let (first, second) =
        (queue.prepare(&long(3, 1)).unwrap(), queue.prepare(&Wqe::nop()).unwrap());
    assert_eq!((first.counter(), second.counter(), queue.free()), (0, 3, 0));
    let full = queue.prepare(&Wqe::nop());
    assert!(matches!(full, Err(Error::Full { need: 1, free: 0 })), "{full:?}");
    assert_eq!(queue.complete(&done(0)).unwrap(), 0);
    assert_eq!(queue.free(), 3);
    assert_eq!(queue.complete(&done(3)).unwrap(), 1);
    // Blocks 4, 5 and 6 are slots 0, 1, 2; block 7 slot 3, block 8 slot 0 again.
    let _ = queue.prepare(&long(3, 2)).unwrap();
    queue.complete(&done(4)).unwrap();
    let wrapped = queue.prepare(&long(2, 3)).unwrap();
    assert_eq!(wrapped.counter(), 7);
    let ring = bytes(&bench.ring);
    assert_eq!(ring[192..200], [0, 0, 7, 0x0a, 1, 2, 3, 8]);
    assert_eq!(ring[..64], [3; 64]);
    assert!(matches!(queue.prepare(&long(5, 4)), Err(Error::Wire(_))), "longer than the queue");
}

#[test]
#[cfg_attr(miri, ignore = "65536 entries take an hour")]
fn counter_wraps_at_16_bits() {
    let bench = bench(MemoryLocation::Host, 2 * 64);
    let mut queue = send_queue(&bench, 2);
    for number in 0..70_000_u32 {
        let prepared = queue.prepare(&Wqe::nop()).unwrap();
        assert_eq!(u32::from(prepared.counter()), number & 0xffff);
        assert_eq!(queue.complete(&done(number as u16)).unwrap(), u64::from(number));
    }
    queue.prepare(&Wqe::nop()).unwrap().ring().unwrap();
    // 70,001 is 0x11171: the record has its lower 16 bits.
    assert_eq!(bytes(&bench.record), [0, 0, 0x11, 0x71]);
}

#[test]
fn rolls_back_only_the_last_wqe() {
    let bench = bench(MemoryLocation::Host, 8 * 64);
    let mut queue = send_queue(&bench, 8);
    let first = queue.prepare(&long(2, 1)).unwrap();
    let second = queue.prepare(&long(3, 2)).unwrap();
    let refused = queue.roll_back(first);
    assert!(matches!(refused, Err(Error::NotLast { number: 0, last: 1 })), "{refused:?}");
    queue.roll_back(second).unwrap();
    assert_eq!((queue.free(), queue.pending()), (6, 1));
    let again = queue.prepare(&Wqe::nop()).unwrap();
    assert_eq!((again.number(), again.counter()), (1, 2));
}

#[test]
fn rejects_unknown_completions() {
    let bench = bench(MemoryLocation::Host, 8 * 64);
    let mut queue = send_queue(&bench, 8);
    for _ in 0..2 {
        let _ = queue.prepare(&long(2, 0)).unwrap();
    }
    let other = Completion::new(Event::Sent { opcode: 0 }, QPN + 1, 0);
    let receive = Completion::new(Event::Received, QPN, 0);
    for wrong in [done(1), done(4), other, receive] {
        assert!(matches!(queue.complete(&wrong), Err(Error::UnknownEntry { .. })), "{wrong:?}");
    }
    assert_eq!((queue.pending(), queue.free()), (2, 4));
    // A completion completes earlier WQEs too.
    assert_eq!(queue.complete(&done(2)).unwrap(), 1);
    assert_eq!((queue.pending(), queue.free()), (0, 8));
}

#[test]
fn receives_update_the_record() {
    let bench = bench(MemoryLocation::Host, 2 * 32);
    let parts = ReceiveParts {
        entries: 2,
        segments: 2,
        ring: bench.ring.clone(),
        record: bench.record.clone(),
        qpn: QPN,
    };
    let mut queue = ReceiveQueue::new(parts.clone()).unwrap();
    let segment = DataSegment { length: 1, key: 2, address: 3 };
    assert_eq!(queue.post(&[segment]).unwrap(), 0);
    assert_eq!(bytes(&bench.record), [0, 0, 0, 1]);
    assert_eq!(
        bytes(&bench.ring)[..24],
        [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0]
    );
    assert_eq!(queue.post(&[segment; 2]).unwrap(), 1);
    assert!(matches!(queue.post(&[]), Err(Error::Full { need: 1, free: 0 })));
    let received = |counter| Completion::new(Event::Received, QPN, counter);
    assert!(queue.complete(&received(1)).is_err() && queue.complete(&done(0)).is_err());
    assert_eq!(queue.complete(&received(0)).unwrap(), 0);
    assert_eq!(queue.post(&[]).unwrap(), 2);
    assert_eq!(queue.complete(&received(1)).unwrap(), 1);
    assert_eq!(queue.complete(&received(2)).unwrap(), 2);
    assert!(queue.complete(&received(3)).is_err(), "nothing is posted");
    let odd = ReceiveQueue::new(ReceiveParts { entries: 4, ..parts });
    assert!(matches!(odd, Err(Error::Size { need: 128, have: 64, .. })), "{odd:?}");
}

/// A completion queue, written as a NIC does.
struct Completions {
    queue: CompletionQueue,
    ring: MappedMemory,
    record: MappedMemory,
    entries: u32,
    written: u32,
    allocator: Allocator,
}

impl Completions {
    fn new(entries: u32, location: MemoryLocation, waiting: Waiting) -> Self {
        let bench = bench(location, entries as usize * 64);
        let queue = CompletionQueue::new(CompletionParts {
            entries,
            ring: bench.ring.clone(),
            record: bench.record.clone(),
            busy: bench.allocator.place(MemoryLocation::Host, entries as usize * 4).unwrap(),
            waiting,
        });
        Self {
            queue: queue.unwrap(),
            ring: bench.ring,
            record: bench.record,
            entries,
            written: 0,
            allocator: bench.allocator,
        }
    }

    /// The next completion, as a NIC writes it: the owner bit is bit log2(entries) of its number.
    fn write(&mut self, event: Event) {
        let owner = self.written / self.entries % 2 == 1;
        let entry = Completion::new(event, QPN, self.written as u16).encode(owner);
        let slot = (self.written % self.entries) as usize * 64;
        self.ring.write(slot, &entry).unwrap();
        self.written = self.written.wrapping_add(1);
    }

    fn polled(&mut self) -> Option<u16> {
        self.queue.poll().unwrap().map(|completion| completion.counter)
    }
}

#[test]
fn polls_completions_in_order() {
    for (entries, location, waiting) in [
        (1, MemoryLocation::Host, Waiting::Nor),
        (2, MemoryLocation::Gpu, Waiting::WithoutNor),
        (8, MemoryLocation::Host, Waiting::Nor),
        (8, MemoryLocation::Gpu, Waiting::Nor),
    ] {
        if !locations().contains(&location) {
            continue;
        }
        let mut queue = Completions::new(entries, location, waiting);
        assert_eq!(queue.polled(), None);
        let mut expected = 0;
        for burst in 0..6 * entries {
            let count = burst % entries + 1;
            for _ in 0..count {
                queue.write(Event::Received);
            }
            for _ in 0..count {
                assert_eq!(queue.polled(), Some(expected));
                expected += 1;
            }
            assert_eq!(queue.polled(), None, "a stale entry is none");
            assert_eq!(bytes(&queue.record)[1..], u32::from(expected).to_be_bytes()[1..]);
        }
    }
}

#[test]
fn completion_counts_wrap() {
    // The record has 24 bits, the queue counts with 32: neither end is seen.
    for start in [0xff_fffa, u32::MAX - 5] {
        let mut queue = Completions::new(4, MemoryLocation::Host, Waiting::Nor);
        queue.written = start;
        let mut seen = vec![0; 4];
        // Fill every slot with a CQE of the previous pass.
        for n in 1..=4 {
            let n = start.wrapping_sub(n);
            let entry = Completion::new(Event::Received, QPN, n as u16).encode(n / 4 % 2 == 1);
            queue.ring.write((n % 4) as usize * 64, &entry).unwrap();
            seen[(n % 4) as usize] = u32::from_ne_bytes(entry[60..].try_into().unwrap());
        }
        queue.queue.advance_to(start, seen);
        for n in 0..12 {
            assert_eq!(queue.polled(), None);
            let wait = queue.queue.take_wait().unwrap();
            assert!(!wait.is_over().unwrap());
            queue.write(Event::Received);
            assert!(wait.is_over().unwrap());
            wait.abandon().unwrap();
            let number = start.wrapping_add(n);
            assert_eq!(queue.polled(), Some(number as u16));
            let record = number.wrapping_add(1) & 0xff_ffff;
            assert_eq!(bytes(&queue.record), record.to_be_bytes());
        }
    }
}

#[test]
fn poll_follows_the_streams_wait() {
    let mut queue = Completions::new(2, MemoryLocation::Host, Waiting::Nor);
    let stream = queue.allocator.gpu().stream().unwrap();
    for pass in 0..6 {
        let waits = [queue.queue.take_wait().unwrap(), queue.queue.take_wait().unwrap()];
        assert_eq!(waits.each_ref().map(Wait::index), [pass * 2, pass * 2 + 1]);
        let compare =
            if pass % 2 == 0 { (0xfeff_ffff, Compare::Nor) } else { (0x0100_0000, Compare::And) };
        assert!(waits.iter().all(|wait| wait.condition() == compare));
        assert!(matches!(queue.queue.take_wait(), Err(Error::WaitsFull { entries: 2 })));
        assert!(!waits[0].is_over().unwrap());
        queue.write(Event::Received);
        queue.write(Event::Received);
        assert!(waits[1].is_over().unwrap());
        assert_eq!(kinds(&waits[0].operations(false).unwrap()), ["Wait32", "Write32"]);
        // The GPU has not looked yet.
        assert_eq!(queue.polled(), None);
        assert!(queue.queue.is_held().unwrap() && queue.queue.peek().unwrap().is_some());
        let operations: Vec<_> =
            waits.iter().flat_map(|wait| wait.operations(true).unwrap()).collect();
        stream.batch(&operations).unwrap();
        stream.synchronize_within(TIMEOUT).unwrap();
        let first = pass as u16 * 2;
        assert_eq!(
            (queue.polled(), queue.polled(), queue.polled()),
            (Some(first), Some(first + 1), None)
        );
    }
    // An abandoned wait.
    let wait = queue.queue.take_wait().unwrap();
    queue.write(Event::Received);
    assert_eq!(queue.polled(), None);
    wait.abandon().unwrap();
    assert_eq!(queue.polled(), Some(12));
    // A polled completion has no wait.
    queue.write(Event::Received);
    assert_eq!(queue.polled(), Some(13));
    assert_eq!(queue.queue.take_wait().unwrap().index(), 14);
}

#[test]
fn waits_for_chosen_completions() {
    let mut queue = Completions::new(4, MemoryLocation::Host, Waiting::Nor);
    let third = queue.queue.take_wait_for(2).unwrap();
    let first = queue.queue.take_wait_for(0).unwrap();
    assert_eq!((first.index(), third.index()), (0, 2));
    for (again, index) in [(0, 0), (2, 2)] {
        let error = queue.queue.take_wait_for(again);
        assert!(
            matches!(error, Err(Error::Waited { index: found }) if found == index),
            "{error:?}"
        );
    }
    assert!(matches!(queue.queue.take_wait_for(4), Err(Error::WaitsFull { entries: 4 })));
    for _ in 0..4 {
        queue.write(Event::Received);
    }
    assert_eq!(queue.polled(), None);
    first.abandon().unwrap();
    // The second one has no wait.
    assert_eq!((queue.polled(), queue.polled(), queue.polled()), (Some(0), Some(1), None));
    assert!(queue.queue.take_wait_for(1).is_err());
    // The next one without a wait follows the last one with one.
    let fourth = queue.queue.take_wait().unwrap();
    assert_eq!(fourth.index(), 3);
    third.abandon().unwrap();
    assert_eq!((queue.polled(), queue.polled()), (Some(2), None));
    fourth.abandon().unwrap();
    assert_eq!(queue.polled(), Some(3));
}

#[test]
fn error_ends_owner_bit_waits() {
    let failed =
        Event::SendFailed(Failed { syndrome: Syndrome::RemoteAccess, vendor: 0x88, opcode: 8 });
    for (waiting, even) in [(Waiting::Nor, true), (Waiting::WithoutNor, false)] {
        let mut queue = Completions::new(1, MemoryLocation::Host, waiting);
        for over in [even, true] {
            let wait = queue.queue.take_wait().unwrap();
            assert!(!wait.is_over().unwrap());
            queue.write(failed);
            assert_eq!(wait.is_over().unwrap(), over);
            wait.abandon().unwrap();
            assert_eq!(
                queue.queue.poll().unwrap().map(|completion| completion.event),
                Some(failed)
            );
        }
    }
}

#[test]
fn detects_overrun() {
    for polled in 0..9 {
        let mut queue = Completions::new(4, MemoryLocation::Host, Waiting::Nor);
        for counter in 0..polled {
            queue.write(Event::Received);
            assert_eq!(queue.polled(), Some(counter));
        }
        // One more than there is room for.
        for _ in 0..5 {
            queue.write(Event::Received);
        }
        let overrun = queue.queue.poll();
        let index = u32::from(polled);
        assert!(
            matches!(overrun, Err(Error::Overrun { index: at, entries: 4 }) if at == index),
            "{overrun:?}"
        );
    }
}

#[test]
fn initial_owner_byte_ends_no_wait() {
    let mut queue = Completions::new(2, MemoryLocation::Host, Waiting::Nor);
    let wait = queue.queue.take_wait().unwrap();
    assert_eq!(bytes(&queue.ring)[63], 0xf1);
    assert!(!wait.is_over().unwrap());
    queue.ring.write(63, &[0xf0]).unwrap();
    assert!(wait.is_over().unwrap(), "why it is 0xf1");
    // The CPU rejects it.
    wait.abandon().unwrap();
    assert_eq!(queue.polled(), None);
}
