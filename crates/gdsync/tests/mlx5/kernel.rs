//! A kernel drives a queue pair of rdma-core's provider, over the NIC in software: it posts, rings in each way and polls the NIC's CQEs,
//! over many passes of both queues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::{self, Options};
use gdsync::hca::{Access, Driver, Hca as _, MemoryRegion, Request, RetryPolicy};
use gdsync::kernel::{Doorbell, KernelRequest, queue};
use gdsync::wire::Wqe;
use gdsync::{Error, MappedMemory, MemoryLocation};
use gpu::{Batches, PostEnd, message_word};

use crate::inside::inside;
use crate::sides::{SMALL, Side, TIMEOUT};
use crate::{NIC, connected_pair};

/// A NIC, and a kernel with DEVX.
const DEVX: [(&str, &str); 2] = [NIC[0], ("FAKE_UVERBS_DEVX", "1")];
/// A NIC, a kernel with DEVX, and firmware that makes queue pairs without a send doorbell record.
pub const RECORDLESS: [(&str, &str); 3] = [DEVX[0], DEVX[1], ("FAKE_UVERBS_RECORDLESS", "1")];

/// Words of a message.
const WORDS: usize = 16;
/// Messages per doorbell, and in all slots.
const BATCH: u32 = 3;
const SLOTS: usize = 6;
const ROUNDS: u32 = 500;

#[derive(Clone, Copy, PartialEq)]
enum Ring {
    Eight,
    /// Without a doorbell record.
    Alone,
    BlueFlame,
    Assisted,
}

#[test]
#[ignore = "needs libmlx5"]
fn posts_rings_and_polls() {
    inside("kernel::posts_rings_and_polls", &NIC, || {
        for port in [1, 2] {
            for ring in [Ring::Eight, Ring::BlueFlame, Ring::Assisted] {
                exchange(port, ring, MemoryLocation::Host);
            }
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn queues_in_gpu_memory() {
    inside("kernel::queues_in_gpu_memory", &DEVX, || {
        for ring in [Ring::Eight, Ring::Assisted] {
            exchange(1, ring, MemoryLocation::Gpu);
        }
    });
}

/// Without a doorbell record, which stays as it was.
#[test]
#[ignore = "needs libmlx5"]
fn queues_without_record() {
    inside("kernel::queues_without_record", &RECORDLESS, || {
        for port in [1, 2] {
            for location in [MemoryLocation::Host, MemoryLocation::Gpu] {
                exchange(port, Ring::Alone, location);
            }
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn firmware_without_the_mode() {
    inside("kernel::firmware_without_the_mode", &DEVX, || {
        lacks_recordless_queues("send_dbr_mode");
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn no_devx_for_the_mode() {
    inside("kernel::no_devx_for_the_mode", &NIC, || {
        lacks_recordless_queues("DEVX");
    });
}

fn lacks_recordless_queues(why: &str) {
    let request = Request { driver: Driver::KernelsWithoutRecord, ..SMALL() };
    let context = verbs::Context::open("mlx5_0").unwrap();
    let allocator = gdsync::Allocator::new(gpu::Gpu::sim(), None);
    let hca = Mlx5Hca::open(allocator, &context, Options::default()).unwrap();
    match hca.create(&request) {
        Err(Error::Device(error @ port::Error::NoRecordlessQueues { .. })) => {
            let text = error.to_string();
            assert!(text.contains("mlx5_0") && text.contains(why), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

fn exchange(port: u8, ring: Ring, location: MemoryLocation) {
    let request = Request {
        queues: location,
        records: location,
        completions: [location, MemoryLocation::Host],
        driver: match ring {
            Ring::Assisted => Driver::Assisted,
            Ring::Alone => Driver::KernelsWithoutRecord,
            Ring::Eight | Ring::BlueFlame => Driver::Kernels,
        },
        ..SMALL()
    };
    let (local, peer) = connected_pair(port, &request, RetryPolicy::default());
    let target = peer.hca.register(&peer.memory, Access::ALL).unwrap();
    let (requests, doorbell) = (requests(&local, &peer, &target), doorbell(&local, ring));
    let device = match queue(&local.pair, &requests, &doorbell) {
        // A register without BlueFlame, as where a container has none of its own.
        Err(Error::NoBlueFlame) => return,
        device => device.unwrap(),
    };
    let batches = Batches {
        rounds: ROUNDS,
        batch: BATCH,
        ahead: 1,
        words: WORDS as u32,
        threads: 1,
        timeout: Duration::from_secs(20),
    };
    let posting = local.stream.load_queues(&[device], batches).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Doorbell::Assisted(word) = &doorbell {
            let register = &local.pair.send.parts().register;
            scope.spawn(|| assist(word, register, &stop));
        }
        local.stream.post(&posting, batches).unwrap();
        let ended = local.stream.synchronize_within(TIMEOUT);
        stop.store(true, Ordering::Relaxed);
        ended.unwrap();
    });
    let posted = posting.outcome(0).unwrap();
    assert_eq!(
        (posted.end, posted.batches, posted.next, posted.wrong),
        (PostEnd::Done, ROUNDS, ROUNDS * BATCH, None)
    );
    let record = local.pair.send.parts().record.load_u32(0).unwrap();
    assert_eq!(record == 0, ring == Ring::Alone, "{record:#x}");
    for number in posted.next - SLOTS as u32..posted.next {
        let at = 4096 + number as usize % SLOTS * WORDS * 4;
        let words = (0..WORDS as u32).flat_map(|k| message_word(number, k).to_ne_bytes());
        assert_eq!(peer.seen(at, WORDS * 4), words.collect::<Vec<_>>(), "{number}");
    }
}

fn requests(local: &Side, peer: &Side, target: &MemoryRegion) -> Vec<KernelRequest> {
    let request = |slot: usize| {
        let at = slot * WORDS * 4;
        let segment = local.at(at as u64, WORDS as u32 * 4);
        let wqe = Wqe::write(target.remote(4096 + at as u64), &[segment]);
        let is_last = (slot + 1).is_multiple_of(BATCH as usize);
        KernelRequest {
            wqe: if is_last { wqe.signalled() } else { wqe },
            inline: None,
            source: Some(local.memory.part(at, WORDS * 4).unwrap()),
            destination: Some(peer.memory.part(4096 + at, WORDS * 4).unwrap()),
        }
    };
    (0..SLOTS).map(request).collect()
}

fn doorbell(local: &Side, ring: Ring) -> Doorbell {
    match ring {
        Ring::Eight | Ring::Alone => Doorbell::Eight,
        Ring::BlueFlame => Doorbell::BlueFlame,
        Ring::Assisted => {
            Doorbell::Assisted(MappedMemory::host(local.stream.gpu().pinned(8).unwrap()))
        }
    }
}

/// Copies doorbells from a word to the register.
fn assist(word: &MappedMemory, register: &MappedMemory, stop: &AtomicBool) {
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        let value = word.load_u64(0).unwrap();
        if value != last {
            last = value;
            register.store_u64(0, value).unwrap();
        }
        std::thread::yield_now();
    }
}
