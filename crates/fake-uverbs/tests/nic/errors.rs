//! Failing requests: their statuses, and the flushed queue pair until it is reset.

use ib::{ibv_qp_state, ibv_wc_status as status};
use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, QueuePair, connected, connected_by};
use crate::device::{ALL, Device, Memory};
use crate::inside::inside;
use crate::work::Work;

const LOCAL_WRITE: i32 = 1;
const REMOTE_WRITE: i32 = 2;
const REMOTE_READ: i32 = 4;

/// Memory of the local and of the remote end.
pub fn memories(device: &Device) -> (Memory, Memory) {
    (device.memory(256, ALL), device.memory(256, ALL))
}

/// Expects `work` to fail with this status on a new connection. Later requests and the local receives are flushed, and both ends
/// work again after a reset.
fn fails(links: (Link, Link), expected: u32, work: impl Fn(&Device, &Memory, &Memory) -> Work) {
    let (device, a, b) = connected_by(links.0, links.1);
    let (local, peer) = memories(&device);
    a.receive(70, &[local.sge(0, 8)]);
    let failing = work(&device, &local, &peer);
    a.post(&[failing, Work::send(71, &[local.sge(0, 8)]), Work::send(72, &[]).with(0)]);
    let first = a.sent.failure();
    assert_eq!(first, (1, expected));
    for id in [71, 72] {
        assert_eq!(a.sent.failure(), (id, status::IBV_WC_WR_FLUSH_ERR));
    }
    assert_eq!(a.received.failure(), (70, status::IBV_WC_WR_FLUSH_ERR));
    assert_eq!(a.state(), ibv_qp_state::IBV_QPS_ERR);
    // Requests posted later are flushed too.
    a.receive(73, &[]);
    a.post(&[Work::send(74, &[])]);
    assert_eq!(a.sent.failure(), (74, status::IBV_WC_WR_FLUSH_ERR));
    assert_eq!(a.received.failure(), (73, status::IBV_WC_WR_FLUSH_ERR));
    assert_recovers(&a, &b, &local, &peer);
}

/// Resets and reconnects both ends; they work.
pub fn assert_recovers(a: &QueuePair, b: &QueuePair, local: &Memory, peer: &Memory) {
    for (pair, other) in [(a, b), (b, a)] {
        pair.reset();
        assert_eq!(pair.state(), ibv_qp_state::IBV_QPS_RESET);
        pair.connect(other.number, Link::default());
    }
    local.write(0, &[0x5a; 8]);
    b.receive(80, &[peer.sge(16, 8)]);
    a.run(Work::send(81, &[local.sge(0, 8)]));
    assert_eq!(b.received.success(), 80);
    assert_eq!(peer.read(16, 8), [0x5a; 8]);
}

/// The change to ERR.
pub fn to_error() -> ib::ibv_qp_attr {
    ib::ibv_qp_attr { qp_state: ibv_qp_state::IBV_QPS_ERR, ..Default::default() }
}

fn usual() -> (Link, Link) {
    (Link::default(), Link::default())
}

#[test]
#[ignore = "needs libmlx5"]
fn local_protection() {
    inside("errors::local_protection", &[NIC], || {
        const EXPECTED: u32 = status::IBV_WC_LOC_PROT_ERR;
        fails(usual(), EXPECTED, |_, local, peer| {
            let mut sge = local.sge(0, 8);
            sge.lkey ^= 0x100_0000;
            Work::write(1, &[sge], peer, 0)
        });
        // One byte past the end.
        fails(usual(), EXPECTED, |_, local, peer| Work::write(1, &[local.sge(249, 8)], peer, 0));
        // Without local write, as a read requires.
        fails(usual(), EXPECTED, |device, _, peer| {
            Work::read(1, &[device.memory(64, 0).sge(0, 8)], peer, 0)
        });
        // A deregistered key.
        fails(usual(), EXPECTED, |device, _, peer| {
            let gone = device.memory(64, ALL);
            gone.deregister();
            Work::write(1, &[gone.sge(0, 8)], peer, 0)
        });
        // A key of another protection domain.
        fails(usual(), EXPECTED, |device, _, peer| {
            // SAFETY: an open context.
            let pd = unsafe { ib::ibv_alloc_pd(device.context) };
            let foreign = Device { pd, ..*device }.memory(64, ALL);
            Work::write(1, &[foreign.sge(0, 8)], peer, 0)
        });
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn local_operation() {
    inside("errors::local_operation", &[NIC], || {
        let (mut one, two) = usual();
        one.reads = 0;
        fails((one, two), status::IBV_WC_LOC_QP_OP_ERR, |_, local, peer| {
            Work::read(1, &[local.sge(0, 8)], peer, 0)
        });
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn remote_access() {
    inside("errors::remote_access", &[NIC], || {
        const EXPECTED: u32 = status::IBV_WC_REM_ACCESS_ERR;
        fails(usual(), EXPECTED, |_, local, peer| {
            let wrong = Memory { key: peer.key ^ 1, ..*peer };
            Work::write(1, &[local.sge(0, 8)], &wrong, 0)
        });
        fails(usual(), EXPECTED, |_, local, peer| Work::write(1, &[local.sge(0, 8)], peer, 249));
        fails(usual(), EXPECTED, |device, local, _| {
            Work::write(1, &[local.sge(0, 8)], &device.memory(64, LOCAL_WRITE | REMOTE_READ), 0)
        });
        fails(usual(), EXPECTED, |device, local, _| {
            Work::read(1, &[local.sge(0, 8)], &device.memory(64, LOCAL_WRITE | REMOTE_WRITE), 0)
        });
        fails(usual(), EXPECTED, |device, local, _| {
            let peer = device.memory(64, LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ);
            Work::fetch_add(1, local.sge(0, 8), &peer, 0, 1)
        });
    });
}

/// The remote end fails after it rejected a request.
#[test]
#[ignore = "needs libmlx5"]
fn remote_end_fails_too() {
    inside("errors::remote_end_fails_too", &[NIC], || {
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        b.receive(5, &[]);
        let wrong = Memory { key: 0, ..peer };
        assert_eq!(
            a.fail(Work::write(1, &[local.sge(0, 8)], &wrong, 0)),
            status::IBV_WC_REM_ACCESS_ERR
        );
        assert_eq!(b.received.failure(), (5, status::IBV_WC_WR_FLUSH_ERR));
        assert_eq!(b.state(), ibv_qp_state::IBV_QPS_ERR);
        assert_recovers(&a, &b, &local, &peer);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn remote_invalid_request() {
    inside("errors::remote_invalid_request", &[NIC], || {
        const EXPECTED: u32 = status::IBV_WC_REM_INV_REQ_ERR;
        let without = |rights: u32| {
            let (one, mut two) = usual();
            two.access &= !rights;
            (one, two)
        };
        fails(without(2), EXPECTED, |_, local, peer| Work::write(1, &[local.sge(0, 8)], peer, 0));
        fails(without(4), EXPECTED, |_, local, peer| Work::read(1, &[local.sge(0, 8)], peer, 0));
        fails(without(8), EXPECTED, |_, local, peer| {
            Work::fetch_add(1, local.sge(0, 8), peer, 0, 1)
        });
        fails(usual(), EXPECTED, |_, local, peer| Work::fetch_add(1, local.sge(0, 8), peer, 4, 1));
        let (one, mut two) = usual();
        two.reads = 0;
        fails((one, two), EXPECTED, |_, local, peer| Work::read(1, &[local.sge(0, 8)], peer, 0));
    });
}

/// No answer: missing queue pair, connected elsewhere or not yet, unexpected PSN, wrong address.
#[test]
#[ignore = "needs libmlx5"]
fn transport_retry() {
    inside("errors::transport_retry", &[NIC], || {
        const EXPECTED: u32 = status::IBV_WC_RETRY_EXC_ERR;
        let (mut one, two) = usual();
        one.send_psn += 1;
        fails((one, two), EXPECTED, |_, local, peer| Work::write(1, &[local.sge(0, 8)], peer, 0));
        one = two;
        one.lid = 0x0124;
        fails((one, two), EXPECTED, |_, local, peer| Work::write(1, &[local.sge(0, 8)], peer, 0));

        let device = Device::open();
        let (a, b, c) = (device.pair(), device.pair(), device.pair());
        a.connect(0x00_dead, Link::default());
        assert_eq!(a.fail(Work::send(1, &[])), EXPECTED);
        a.reset();
        b.connect(c.number, Link::default());
        a.connect(b.number, Link::default());
        assert_eq!(a.fail(Work::send(2, &[])), EXPECTED);
        c.initialize(Link::default());
        assert_eq!(b.fail(Work::send(3, &[])), EXPECTED);
        // A queue pair in ERR, whose memory is still valid.
        let (device, a, b) = connected();
        let (local, peer) = memories(&device);
        assert_eq!(b.modify(&mut to_error(), ib::ibv_qp_attr_mask::IBV_QP_STATE), 0);
        assert_eq!(a.fail(Work::write(1, &[local.sge(0, 8)], &peer, 0)), EXPECTED);
        a.reset();
        // A destroyed queue pair.
        let d = device.pair();
        a.reset();
        a.connect(d.number, Link::default());
        d.connect(a.number, Link::default());
        d.receive(1, &[]);
        a.run(Work::send(4, &[]));
        d.destroy();
        assert_eq!(a.fail(Work::send(5, &[])), EXPECTED);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn receiver_not_ready() {
    inside("errors::receiver_not_ready", &[NIC], || {
        let (mut one, two) = usual();
        for retries in [0, 2] {
            one.rnr_retries = retries;
            let expected = status::IBV_WC_RNR_RETRY_EXC_ERR;
            fails((one, two), expected, |_, local, _| Work::send(1, &[local.sge(0, 8)]));
            fails((one, two), expected, |_, local, peer| {
                Work::write(1, &[local.sge(0, 8)], peer, 0).immediate(1)
            });
        }
    });
}

/// A receive that is too small or has an invalid key fails at both ends and flushes the remote end's other receives.
#[test]
#[ignore = "needs libmlx5"]
fn failing_receives() {
    inside("errors::failing_receives", &[NIC], || {
        let cases = [
            (7, 0, status::IBV_WC_LOC_LEN_ERR, status::IBV_WC_REM_INV_REQ_ERR),
            (8, 1, status::IBV_WC_LOC_PROT_ERR, status::IBV_WC_REM_OP_ERR),
        ];
        for (length, wrong, at_receiver, at_sender) in cases {
            let (device, a, b) = connected();
            let (local, peer) = memories(&device);
            let mut sge = peer.sge(0, length);
            sge.lkey += wrong;
            b.receive(1, &[sge]);
            b.receive(2, &[peer.sge(0, 100)]);
            assert_eq!(a.fail(Work::send(3, &[local.sge(0, 8)])), at_sender);
            assert_eq!(b.received.failure(), (1, at_receiver));
            assert_eq!(b.received.failure(), (2, status::IBV_WC_WR_FLUSH_ERR));
            assert_recovers(&a, &b, &local, &peer);
        }
        // Receiving needs local write.
        let (device, a, b) = connected();
        b.receive(1, &[device.memory(64, 0).sge(0, 64)]);
        assert_eq!(
            a.fail(Work::send(3, &[device.memory(8, 0).sge(0, 8)])),
            status::IBV_WC_REM_OP_ERR
        );
        assert_eq!(b.received.failure(), (1, status::IBV_WC_LOC_PROT_ERR));
    });
}
