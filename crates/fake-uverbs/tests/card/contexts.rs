//! The device opened again after it was closed, and opened twice at once.

use ibverbs_sys as ib;

use crate::CARD;
use crate::bench::Link;
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::work::Work;

/// What is registered in one open device is not another's, but queue pairs of two may be connected.
#[test]
#[ignore = "needs libmlx5"]
fn two_at_once() {
    inside("contexts::two_at_once", &[CARD], || {
        let (one, two) = (Device::open(), Device::open());
        let (a, b) = (one.pair(), two.pair());
        a.connect(b.number, Link::default());
        b.connect(a.number, Link::default());
        let (local, peer) = (one.memory(64, ALL), two.memory(64, ALL));
        local.write(0, b"two open devices");
        a.run(Work::write(1, &[local.piece(0, 16)], &peer, 8));
        assert_eq!(peer.read(8, 16), b"two open devices");
        b.run(Work::read(2, &[peer.piece(32, 3)], &local, 4));
        assert_eq!(peer.read(32, 3), b"ope");
        // What is the other's does not hold here.
        assert_eq!(a.fail(Work::write(3, &[peer.piece(0, 8)], &peer, 0)), 4);
    });
}

/// What was not given back before its device was closed is dead all the same: the NIC does not look at its queues again.
#[test]
#[ignore = "needs libmlx5"]
fn closed_without_a_word() {
    inside("contexts::closed_without_a_word", &[CARD], || {
        let (one, two) = (Device::open(), Device::open());
        let (a, b) = (one.pair(), two.pair());
        a.connect(b.number, Link::default());
        b.connect(a.number, Link::default());
        let (local, peer) = (one.memory(64, ALL), two.memory(64, ALL));
        a.run(Work::write(1, &[local.piece(0, 8)], &peer, 0));
        // SAFETY: nothing of it is used after this.
        assert_eq!(unsafe { ib::ibv_close_device(two.context) }, 0);
        assert_eq!(
            a.fail(Work::write(2, &[local.piece(0, 8)], &peer, 0)),
            ib::ibv_wc_status::IBV_WC_RETRY_EXC_ERR
        );
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn again_and_again() {
    inside("contexts::again_and_again", &[CARD], || {
        let mut keys = Vec::new();
        for turn in 0..20_u8 {
            let device = Device::open();
            let pair = device.pair();
            pair.connect(pair.number, Link::default());
            let memory = device.memory(64, ALL);
            memory.write(0, &[turn + 1; 8]);
            pair.run(Work::write(1, &[memory.piece(0, 8)], &memory, 32));
            assert_eq!(memory.read(32, 8), [turn + 1; 8]);
            keys.push((pair.number, memory.key));
            pair.destroy();
            memory.deregister();
            // SAFETY: what is left of them, and nothing of it is used after this.
            unsafe {
                assert_eq!(ib::ibv_destroy_cq(pair.sent.0), 0);
                assert_eq!(ib::ibv_destroy_cq(pair.received.0), 0);
                assert_eq!(ib::ibv_dealloc_pd(device.pd), 0);
                assert_eq!(ib::ibv_close_device(device.context), 0);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 20, "numbers are never used again");
    });
}

/// A program that starts another one, as a shell does: the child closes what it got, and the parent's NIC goes on.
#[test]
#[ignore = "needs libmlx5"]
fn other_programs() {
    inside("contexts::other_programs", &[CARD], || {
        let device = Device::open();
        let pair = device.pair();
        pair.connect(pair.number, Link::default());
        let memory = device.memory(64, ALL);
        let said = std::process::Command::new("/bin/sh")
            .args(["-c", "exec 3>&-; echo well"])
            .output();
        assert_eq!(said.expect("a shell").stdout, b"well\n");
        memory.write(0, &[9; 8]);
        pair.run(Work::write(1, &[memory.piece(0, 8)], &memory, 32));
        assert_eq!(memory.read(32, 8), [9; 8]);
    });
}
