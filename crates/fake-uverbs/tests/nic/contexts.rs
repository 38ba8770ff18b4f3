//! Reopening the device, and several contexts at once.

use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::Link;
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::work::Work;

/// Memory belongs to one context, but queue pairs of two contexts can be connected.
#[test]
#[ignore = "needs libmlx5"]
fn two_contexts() {
    inside("contexts::two_contexts", &[NIC], || {
        let (one, two) = (Device::open(), Device::open());
        let (a, b) = (one.pair(), two.pair());
        a.connect(b.number, Link::default());
        b.connect(a.number, Link::default());
        let (local, peer) = (one.memory(64, ALL), two.memory(64, ALL));
        local.write(0, b"two open devices");
        a.run(Work::write(1, &[local.sge(0, 16)], &peer, 8));
        assert_eq!(peer.read(8, 16), b"two open devices");
        b.run(Work::read(2, &[peer.sge(32, 3)], &local, 4));
        assert_eq!(peer.read(32, 3), b"ope");
        // The other context's key is invalid here.
        assert_eq!(a.fail(Work::write(3, &[peer.sge(0, 8)], &peer, 0)), 4);
    });
}

/// Closing a device destroys its objects; the NIC does not access their queues afterwards.
#[test]
#[ignore = "needs libmlx5"]
fn close_with_live_objects() {
    inside("contexts::close_with_live_objects", &[NIC], || {
        let (one, two) = (Device::open(), Device::open());
        let (a, b) = (one.pair(), two.pair());
        a.connect(b.number, Link::default());
        b.connect(a.number, Link::default());
        let (local, peer) = (one.memory(64, ALL), two.memory(64, ALL));
        a.run(Work::write(1, &[local.sge(0, 8)], &peer, 0));
        // SAFETY: none of its objects is used afterwards.
        assert_eq!(unsafe { ib::ibv_close_device(two.context) }, 0);
        assert_eq!(
            a.fail(Work::write(2, &[local.sge(0, 8)], &peer, 0)),
            ib::ibv_wc_status::IBV_WC_RETRY_EXC_ERR
        );
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn reopen_repeatedly() {
    inside("contexts::reopen_repeatedly", &[NIC], || {
        let mut keys = Vec::new();
        for round in 0..20_u8 {
            let device = Device::open();
            let pair = device.pair();
            pair.connect(pair.number, Link::default());
            let memory = device.memory(64, ALL);
            memory.write(0, &[round + 1; 8]);
            pair.run(Work::write(1, &[memory.sge(0, 8)], &memory, 32));
            assert_eq!(memory.read(32, 8), [round + 1; 8]);
            keys.push((pair.number, memory.key));
            pair.destroy();
            memory.deregister();
            // SAFETY: the remaining objects, none of which is used afterwards.
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

/// A forked child closes its inherited descriptors; the parent's NIC keeps running.
#[test]
#[ignore = "needs libmlx5"]
fn child_process() {
    inside("contexts::child_process", &[NIC], || {
        let device = Device::open();
        let pair = device.pair();
        pair.connect(pair.number, Link::default());
        let memory = device.memory(64, ALL);
        let output =
            std::process::Command::new("/bin/sh").args(["-c", "exec 3>&-; echo well"]).output();
        assert_eq!(output.expect("a shell").stdout, b"well\n");
        memory.write(0, &[9; 8]);
        pair.run(Work::write(1, &[memory.sge(0, 8)], &memory, 32));
        assert_eq!(memory.read(32, 8), [9; 8]);
    });
}
