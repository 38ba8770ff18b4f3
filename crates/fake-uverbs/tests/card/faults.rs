//! The switches: requests that fail or vanish where the environment says so, ports that are down, pages that are refused.

use ib::{ibv_qp_state, ibv_wc_status as status};
use ibverbs_sys as ib;

use crate::CARD;
use crate::bench::{Link, connected};
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::thread_domain;
use crate::work::Work;

/// The third request of the second queue pair: remote aborted, and a syndrome of our own.
#[test]
#[ignore = "needs libmlx5"]
fn a_request_fails() {
    let variables = [CARD, ("FAKE_UVERBS_FAIL", "1:2:0x22:0x77")];
    inside("faults::a_request_fails", &variables, || {
        let (device, a, b) = connected();
        let memory = device.memory(64, ALL);
        memory.write(0, &[1; 8]);
        for id in 0..4 {
            a.run(Work::write(id, &[memory.piece(0, 8)], &memory, 32));
        }
        b.run(Work::write(0, &[memory.piece(0, 8)], &memory, 32));
        b.run(Work::write(1, &[memory.piece(0, 8)], &memory, 32));
        b.post(&[
            Work::write(2, &[memory.piece(0, 8)], &memory, 48),
            Work::write(3, &[memory.piece(0, 8)], &memory, 48),
        ]);
        let wc = b.sent.wait();
        assert_eq!(
            (wc.wr_id(), wc.error()),
            (2, Some((status::IBV_WC_REM_ABORT_ERR, 0x77)))
        );
        assert_eq!(b.sent.failure(), (3, status::IBV_WC_WR_FLUSH_ERR));
        assert_eq!(b.state(), ibv_qp_state::IBV_QPS_ERR);
        assert_eq!(memory.read(48, 8), [0; 8], "it did nothing");
    });
}

/// What vanishes is done, and never completed.
#[test]
#[ignore = "needs libmlx5"]
fn completions_vanish() {
    let variables = [
        CARD,
        ("FAKE_UVERBS_DROP", "0:1"),
        ("FAKE_UVERBS_DROP_RECEIVE", "1:0"),
    ];
    inside("faults::completions_vanish", &variables, || {
        let (device, a, b) = connected();
        let memory = device.memory(64, ALL);
        memory.write(0, &[1; 8]);
        b.receive(0, &[memory.piece(56, 8)]);
        b.receive(1, &[memory.piece(48, 8)]);
        a.post(&[
            Work::send(0, &[memory.piece(0, 8)]),
            Work::write(1, &[memory.piece(0, 8)], &memory, 32),
            Work::send(2, &[memory.piece(0, 8)]),
        ]);
        assert_eq!([a.sent.success(), a.sent.success()], [0, 2]);
        // The provider counts receives by itself: the first completion that there is has the first one's number.
        assert_eq!(b.received.wait().len(), 8);
        assert!(b.received.poll().is_none());
        for offset in [32, 48, 56] {
            assert_eq!(memory.read(offset, 8), [1; 8]);
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn a_receive_fails() {
    let variables = [CARD, ("FAKE_UVERBS_FAIL_RECEIVE", "1:1:1:0x31")];
    inside("faults::a_receive_fails", &variables, || {
        let (_, a, b) = connected();
        b.receive(10, &[]);
        b.receive(11, &[]);
        a.run(Work::send(1, &[]));
        assert_eq!(a.fail(Work::send(2, &[])), status::IBV_WC_REM_OP_ERR);
        assert_eq!(b.received.success(), 10);
        assert_eq!(
            b.received.wait().error(),
            Some((status::IBV_WC_LOC_LEN_ERR, 0x31))
        );
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn a_port_is_down() {
    inside(
        "faults::a_port_is_down",
        &[CARD, ("FAKE_UVERBS_PORT_DOWN", "2")],
        || {
            let device = Device::open();
            for (port, state) in [
                (1, ib::ibv_port_state::IBV_PORT_ACTIVE),
                (2, ib::ibv_port_state::IBV_PORT_DOWN),
            ] {
                let mut told = ib::ibv_port_attr::default();
                assert_eq!(
                    // SAFETY: the open context, and room for what is told.
                    unsafe { ib::ibv_query_port(device.context, port, &mut told) },
                    0
                );
                assert_eq!(told.state, state);
                let pair = device.pair();
                pair.connect(
                    pair.number,
                    Link {
                        port,
                        ..Link::default()
                    },
                );
                pair.receive(1, &[]);
                pair.post(&[Work::send(2, &[])]);
                let expected = if port == 1 {
                    None
                } else {
                    Some(status::IBV_WC_RETRY_EXC_ERR)
                };
                assert_eq!(pair.sent.wait().error().map(|error| error.0), expected);
            }
        },
    );
}

/// The pages of thread domains are refused; all others are there.
#[test]
#[ignore = "needs libmlx5"]
fn thread_domains_are_refused() {
    let variables = [CARD, ("FAKE_UVERBS_DENY", "dynamic")];
    inside("faults::thread_domains_are_refused", &variables, || {
        let device = Device::open();
        assert_eq!(
            thread_domain::make(device)
                .expect_err("refused")
                .raw_os_error(),
            Some(1),
            "EPERM"
        );
        let pair = device.pair();
        pair.connect(pair.number, Link::default());
        pair.receive(1, &[]);
        pair.run(Work::send(2, &[]));
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn all_pages_are_refused() {
    inside(
        "faults::all_pages_are_refused",
        &[CARD, ("FAKE_UVERBS_DENY", "all")],
        || {
            assert!(Device::try_open().is_none());
        },
    );
}
