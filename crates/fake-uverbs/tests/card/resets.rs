//! A queue pair that its program takes out of service, and what is left of its work after it is reset.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ib::ibv_wc_status as status;
use ibverbs_sys as ib;

use crate::CARD;
use crate::bench::{Link, connected};
use crate::errors::{memories, out_of_service, works_again};
use crate::inside::inside;
use crate::mlx5dv;
use crate::work::Work;

/// A queue pair that is taken into the state ERROR by its program.
#[test]
#[ignore = "needs libmlx5"]
fn flushed_by_its_program() {
    inside("resets::flushed_by_its_program", &[CARD], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        // It waits for a receive, for ever.
        a.post(&[Work::send(1, &[local.piece(0, 8)])]);
        a.receive(2, &[local.piece(0, 8)]);
        assert_eq!(
            a.modify(&mut out_of_service(), ib::ibv_qp_attr_mask::IBV_QP_STATE),
            0
        );
        assert_eq!(a.sent.failure(), (1, status::IBV_WC_WR_FLUSH_ERR));
        assert_eq!(a.received.failure(), (2, status::IBV_WC_WR_FLUSH_ERR));
        works_again(&a, &b, &local, &peer);
    });
}

/// What was posted before the state RESET is gone, also where it was rung for a moment ago.
#[test]
#[ignore = "needs libmlx5"]
fn nothing_is_left_after_reset() {
    inside("resets::nothing_is_left_after_reset", &[CARD], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        for turn in 0..300_u64 {
            local.write(0, &[1; 8]);
            a.post(&[
                Work::send(turn, &[local.piece(0, 8)]),
                Work::send(turn, &[]),
            ]);
            a.receive(turn, &[local.piece(8, 8)]);
            for (pair, other) in [(&a, &b), (&b, &a)] {
                pair.reset();
                pair.connect(other.number, Link::default());
            }
            b.receive(1000 + turn, &[peer.piece(0, 8)]);
            a.run(Work::write(2000 + turn, &[local.piece(0, 8)], &peer, 64).immediate(3));
            let wc = b.received.wait();
            assert_eq!(
                (wc.wr_id(), wc.error(), wc.imm_data()),
                (1000 + turn, None, Some(3))
            );
        }
        assert!(a.received.poll().is_none() && a.sent.poll().is_none());
    });
}

/// A doorbell in the state RESET, with the record of before: nothing is executed for it.
#[test]
#[ignore = "needs libmlx5"]
fn a_late_doorbell() {
    inside("resets::a_late_doorbell", &[CARD], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        for _ in 0..5 {
            a.run(Work::write(1, &[local.piece(0, 8)], &peer, 0));
        }
        a.reset();
        let told = mlx5dv::queue_pair(a.qp);
        // SAFETY: the second word of the live pair's record, and its register; nobody posts now.
        let (record, register) = unsafe {
            (
                AtomicU32::from_ptr(told.dbrec.add(1)),
                AtomicU64::from_ptr(told.bf.reg.cast()),
            )
        };
        record.store(5_u32.to_be(), Ordering::Release);
        register.store(u64::from(a.number << 8 | 3).to_be(), Ordering::Release);
        let since = Instant::now();
        while register.load(Ordering::Acquire) != 0 {
            assert!(
                since.elapsed() < Duration::from_secs(10),
                "the NIC does not hear"
            );
            std::thread::yield_now();
        }
        record.store(0, Ordering::Release);
        a.connect(b.number, Link::default());
        // Time for the NIC to do what it must not.
        std::thread::sleep(Duration::from_millis(50));
        assert!(a.sent.poll().is_none());
        local.write(0, &[6; 8]);
        a.run(Work::write(2, &[local.piece(0, 8)], &peer, 0));
        assert_eq!(peer.read(0, 8), [6; 8]);
        assert!(a.sent.poll().is_none());
    });
}
