//! Completion channels: one event per armed queue.

use std::ffi::c_void;
use std::ptr::null_mut;

use ibverbs_sys as ib;

use crate::NIC;
use crate::bench::{Link, QueuePair};
use crate::device::{Device, Queue};
use crate::inside::inside;
use crate::work::{SIGNALLED, Work};

const SOLICITED: u32 = ib::ibv_send_flags::IBV_SEND_SOLICITED.0;

/// A queue pair connected to itself, and the channel of its completion queues.
fn armed_pair() -> (*mut ib::ibv_comp_channel, QueuePair) {
    let device = Device::open();
    // SAFETY: an open context.
    let channel = unsafe { ib::ibv_create_comp_channel(device.context) };
    assert!(!channel.is_null(), "{}", std::io::Error::last_os_error());
    // SAFETY: an open context and a live channel.
    let queue = || Queue(unsafe { ib::ibv_create_cq(device.context, 15, null_mut(), channel, 0) });
    let pair = device.pair_with(ib::ibv_qp_type::IBV_QPT_RC, device.pd, [queue(), queue()]);
    pair.connect(pair.number, Link::default());
    (channel, pair)
}

fn arm(queue: Queue, solicited_only: bool) {
    assert_eq!(
        // SAFETY: a live queue.
        unsafe { ib::ibv_req_notify_cq(queue.0, solicited_only.into()) },
        0
    );
}

/// The queue of the next event, acknowledged; none without an event in `wait` milliseconds.
fn event(channel: *mut ib::ibv_comp_channel, wait: i32) -> Option<*mut ib::ibv_cq> {
    let mut poll = libc::pollfd {
        // SAFETY: a live channel.
        fd: unsafe { (*channel).fd },
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor.
    if unsafe { libc::poll(&mut poll, 1, wait) } != 1 {
        return None;
    }
    let (mut queue, mut context): (*mut ib::ibv_cq, *mut c_void) = (null_mut(), null_mut());
    assert_eq!(
        // SAFETY: a live channel and output pointers.
        unsafe { ib::ibv_get_cq_event(channel, &mut queue, &mut context) },
        0
    );
    // SAFETY: the live queue of the event.
    unsafe { ib::ibv_ack_cq_events(queue, 1) };
    Some(queue)
}

#[test]
#[ignore = "needs libmlx5"]
fn events() {
    inside("events::events", &[NIC], || {
        const LONG: i32 = 10_000;
        let (channel, pair) = armed_pair();
        // Not armed.
        pair.receive(1, &[]);
        pair.run(Work::send(1, &[]));
        pair.received.success();
        assert_eq!(event(channel, 20), None);
        for round in 0..50 {
            // Arms both queues for the next completion.
            arm(pair.sent, false);
            arm(pair.received, false);
            pair.receive(round, &[]);
            pair.post(&[Work::send(round, &[])]);
            let mut found = [event(channel, LONG), event(channel, LONG)];
            found.sort();
            let mut both = [Some(pair.sent.0), Some(pair.received.0)];
            both.sort();
            assert_eq!(found, both);
            // Only one event.
            pair.receive(round, &[]);
            pair.run(Work::send(round, &[]));
            assert_eq!(event(channel, 1), None);
            // Arming with an unseen completion raises an event at once.
            arm(pair.received, false);
            assert_eq!(event(channel, LONG), Some(pair.received.0));
            assert_eq!(
                [pair.sent.success(), pair.received.success(), pair.received.success()],
                [round; 3]
            );
        }
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn solicited_events() {
    inside("events::solicited_events", &[NIC], || {
        let (channel, pair) = armed_pair();
        arm(pair.received, true);
        for id in 0..3 {
            pair.receive(id, &[]);
        }
        pair.run(Work::send(0, &[]));
        pair.run(Work::send(1, &[]));
        assert_eq!(event(channel, 50), None);
        pair.run(Work::send(2, &[]).with(SIGNALLED | SOLICITED));
        assert_eq!(event(channel, 10_000), Some(pair.received.0));
        for id in 0..3 {
            assert_eq!(pair.received.success(), id);
        }
        // Errors count as solicited.
        arm(pair.received, true);
        pair.receive(3, &[]);
        let nothing = ib::ibv_sge { addr: 0, length: 8, lkey: 1 };
        assert_eq!(pair.fail(Work::send(4, &[nothing])), ib::ibv_wc_status::IBV_WC_LOC_PROT_ERR);
        assert_eq!(event(channel, 10_000), Some(pair.received.0));
    });
}

/// An unread event does not block the destruction of its queue.
#[test]
#[ignore = "needs libmlx5"]
fn unread_events() {
    inside("events::unread_events", &[NIC], || {
        let (channel, pair) = armed_pair();
        arm(pair.sent, false);
        arm(pair.received, false);
        pair.receive(1, &[]);
        pair.run(Work::send(1, &[]));
        pair.received.success();
        pair.destroy();
        // SAFETY: the queue is not used afterwards.
        assert_eq!(unsafe { ib::ibv_destroy_cq(pair.sent.0) }, 0);
        assert_eq!(
            event(channel, 10_000),
            Some(pair.received.0),
            "the other queue's event is still there"
        );
        // SAFETY: neither the queue nor the channel is used afterwards.
        unsafe {
            assert_eq!(ib::ibv_destroy_cq(pair.received.0), 0);
            assert_eq!(ib::ibv_destroy_comp_channel(channel), 0);
        }
    });
}
