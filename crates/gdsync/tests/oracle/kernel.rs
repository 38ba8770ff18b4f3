//! The kernel that builds WQEs and polls CQEs, in its Rust version: its WQEs are compared with the provider's, and it polls the CQEs that the
//! provider polls. `exercise_kernel` compares the PTX on a GPU.

use std::time::Duration;

use gdsync::kernel::{KernelRequest, request};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{
    Batches, DevicePayload, DeviceQueue, DeviceRange, DeviceRequest, Gpu, HostMemory, PostEnd,
    Stream,
};

use crate::encode;
use crate::request::Request;

/// A send queue of the kernel's own, as long as the provider's.
pub struct Builder {
    allocator: Allocator,
    stream: Stream,
    ring: HostMemory,
    /// Doorbell record, register, and the CQEs, of which none comes.
    words: HostMemory,
    /// Inline data.
    inline: MappedMemory,
}

/// Offsets in the words.
const REGISTER: usize = 64;
const CQES: usize = 128;
/// Inline bytes of a request, at most.
const INLINE: usize = 1024;
/// Requests of a chain, at most.
const CHAIN: usize = 4;

impl Builder {
    pub fn new(bytes: usize) -> Self {
        let gpu = Gpu::sim();
        let allocator = Allocator::new(gpu.clone(), None);
        Self {
            stream: gpu.stream().expect("a stream"),
            ring: gpu.pinned(bytes).expect("memory"),
            words: gpu.pinned(256).expect("memory"),
            inline: allocator.place(MemoryLocation::Host, CHAIN * INLINE).expect("memory"),
            allocator,
        }
    }

    /// Posts requests from block `index`: the queue, which was filled with one byte, the doorbell record and the doorbell.
    pub fn post(
        &self,
        chain: &[Request],
        (number, index, signals_all): (u32, u32, bool),
        fill: u8,
        arena: &[u8],
    ) -> (Vec<u8>, [u8; 4], [u8; 8]) {
        self.ring.write(0, &vec![fill; self.ring.len()]).expect("memory");
        // No CQE is written.
        self.words.write(0, &[0xff; 256]).expect("memory");
        let requests = chain.iter().enumerate();
        let requests = requests.map(|(position, asked)| {
            let wqe = encode::entry(asked, signals_all, arena);
            let inline = asked.inline.then(|| {
                let bytes = asked.inline_bytes(arena);
                let place = self.inline.part(position * INLINE, bytes.len());
                let place = place.expect("room");
                place.write(0, &bytes).expect("memory");
                place
            });
            let request = request(&KernelRequest { wqe, inline, source: None, destination: None });
            request.expect("a valid request")
        });
        let range = |memory, offset, bytes| DeviceRange::new(memory, offset, bytes).expect("room");
        let queue = DeviceQueue {
            ring: range(&self.ring, 0, self.ring.len()),
            record: Some(range(&self.words, 0, 4)),
            register: range(&self.words, REGISTER, 8),
            flame: 0,
            completions: range(&self.words, CQES, 64),
            completion_record: None,
            qpn: number,
            posted: index & 0xffff,
            polled: 0,
            requests: requests.collect(),
        };
        let batches = Batches {
            rounds: 1,
            batch: chain.len() as u32,
            ahead: 0,
            words: 0,
            threads: 1,
            timeout: Duration::ZERO,
        };
        let queues = self.stream.load_queues(&[queue], batches);
        let queues = queues.expect("a valid queue");
        self.stream.post(&queues, batches).expect("a launch");
        self.stream.synchronize().expect("the kernel ends");
        let posted = queues.outcome(0).expect("a result");
        assert_eq!((posted.end, posted.batches), (PostEnd::Late, 0));
        assert!(self.allocator.gpu().is_sim());
        let mut ring = vec![0; self.ring.len()];
        self.ring.read(0, &mut ring).expect("memory");
        let (mut record, mut doorbell) = ([0; 4], [0; 8]);
        self.words.read(0, &mut record).expect("memory");
        self.words.read(REGISTER, &mut doorbell).expect("memory");
        (ring, record, doorbell)
    }
}

/// A completion queue of the kernel's own, with the provider's bytes.
pub struct Poller {
    stream: Stream,
    cqes: HostMemory,
    /// Send queue, doorbell records and register.
    words: HostMemory,
}

/// Offsets in the words.
const RING: usize = 0;
const COMPLETION_RECORD: usize = 64;
const DOORBELL: usize = 128;
/// `MLX5_OPCODE_NOP`.
const NOP: u8 = 0;

impl Poller {
    pub fn new(entries: u32) -> Self {
        let gpu = Gpu::sim();
        Self {
            stream: gpu.stream().expect("a stream"),
            cqes: gpu.pinned(entries as usize * 64).expect("memory"),
            words: gpu.pinned(192).expect("memory"),
        }
    }

    /// Polls once, as the kernel does after a request whose first block is `counter`, for CQE number `polled` in these bytes. Returns what
    /// it found, and the number of CQEs that it then counts, as it writes it for the NIC.
    pub fn poll(&self, cqes: &[u8], polled: u32, counter: u16) -> (PostEnd, Option<[u8; 4]>) {
        const UNWRITTEN: [u8; 4] = [0xa5; 4];
        self.cqes.write(0, cqes).expect("memory");
        self.words.write(COMPLETION_RECORD, &UNWRITTEN).expect("memory");
        let range = |memory, offset, bytes| DeviceRange::new(memory, offset, bytes).expect("room");
        let queue = DeviceQueue {
            ring: range(&self.words, RING, 64),
            record: None,
            register: range(&self.words, DOORBELL, 8),
            flame: 0,
            completions: range(&self.cqes, 0, cqes.len()),
            completion_record: Some(range(&self.words, COMPLETION_RECORD, 4)),
            qpn: 1,
            posted: counter.into(),
            polled,
            requests: vec![DeviceRequest {
                opcode: NOP,
                flags: 0,
                immediate: 0,
                remote: None,
                atomic: None,
                datagram: None,
                payload: DevicePayload::Segments(Vec::new()),
                source: None,
                destination: None,
            }],
        };
        let batches = Batches {
            rounds: 1,
            batch: 1,
            ahead: 0,
            words: 0,
            threads: 1,
            timeout: Duration::ZERO,
        };
        let posting = self.stream.load_queues(&[queue], batches);
        let posting = posting.expect("a valid queue");
        self.stream.post(&posting, batches).expect("a launch");
        self.stream.synchronize().expect("the kernel ends");
        let end = posting.outcome(0).expect("a result").end;
        let mut record = UNWRITTEN;
        self.words.read(COMPLETION_RECORD, &mut record).expect("memory");
        (end, (record != UNWRITTEN).then_some(record))
    }
}
