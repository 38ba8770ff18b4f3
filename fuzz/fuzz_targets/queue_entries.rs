//! Any bytes as entries of mlx5's queues: each is a value that is written as it was read, or an error; and a software HCA whose ring
//! holds them does what it can, fails what it cannot, and goes on with other queue pairs.
//!
//! `cargo +nightly fuzz run queue_entries fuzz/corpus/queue_entries`

#![no_main]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Hca, MemoryRegion, Request, RetryPolicy};
use gdsync::wire::{
    BLOCK, Completion, Control, MAX_BLOCKS, Transport, Wqe, decode_receive, queue_record,
};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::Gpu;
use libfuzzer_sys::fuzz_target;

/// Blocks of a ring.
const BLOCKS: usize = 32;

/// One NIC for all inputs, with memory that some of them name.
struct Nic {
    hca: SimHca,
    memory: MappedMemory,
    region: MemoryRegion,
}

fn nic() -> &'static Nic {
    static CARD: OnceLock<Nic> = OnceLock::new();
    CARD.get_or_init(|| {
        let allocator = Allocator::new(Gpu::sim(), None);
        let hca = SimHca::new(allocator.clone()).expect("a thread");
        let memory = allocator.place(MemoryLocation::Host, 1 << 16).expect("memory");
        let region = hca.register(&memory, Access::ALL).expect("registered");
        Nic { hca, memory, region }
    })
}

fuzz_target!(|bytes: &[u8]| {
    for transport in [Transport::Connected, Transport::Datagram] {
        let Ok(decoded) = Wqe::decode(bytes, transport) else {
            continue;
        };
        let mut again = [0; MAX_BLOCKS * BLOCK];
        if let Ok(blocks) = decoded.entry.encode(decoded.qpn, decoded.index, &mut again) {
            assert_eq!(Wqe::decode(&again[..blocks * BLOCK], transport), Ok(decoded));
        }
    }
    if let Some(block) = bytes.first_chunk::<BLOCK>()
        && let Ok(completion) = Completion::decode(block)
    {
        let _ = format!("{completion:?}");
    }
    let _ = decode_receive(bytes);
    execute(bytes);
});

/// Has the NIC execute them, each block behind the other.
fn execute(bytes: &[u8]) {
    let Nic { hca, memory, region } = nic();
    let Ok(mut pair) = hca.create(&Request { send_blocks: BLOCKS as u32, ..Request::default() })
    else {
        return;
    };
    // What meets nothing posted is given up at once.
    let timeout = RetryPolicy { retries: Some(0), pause: Duration::ZERO };
    hca.connect(pair.endpoint, pair.endpoint, timeout).expect("it reaches itself");
    let _ = pair.receive.post(&[region.segment(0, 4096)]);
    let ring = &bytes[..bytes.len().min(BLOCKS * BLOCK)];
    let blocks = ring.len().div_ceil(BLOCK) as u16;
    let Some(first) = ring.first_chunk::<BLOCK>() else {
        return;
    };
    let parts = pair.send.parts().clone();
    parts.ring.write(0, ring).expect("its ring");
    // Whose number it has is not what is tried here.
    let mut rung = *first;
    rung[4..7].copy_from_slice(&pair.endpoint.qpn.to_be_bytes()[1..]);
    parts.record.store_u32(0, queue_record(blocks)).expect("its record");
    parts.register.store_u64(0, Control::doorbell(&rung)).expect("its register");
    let begun = Instant::now();
    while matches!(pair.send_completions.poll(), Ok(None))
        && begun.elapsed() < Duration::from_millis(2)
    {
        std::thread::yield_now();
    }
    drop(pair);
    assert_eq!(memory.len(), 1 << 16);
}
