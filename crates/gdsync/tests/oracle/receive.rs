//! Random receives by Debian's provider and by our encoder: compares every byte of the receive queue and the doorbell record, over
//! many passes of the queue and of the 16-bit counter.

use std::collections::VecDeque;
use std::ptr::null_mut;

use ibverbs_sys as ib;

use crate::encode;
use crate::hand;
use crate::inside::inside;
use crate::provider::{Completions, Device, QueuePair};
use crate::random::Random;
use crate::request::{Sge, piece};
use crate::send::difference;

/// Requests per run: the 16-bit counter wraps.
const REQUESTS: u32 = 70_000;

#[test]
#[ignore = "needs libmlx5"]
fn one_piece() {
    inside("receive::one_piece", &[], || run(1));
}

#[test]
#[ignore = "needs libmlx5"]
fn four_pieces() {
    inside("receive::four_pieces", &[], || run(4));
}

/// WQEs of 128 bytes: the provider rounds up five SGEs to eight.
#[test]
#[ignore = "needs libmlx5"]
fn five_pieces() {
    inside("receive::five_pieces", &[], || run(5));
}

fn run(most_pieces: u32) {
    let mut random = Random(0x7265_6376 ^ u64::from(most_pieces));
    let device = Device::open();
    let unused = device.completions(64);
    let mut received = device.completions(64);
    let cap = ib::ibv_qp_cap {
        max_send_wr: 1,
        max_recv_wr: 32,
        max_send_sge: 1,
        max_recv_sge: most_pieces,
        max_inline_data: 0,
    };
    let pair = device.pair(ib::ibv_qp_type::IBV_QPT_RC, &unused, &received, cap, false);
    assert_eq!(pair.rq_stride, (16 * most_pieces as usize).next_power_of_two());
    let mut counter = 0;
    let mut posted = VecDeque::new();
    while counter < REQUESTS {
        let chain = 1 + random.below(8);
        while posted.len() + chain >= pair.cap.max_recv_wr as usize {
            complete(&pair, &mut received, &mut posted, &mut random);
        }
        let chain: Vec<(u64, Vec<Sge>)> = (0..chain)
            .map(|_| {
                let count = random.below(pair.rq_stride / 16 + 1);
                (random.bits(), (0..count).map(|_| piece(&mut random)).collect())
            })
            .collect();
        let fill = random.byte();
        pair.rq.fill(fill);
        let sent = pair.record.four(4);
        post(&pair, &chain);

        let mut expected = vec![fill; pair.rq.length()];
        let mut entries = Vec::new();
        for (id, pieces) in &chain {
            let start = counter as usize * pair.rq_stride % expected.len();
            let encoded = encode::receive(pieces, pair.rq_stride);
            // The provider does not write bytes after the end segment.
            let counted = pieces.iter().filter(|piece| piece.length != 0).count() * 16 + 16;
            let counted = counted.min(pair.rq_stride);
            expected[start..start + counted].copy_from_slice(&encoded[..counted]);
            posted.push_back((*id, counter as u16));
            let written = pieces.iter().filter(|piece| piece.length != 0);
            let written: Vec<_> =
                written.map(|piece| (piece.length, piece.key, piece.address)).collect();
            entries.push((start, written));
            counter += 1;
        }
        let found = pair.rq.read();
        assert!(
            found == expected,
            "the receive queue at {counter:#x} after {chain:#x?}\n{}",
            difference(&found, &expected)
        );
        for (start, pieces) in entries {
            // Our decoder reads the provider's bytes.
            assert_eq!(encode::received(&found[start..start + pair.rq_stride]), pieces);
        }
        assert_eq!(
            pair.record.four(0),
            encode::record(counter),
            "the doorbell record's first word"
        );
        assert_eq!(pair.record.four(4), sent, "the doorbell record's second word");
    }
}

/// Completes some receives, oldest first.
fn complete(
    pair: &QueuePair,
    received: &mut Completions,
    posted: &mut VecDeque<(u64, u16)>,
    random: &mut Random,
) {
    for _ in 0..=random.below(posted.len()) {
        let bytes = random.word();
        let (id, index) = posted.pop_front().expect("a receive");
        received.put(&hand::responder(pair, index, bytes, received.owner()));
        let mut wc = ib::ibv_wc::default();
        assert_eq!(received.poll(&mut wc), 1);
        assert_eq!((wc.wr_id(), wc.error(), wc.len()), (id, None, bytes as usize));
    }
}

/// Posts one list of requests.
fn post(pair: &QueuePair, chain: &[(u64, Vec<Sge>)]) {
    let mut pieces: Vec<Vec<ib::ibv_sge>> =
        chain.iter().map(|(_, pieces)| pieces.iter().map(Sge::of_verbs).collect()).collect();
    let mut works: Vec<_> = chain
        .iter()
        .zip(&mut pieces)
        .map(|((id, _), pieces)| ib::ibv_recv_wr {
            wr_id: *id,
            sg_list: pieces.as_mut_ptr(),
            num_sge: i32::try_from(pieces.len()).expect("some pieces"),
            next: null_mut(),
        })
        .collect();
    let mut next: *mut ib::ibv_recv_wr = null_mut();
    for work in works.iter_mut().rev() {
        work.next = next;
        next = work;
    }
    let mut bad = null_mut();
    // SAFETY: the queue pair is live; the requests and their SGEs outlive the call.
    let result = unsafe { ib::ibv_post_recv(pair.qp, next, &mut bad) };
    assert_eq!(result, 0, "ibv_post_recv of {chain:#x?}");
}
