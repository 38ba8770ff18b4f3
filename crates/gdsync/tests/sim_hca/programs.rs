//! Random programs: WQEs on several queue pairs, rung and waited for by the CPU or by a stream.

use gdsync::MemoryLocation;
use gdsync::hca::Request;
use gdsync::hca::sim::SimHca;
use gdsync::queue::Waiting;

use super::lane::{By, Lane, Shape, TIMEOUT, allocator};
use super::model::{OPCODES, Random};

/// Three lanes with different queues, reused by all programs so that every counter wraps.
fn lanes(hca: &SimHca, allocator: &gdsync::Allocator, random: &mut Random) -> Vec<Lane> {
    let shape = |blocks, receives, completions, location, waiting| Shape {
        request: Request {
            send_blocks: blocks,
            receives,
            receive_segments: 4,
            send_completions: completions,
            receive_completions: completions,
            queues: location,
            records: location,
            completions: [location; 2],
            waiting,
            ..Request::default()
        },
        memory: location,
    };
    [
        shape(32, 4, 8, MemoryLocation::Host, Waiting::Nor),
        shape(64, 16, 4, MemoryLocation::Gpu, Waiting::Nor),
        shape(256, 64, 64, MemoryLocation::Host, Waiting::WithoutNor),
    ]
    .map(|shape| Lane::new(hca, allocator, shape, random))
    .into()
}

fn run(programs: u32, seed: u64, by_stream: usize) {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let stream = allocator.gpu().stream().unwrap();
    let mut random = Random(seed);
    let mut lanes = lanes(&hca, &allocator, &mut random);
    for program in 0..programs {
        let streamed = random.below(by_stream) == 0;
        let some = random.below(3);
        for (number, lane) in lanes.iter_mut().enumerate() {
            if random.below(2) == 0 && number != some {
                continue;
            }
            for _ in 0..random.below(3) + 1 {
                let opcode = OPCODES[random.below(OPCODES.len())];
                let inline = random.below(2) == 0;
                let count = if inline { random.below(150) } else { random.below(6) };
                let op = random.op(opcode, count, inline);
                lane.prepare(&op, &mut random);
            }
            if streamed {
                lane.ring(By::Stream, By::Stream, Some(&stream))
            } else {
                lane.ring(By::Cpu, By::Cpu, None)
            }
        }
        if streamed && let Err(error) = stream.synchronize_within(TIMEOUT) {
            panic!("program {program} of seed {seed}: {error}");
        }
        for lane in &mut lanes {
            lane.drain();
            if program % 16 == 0 {
                lane.compare();
            }
        }
    }
    for lane in &lanes {
        lane.compare();
    }
    assert_eq!(hca.violations(), []);
}

#[test]
fn random_programs_by_cpu() {
    run(90_000, 11, usize::MAX);
}

#[test]
fn random_programs_by_stream() {
    run(10_000, 12, 1);
}
