//! Random programs against a model of memory. Two lanes run concurrently on separate memory, so that the model knows the order of
//! requests.

use crate::NIC;
use crate::bench::{Link, QueuePair};
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::lane::{Batch, Lane};
use crate::random::Random;
use crate::thread_domain;
use crate::work::Work;

/// At least this many requests per lane.
fn run(seed: u64, requests: u64) {
    let mut random = Random(seed);
    let device = Device::open();
    let two = |a: QueuePair, b: QueuePair, port: u8| {
        let link = Link { port, ..Link::default() };
        a.connect(b.number, link);
        b.connect(a.number, link);
        vec![(a, b), (b, a)]
    };
    let own = || device.pair_in(thread_domain::make(device).expect("a thread domain"));
    let self_connected = device.pair();
    self_connected.connect(self_connected.number, Link::default());
    let mut local = two(device.pair(), device.pair(), 1);
    local.push((self_connected, self_connected));
    let mut lanes = [
        Lane::new(&device, local, &mut random),
        Lane::new(&device, two(own(), own(), 2), &mut random),
    ];
    while lanes.iter().any(|lane| lane.next < requests) {
        let batches: Vec<Batch> = lanes.iter_mut().map(|lane| lane.batch(&mut random)).collect();
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
fn blue_flame() {
    inside("programs::blue_flame", &[NIC], || {
        for seed in 1..4 {
            run(seed, 2_000);
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn plain_doorbells() {
    inside("programs::plain_doorbells", &[NIC, ("MLX5_SHUT_UP_BF", "1")], || {
        for seed in 4..6 {
            run(seed, 2_000);
        }
    });
}

/// Long enough for the 16-bit counters to wrap around.
#[test]
#[ignore = "needs libmlx5"]
fn counter_wraparound() {
    inside("programs::counter_wraparound", &[NIC], || run(7, 100_000));
}

/// Many queue pairs on the shared register: an overwritten doorbell is not lost.
#[test]
#[ignore = "needs libmlx5"]
fn shared_register() {
    inside("programs::shared_register", &[NIC], || {
        let device = Device::open();
        let pairs: Vec<QueuePair> = (0..40).map(|_| device.pair()).collect();
        let memory = device.memory(1024, ALL);
        for pair in &pairs {
            pair.connect(pair.number, Link::default());
        }
        for round in 1..100_u8 {
            memory.write(0, &[round; 8]);
            for (number, pair) in pairs.iter().enumerate() {
                pair.post(&[Work::write(
                    u64::from(round),
                    &[memory.sge(0, 8)],
                    &memory,
                    8 + number * 8,
                )]);
            }
            for pair in &pairs {
                assert_eq!(pair.sent.success(), u64::from(round));
            }
            assert_eq!(memory.read(8, 320), [round; 320]);
        }
    });
}
