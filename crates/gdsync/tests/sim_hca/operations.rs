//! Every operation, signalled or not, inline or with segments, in queues of every depth, over several passes of every counter.

use gdsync::MemoryLocation;
use gdsync::hca::Request;
use gdsync::hca::sim::SimHca;
use gdsync::queue::Waiting;

use super::lane::{By, Lane, Shape, allocator};
use super::model::{OPCODES, Op, Random};
use super::table::{NOP, SEND};

fn request(send_blocks: u32, completions: u32) -> Request {
    Request {
        send_blocks,
        receives: 4,
        receive_segments: 4,
        send_completions: completions,
        receive_completions: completions,
        ..Request::default()
    }
}

/// All opcodes with segments or inline data, each signalled and not.
fn variants(random: &mut Random) -> Vec<Op> {
    let mut all = Vec::new();
    for opcode in OPCODES {
        for (count, inline) in [
            (0, false),
            (1, false),
            (2, false),
            (5, false),
            (30, false),
            (0, true),
            (1, true),
            (12, true),
            (13, true),
            (44, true),
            (200, true),
            (900, true),
        ] {
            for signalled in [false, true] {
                let op = random.op(opcode, count, inline);
                all.push(Op { signalled, ..op });
            }
        }
    }
    all
}

#[test]
fn every_operation_in_every_depth() {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let mut random = Random(1);
    for (depth, completions) in [
        (1, 1),
        (2, 2),
        (4, 1),
        (8, 8),
        (16, 4),
        (32, 16),
        (64, 2),
        (128, 128),
        (256, 32),
        (512, 64),
        (1024, 8),
        (2048, 16),
        (4096, 256),
    ] {
        let location = if depth % 3 == 1 { MemoryLocation::Gpu } else { MemoryLocation::Host };
        let shape = Shape {
            request: Request {
                waiting: if depth == 32 { Waiting::WithoutNor } else { Waiting::Nor },
                completions: [location; 2],
                ..request(depth, completions)
            },
            memory: location,
        };
        let mut lane = Lane::new(&hca, &allocator, shape, &mut random);
        let (mut blocks, mut rounds) = (0, 0);
        while blocks < 3 * depth + 1 || rounds < 1 {
            for op in variants(&mut random) {
                if !lane.holds(&op) {
                    continue;
                }
                let before = lane.pair.send.parts().blocks - lane.pair.send.free();
                lane.prepare(&op, &mut random);
                blocks +=
                    (lane.pair.send.parts().blocks - lane.pair.send.free()).saturating_sub(before);
                if random.below(4) == 0 {
                    lane.settle(By::Cpu, By::Cpu, None);
                    if random.below(4) == 0 {
                        lane.compare();
                    }
                }
            }
            lane.settle(By::Cpu, By::Cpu, None);
            lane.compare();
            rounds += 1;
        }
        let [sent, received] = lane.counts();
        assert!(
            sent > 3 * completions.min(128) || depth == 128,
            "{sent} completions of {completions}"
        );
        assert!(received > 3 * completions.min(8));
    }
    assert_eq!(hca.violations(), []);
}

#[test]
fn block_counter_wraps_three_times() {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let mut random = Random(2);
    let memory = MemoryLocation::Host;
    let shape = Shape { request: request(1024, 64), memory };
    let mut lane = Lane::new(&hca, &allocator, shape, &mut random);
    let most = 62 * 16 - 4;
    let mut blocks = 0;
    while blocks < 3 * 65536 + 100 {
        // WQEs of sixteen, one and five blocks: the counter wraps within each.
        let long = Op { opcode: SEND, inline: Some(random.bytes(most)), ..Op::default() };
        lane.prepare(&long, &mut random);
        let op = Op { opcode: NOP, signalled: true, ..Op::default() };
        lane.prepare(&op, &mut random);
        let five = random.op(SEND, 270, true);
        lane.prepare(&five, &mut random);
        blocks += 16 + 1 + 5;
    }
    lane.settle(By::Cpu, By::Cpu, None);
    lane.compare();
    assert_eq!(hca.violations(), []);
}

#[test]
fn receive_counter_wraps() {
    let allocator = allocator();
    let hca = SimHca::new(allocator.clone()).unwrap();
    let mut random = Random(3);
    let shape = Shape {
        request: Request { receives: 16, ..request(64, 32) },
        memory: MemoryLocation::Host,
    };
    let mut lane = Lane::new(&hca, &allocator, shape, &mut random);
    for number in 0..65536 + 1000 {
        let op = Op {
            opcode: SEND,
            signalled: number % 8 == 0,
            inline: Some(vec![number as u8]),
            ..Op::default()
        };
        lane.prepare(&op, &mut random);
    }
    lane.settle(By::Cpu, By::Cpu, None);
    lane.compare();
    assert_eq!(lane.counts()[1], 65536 + 1000);
    assert_eq!(hca.violations(), []);
}
