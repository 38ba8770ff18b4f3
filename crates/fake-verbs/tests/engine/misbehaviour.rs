//! Faults of the machine file: failing requests, failing ports, failing functions.

use std::time::{Duration, Instant};

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

/// `IBV_EVENT_PORT_ERR`.
const PORT_ERR: u32 = 10;

#[test]
fn counts_requests_by_device_and_opcode() {
    let mut machine = two(&json!({"vendor_errors": {"12": 129, "11": 137}}));
    machine["verbs"]["devices"][0]["fail"] = json!([{"nth": 2, "status": 12, "opcode": "read"}]);
    machine["verbs"]["devices"][1]["fail"] =
        json!([{"nth": 2, "status": 8, "vendor_err": 3, "opcode": "recv"}]);
    on(
        "misbehaviour::counts_requests_by_device_and_opcode",
        &machine,
        |verbs| {
            let (here, there) = pair(verbs, RC);
            let mut read = request(1, IBV_WR_RDMA_READ, &[(0, 1)]);
            read.remote = here.remote(0);
            // The other device's reads are not counted.
            assert_eq!(there.post_all(&[read.clone(), read.clone()]), Ok(()));
            assert_eq!(there.completions(), [(1, 0), (1, 0)]);
            read.remote = there.remote(0);
            let mut write = request(2, IBV_WR_RDMA_WRITE, &[(0, 1)]);
            write.remote = there.remote(0);
            assert_eq!(
                here.post_all(&[read.clone(), write.clone(), write, read]),
                Ok(())
            );
            let errors: Vec<_> = std::iter::from_fn(|| here.poll())
                .map(|completion| completion.error())
                .collect();
            assert_eq!(errors, [None, None, None, Some((12, 129))]);

            let (here, there) = pair(verbs, RC);
            assert_eq!(
                (there.receive(7, &[(0, 8)]), there.receive(8, &[(0, 8)])),
                (0, 0)
            );
            let send = request(1, IBV_WR_SEND, &[(0, 1)]);
            assert_eq!(here.post_all(&[send.clone(), send]), Ok(()));
            assert_eq!(
                there.poll().map(|completion| completion.error()),
                Some(None)
            );
            assert_eq!(
                there.poll().map(|completion| completion.error()),
                Some(Some((8, 3)))
            );
            assert_eq!(here.poll().map(|completion| completion.error()), Some(None));
            assert_eq!(
                here.poll().map(|completion| completion.error()),
                Some(Some((11, 137)))
            );
        },
    );
}

#[test]
fn port_goes_down_after_count() {
    let mut machine = two(&json!({}));
    machine["verbs"]["devices"][0]["ports"][0]["port_down_after"] = json!(3);
    on(
        "misbehaviour::port_goes_down_after_count",
        &machine,
        |verbs| {
            let (here, there) = pair(verbs, RC);
            let other = verbs.open(0);
            let write = |from: &End<'_>, to: &End<'_>, id: u64| {
                let mut write = request(id, IBV_WR_RDMA_WRITE, &[(0, 1)]);
                write.remote = to.remote(0);
                assert_eq!(from.post(&write), 0);
            };
            // Requests of the other port do not count.
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
                // The element is a union: an int in place of a pointer.
                assert_eq!((event.kind, event.element & 0xffff_ffff), (PORT_ERR, 1));
                verbs.acknowledge_event(event);
            }
            assert!(!here.has_event() && !there.has_event());
            write(&here, &there, 4);
            assert_eq!(here.completions(), [(1, 0), (2, 0), (3, 0), (4, 12)]);
            write(&there, &here, 8);
            assert_eq!(there.completions(), [(9, 0), (8, 12)]);
        },
    );
}

#[test]
fn fails_functions_by_name() {
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
    on("misbehaviour::fails_functions_by_name", &machine, |verbs| {
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

        // SAFETY: an open context.
        let ops = unsafe { (*context).ops };
        let cq = verbs.cq(context, 1).expect("a queue");
        let mut out = ibv_wc::default();
        let mut poll = || {
            // SAFETY: one entry, and room for it.
            unsafe { ops.poll_cq.expect("the function")(cq, 1, &raw mut out) }
        };
        assert_eq!((poll(), poll(), poll()), (0, -1, 0));
    });
    // Only the parent process checks the log.
    if std::env::var_os("FAKE_VERBS_CASE").is_none() {
        let log = std::fs::read_to_string(log).expect("the log");
        assert!(
            log.contains("ibv_alloc_pd\nibv_reg_mr\nibv_reg_mr_iova2\n"),
            "{log}"
        );
        assert!(!log.contains("ibv_poll_cq"), "{log}");
    }
}
