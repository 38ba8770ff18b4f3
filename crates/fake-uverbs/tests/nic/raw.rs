//! WQEs written by hand into the queues that `mlx5dv_init_obj` returns, and CQEs read byte by byte, as a program with direct queue
//! access does. All numbers are those of `mlx5dv.h`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use ib::ibv_wc_status as status;
use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, QueuePair, connected};
use crate::device::{ALL, Device, Memory};
use crate::inside::inside;
use crate::mlx5dv;

/// A send queue that the test drives itself.
struct Raw {
    pair: QueuePair,
    queues: mlx5dv::QueuePair,
    /// WQEBBs posted.
    posted: u16,
}

impl Raw {
    fn new(pair: QueuePair) -> Self {
        Self { pair, queues: mlx5dv::queue_pair(pair.qp), posted: 0 }
    }

    /// A signalled control segment for `segments` segments.
    fn control(&self, opcode: u8, segments: u8) -> Vec<u8> {
        let [_, a, b, c] = self.pair.number.to_be_bytes();
        let [high, low] = self.posted.to_be_bytes();
        vec![0, high, low, opcode, a, b, c, segments, 0, 0, 0, 8, 0, 0, 0, 0]
    }

    /// Writes a WQE and counts its WQEBBs.
    fn put(&mut self, entry: &[u8]) {
        for (number, block) in entry.chunks(64).enumerate() {
            let at = (usize::from(self.posted) + number) % self.queues.sq.wqe_cnt as usize * 64;
            // SAFETY: within the send queue, of which the NIC reads only what a doorbell announced.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    block.as_ptr(),
                    self.queues.sq.buf.add(at),
                    block.len(),
                )
            };
        }
        self.posted += u16::try_from(entry.len().div_ceil(64)).expect("a few blocks");
        fence(Ordering::Release);
        // SAFETY: the second word of the pair's doorbell record.
        let record = unsafe { AtomicU32::from_ptr(self.queues.dbrec.add(1)) };
        record.store(u32::from(self.posted).to_be(), Ordering::Release);
    }

    fn ring(&self, doorbell: [u8; 8]) {
        // SAFETY: the pair's 8-byte register.
        let register = unsafe { AtomicU64::from_ptr(self.queues.bf.reg.cast()) };
        register.store(u64::from_ne_bytes(doorbell), Ordering::Release);
    }

    /// Writes the doorbell as two 4-byte stores.
    fn ring_by_halves(&self, doorbell: [u8; 8]) {
        for (number, half) in doorbell.as_chunks::<4>().0.iter().enumerate() {
            // SAFETY: as above.
            let register =
                unsafe { AtomicU32::from_ptr(self.queues.bf.reg.cast::<u32>().add(number)) };
            register.store(u32::from_ne_bytes(*half), Ordering::Release);
        }
    }

    /// Writes a WQE and rings the doorbell; returns the completion's status.
    fn run(&mut self, entry: &[u8]) -> u32 {
        self.put(entry);
        self.ring(*entry.first_chunk().expect("eight bytes"));
        self.pair.sent.wait().error().map_or(0, |error| error.0)
    }

    /// Resets the queue pair and connects it to itself.
    fn reset_and_connect(&mut self) {
        self.pair.reset();
        self.pair.connect(self.pair.number, Link::default());
        self.posted = 0;
    }
}

fn data(memory: &Memory, offset: usize, length: u32) -> Vec<u8> {
    let mut segment = length.to_be_bytes().to_vec();
    segment.extend(memory.key.to_be_bytes());
    segment.extend(memory.address(offset).to_be_bytes());
    segment
}

fn peer(memory: &Memory, offset: usize) -> Vec<u8> {
    let mut segment = memory.address(offset).to_be_bytes().to_vec();
    segment.extend(memory.key.to_be_bytes());
    segment.extend([0; 4]);
    segment
}

fn self_connected() -> (Device, Raw) {
    let device = Device::open();
    let pair = device.pair();
    pair.connect(pair.number, Link::default());
    (device, Raw::new(pair))
}

/// A write with an SGE, inline data and another SGE; a doorbell in halves; NOPs; many passes of the ring.
#[test]
#[ignore = "needs libmlx5"]
fn wqes() {
    inside("raw::wqes", &[NIC], || {
        let (device, mut raw) = self_connected();
        let memory = device.memory(256, ALL);
        for round in 0..1000_u32 {
            memory.write(0, &round.to_be_bytes());
            let mut entry = raw.control(0x08, 6);
            entry.extend(peer(&memory, 128));
            entry.extend(data(&memory, 2, 2));
            entry.extend([
                0x80, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
                0xee,
            ]);
            entry.extend(data(&memory, 0, 4));
            entry.extend([
                0x80,
                0,
                0,
                1,
                round as u8,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
                0xee,
            ]);
            assert_eq!(raw.run(&entry), 0);
            let [a, b, c, d] = round.to_be_bytes();
            assert_eq!(
                memory.read(128, 13),
                [c, d, b'h', b'e', b'l', b'l', b'o', a, b, c, d, d, 0]
            );
            let nothing = raw.control(0x00, 1);
            raw.put(&nothing);
            raw.ring_by_halves(*nothing.first_chunk().expect("eight bytes"));
            assert_eq!(raw.pair.sent.wait().error(), None);
        }
    });
}

/// Damages a WQE.
type Spoil = fn(&mut Vec<u8>);

#[test]
#[ignore = "needs libmlx5"]
fn invalid_wqes() {
    inside("raw::invalid_wqes", &[NIC], || {
        let (device, mut raw) = self_connected();
        let memory = device.memory(64, ALL);
        let bad: [(&str, Spoil); 8] = [
            ("an unknown opcode", |entry| entry[3] = 0x22),
            ("a modifier", |entry| entry[0] = 1),
            ("another index", |entry| entry[2] ^= 1),
            ("another queue pair", |entry| entry[6] ^= 1),
            ("no segments", |entry| entry[7] = 0),
            ("without the remote end's memory", |entry| entry[7] = 1),
            ("more segments than posted", |entry| entry[7] = 9),
            ("more bytes inline than there are", |entry| {
                entry[32..36].copy_from_slice(&[0x80, 0, 0, 99])
            }),
        ];
        for (what, spoil) in bad {
            let mut entry = raw.control(0x08, 3);
            entry.extend(peer(&memory, 0));
            entry.extend(data(&memory, 8, 8));
            spoil(&mut entry);
            raw.put(&entry);
            // A valid doorbell for an invalid WQE.
            raw.ring(
                *Raw { posted: 0, ..raw }.control(0x08, 3).first_chunk().expect("eight bytes"),
            );
            let found = raw.pair.sent.wait().error().map(|error| error.0);
            assert_eq!(found, Some(status::IBV_WC_LOC_QP_OP_ERR), "{what}");
            raw.reset_and_connect();
        }
        // The length of an atomic operation, which the provider always sets to 8. Length 0 means 2^31.
        for (length, expected) in
            [(4, status::IBV_WC_LOC_LEN_ERR), (0, status::IBV_WC_LOC_PROT_ERR)]
        {
            let mut entry = raw.control(0x12, 4);
            entry.extend(peer(&memory, 0));
            entry.extend([0; 16]);
            entry.extend(data(&memory, 8, length));
            assert_eq!(raw.run(&entry), expected);
            raw.reset_and_connect();
        }
    });
}

/// No execution before the doorbell, nor on a doorbell for another queue pair.
#[test]
#[ignore = "needs libmlx5"]
fn doorbells() {
    inside("raw::doorbells", &[NIC], || {
        let (device, mut raw) = self_connected();
        let memory = device.memory(64, ALL);
        memory.write(0, &[3; 8]);
        let mut entry = raw.control(0x08, 3);
        entry.extend(peer(&memory, 32));
        entry.extend(data(&memory, 0, 8));
        raw.put(&entry);
        let mut wrong: [u8; 8] = *entry.first_chunk().expect("eight bytes");
        wrong[6] ^= 0x40;
        raw.ring(wrong);
        let since = Instant::now();
        while strays() == 0 {
            assert!(
                since.elapsed() < Duration::from_secs(10),
                "the NIC does not read the doorbell"
            );
            std::thread::yield_now();
        }
        assert!(raw.pair.sent.poll().is_none());
        assert_eq!(memory.read(32, 8), [0; 8]);
        raw.ring(*entry.first_chunk().expect("eight bytes"));
        raw.pair.sent.success();
        assert_eq!(memory.read(32, 8), [3; 8]);
        assert_eq!(strays(), 1);
    });
}

/// CQEs of a request, a receive and two errors, in both owner-bit passes.
#[test]
#[ignore = "needs libmlx5"]
fn cqes() {
    inside("raw::cqes", &[NIC], || {
        let (device, a, b) = connected();
        let memory = device.memory(64, ALL);
        let (sent, received) =
            (mlx5dv::completion_queue(a.sent.0), mlx5dv::completion_queue(b.received.0));
        assert_eq!((sent.cqe_cnt, sent.cqe_size), (128, 64));
        let mut raw = Raw::new(a);
        let indices = [user_index(a.number), user_index(b.number)];
        for round in 0..200_u32 {
            let mut entry = raw.control(0x0b, 2);
            entry[12..16].copy_from_slice(&[9, 8, 7, round as u8]);
            entry.extend(data(&memory, 0, 33));
            let counter = raw.posted;
            b.receive(u64::from(round), &[memory.sge(0, 64)]);
            assert_eq!(raw.run(&entry), 0);
            let owner = u8::from(round >= 128);
            let found = cqe_at(&sent, round);
            assert_eq!(found[32..36], indices[0].to_be_bytes());
            assert_eq!(found[56..60], (0x0b00_0000 | a.number).to_be_bytes());
            assert_eq!((&found[60..62], found[63]), (&counter.to_be_bytes()[..], owner));
            let wc = b.received.wait();
            assert_eq!((wc.wr_id(), wc.error()), (u64::from(round), None));
            let found = cqe_at(&received, round);
            assert_eq!(found[22..24], [0x01, 0x23], "the sender's LID");
            assert_eq!(found[24..28], a.number.to_be_bytes());
            assert_eq!(found[32..36], indices[1].to_be_bytes());
            assert_eq!(found[36..40], [9, 8, 7, round as u8]);
            assert_eq!(found[44..48], 33_u32.to_be_bytes());
            assert_eq!(found[56..60], b.number.to_be_bytes());
            assert_eq!(
                (&found[60..62], found[63]),
                (&(round as u16).to_be_bytes()[..], 0x30 | owner)
            );
        }
        b.receive(1, &[memory.sge(0, 8)]);
        let mut entry = raw.control(0x0a, 2);
        entry.extend(data(&memory, 0, 33));
        assert_eq!(raw.run(&entry), status::IBV_WC_REM_INV_REQ_ERR);
        let found = cqe_at(&sent, 200);
        assert_eq!((found[55], found[63]), (0x12, 0xd1));
        assert_eq!(found[56..62], [0x0a, 0xa5, 0xc3, 0x01, 0, 200]);
        assert_eq!(b.received.failure(), (1, status::IBV_WC_LOC_LEN_ERR));
        let found = cqe_at(&received, 200);
        assert_eq!((found[55], found[63]), (0x01, 0xe1));
    });
}

fn cqe_at(queue: &mlx5dv::CompletionQueue, number: u32) -> [u8; 64] {
    let mut entry = [0; 64];
    let at = (number % queue.cqe_cnt) as usize * 64;
    // SAFETY: within the ring; the CQE was polled and is not being written.
    unsafe { std::ptr::copy_nonoverlapping(queue.buf.add(at), entry.as_mut_ptr(), 64) };
    entry
}

/// Looks up an export of the preloaded fake.
macro_rules! export {
    ($name:literal, $type:ty) => {{
        let library = libloading::os::unix::Library::this();
        // SAFETY: the function's signature in crate fake-uverbs.
        *unsafe { library.get::<$type>($name) }.expect("the fake is preloaded")
    }};
}

fn user_index(number: u32) -> u32 {
    let function = export!(b"fake_uverbs_user_index\0", unsafe extern "C" fn(u32) -> u32);
    // SAFETY: no arguments in memory.
    unsafe { function(number) }
}

fn strays() -> u64 {
    let function = export!(b"fake_uverbs_stray_doorbells\0", unsafe extern "C" fn() -> u64);
    // SAFETY: no arguments.
    unsafe { function() }
}

/// Completions lost to overruns.
pub fn overruns() -> u64 {
    let function = export!(b"fake_uverbs_overruns\0", unsafe extern "C" fn() -> u64);
    // SAFETY: no arguments.
    unsafe { function() }
}
