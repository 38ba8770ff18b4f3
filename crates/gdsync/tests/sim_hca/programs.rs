//! Random programs: a few entries on a few queue pairs, rung one by one or together, by the CPU or a stream, waited for by either.

use gdsync::Home;
use gdsync::hca::Request;
use gdsync::hca::sim::SimHca;
use gdsync::queue::Waiting;

use super::lane::{By, Lane, PATIENCE, Shape, supply};
use super::model::{OPCODES, Random};

/// Three lanes of different queues, which live through many programs so that everything wraps many times.
fn lanes(hca: &SimHca, supply: &gdsync::Supply, random: &mut Random) -> Vec<Lane> {
    let shape = |blocks, receives, completions, home, waiting| Shape {
        request: Request {
            send_blocks: blocks,
            receives,
            receive_segments: 4,
            send_completions: completions,
            receive_completions: completions,
            queues: home,
            records: home,
            completions: home,
            waiting,
        },
        memory: home,
    };
    [
        shape(32, 4, 8, Home::Host, Waiting::Nor),
        shape(64, 16, 4, Home::Gpu, Waiting::Nor),
        shape(256, 64, 64, Home::Host, Waiting::WithoutNor),
    ]
    .map(|shape| Lane::new(hca, supply, shape, random))
    .into()
}

fn run(programs: u32, seed: u64, by_stream: usize) {
    let supply = supply();
    let hca = SimHca::new(supply.clone()).unwrap();
    let stream = supply.gpu().stream().unwrap();
    let mut random = Random(seed);
    let mut lanes = lanes(&hca, &supply, &mut random);
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
            match streamed {
                true => lane.ring(By::Stream, By::Stream, Some(&stream)),
                false => lane.ring(By::Cpu, By::Cpu, None),
            }
        }
        if streamed && let Err(error) = stream.synchronize_within(PATIENCE) {
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
fn ninety_thousand_programs_by_the_cpu() {
    run(90_000, 11, usize::MAX);
}

#[test]
fn ten_thousand_programs_by_a_stream() {
    run(10_000, 12, 1);
}
