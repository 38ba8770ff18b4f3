//! Random programs against a plain model of memory. Two lanes work at the same time, each over memory of its own, so that the model
//! knows which request comes first.

use crate::CARD;
use crate::bench::{Link, Pair};
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::lane::{Batch, Lane};
use crate::random::Random;
use crate::thread_domain;
use crate::work::Work;

/// So many requests of each lane, at least.
fn run(seed: u64, requests: u64) {
    let mut random = Random(seed);
    let device = Device::open();
    let two = |a: Pair, b: Pair, port: u8| {
        let link = Link {
            port,
            ..Link::default()
        };
        a.connect(b.number, link);
        b.connect(a.number, link);
        vec![(a, b), (b, a)]
    };
    let own = || device.pair_in(thread_domain::make(device).expect("a thread domain"));
    let itself = device.pair();
    itself.connect(itself.number, Link::default());
    let mut local = two(device.pair(), device.pair(), 1);
    local.push((itself, itself));
    let mut lanes = [
        Lane::new(&device, local, &mut random),
        Lane::new(&device, two(own(), own(), 2), &mut random),
    ];
    while lanes.iter().any(|lane| lane.next < requests) {
        let batches: Vec<Batch> = lanes
            .iter_mut()
            .map(|lane| lane.batch(&mut random))
            .collect();
        for batch in &batches {
            batch.post();
        }
        for batch in &batches {
            batch.wait();
        }
        for lane in &lanes {
            lane.check();
        }
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn by_blue_flame() {
    inside("programs::by_blue_flame", &[CARD], || {
        for seed in 1..4 {
            run(seed, 2_000);
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn by_doorbells() {
    inside(
        "programs::by_doorbells",
        &[CARD, ("MLX5_SHUT_UP_BF", "1")],
        || {
            for seed in 4..6 {
                run(seed, 2_000);
            }
        },
    );
}

/// So long that the counters of 16 bits go round.
#[test]
#[ignore = "needs libmlx5"]
fn a_long_one() {
    inside("programs::a_long_one", &[CARD], || run(7, 100_000));
}

/// Many queue pairs on the one register that is left: a doorbell that is rung over is not lost.
#[test]
#[ignore = "needs libmlx5"]
fn one_register_for_many() {
    inside("programs::one_register_for_many", &[CARD], || {
        let device = Device::open();
        let pairs: Vec<Pair> = (0..40).map(|_| device.pair()).collect();
        let memory = device.memory(1024, ALL);
        for pair in &pairs {
            pair.connect(pair.number, Link::default());
        }
        for turn in 1..100_u8 {
            memory.write(0, &[turn; 8]);
            for (number, pair) in pairs.iter().enumerate() {
                pair.post(&[Work::write(
                    u64::from(turn),
                    &[memory.piece(0, 8)],
                    &memory,
                    8 + number * 8,
                )]);
            }
            for pair in &pairs {
                assert_eq!(pair.sent.success(), u64::from(turn));
            }
            assert_eq!(memory.read(8, 320), [turn; 320]);
        }
    });
}
