//! What a machine file has go wrong: statuses that are played, work that vanishes, bytes that arrive wrong, ports that die.

use std::time::{Duration, Instant};

use ibverbs_sys::*;
use serde_json::{Value, json};

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const ERR: u32 = 6;
/// `IBV_EVENT_PORT_ERR`.
const PORT_ERR: u32 = 10;

#[test]
fn every_status_can_be_played() {
    // The first request of each pair; all that verbs.h numbers.
    let fail: Vec<Value> = (1..=23)
        .map(|status| json!({"nth": 2 * status, "status": status, "vendor_err": 100 + status}))
        .collect();
    let machine = two(&json!({"fail": fail}));
    on(
        "misbehaviour::every_status_can_be_played",
        &machine,
        |verbs| {
            for status in 1..=23 {
                let (here, there) = pair(verbs, RC);
                here.write(0, b"xy");
                let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 1)]);
                write.remote = there.remote(0);
                let mut fails = write.clone();
                (fails.id, fails.pieces) = (2, &[(1, 1)]);
                assert_eq!(here.post_all(&[write, fails]), Ok(()));
                assert_eq!(
                    here.poll().map(|ended| (ended.wr_id(), ended.error())),
                    Some((1, None))
                );
                let failed = here.poll().expect("a completion");
                assert_eq!(
                    (failed.wr_id(), failed.error()),
                    (2, Some((status, 100 + status)))
                );
                assert_eq!(there.read(0, 1), b"x", "it moved nothing");
                assert_eq!(here.state(), if status == 5 { 3 } else { ERR });
            }
        },
    );
}

#[test]
fn requests_are_counted_by_device_and_opcode() {
    let mut machine = two(&json!({"vendor_errors": {"12": 129, "11": 137}}));
    machine["verbs"]["devices"][0]["fail"] = json!([{"nth": 2, "status": 12, "opcode": "read"}]);
    machine["verbs"]["devices"][1]["fail"] =
        json!([{"nth": 2, "status": 8, "vendor_err": 3, "opcode": "recv"}]);
    on(
        "misbehaviour::requests_are_counted_by_device_and_opcode",
        &machine,
        |verbs| {
            let (here, there) = pair(verbs, RC);
            let mut read = request(1, IBV_WR_RDMA_READ, &[(0, 1)]);
            read.remote = here.remote(0);
            // The other device's reads are not counted.
            assert_eq!(there.post_all(&[read.clone(), read.clone()]), Ok(()));
            assert_eq!(there.ended(), [(1, 0), (1, 0)]);
            read.remote = there.remote(0);
            let mut write = request(2, IBV_WR_RDMA_WRITE, &[(0, 1)]);
            write.remote = there.remote(0);
            assert_eq!(
                here.post_all(&[read.clone(), write.clone(), write, read]),
                Ok(())
            );
            let ended: Vec<_> = std::iter::from_fn(|| here.poll())
                .map(|ended| ended.error())
                .collect();
            assert_eq!(ended, [None, None, None, Some((12, 129))]);

            let (here, there) = pair(verbs, RC);
            assert_eq!(
                (there.receive(7, &[(0, 8)]), there.receive(8, &[(0, 8)])),
                (0, 0)
            );
            let send = request(1, IBV_WR_SEND, &[(0, 1)]);
            assert_eq!(here.post_all(&[send.clone(), send]), Ok(()));
            assert_eq!(there.poll().map(|ended| ended.error()), Some(None));
            assert_eq!(there.poll().map(|ended| ended.error()), Some(Some((8, 3))));
            assert_eq!(here.poll().map(|ended| ended.error()), Some(None));
            assert_eq!(
                here.poll().map(|ended| ended.error()),
                Some(Some((11, 137)))
            );
        },
    );
}

#[test]
fn work_vanishes_for_good() {
    let machine = two(&json!({"swallow": 3}));
    on("misbehaviour::work_vanishes_for_good", &machine, |verbs| {
        let (here, there) = pair(verbs, RC);
        here.write(0, b"abcd");
        for (id, offset) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            let mut write = request(id, IBV_WR_RDMA_WRITE, &[(0, 1)]);
            write.remote = there.remote(offset);
            assert_eq!(here.post(&write), 0);
        }
        assert_eq!(
            (here.ended(), there.read(0, 4)),
            (vec![(1, 0), (2, 0)], b"aa\0\0".to_vec())
        );
        assert_eq!(
            verbs.modify(
                here.qp,
                &ibv_qp_attr {
                    qp_state: ERR,
                    ..ibv_qp_attr::default()
                },
                1
            ),
            0
        );
        assert_eq!(here.post(&request(5, IBV_WR_RDMA_WRITE, &[])), 0);
        assert_eq!(here.ended(), [], "not even flushed");
        assert_eq!(verbs.free_qp(here.qp), 0);
    });
}

/// Five writes of ten bytes, and what arrived of each.
fn writes(verbs: &Verbs) -> Vec<Vec<u8>> {
    let (here, there) = pair(verbs, RC);
    here.write(0, &[1; 10]);
    there.write(0, &[7; 100]);
    let arrived = (0..5).map(|place| {
        let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 4), (4, 6)]);
        write.remote = there.remote(10 * place);
        assert_eq!(here.post(&write), 0);
        assert_eq!(here.ended(), [(1, 0)], "it says that it succeeded");
        there.read(10 * place, 10)
    });
    arrived.collect()
}

/// One test for each way, as each is a process's.
macro_rules! corrupt {
    ($( $name:ident: $corrupt:tt => $arrives:expr; )*) => { $(
        #[test]
        fn $name() {
            let machine = two(&json!({"corrupt": $corrupt}));
            on(concat!("misbehaviour::", stringify!($name)), &machine, |verbs| {
                let (good, bad): (Vec<u8>, Vec<u8>) = (vec![1; 10], $arrives);
                assert_eq!(writes(verbs), [good.clone(), bad.clone(), good.clone(), bad, good]);
            });
        }
    )* };
}

corrupt! {
    bytes_arrive_as_zeros: {"every": 2, "as": "zero"} => vec![0; 10];
    bytes_do_not_arrive: [{"every": 2, "as": "drop", "over": 9, "opcode": "write", "memory": "host"}] => vec![7; 10];
    a_bit_arrives_wrong: {"every": 2, "as": "flip"} => vec![1, 1, 1, 1, 1, 0x11, 1, 1, 1, 1];
    others_arrive: [{"every": 2, "as": "drop", "over": 10}, {"every": 1, "as": "drop", "opcode": "read"},
                    {"every": 1, "as": "zero", "memory": "device"}] => vec![1; 10];
}

#[test]
fn messages_and_reads_are_corrupted_too() {
    let machine = two(&json!({"corrupt": {"as": "zero"}}));
    on(
        "misbehaviour::messages_and_reads_are_corrupted_too",
        &machine,
        |verbs| {
            let (here, there) = pair(verbs, RC);
            here.write(0, &[1; 8]);
            there.write(0, &[2; 16]);
            assert_eq!(there.receive(1, &[(0, 16)]), 0);
            assert_eq!(here.post(&request(1, IBV_WR_SEND, &[(0, 8)])), 0);
            assert_eq!(there.read(0, 16), [[0; 8], [2; 8]].concat());
            let mut read = request(1, IBV_WR_RDMA_READ, &[(0, 4)]);
            read.remote = there.remote(8);
            assert_eq!(here.post(&read), 0);
            assert_eq!(here.read(0, 8), [0, 0, 0, 0, 1, 1, 1, 1]);
        },
    );
}

#[test]
fn a_port_dies_after_so_much_work() {
    let mut machine = two(&json!({}));
    machine["verbs"]["devices"][0]["ports"][0]["port_down_after"] = json!(3);
    on(
        "misbehaviour::a_port_dies_after_so_much_work",
        &machine,
        |verbs| {
            let (here, there) = pair(verbs, RC);
            let other = verbs.open(0);
            let write = |from: &End<'_>, to: &End<'_>, id: u64| {
                let mut write = request(id, IBV_WR_RDMA_WRITE, &[(0, 1)]);
                write.remote = to.remote(0);
                assert_eq!(from.post(&write), 0);
            };
            // The far port's requests are its own.
            write(&there, &here, 9);
            write(&here, &there, 1);
            write(&here, &there, 2);
            assert!(!here.has_event());
            let state = |context| verbs.port(context, 1).expect("a port").state;
            assert_eq!(state(here.context), ibv_port_state::IBV_PORT_ACTIVE);
            write(&here, &there, 3);
            assert_eq!(state(here.context), ibv_port_state::IBV_PORT_DOWN);
            assert_eq!(state(there.context), ibv_port_state::IBV_PORT_ACTIVE);
            for context in [here.context, other] {
                let event = verbs.event(context);
                // An int in a union of pointers.
                assert_eq!((event.kind, event.element & 0xffff_ffff), (PORT_ERR, 1));
                verbs.acknowledge_event(event);
            }
            assert!(!here.has_event() && !there.has_event());
            write(&here, &there, 4);
            assert_eq!(here.ended(), [(1, 0), (2, 0), (3, 0), (4, 12)]);
            write(&there, &here, 8);
            assert_eq!(there.ended(), [(9, 0), (8, 12)]);
        },
    );
}

#[test]
fn functions_fail_by_name() {
    let mut machine = two(&json!({}));
    machine["errors"] = json!({"ibv_reg_mr": 12, "ibv_post_recv": 22});
    machine["errors_after"] = json!({
        "ibv_open_device": {"calls": 2, "code": 13},
        "ibv_poll_cq": {"calls": 1, "code": 5},
        "ibv_post_send": {"calls": 1, "code": 12},
    });
    machine["stall"] = json!({"ibv_get_device_guid": 30});
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    machine["log"] = json!(log);
    on("misbehaviour::functions_fail_by_name", &machine, |verbs| {
        let context = verbs.open(0);
        let pd = verbs.pd(context).expect("a domain");
        let mut memory = [0_u64; 8];
        assert_eq!(
            verbs.register(pd, memory.as_mut_ptr().cast(), 64, ALL),
            Err(12)
        );
        verbs.register_at(pd, &mut memory, 0);
        assert!(verbs.try_open(0).is_ok());
        assert_eq!(verbs.try_open(0).err(), Some(13));
        let start = Instant::now();
        verbs.guid(verbs.devices()[0]);
        assert!(start.elapsed() >= Duration::from_millis(30));

        // SAFETY: it is open.
        let ops = unsafe { (*context).ops };
        let cq = verbs.cq(context, 1).expect("a queue");
        let mut out = ibv_wc::default();
        let poll = || {
            // SAFETY: there is room for one.
            unsafe { ops.poll_cq.expect("the function")(cq, 1, &raw mut out) }
        };
        let mut poll = poll;
        assert_eq!((poll(), poll(), poll()), (0, -1, 0));
    });
    // The process that looks on has it; the case's own returns before.
    if std::env::var_os("FAKE_VERBS_CASE").is_none() {
        let log = std::fs::read_to_string(log).expect("the log");
        assert!(
            log.contains("ibv_alloc_pd\nibv_reg_mr\nibv_reg_mr_iova2\n"),
            "{log}"
        );
        assert!(!log.contains("ibv_poll_cq"), "{log}");
    }
}
