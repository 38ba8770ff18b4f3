//! Queue pairs created by DEVX in host and simulated GPU memory: compares every field of the commands, as the fake kernel decoded
//! it, and WQEs, doorbells and CQEs in the registered memory.

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::{Endpoint, Hca as _, Path, QueuePair, Request, RetryPolicy};
use gdsync::wire::{DataSegment, Event, Wqe};
use gdsync::{Allocator, MemoryLocation};
use gpu::Gpu;
use verbs::Context;

use crate::devx_state::{DevxQueuePair, Queue, objects};
use crate::hand;
use crate::inside::inside;

/// Makes the fake kernel support DEVX.
pub const DEVX: (&str, &str) = ("FAKE_UVERBS_DEVX", "1");

/// Locations of the queue pair's parts.
#[derive(Debug, Clone, Copy)]
pub struct Locations {
    pub queues: MemoryLocation,
    pub records: MemoryLocation,
    /// Of sends and of receives.
    pub completions: [MemoryLocation; 2],
}

/// Every combination with a part in GPU memory.
pub fn locations() -> Vec<Locations> {
    let location = |is_gpu: bool| {
        if is_gpu { MemoryLocation::Gpu } else { MemoryLocation::Host }
    };
    let all = (1..16_u8).map(|bits| Locations {
        queues: location(bits & 1 != 0),
        records: location(bits & 2 != 0),
        completions: [location(bits & 4 != 0), location(bits & 8 != 0)],
    });
    all.collect()
}

pub fn request(locations: Locations) -> Request {
    Request {
        send_blocks: 16,
        receives: 8,
        receive_segments: 2,
        send_completions: 32,
        receive_completions: 4,
        queues: locations.queues,
        records: locations.records,
        completions: locations.completions,
        ..Request::default()
    }
}

pub fn allocator() -> Allocator {
    let gdr = Gdr::open_with(BackendKind::Sim).expect("simulated GPUs");
    let allocator = Allocator::new(Gpu::sim(), Some(gdr));
    // Later allocations are not page-aligned.
    std::mem::forget(allocator.place(MemoryLocation::Gpu, 512).expect("GPU memory"));
    std::mem::forget(allocator.place(MemoryLocation::Host, 512).expect("host memory"));
    allocator
}

pub fn hca(allocator: &Allocator, port: u8, gid_index: Option<u8>) -> Mlx5Hca {
    let context = Context::open("mlx5_0").expect("the fake NIC");
    let options = Options { port, gid_index, ..Options::default() };
    Mlx5Hca::open(allocator.clone(), &context, options).expect("its port")
}

#[test]
#[ignore = "needs libmlx5"]
fn creation_commands() {
    inside("devx::creation_commands", &[DEVX], || {
        let allocator = allocator();
        for locations in locations() {
            let hca = hca(&allocator, 1, None);
            let pair = hca.create(&request(locations)).expect("a queue pair");
            check_created(&pair, locations);
            drop((pair, hca));
            assert_eq!(objects(), [0; 4], "{locations:?}");
        }
    });
}

/// Checks a queue pair of [`request`] in INIT.
fn check_created(pair: &QueuePair, locations: Locations) {
    let state = DevxQueuePair::of(pair.endpoint.qpn).expect("a DEVX queue pair");
    let is_gpu = |location| location == MemoryLocation::Gpu;
    let [sent, received] = state.queues.map(Queue::of);
    assert_eq!((state.receive_entries, state.stride, state.blocks), (8, 32, 16));
    assert_eq!(state.sends.address(), state.receives.address() + 8 * 32);
    assert_eq!(state.by_file, [is_gpu(locations.queues), is_gpu(locations.records)]);
    assert_eq!((sent.entries, received.entries), (32, 4));
    for (queue, location) in [&sent, &received].into_iter().zip(locations.completions) {
        assert_eq!(queue.by_file, [is_gpu(location), is_gpu(locations.records)]);
        assert_eq!((queue.event_queue, queue.page), (0x51, state.page));
    }
    // All records are in one umem, a cache line apart; rings have separate umems.
    assert_eq!((state.offsets, sent.offsets, received.offsets), ([0, 0], [0, 64], [0, 128]));
    assert_eq!(state.clock, 1, "the NIC has two clocks");
    assert!(state.domain != 0 && state.page != 0);
    assert_eq!(state.user_index, 1, "the first of its HCA");
    // INIT, port 1, all remote rights, atomics of up to 64 bits.
    assert_eq!(state.init, [1, 1, 7, 3]);
    assert_eq!(state.rtr, [0; 6]);
    // All slots are marked as unwritten.
    for ring in [sent.ring, received.ring] {
        let never = ring.read().chunks(64).all(|entry| entry[63] == 0xf1);
        assert!(never, "{locations:?}");
    }
}

/// An endpoint on another machine.
pub fn peer(gid: Option<&str>) -> Endpoint {
    let path = Path {
        gid: gid.map(|gid| gid.parse().expect("a GID")),
        psn: 0x12_3456,
        mtu: 2048,
        reads: 5,
    };
    Endpoint { lid: if gid.is_some() { 0 } else { 0xabc }, qpn: 0x65_4321, path: Some(path) }
}

/// Adds missing sysfs files of the GID tables that libibverbs reads. Unset GIDs are zeros with a type, because a file cannot return
/// Linux's error for them. The network interface `lo` exists on every machine.
fn gids() {
    let root = std::env::var_os("SYSFS_PATH").expect("the tree");
    let unset = "0000:0000:0000:0000:0000:0000:0000:0000";
    for (port, index) in [1, 2].iter().flat_map(|port| (0..4).map(move |index| (port, index))) {
        for (file, text) in [
            (format!("gids/{index}"), unset),
            (format!("gid_attrs/types/{index}"), "IB/RoCE v1"),
            (format!("gid_attrs/ndevs/{index}"), "lo"),
        ] {
            let ports = "class/infiniband/mlx5_0/ports";
            let path = std::path::Path::new(&root).join(format!("{ports}/{port}/{file}"));
            std::fs::create_dir_all(path.parent().expect("below the root"))
                .expect("a directory of the tree");
            if !path.exists() {
                std::fs::write(&path, format!("{text}\n")).expect("a file of the tree");
            }
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn connection_commands() {
    inside("devx::connection_commands", &[DEVX], || {
        gids();
        let allocator = allocator();
        let locations = Locations {
            queues: MemoryLocation::Gpu,
            records: MemoryLocation::Gpu,
            completions: [MemoryLocation::Gpu; 2],
        };
        let gid = "::ffff:192.168.0.9";
        for (port, gid_index, gid) in
            [(1, None, None), (2, Some(0), Some(gid)), (2, Some(1), Some(gid))]
        {
            let hca = hca(&allocator, port, gid_index);
            let pair = hca.create(&request(locations)).expect("a queue pair");
            let local = pair.endpoint;
            let timeout = RetryPolicy { retries: Some(4), ..RetryPolicy::default() };
            hca.connect(local, peer(gid), timeout).expect("connected");
            let state = DevxQueuePair::of(local.qpn).expect("a DEVX queue pair");
            // RTS; MTU code 4 is 2048, the smaller one; 2^30 bytes; RNR timer 12 is 0.64 ms; 2^3 reads as responder, 2^2 as
            // requester.
            assert_eq!(state.init, [3, port.into(), 7, 3]);
            assert_eq!(state.rtr, [4, 30, 0x65_4321, 0x12_3456, 12, 3]);
            let psn = local.path.expect("a NIC's").psn;
            assert_eq!(state.rts, [psn.into(), 7, 4, 18, 2]);
            let [lid, global, index, hops, class, high, low, dscp, udp, priority, level, mac] =
                state.path;
            assert_eq!((class, dscp, priority, level, global), (0, 0, 0, 0, 0));
            match gid_index {
                None => {
                    assert_eq!((lid, index, hops, high, low, udp, mac), (0xabc, 0, 0, 0, 0, 0, 0))
                }
                Some(expected) => {
                    assert_eq!((lid, index, hops), (0, expected.into(), 64));
                    assert_eq!((high, low), (0, 0x0000_ffff_c0a8_0009));
                    // The fake kernel's MAC: the GID's last six bytes, inverted.
                    assert_eq!(mac, 0x0000_3f57_fff6);
                    // For RoCE v2 the provider chooses a dynamic port; v1 has none.
                    assert_eq!(udp >= 0xc000, expected == 1, "{udp:#x}");
                }
            }
            let again = hca.connect(local, peer(gid), timeout).expect_err("already connected");
            assert!(again.to_string().contains("already connected"), "{again}");
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn queues_use_registered_memory() {
    let name = "devx::queues_use_registered_memory";
    inside(name, &[DEVX], || {
        let allocator = allocator();
        for locations in locations() {
            let hca = hca(&allocator, 1, None);
            let pair = hca.create(&request(locations)).expect("a queue pair");
            hca.connect(pair.endpoint, peer(None), RetryPolicy::default()).expect("connected");
            drive(&allocator, pair);
        }
    });
}

/// A stream sends and waits, for three passes of the send completion queue; then receives are posted.
fn drive(allocator: &Allocator, mut pair: QueuePair) {
    let state = DevxQueuePair::of(pair.endpoint.qpn).expect("a DEVX queue pair");
    let [sent, received] = state.queues.map(Queue::of);
    let nic = (pair.endpoint.qpn, state.user_index as u32);
    let stream = allocator.gpu().stream().expect("a stream");
    let segment = |n: u32| DataSegment {
        length: 0x1000 + n,
        key: 0x00ab_cd00,
        address: 0x1122_3344_5566_0000 + u64::from(n),
    };
    for n in 0..96_u32 {
        let prepared = pair.send.prepare(&Wqe::send(&[segment(n)]).signalled());
        let prepared = prepared.expect("room for an entry");
        stream.batch(&prepared.operations().expect("accessible")).expect("posted");
        stream.synchronize().expect("rung");
        let block = &state.sends.read()[(n % 16) as usize * 64..][..32];
        assert_eq!(block, entry(n, pair.endpoint.qpn, segment(n)));
        assert_eq!(state.record.four(4), (n + 1).to_be_bytes());
        let register = pair.send.parts().register.load_u64(0).expect("a register");
        assert_eq!(register.to_ne_bytes(), block[..8]);
        // Write the CQE while the stream waits.
        let wait = pair.send_completions.take_wait().expect("room for a wait");
        stream.batch(&wait.operations(false).expect("accessible")).expect("posted");
        let slot = (n % 32) as usize * 64;
        let owner = (n / 32 % 2) as u8;
        let entry = hand::requester_of(nic, n as u16, 0x0a, owner);
        sent.ring.write(slot, &entry[..60]);
        sent.ring.write(slot + 60, &entry[60..]);
        stream.synchronize().expect("the wait ends");
        let completion = pair.send_completions.poll().expect("an entry").expect("a completion");
        assert_eq!(completion.event, Event::Sent { opcode: 0x0a });
        assert_eq!(pair.send.complete(&completion).expect("its own"), u64::from(n));
        assert_eq!(sent.record.four(0), (n + 1).to_be_bytes());
    }
    for n in 0..24_u32 {
        assert_eq!(pair.receive.post(&[segment(n)]).expect("room"), u64::from(n));
        let entry = &state.receives.read()[(n % 8) as usize * 32..][..32];
        let mut expected = [0; 32];
        expected[..16].copy_from_slice(&data(segment(n)));
        expected[16 + 4..16 + 8].copy_from_slice(&0x100_u32.to_be_bytes());
        assert_eq!(entry, expected);
        assert_eq!(state.record.four(0), (n + 1).to_be_bytes());
        let owner = (n / 4 % 2) as u8;
        received.ring.write((n % 4) as usize * 64, &hand::responder_of(nic, n as u16, 7, owner));
        let completion = pair.receive_completions.poll().expect("an entry").expect("a completion");
        assert_eq!((completion.event, completion.bytes), (Event::Received, 7));
        assert_eq!(pair.receive.complete(&completion).expect("its own"), u64::from(n));
    }
}

/// A data segment: length, key, address.
fn data(segment: DataSegment) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&segment.length.to_be_bytes());
    bytes[4..8].copy_from_slice(&segment.key.to_be_bytes());
    bytes[8..].copy_from_slice(&segment.address.to_be_bytes());
    bytes
}

/// A signalled SEND (opcode 0x0a, flag 8) with one data segment: two segments in total.
fn entry(index: u32, qpn: u32, segment: DataSegment) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&(index << 8 | 0x0a).to_be_bytes());
    bytes[4..8].copy_from_slice(&(qpn << 8 | 2).to_be_bytes());
    bytes[11] = 8;
    bytes[16..].copy_from_slice(&data(segment));
    bytes
}
