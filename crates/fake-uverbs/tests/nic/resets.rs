//! Queue pairs set to ERR by their program, and the state after a reset.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ib::ibv_wc_status as status;
use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, connected};
use crate::errors::{assert_recovers, memories, to_error};
use crate::inside::inside;
use crate::mlx5dv;
use crate::work::Work;

#[test]
#[ignore = "needs libmlx5"]
fn flush_by_error_state() {
    inside("resets::flush_by_error_state", &[NIC], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        // Waits for a receive without limit.
        a.post(&[Work::send(1, &[local.sge(0, 8)])]);
        a.receive(2, &[local.sge(0, 8)]);
        assert_eq!(a.modify(&mut to_error(), ib::ibv_qp_attr_mask::IBV_QP_STATE), 0);
        assert_eq!(a.sent.failure(), (1, status::IBV_WC_WR_FLUSH_ERR));
        assert_eq!(a.received.failure(), (2, status::IBV_WC_WR_FLUSH_ERR));
        assert_recovers(&a, &b, &local, &peer);
    });
}

/// RESET discards posted work, even right after the doorbell.
#[test]
#[ignore = "needs libmlx5"]
fn reset_discards_work() {
    inside("resets::reset_discards_work", &[NIC], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        for round in 0..300_u64 {
            local.write(0, &[1; 8]);
            a.post(&[Work::send(round, &[local.sge(0, 8)]), Work::send(round, &[])]);
            a.receive(round, &[local.sge(8, 8)]);
            for (pair, other) in [(&a, &b), (&b, &a)] {
                pair.reset();
                pair.connect(other.number, Link::default());
            }
            b.receive(1000 + round, &[peer.sge(0, 8)]);
            a.run(Work::write(2000 + round, &[local.sge(0, 8)], &peer, 64).immediate(3));
            let wc = b.received.wait();
            assert_eq!((wc.wr_id(), wc.error(), wc.imm_data()), (1000 + round, None, Some(3)));
        }
        assert!(a.received.poll().is_none() && a.sent.poll().is_none());
    });
}

/// A doorbell in RESET with the old record executes nothing.
#[test]
#[ignore = "needs libmlx5"]
fn stale_doorbell_in_reset() {
    inside("resets::stale_doorbell_in_reset", &[NIC], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        for _ in 0..5 {
            a.run(Work::write(1, &[local.sge(0, 8)], &peer, 0));
        }
        a.reset();
        let queues = mlx5dv::queue_pair(a.qp);
        // SAFETY: the second word of the live pair's record, and its register; nothing is being posted.
        let (record, register) = unsafe {
            (AtomicU32::from_ptr(queues.dbrec.add(1)), AtomicU64::from_ptr(queues.bf.reg.cast()))
        };
        record.store(5_u32.to_be(), Ordering::Release);
        register.store(u64::from(a.number << 8 | 3).to_be(), Ordering::Release);
        let since = Instant::now();
        while register.load(Ordering::Acquire) != 0 {
            assert!(
                since.elapsed() < Duration::from_secs(10),
                "the NIC does not read the doorbell"
            );
            std::thread::yield_now();
        }
        record.store(0, Ordering::Release);
        a.connect(b.number, Link::default());
        // Time for the NIC to misbehave.
        std::thread::sleep(Duration::from_millis(50));
        assert!(a.sent.poll().is_none());
        local.write(0, &[6; 8]);
        a.run(Work::write(2, &[local.sge(0, 8)], &peer, 0));
        assert_eq!(peer.read(0, 8), [6; 8]);
        assert!(a.sent.poll().is_none());
    });
}
