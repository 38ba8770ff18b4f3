//! Queue pairs that the NIC's firmware makes, in host memory and in a simulated GPU's: each field of the commands as the kernel's double
//! understood it, and entries, doorbells and completions in the memory that it was told of.

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::{Endpoint, Hca as _, Path, QueuePair, Request, RetryPolicy};
use gdsync::wire::{DataSegment, Event, Wqe};
use gdsync::{Allocator, MemoryLocation};
use gpu::Gpu;
use verbs::Context;

use crate::devx_told::{Pair, Queue, objects};
use crate::hand;
use crate::inside::inside;

/// The double's kernel speaks DEVX.
pub const DEVX: (&str, &str) = ("FAKE_UVERBS_DEVX", "1");

/// Of the request below: what is in GPU memory.
#[derive(Debug, Clone, Copy)]
pub struct Locations {
    pub queues: MemoryLocation,
    pub records: MemoryLocation,
    pub completions: MemoryLocation,
}

/// Each way to have something there.
pub fn locations() -> Vec<Locations> {
    let location = |is_gpu: bool| {
        if is_gpu {
            MemoryLocation::Gpu
        } else {
            MemoryLocation::Host
        }
    };
    let all = (1..8_u8).map(|bits| Locations {
        queues: location(bits & 1 != 0),
        records: location(bits & 2 != 0),
        completions: location(bits & 4 != 0),
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
    // What is taken after this begins on no border of pages.
    std::mem::forget(
        allocator
            .place(MemoryLocation::Gpu, 512)
            .expect("GPU memory"),
    );
    std::mem::forget(
        allocator
            .place(MemoryLocation::Host, 512)
            .expect("host memory"),
    );
    allocator
}

pub fn hca(allocator: &Allocator, port: u8, gid_index: Option<u8>) -> Mlx5Hca {
    let context = Context::open("mlx5_0").expect("the double's NIC");
    let options = Options {
        port,
        gid_index,
        ..Options::default()
    };
    Mlx5Hca::open(allocator.clone(), &context, options).expect("a port of it")
}

#[test]
#[ignore = "needs libmlx5"]
fn what_the_firmware_is_told() {
    inside("devx::what_the_firmware_is_told", &[DEVX], || {
        let allocator = allocator();
        for locations in locations() {
            let hca = hca(&allocator, 1, None);
            let pair = hca
                .create(&request(locations))
                .expect("a queue pair of the firmware's");
            made(&pair, locations);
            drop((pair, hca));
            assert_eq!(objects(), [0; 4], "{locations:?}");
        }
    });
}

/// A queue pair of [`request`], in the state Init.
fn made(pair: &QueuePair, locations: Locations) {
    let told = Pair::of(pair.endpoint.qpn).expect("a queue pair of the firmware's");
    let is_gpu = |location| location == MemoryLocation::Gpu;
    let [sent, received] = told.queues.map(Queue::of);
    assert_eq!(
        (told.receive_entries, told.stride, told.blocks),
        (8, 32, 16)
    );
    assert_eq!(told.sends.address(), told.receives.address() + 8 * 32);
    assert_eq!(
        told.by_file,
        [is_gpu(locations.queues), is_gpu(locations.records)]
    );
    assert_eq!((sent.entries, received.entries), (32, 4));
    for queue in [&sent, &received] {
        assert_eq!(
            queue.by_file,
            [is_gpu(locations.completions), is_gpu(locations.records)]
        );
        assert_eq!((queue.event_queue, queue.page), (0x51, told.page));
    }
    // All records are of one memory, a line of a cache apart; rings have memories of their own.
    assert_eq!(
        (told.offsets, sent.offsets, received.offsets),
        ([0, 0], [0, 64], [0, 128])
    );
    assert_eq!(told.clock, 1, "the NIC has two clocks");
    assert!(told.domain != 0 && told.page != 0);
    assert_eq!(told.user_index, 1, "the first of its HCA");
    // Init, port 1, everything for the remote side, words of up to 64 bits.
    assert_eq!(told.init, [1, 1, 7, 3]);
    assert_eq!(told.met, [0; 6]);
    // What was never written says so, in the slots that the NIC sees.
    for ring in [sent.ring, received.ring] {
        let never = ring.read().chunks(64).all(|entry| entry[63] == 0xf1);
        assert!(never, "{locations:?}");
    }
}

/// Somebody on another machine.
pub fn peer(gid: Option<&str>) -> Endpoint {
    let path = Path {
        gid: gid.map(|gid| gid.parse().expect("a GID")),
        psn: 0x12_3456,
        mtu: 2048,
        reads: 5,
    };
    Endpoint {
        lid: if gid.is_some() { 0 } else { 0xabc },
        qpn: 0x65_4321,
        path: Some(path),
    }
}

/// All that libibverbs reads of the ports' GIDs, where the tree has it not yet: where one is not set, there are zeros, and a type, which
/// Linux refuses with an error that a file cannot give. The network interface is one that every machine has.
fn gids() {
    let root = std::env::var_os("SYSFS_PATH").expect("the tree");
    let unset = "0000:0000:0000:0000:0000:0000:0000:0000";
    for (port, index) in [1, 2]
        .iter()
        .flat_map(|port| (0..4).map(move |index| (port, index)))
    {
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
fn the_way_to_the_far_side() {
    inside("devx::the_way_to_the_far_side", &[DEVX], || {
        gids();
        let allocator = allocator();
        let locations = Locations {
            queues: MemoryLocation::Gpu,
            records: MemoryLocation::Gpu,
            completions: MemoryLocation::Gpu,
        };
        let gid = "::ffff:192.168.0.9";
        for (port, gid_index, gid) in [
            (1, None, None),
            (2, Some(0), Some(gid)),
            (2, Some(1), Some(gid)),
        ] {
            let hca = hca(&allocator, port, gid_index);
            let pair = hca.create(&request(locations)).expect("a queue pair");
            let local = pair.endpoint;
            let timeout = RetryPolicy {
                retries: Some(4),
                ..RetryPolicy::default()
            };
            hca.connect(local, peer(gid), timeout).expect("joined");
            let told = Pair::of(local.qpn).expect("a queue pair of the firmware's");
            // Ready to send; MTU 4 is 2048, of both the smaller; 30 is 1 GiB; 12 is 0.64 ms; eight reads are answered, four begun.
            assert_eq!(told.init, [3, port.into(), 7, 3]);
            assert_eq!(told.met, [4, 30, 0x65_4321, 0x12_3456, 12, 3]);
            let first = local.path.expect("a NIC's").psn;
            assert_eq!(told.begun, [first.into(), 7, 4, 18, 2]);
            let [
                lid,
                global,
                index,
                hops,
                class,
                high,
                low,
                dscp,
                udp,
                priority,
                level,
                mac,
            ] = told.way;
            assert_eq!((class, dscp, priority, level, global), (0, 0, 0, 0, 0));
            match gid_index {
                None => assert_eq!(
                    (lid, index, hops, high, low, udp, mac),
                    (0xabc, 0, 0, 0, 0, 0, 0)
                ),
                Some(wanted) => {
                    assert_eq!((lid, index, hops), (0, wanted.into(), 64));
                    assert_eq!((high, low), (0, 0x0000_ffff_c0a8_0009));
                    // The double's network: the GID's last six bytes, each inverted.
                    assert_eq!(mac, 0x0000_3f57_fff6);
                    // Of RoCE v2 the provider takes a port of the dynamic ones; v1 has none.
                    assert_eq!(udp >= 0xc000, wanted == 1, "{udp:#x}");
                }
            }
            let again = hca
                .connect(local, peer(gid), timeout)
                .expect_err("joined already");
            assert!(again.to_string().contains("connected already"), "{again}");
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn entries_doorbells_and_completions_are_where_the_card_looks() {
    let name = "devx::entries_doorbells_and_completions_are_where_the_card_looks";
    inside(name, &[DEVX], || {
        let allocator = allocator();
        for locations in locations() {
            let hca = hca(&allocator, 1, None);
            let pair = hca.create(&request(locations)).expect("a queue pair");
            hca.connect(pair.endpoint, peer(None), RetryPolicy::default())
                .expect("joined");
            driven(&allocator, pair);
        }
    });
}

/// A stream sends and waits for the completion, three times round the send queue's completion queue; receives are posted.
fn driven(allocator: &Allocator, mut pair: QueuePair) {
    let told = Pair::of(pair.endpoint.qpn).expect("a queue pair of the firmware's");
    let [sent, received] = told.queues.map(Queue::of);
    let nic = (pair.endpoint.qpn, told.user_index as u32);
    let stream = allocator.gpu().stream().expect("a stream");
    let segment = |n: u32| DataSegment {
        length: 0x1000 + n,
        key: 0x00ab_cd00,
        address: 0x1122_3344_5566_0000 + u64::from(n),
    };
    for n in 0..96_u32 {
        let prepared = pair.send.prepare(&Wqe::send(&[segment(n)]).signalled());
        let prepared = prepared.expect("room for an entry");
        stream
            .batch(&prepared.operations().expect("reached"))
            .expect("put in");
        stream.synchronize().expect("rung");
        let block = &told.sends.read()[(n % 16) as usize * 64..][..32];
        assert_eq!(block, entry(n, pair.endpoint.qpn, segment(n)));
        assert_eq!(told.record.four(4), (n + 1).to_be_bytes());
        let register = pair.send.parts().register.load_u64(0).expect("a register");
        assert_eq!(register.to_ne_bytes(), block[..8]);
        // The NIC completes while the stream waits.
        let wait = pair.send_completions.take_wait().expect("room for a wait");
        stream
            .batch(&wait.operations(false).expect("reached"))
            .expect("put in");
        let slot = (n % 32) as usize * 64;
        let owner = (n / 32 % 2) as u8;
        let entry = hand::requester_of(nic, n as u16, 0x0a, owner);
        sent.ring.write(slot, &entry[..60]);
        sent.ring.write(slot + 60, &entry[60..]);
        stream.synchronize().expect("it saw it");
        let completion = pair
            .send_completions
            .poll()
            .expect("an entry")
            .expect("a completion");
        assert_eq!(completion.event, Event::Sent { opcode: 0x0a });
        assert_eq!(
            pair.send.complete(&completion).expect("its own"),
            u64::from(n)
        );
        assert_eq!(sent.record.four(0), (n + 1).to_be_bytes());
    }
    for n in 0..24_u32 {
        assert_eq!(
            pair.receive.post(&[segment(n)]).expect("room"),
            u64::from(n)
        );
        let entry = &told.receives.read()[(n % 8) as usize * 32..][..32];
        let mut expected = [0; 32];
        expected[..16].copy_from_slice(&data(segment(n)));
        expected[16 + 4..16 + 8].copy_from_slice(&0x100_u32.to_be_bytes());
        assert_eq!(entry, expected);
        assert_eq!(told.record.four(0), (n + 1).to_be_bytes());
        let owner = (n / 4 % 2) as u8;
        received.ring.write(
            (n % 4) as usize * 64,
            &hand::responder_of(nic, n as u16, 7, owner),
        );
        let completion = pair
            .receive_completions
            .poll()
            .expect("an entry")
            .expect("a completion");
        assert_eq!((completion.event, completion.bytes), (Event::Received, 7));
        assert_eq!(
            pair.receive.complete(&completion).expect("its own"),
            u64::from(n)
        );
    }
}

/// A data segment by hand: length, key, address.
fn data(segment: DataSegment) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&segment.length.to_be_bytes());
    bytes[4..8].copy_from_slice(&segment.key.to_be_bytes());
    bytes[8..].copy_from_slice(&segment.address.to_be_bytes());
    bytes
}

/// A signalled SEND (0x0a) of one segment, by hand: two segments, completion asked for (8).
fn entry(index: u32, qpn: u32, segment: DataSegment) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&(index << 8 | 0x0a).to_be_bytes());
    bytes[4..8].copy_from_slice(&(qpn << 8 | 2).to_be_bytes());
    bytes[11] = 8;
    bytes[16..].copy_from_slice(&data(segment));
    bytes
}
