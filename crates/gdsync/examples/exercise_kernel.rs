//! Checks on a real GPU what the kernel of `gpu::Stream::post` does: `exercise_kernel [ORDINAL | sim]`. The WQEs that it builds are those of
//! `wire`, which a test compares with rdma-core's provider; and each fault ends it in time. The last fault destroys the CUDA context.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Access, Driver, Hca, Request, RetryPolicy};
use gdsync::kernel::{Doorbell, KernelRequest, queue, request};
use gdsync::wire::{
    AddressVector, BLOCK, DataSegment, Datagram, Fence, Flags, MAX_BLOCKS, Operation, Payload,
    RemoteAddress, SEGMENT, Syndrome, Wqe,
};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Batches, DeviceMemory, DevicePtr, DeviceQueue, DeviceRange, Gpu, PostEnd, Stream};

type Check = fn(&Bench) -> Outcome;
type Outcome<T = String> = Result<T, Box<dyn std::error::Error>>;

/// The longest wait of a kernel for a CQE.
const LIMIT: Duration = Duration::from_millis(500);
/// The end of every launch.
const TIMEOUT: Duration = Duration::from_secs(20);
const REQUESTS: u32 = 10_000;

fn main() -> Outcome<ExitCode> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let (gpu, gdr) = match argument.as_str() {
        "sim" => (Gpu::sim(), Gdr::open_with(BackendKind::Sim)),
        ordinal => (Gpu::open(ordinal.parse()?)?, Gdr::open()),
    };
    let bench = Bench { stream: gpu.stream()?, allocator: Allocator::new(gpu, gdr.ok()) };
    let checks: [(&str, Check); 6] = [
        ("WQEs", wqes),
        ("completion error", completion_error),
        ("lost completion", lost_completion),
        ("lost doorbell", lost_doorbell),
        ("full queue", full_queue),
        ("mapping that is gone", revoked_mapping),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        let begun = Instant::now();
        let outcome = check(&bench);
        let time = begun.elapsed().as_millis();
        failed += u32::from(outcome.is_err());
        let line = match outcome {
            Ok(text) => format!("ok    {name}, {time} ms: {text}"),
            Err(error) => format!("FAIL  {name}, {time} ms: {error}"),
        };
        writeln!(io::stdout(), "{line}")?;
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

struct Bench {
    allocator: Allocator,
    stream: Stream,
}

impl Bench {
    fn place(&self, bytes: usize) -> Outcome<MappedMemory> {
        Ok(self.allocator.place(MemoryLocation::Host, bytes)?)
    }

    /// What one launch did, by the kernel's words.
    fn post(&self, queue: DeviceQueue, batches: Batches) -> Outcome<PostEnd> {
        let posting = self.stream.load_queues(&[queue], batches)?;
        self.stream.post(&posting, batches)?;
        self.stream.synchronize_within(TIMEOUT)?;
        Ok(posting.outcome(0)?.end)
    }
}

fn batches(batch: u32, threads: u32) -> Batches {
    Batches { rounds: 1, batch, ahead: 0, words: 0, threads, timeout: LIMIT }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    fn below(&mut self, end: u32) -> u32 {
        self.word() % end
    }

    fn operation(&mut self) -> Operation {
        let remote = RemoteAddress { address: self.bits(), key: self.word() };
        let immediate = (self.below(2) == 0).then(|| self.word());
        match self.below(6) {
            0 => Operation::Nop,
            1 => Operation::Send { immediate },
            2 => Operation::Write { remote, immediate },
            3 => Operation::Read { remote },
            4 => Operation::CompareSwap { remote, compare: self.bits(), swap: self.bits() },
            _ => Operation::FetchAdd { remote, add: self.bits() },
        }
    }

    fn wqe(&mut self) -> Wqe {
        let operation = self.operation();
        let may_inline = matches!(operation, Operation::Send { .. } | Operation::Write { .. });
        let payload = match operation {
            Operation::Nop => Payload::none(),
            _ if may_inline && self.below(2) == 0 => {
                let count = self.below(600);
                Payload::Inline((0..count).map(|_| self.word() as u8).collect())
            }
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => {
                Payload::Segments(vec![self.segment(8)])
            }
            _ => Payload::Segments((0..self.below(7)).map(|_| self.any_segment()).collect()),
        };
        let datagram = matches!(operation, Operation::Send { .. }) && self.below(4) == 0;
        Wqe {
            operation,
            flags: Flags {
                signalled: self.below(2) == 0,
                solicited: self.below(8) == 0,
                fence: match self.below(4) {
                    0 => Fence::SmallAndReads,
                    1 => Fence::Strong,
                    _ => Fence::None,
                },
            },
            datagram: datagram.then(|| Datagram {
                qpn: self.word() >> 8,
                key: self.word(),
                path: AddressVector::infiniband(self.word() as u16, 0, 3, 0, None),
            }),
            payload,
        }
    }

    fn any_segment(&mut self) -> DataSegment {
        let length = match self.below(5) {
            0 => 0,
            _ => self.word() >> 1,
        };
        self.segment(length)
    }

    fn segment(&mut self, length: u32) -> DataSegment {
        DataSegment { length, key: self.word(), address: self.bits() }
    }
}

/// Random requests, in batches by one thread, a warp and a block, at every place of the ring.
fn wqes(bench: &Bench) -> Outcome {
    const RING: usize = 256;
    let mut random = Random(25);
    let (ring, words) = (bench.place(RING * BLOCK)?, bench.place(4096)?);
    let inline = bench.place(16 * 1024)?;
    let mut posted = 0_u32;
    let mut built = 0;
    while built < REQUESTS {
        let batch = 1 + random.below(8);
        let threads = [1, 32, 128][random.below(3) as usize];
        let qpn = random.word() >> 8;
        ring.write(0, &vec![0xa5; RING * BLOCK])?;
        words.write(0, &[0xff; 4096])?;
        let (mut requests, mut expected) = (Vec::new(), vec![0xa5_u8; RING * BLOCK]);
        let (mut index, mut doorbell) = (posted, [0; 8]);
        for position in 0..batch as usize {
            let wqe = random.wqe();
            let mut bytes = [0; MAX_BLOCKS * BLOCK];
            let blocks = wqe.encode(qpn, index as u16, &mut bytes)?;
            // The last six bits of the second word are the number of segments.
            let length = usize::from(bytes[7] & 0x3f) * SEGMENT;
            for (at, byte) in bytes.iter().enumerate().take(length) {
                expected[(index as usize * BLOCK + at) % (RING * BLOCK)] = *byte;
            }
            doorbell.copy_from_slice(&bytes[..8]);
            index += blocks as u32;
            let bytes = match &wqe.payload {
                Payload::Inline(bytes) => {
                    // At any alignment.
                    let start = position * 1024 + random.below(4) as usize;
                    let place = inline.part(start, bytes.len())?;
                    place.write(0, bytes)?;
                    Some(place)
                }
                Payload::Segments(_) => None,
            };
            requests.push(request(&KernelRequest {
                wqe,
                inline: bytes,
                source: None,
                destination: None,
            })?);
        }
        let queue = DeviceQueue {
            ring: range(&ring)?,
            record: Some(range(&words.part(0, 4)?)?),
            register: range(&words.part(64, 8)?)?,
            flame: 0,
            completions: range(&words.part(128, 64)?)?,
            completion_record: None,
            qpn,
            posted: posted & 0xffff,
            polled: 0,
            requests,
        };
        let once = Batches { timeout: Duration::ZERO, ..batches(batch, threads) };
        let end = bench.post(queue, once)?;
        ensure(end == PostEnd::Late, format!("it ended with {end:?}"))?;
        let mut found = vec![0; RING * BLOCK];
        ring.read(0, &mut found)?;
        if let Some(at) = (0..found.len()).find(|at| found[*at] != expected[*at]) {
            return Err(format!("request {built}: byte {at} of the ring differs").into());
        }
        let (mut record, mut rung) = ([0; 4], [0; 8]);
        words.read(0, &mut record)?;
        words.read(64, &mut rung)?;
        let right = u32::from_be_bytes(record) == index & 0xffff && rung == doorbell;
        ensure(right, format!("request {built}: the doorbell differs"))?;
        posted = index;
        built += batch;
    }
    Ok(format!("{built} requests byte for byte"))
}

fn range(place: &MappedMemory) -> Outcome<DeviceRange> {
    Ok(gdsync::kernel::range(place)?)
}

/// A queue pair of the software HCA with WRITEs of 64 bytes.
fn pair(bench: &Bench, wqes: u32, doorbell: Doorbell) -> Outcome<(SimHca, DeviceQueue, u32)> {
    let hca = SimHca::new(bench.allocator.clone())?;
    let pair = hca.create(&Request {
        send_blocks: 64,
        send_completions: 64,
        driver: Driver::Kernels,
        ..Request::default()
    })?;
    hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())?;
    let memory = bench.place(4096)?;
    let region = hca.register(&memory, Access::ALL)?;
    let wqe = Wqe::write(region.remote(2048), &[region.segment(0, 64)]);
    let requests: Vec<_> = (0..wqes)
        .map(|number| KernelRequest {
            wqe: if number + 1 == wqes { wqe.clone().signalled() } else { wqe.clone() },
            inline: None,
            source: None,
            destination: None,
        })
        .collect();
    let queue = queue(&pair, &requests, &doorbell)?;
    let qpn = pair.send.qpn();
    // They live as long as the process.
    std::mem::forget((pair, region));
    Ok((hca, queue, qpn))
}

fn completion_error(bench: &Bench) -> Outcome {
    let (hca, queue, qpn) = pair(bench, 1, Doorbell::Eight)?;
    let (syndrome, vendor) = (Syndrome::RemoteAccess, 0x88);
    hca.inject(qpn, 9, Effect::Fail { syndrome, vendor });
    let end = bench.post(queue, many(batches(1, 1)))?;
    let expected = PostEnd::Failed { syndrome: syndrome.code(), vendor };
    ensure(end == expected, format!("it ended with {end:?}"))?;
    usable(bench)
}

fn lost_completion(bench: &Bench) -> Outcome {
    let (hca, queue, qpn) = pair(bench, 1, Doorbell::Eight)?;
    hca.inject(qpn, 9, Effect::Stale);
    let end = bench.post(queue, many(batches(1, 32)))?;
    ensure(end == PostEnd::Late, format!("it ended with {end:?}"))?;
    usable(bench)
}

fn lost_doorbell(bench: &Bench) -> Outcome {
    let nowhere = bench.place(8)?;
    let (_hca, queue, _) = pair(bench, 1, Doorbell::Assisted(nowhere))?;
    let end = bench.post(queue, batches(1, 1))?;
    ensure(end == PostEnd::Late, format!("it ended with {end:?}"))?;
    usable(bench)
}

fn full_queue(bench: &Bench) -> Outcome {
    let (_hca, queue, _) = pair(bench, 65, Doorbell::Eight)?;
    let end = bench.post(queue, batches(65, 32))?;
    let expected = PostEnd::Full { need: 65 };
    ensure(end == expected, format!("it ended with {end:?}"))?;
    usable(bench)
}

/// The driver ends the kernel and its context, and says so.
fn revoked_mapping(bench: &Bench) -> Outcome {
    let (_hca, mut queue, _) = pair(bench, 1, Doorbell::Eight)?;
    // SAFETY: no memory is there, on purpose: the GPU's page tables end the kernel that writes to it.
    let gone = unsafe { DeviceMemory::foreign(bench.allocator.gpu(), DevicePtr::new(4096), 4096) };
    let gone = gone?;
    queue.register = DeviceRange::new(&gone, 0, 8)?;
    // The range keeps it, and nothing frees what is not there.
    std::mem::forget(gone);
    match bench.post(queue, batches(1, 1)) {
        Ok(end) => Err(format!("it ended with {end:?}").into()),
        Err(error) => Ok(format!("reported: {error}")),
    }
}

fn many(once: Batches) -> Batches {
    Batches { rounds: 20, ..once }
}

/// The context still works.
fn usable(bench: &Bench) -> Outcome {
    let place = bench.place(8)?;
    let at = place.word(0, 4)?;
    let write = gpu::MemOp::Write32 { at, value: 25 };
    bench.stream.batch(&[write])?;
    bench.stream.synchronize_within(TIMEOUT)?;
    ensure(place.load_u32(0)? == 25, "the stream wrote nothing".to_owned())?;
    Ok("it ended, and the stream still works".to_owned())
}

fn ensure(holds: bool, error: String) -> Outcome<()> {
    if holds { Ok(()) } else { Err(error.into()) }
}
