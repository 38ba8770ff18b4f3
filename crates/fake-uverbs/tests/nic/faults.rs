//! Faults from the environment: failing and vanishing requests, ports that are down, denied register pages.

use ib::{ibv_qp_state, ibv_wc_status as status};
use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, connected};
use crate::device::{ALL, Device};
use crate::inside::inside;
use crate::thread_domain;
use crate::work::Work;

/// Request 2 of queue pair 1: remote aborted, with a vendor's syndrome.
#[test]
#[ignore = "needs libmlx5"]
fn failing_request() {
    let variables = [NIC, ("FAKE_UVERBS_FAIL", "1:2:0x22:0x77")];
    inside("faults::failing_request", &variables, || {
        let (device, a, b) = connected();
        let memory = device.memory(64, ALL);
        memory.write(0, &[1; 8]);
        for id in 0..4 {
            a.run(Work::write(id, &[memory.sge(0, 8)], &memory, 32));
        }
        b.run(Work::write(0, &[memory.sge(0, 8)], &memory, 32));
        b.run(Work::write(1, &[memory.sge(0, 8)], &memory, 32));
        b.post(&[
            Work::write(2, &[memory.sge(0, 8)], &memory, 48),
            Work::write(3, &[memory.sge(0, 8)], &memory, 48),
        ]);
        let wc = b.sent.wait();
        assert_eq!((wc.wr_id(), wc.error()), (2, Some((status::IBV_WC_REM_ABORT_ERR, 0x77))));
        assert_eq!(b.sent.failure(), (3, status::IBV_WC_WR_FLUSH_ERR));
        assert_eq!(b.state(), ibv_qp_state::IBV_QPS_ERR);
        assert_eq!(memory.read(48, 8), [0; 8], "it did nothing");
    });
}

/// A dropped completion's request still executes.
#[test]
#[ignore = "needs libmlx5"]
fn dropped_completions() {
    let variables = [NIC, ("FAKE_UVERBS_DROP", "0:1")];
    inside("faults::dropped_completions", &variables, || {
        let (device, a, b) = connected();
        let memory = device.memory(64, ALL);
        memory.write(0, &[1; 8]);
        b.receive(0, &[memory.sge(56, 8)]);
        b.receive(1, &[memory.sge(48, 8)]);
        a.post(&[
            Work::send(0, &[memory.sge(0, 8)]),
            Work::write(1, &[memory.sge(0, 8)], &memory, 32),
            Work::send(2, &[memory.sge(0, 8)]),
        ]);
        assert_eq!([a.sent.success(), a.sent.success()], [0, 2]);
        assert_eq!([b.received.success(), b.received.success()], [0, 1]);
        for offset in [32, 48, 56] {
            assert_eq!(memory.read(offset, 8), [1; 8]);
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn port_down() {
    inside("faults::port_down", &[NIC, ("FAKE_UVERBS_PORT_DOWN", "2")], || {
        let device = Device::open();
        for (port, state) in
            [(1, ib::ibv_port_state::IBV_PORT_ACTIVE), (2, ib::ibv_port_state::IBV_PORT_DOWN)]
        {
            let mut attributes = ib::ibv_port_attr::default();
            assert_eq!(
                // SAFETY: an open context and an output buffer.
                unsafe { ib::ibv_query_port(device.context, port, &mut attributes) },
                0
            );
            assert_eq!(attributes.state, state);
            let pair = device.pair();
            pair.connect(pair.number, Link { port, ..Link::default() });
            pair.receive(1, &[]);
            pair.post(&[Work::send(2, &[])]);
            let expected = if port == 1 { None } else { Some(status::IBV_WC_RETRY_EXC_ERR) };
            assert_eq!(pair.sent.wait().error().map(|error| error.0), expected);
        }
    });
}

/// Only the pages of thread domains are denied.
#[test]
#[ignore = "needs libmlx5"]
fn thread_domain_pages_denied() {
    let variables = [NIC, ("FAKE_UVERBS_DENY", "dynamic")];
    inside("faults::thread_domain_pages_denied", &variables, || {
        let device = Device::open();
        assert_eq!(
            thread_domain::make(device).expect_err("refused").raw_os_error(),
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
fn all_pages_denied() {
    inside("faults::all_pages_denied", &[NIC, ("FAKE_UVERBS_DENY", "all")], || {
        assert!(Device::try_open().is_none());
    });
}
