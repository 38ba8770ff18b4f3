//! Faults of the HCA and of memory end the kernel within its time, with their cause.

use std::rc::Rc;
use std::time::{Duration, Instant};

use gdsync::hca::sim::{Effect, SimHca};
use gdsync::wire::Syndrome;

use super::bench::Bench;
use super::cases::{CASES, Case};
use crate::probe::asynchronous::session::{Session, TIMEOUT};
use crate::probe::asynchronous::tests::{session, task};
use crate::probe::failure::StepError;

fn case(label: &str) -> &'static Case {
    let found = CASES.iter().find(|case| case.figure.name == label);
    found.expect("a case")
}

/// 6400 messages of 256 bytes on a NIC with a fault that `inject` makes.
fn outcome(label: &str, inject: impl FnOnce(&SimHca, &Bench)) -> Result<Option<String>, StepError> {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = Rc::new(SimHca::new(session.allocator.clone()).expect("a NIC"));
    let case = case(label);
    let bytes = if case.inline { 28 } else { 256 };
    let shared = Rc::clone(&hca) as Rc<dyn gdsync::hca::Hca>;
    let mut bench = Bench::new(&session, &shared, case, bytes)?;
    inject(&hca, &bench);
    let result = bench.run(&session, 6400, &mut |_| Ok(()));
    usable(&session);
    assert_eq!(hca.violations(), []);
    result.map(|(_, wrong)| wrong)
}

/// The stream still works.
fn usable(session: &Session<'_>) {
    let words = &session.words[0].1;
    let word = words.word(0, 4).expect("a word");
    let write = gpu::MemOp::Write32 { at: word, value: 7 };
    session.stream.batch(&[write]).expect("a stream");
    session.stream.synchronize().expect("it ends");
    assert_eq!(words.load_u32(0).expect("a word"), 7);
}

#[test]
fn all_cases_verify_their_messages() {
    for case in CASES {
        let found = outcome(case.figure.name, |_, _| {});
        assert!(matches!(found, Ok(None)), "{}: {found:?}", case.figure.name);
    }
}

#[test]
fn reports_error_completion() {
    let (syndrome, vendor) = (Syndrome::RemoteAccess, 0x81);
    for label in ["async.kernel.thread.latency", "async.kernel.warp.rate"] {
        let found = outcome(label, |hca, bench| {
            let qpn = bench.lanes()[0].pair.endpoint.qpn;
            hca.inject(qpn, 70, Effect::Fail { syndrome, vendor });
        });
        let is_it =
            matches!(found, Err(StepError::Wqe { syndrome: Syndrome::RemoteAccess, vendor: 0x81 }));
        assert!(is_it, "{label}: {found:?}");
    }
}

#[test]
fn ends_without_completion() {
    let begun = Instant::now();
    let found = outcome("async.kernel.thread.latency", |hca, bench| {
        let qpn = bench.lanes()[0].pair.endpoint.qpn;
        hca.inject(qpn, 30, Effect::Stale);
    });
    match found {
        Err(StepError::Released(why)) => {
            assert!(why.starts_with("the CQE of batch 30 did not come"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let limit = TIMEOUT.max(Duration::from_secs(10)) * 3;
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
}

#[test]
fn reports_completion_of_another_wqe() {
    // A CQE that is never written: the next one takes its slot, and has the next counter.
    let found = outcome("async.kernel.warp.rate", |hca, bench| {
        let qpn = bench.lanes()[0].pair.endpoint.qpn;
        hca.inject(qpn, 63, Effect::Drop);
    });
    match found {
        Err(StepError::Released(why)) => assert!(why.contains("another WQE"), "{why}"),
        other => panic!("{other:?}"),
    }
}
