//! Our CQEs polled by Debian's provider: `ibv_poll_cq` accepts each in its pass only, and reports what rdma-core's source
//! specifies (`outcome`). The kernel that drives a send queue polls the same bytes, and finds the same; so does `poll` of gdsync/device.cuh.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr::null_mut;

use gdsync::wire::{INITIAL_OWNER, WATCHED};
use gpu::PostEnd;
use ibverbs_sys as ib;

use crate::device::{Answer, DevicePoller};
use crate::encode;
use crate::inside::inside;
use crate::kernel::Poller;
use crate::outcome::{DONE, check, status, untouched};
use crate::provider::{Completions, Device, QueuePair};
use crate::random::Random;

/// Completions per run: more than a thousand passes.
const COMPLETIONS: u32 = 20_000;

/// Completions that the kernel polls too.
const POLLED: u32 = 10_000;

/// CQEs of the queue.
const ENTRIES: u32 = 16;

/// Field values of a CQE, as in mlx5dv.h.
#[derive(Debug, Clone, Copy)]
pub struct Cqe {
    /// `MLX5_CQE_…`.
    pub opcode: u8,
    pub user_index: u32,
    pub queue_pair: u32,
    /// Opcode of the send WQE.
    pub send_opcode: u8,
    pub counter: u16,
    pub bytes: u32,
    /// Immediate data or an invalidated key.
    pub value: u32,
    pub source: u32,
    /// LID, path, service level, and whether there is a global route.
    pub origin: (u16, u8, u8, bool),
    pub timestamp: u64,
    pub solicited: bool,
    pub syndrome: u8,
    pub vendor: u8,
}

/// `MLX5_CQE_…` of mlx5dv.h.
pub mod opcode {
    pub const REQUESTER: u8 = 0;
    pub const WRITTEN: u8 = 1;
    pub const RECEIVED: u8 = 2;
    pub const RECEIVED_IMMEDIATE: u8 = 3;
    pub const RECEIVED_INVALIDATE: u8 = 4;
    pub const REQUESTER_ERROR: u8 = 13;
    pub const RESPONDER_ERROR: u8 = 14;
    pub const ALL: [u8; 7] = [
        REQUESTER,
        WRITTEN,
        RECEIVED,
        RECEIVED_IMMEDIATE,
        RECEIVED_INVALIDATE,
        REQUESTER_ERROR,
        RESPONDER_ERROR,
    ];
}

#[test]
#[ignore = "needs libmlx5"]
fn every_event() {
    inside("completion::every_event", &[], run);
}

/// Every syndrome with every vendor syndrome.
#[test]
#[ignore = "needs libmlx5"]
fn every_error() {
    inside("completion::every_error", &[], errors);
}

/// Each CQE is polled by the kernel, by device.cuh and by the provider, before and after it is written.
#[test]
#[ignore = "needs libmlx5, a C++ compiler, libibverbs-dev"]
fn kernel_polls_like_the_provider() {
    inside("completion::kernel_polls_like_the_provider", &[], kernel_and_provider);
}

/// A queue pair, its completion queue and its posted requests.
struct Bench {
    pair: QueuePair,
    queue: Completions,
    /// Id and counter of posted sends, oldest first.
    sends: VecDeque<(u64, u16)>,
    /// Id and counter of posted receives, oldest first.
    receives: VecDeque<(u64, u16)>,
    /// Number of posted sends and receives.
    posted: (u16, u16),
}

impl Bench {
    fn new() -> Self {
        let device = Device::open();
        let queue = device.completions(ENTRIES as i32);
        assert_eq!(queue.entries, ENTRIES);
        let cap = ib::ibv_qp_cap {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let pair = device.pair(ib::ibv_qp_type::IBV_QPT_RC, &queue, &queue, cap, false);
        // The provider's initial value and ours are both unwritten to it.
        for at in (63..queue.buffer.length()).step_by(64) {
            assert_eq!(queue.buffer.read()[at], 0xf0);
            queue.buffer.write(at, &[INITIAL_OWNER]);
        }
        assert_eq!(queue.poll(&mut untouched()), 0);
        Self { pair, queue, sends: VecDeque::new(), receives: VecDeque::new(), posted: (0, 0) }
    }

    /// Posts the requests that `entry` completes, sets its counter, and returns the request's id.
    fn post_for(&mut self, entry: &mut Cqe, random: &mut Random) -> u64 {
        if matches!(entry.opcode, opcode::REQUESTER | opcode::REQUESTER_ERROR) {
            // Complete the last one, which completes the earlier ones too.
            for _ in 0..=random.below(3) {
                let id = random.bits();
                self.post_send(id);
                self.sends.push_back((id, self.posted.0));
                self.posted.0 = self.posted.0.wrapping_add(1);
            }
            let (id, counter) = self.sends.drain(..).next_back().expect("one at least");
            entry.counter = counter;
            id
        } else {
            while self.receives.len() <= random.below(30) {
                let id = random.bits();
                self.post_receive(id);
                self.receives.push_back((id, self.posted.1));
                self.posted.1 = self.posted.1.wrapping_add(1);
            }
            // rdma-core 44 completes the oldest, 55 the one with the counter: the same one here.
            let (id, counter) = self.receives.pop_front().expect("one at least");
            entry.counter = counter;
            id
        }
    }

    fn post_send(&self, id: u64) {
        let mut work = ib::ibv_send_wr {
            wr_id: id,
            opcode: ib::ibv_wr_opcode::IBV_WR_SEND,
            ..Default::default()
        };
        // SAFETY: the queue pair is live, and the request has no SGEs.
        let result = unsafe { ib::ibv_post_send(self.pair.qp, &mut work, &mut null_mut()) };
        assert_eq!(result, 0, "ibv_post_send");
    }

    fn post_receive(&self, id: u64) {
        let mut work = ib::ibv_recv_wr { wr_id: id, ..Default::default() };
        // SAFETY: the queue pair is live, and the request has no SGEs.
        let result = unsafe { ib::ibv_post_recv(self.pair.qp, &mut work, &mut null_mut()) };
        assert_eq!(result, 0, "ibv_post_recv");
    }

    /// The provider ignores a CQE of the previous pass, and one without an opcode.
    fn check_ignored(&mut self, entry: &Cqe) {
        assert_eq!(self.queue.poll(&mut untouched()), 0, "before anything was written");
        let owner = encode::owner(ENTRIES, self.queue.written);
        self.queue.place(&encode::complete(entry, !owner));
        assert_eq!(
            self.queue.poll(&mut untouched()),
            0,
            "an entry with the wrong owner bit: {entry:#x?}"
        );
        let mut invalid = encode::complete(entry, owner);
        invalid[63] |= 0xf0;
        self.queue.place(&invalid);
        assert_eq!(self.queue.poll(&mut untouched()), 0, "an entry without an opcode");
    }

    /// Writes the CQE of the current pass.
    fn put(&mut self, entry: &Cqe) {
        let owner = encode::owner(ENTRIES, self.queue.written);
        self.queue.put(&encode::complete(entry, owner));
    }

    /// Polls and compares all written CQEs and the consumer index.
    fn take(&self, put: &[(u64, Cqe)], rearm: bool) {
        let mut taken = vec![untouched(); put.len() + 2];
        let count = self.queue.poll_all(&mut taken);
        assert_eq!(count, put.len() as c_int);
        for (wc, (id, entry)) in taken.iter().zip(put) {
            check(wc, *id, entry);
        }
        assert_eq!(
            self.queue.record.four(0),
            encode::consumed(self.queue.written),
            "the consumer index"
        );
        // Re-arming a slot makes no difference to the provider.
        for n in (self.queue.written - count as u32..self.queue.written).filter(|_| rearm) {
            let slot = (n % ENTRIES) as usize * 64;
            self.queue.buffer.write(slot + WATCHED, &encode::rearmed(ENTRIES, n));
        }
    }
}

fn run() {
    let mut random = Random(0x636f_6d70);
    let mut bench = Bench::new();
    while bench.queue.written < COMPLETIONS {
        let mut put = Vec::new();
        for _ in 0..=random.below(ENTRIES as usize) {
            let mut entry = entry(&mut random, &opcode::ALL, bench.pair.user_index);
            let id = bench.post_for(&mut entry, &mut random);
            if put.is_empty() {
                bench.check_ignored(&entry);
            }
            bench.put(&entry);
            put.push((id, entry));
        }
        bench.take(&put, random.one_in(2));
    }
}

/// What `ibv_poll_cq` finds next, in the words of the kernel: the provider gives the request's id, and the test knows its counter.
fn provided(bench: &Bench, sends: &[(u64, u16)], syndrome: u8) -> PostEnd {
    let mut wc = untouched();
    if bench.queue.poll(&mut wc) == 0 {
        return PostEnd::Late;
    }
    match wc.error() {
        Some((code, vendor)) => {
            assert_eq!(code, status(syndrome), "{syndrome:#04x}");
            let vendor = vendor.try_into().expect("a byte");
            PostEnd::Failed { syndrome, vendor }
        }
        None => {
            let completed = sends.iter().find(|(id, _)| *id == wc.wr_id());
            let (_, counter) = *completed.expect("a request of the test");
            PostEnd::Other { counter }
        }
    }
}

fn kernel_and_provider() {
    let mut random = Random(0x6b65_726e);
    let mut bench = Bench::new();
    let poller = Poller::new(ENTRIES);
    let mut device = DevicePoller::new();
    // Requests by 60, so that their counter begins again below.
    for _ in 0..1_080 {
        let mut entry = entry(&mut random, &[opcode::REQUESTER], bench.pair.user_index);
        for _ in 0..57 {
            let id = random.bits();
            bench.post_send(id);
            bench.sends.push_back((id, bench.posted.0));
            bench.posted.0 += 1;
        }
        let id = bench.post_for(&mut entry, &mut random);
        bench.put(&entry);
        bench.take(&[(id, entry)], false);
    }
    let first = bench.posted.0;
    let mut counts = [0; 2];
    for polled in bench.queue.written..bench.queue.written + POLLED {
        let opcodes = [opcode::REQUESTER, opcode::REQUESTER_ERROR];
        let mut entry = entry(&mut random, &opcodes, bench.pair.user_index);
        let before = bench.posted.0;
        let id = bench.post_for(&mut entry, &mut random);
        let sends = [(id, entry.counter)];
        let cqes = |bench: &Bench| bench.queue.buffer.read();
        let owner = encode::owner(ENTRIES, polled);
        // The previous pass, the pass before it, another owner, and no opcode.
        let mut invalid = encode::complete(&entry, owner);
        invalid[63] |= 0xf0;
        for unwritten in [None, Some(encode::complete(&entry, !owner)), Some(invalid)] {
            if let Some(bytes) = unwritten {
                bench.queue.place(&bytes);
            }
            let found = poller.poll(&cqes(&bench), polled, entry.counter);
            assert_eq!(found, (PostEnd::Late, None), "{polled}: {entry:#x?}");
            let found = device.poll(&cqes(&bench), polled);
            assert_eq!(found, Answer::Late, "{polled}: {entry:#x?}");
            let provided = provided(&bench, &sends, entry.syndrome);
            assert_eq!(provided, PostEnd::Late, "{polled}");
        }
        bench.put(&entry);
        let bytes = cqes(&bench);
        let (end, record) = poller.poll(&bytes, polled, entry.counter);
        let by_device = device.poll(&bytes, polled);
        let (other, _) = poller.poll(&bytes, polled, before.wrapping_sub(1));
        let provided = provided(&bench, &sends, entry.syndrome);
        let taken = bench.queue.record.four(0);
        match provided {
            PostEnd::Other { counter } => {
                assert_eq!(counter, entry.counter, "{polled}");
                // The request that the kernel waits for, whose CQE it counts like the provider.
                assert_eq!((end, record), (PostEnd::Done, Some(taken)), "{polled}");
                assert_eq!(by_device, Answer::Done(taken), "{polled}");
                // Another request, by its counter.
                assert_eq!(other, provided, "{polled}");
                counts[0] += 1;
            }
            failed => {
                assert_eq!((end, record), (failed, None), "{polled}: {entry:#x?}");
                assert_eq!(by_device, Answer::Failed(entry.syndrome), "{polled}");
                assert_eq!(other, failed, "{polled}");
                counts[1] += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > POLLED / 3), "{counts:?}");
    assert!(bench.posted.0 < first, "the counter began again");
}

fn errors() {
    let mut random = Random(0x6572_726f);
    let mut bench = Bench::new();
    for number in 0..=u16::MAX {
        let [syndrome, vendor] = number.to_be_bytes();
        let opcodes =
            [if random.one_in(2) { opcode::REQUESTER_ERROR } else { opcode::RESPONDER_ERROR }];
        let mut entry =
            Cqe { syndrome, vendor, ..entry(&mut random, &opcodes, bench.pair.user_index) };
        let id = bench.post_for(&mut entry, &mut random);
        bench.put(&entry);
        bench.take(&[(id, entry)], number % 2 == 0);
    }
}

fn entry(random: &mut Random, opcodes: &[u8], user_index: u32) -> Cqe {
    let opcode = opcodes[random.below(opcodes.len())];
    Cqe {
        opcode,
        user_index,
        queue_pair: random.word() >> 8,
        send_opcode: DONE[random.below(DONE.len())].0,
        counter: 0,
        bytes: random.word(),
        value: random.word(),
        source: random.word() >> 8,
        origin: (random.word() as u16, random.byte() & 0x7f, random.byte() & 0xf, random.one_in(2)),
        timestamp: random.bits(),
        solicited: random.one_in(2),
        syndrome: random.byte(),
        vendor: random.byte(),
    }
}
