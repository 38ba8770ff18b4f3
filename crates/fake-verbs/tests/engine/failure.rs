//! How work fails: statuses are those of the InfiniBand specification, as the manual pages number them.

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const PROTECTION: u32 = 4;
const FLUSH: u32 = 5;
const REMOTE_INVALID: u32 = 9;
const REMOTE_ACCESS: u32 = 10;
const RTS: u32 = 3;
const ERR: u32 = 6;
/// `IBV_EVENT_QP_REQ_ERR`, `IBV_EVENT_QP_ACCESS_ERR`.
const REQ_ERR: u32 = 2;
const ACCESS_ERR: u32 = 3;

/// What the remote end is after a failure: in which state, and what it is told.
fn peer_is(there: &End<'_>, state: u32, event: Option<u32>) {
    assert_eq!(there.state(), state);
    assert_eq!(there.has_event(), event.is_some());
    if let Some(kind) = event {
        let told = there.verbs.event(there.context);
        assert_eq!((told.kind, told.element), (kind, there.qp.addr() as u64));
        assert!(!there.has_event());
        there.verbs.acknowledge_event(told);
    }
}

#[test]
fn a_local_key_opens_what_it_was_made_for() {
    on(
        "failure::a_local_key_opens_what_it_was_made_for",
        &two(&json!({})),
        |verbs| {
            let cases: [fn(&End<'_>, &mut Request<'_>); 4] = [
                |_, send| send.lkey = Some(0),
                |here, send| send.lkey = Some(here.rkey()),
                |_, send| send.pieces = &[(0, 4), (4090, 7)],
                |here, send| {
                    // Of another domain.
                    let pd = here.verbs.pd(here.context).expect("a domain");
                    let start = std::ptr::with_exposed_provenance_mut(here.at(0) as usize);
                    let mr = here.verbs.register(pd, start, 4096, ALL).expect("memory");
                    // SAFETY: it was just made.
                    send.lkey = Some(unsafe { (*mr).lkey });
                },
            ];
            for (number, change) in cases.into_iter().enumerate() {
                let (here, there) = pair(verbs, RC);
                assert_eq!(there.receive(9, &[(0, 64)]), 0);
                assert_eq!(here.receive(8, &[(0, 64)]), 0);
                let mut send = request(1, IBV_WR_SEND, &[(0, 4)]);
                change(&here, &mut send);
                // Even if it was not to complete.
                send.flags = 0;
                assert_eq!(here.post(&send), 0);
                assert_eq!(here.ended(), [(1, PROTECTION), (8, FLUSH)], "{number}");
                assert_eq!((here.state(), there.ended()), (ERR, vec![]));
                peer_is(&there, RTS, None);
            }
            // What is read goes into memory that may be written.
            let (here, there) = pair(verbs, RC);
            let start = std::ptr::with_exposed_provenance_mut(here.at(0) as usize);
            let sealed = verbs.register(here.pd, start, 4096, 0).expect("memory");
            // SAFETY: it was just made.
            let lkey = unsafe { (*sealed).lkey };
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 4)]);
            (write.lkey, write.remote) = (Some(lkey), there.remote(0));
            let mut read = request(2, IBV_WR_RDMA_READ, &[(0, 4)]);
            (read.lkey, read.remote) = (Some(lkey), there.remote(0));
            assert_eq!(here.post_all(&[write.clone(), read, write]), Ok(()));
            assert_eq!(here.ended(), [(1, 0), (2, PROTECTION), (1, FLUSH)]);
            // A registration that has ended opens nothing.
            let (here, there) = pair(verbs, RC);
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 4)]);
            write.remote = there.remote(0);
            write.lkey = Some(here.lkey());
            assert_eq!(verbs.deregister(here.mr), 0);
            assert_eq!(here.post(&write), 0);
            assert_eq!(here.ended(), [(1, PROTECTION)]);
        },
    );
}

#[test]
fn a_remote_key_opens_what_it_was_made_for() {
    on(
        "failure::a_remote_key_opens_what_it_was_made_for",
        &two(&json!({})),
        |verbs| {
            let keyed = |there: &End<'_>, access: u32| {
                let start = std::ptr::with_exposed_provenance_mut(there.at(0) as usize);
                let mr = there
                    .verbs
                    .register(there.pd, start, 4096, access)
                    .expect("memory");
                // SAFETY: it was just made.
                (there.at(0), unsafe { (*mr).rkey })
            };
            let refused = |opcode: u32, remote: &dyn Fn(&End<'_>) -> (u64, u32), number: usize| {
                let (here, there) = pair(verbs, RC);
                assert_eq!(there.receive(9, &[(0, 64)]), 0);
                here.write(0, &[1; 8]);
                let mut work = request(1, opcode, &[(0, 8)]);
                work.remote = remote(&there);
                assert_eq!(here.post_all(&[work, request(2, IBV_WR_SEND, &[])]), Ok(()));
                assert_eq!(
                    here.ended(),
                    [(1, REMOTE_ACCESS), (2, FLUSH)],
                    "{opcode} {number}"
                );
                assert_eq!((here.state(), there.ended()), (ERR, vec![(9, FLUSH)]));
                peer_is(&there, ERR, Some(ACCESS_ERR));
                assert_eq!(
                    (there.read(0, 8), here.read(0, 8)),
                    (vec![0; 8], vec![1; 8]),
                    "nothing moved"
                );
            };
            for opcode in [
                IBV_WR_RDMA_WRITE,
                IBV_WR_RDMA_READ,
                IBV_WR_ATOMIC_FETCH_AND_ADD,
                IBV_WR_ATOMIC_CMP_AND_SWP,
            ] {
                refused(opcode, &|there| (there.at(0), 0), 0);
                refused(opcode, &|there| (there.at(0), there.lkey()), 1);
                refused(opcode, &|there| (there.at(4096), there.rkey()), 2);
                refused(opcode, &|there| (there.at(0) - 8, there.rkey()), 3);
                // All rights but the one that is needed: remote write 2, read 4, atomic 8.
                let right = match opcode {
                    IBV_WR_RDMA_WRITE => 2,
                    IBV_WR_RDMA_READ => 4,
                    _ => 8,
                };
                refused(opcode, &|there| keyed(there, ALL & !right), 4);
            }
            refused(
                IBV_WR_RDMA_WRITE,
                &|there| (there.at(4089), there.rkey()),
                5,
            );
            refused(
                IBV_WR_RDMA_WRITE,
                &|there| {
                    let pd = there.verbs.pd(there.context).expect("a domain");
                    let start = std::ptr::with_exposed_provenance_mut(there.at(0) as usize);
                    let mr = there.verbs.register(pd, start, 4096, ALL).expect("memory");
                    // SAFETY: it was just made.
                    (there.at(0), unsafe { (*mr).rkey })
                },
                6,
            );
        },
    );
}

#[test]
fn a_far_end_refuses_what_it_was_not_made_for() {
    let machine = two(&json!({}));
    on(
        "failure::a_far_end_refuses_what_it_was_not_made_for",
        &machine,
        |verbs| {
            let refused = |opcode: u32, offset: usize, change: &dyn Fn(&mut ibv_qp_attr)| {
                let (here, there) = pair_with(verbs, RC, |_, peer| change(peer));
                let mut work = request(1, opcode, &[(0, 8)]);
                work.remote = there.remote(offset);
                assert_eq!(here.post(&work), 0);
                assert_eq!(
                    (here.ended(), here.state()),
                    (vec![(1, REMOTE_INVALID)], ERR),
                    "{opcode}"
                );
                peer_is(&there, ERR, Some(REQ_ERR));
            };
            // Local write 1, remote write 2, read 4, atomic 8.
            refused(IBV_WR_RDMA_WRITE, 0, &|peer| peer.qp_access_flags = 13);
            refused(IBV_WR_RDMA_READ, 0, &|peer| peer.qp_access_flags = 11);
            refused(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, &|peer| {
                peer.qp_access_flags = 7
            });
            refused(IBV_WR_RDMA_READ, 0, &|peer| peer.max_dest_rd_atomic = 0);
            refused(IBV_WR_ATOMIC_CMP_AND_SWP, 0, &|peer| {
                peer.max_dest_rd_atomic = 0
            });
            refused(IBV_WR_ATOMIC_CMP_AND_SWP, 4, &|_| ());
        },
    );
}
