//! Failures of a stream or a NIC are found, and waits for missing completions end.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Access, Hca as _, MemoryRegion, Request};
use gdsync::wire::Syndrome;
use gdsync::{MappedMemory, MemoryLocation};
use gpu::{Compare, Gpu};

use super::loopback::Loop;
use super::order;
use super::session::{Session, TIMEOUT};
use super::settings::{Series, Settings};
use super::task::Task;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

pub fn task() -> Task {
    Task {
        target: Target::simulated(),
        hca: Some(HcaChoice::Sim),
        // Missing completions end soon.
        terms: Terms::quick(&[], Duration::ZERO),
        settings: Settings::default(),
        pingpong: None,
    }
}

pub fn session<'a>(task: &'a Task, out: &mut Vec<u8>) -> Session<'a> {
    let mut reporter = Reporter::new(out, Duration::ZERO);
    Session::new(task, Gpu::sim(), &mut reporter).expect("a session")
}

/// Runs a loop of 100 messages of 256 bytes on a NIC that `prepare` may inject faults into.
fn run_loop(prepare: impl FnOnce(&SimHca, u32)) -> Result<Option<String>, StepError> {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = SimHca::new(session.allocator.clone()).expect("a NIC");
    // Creates and destroys a queue pair to learn the next QPN.
    let first = hca.create(&Request::default()).expect("a pair").endpoint.qpn;
    prepare(&hca, first + 1);
    let mut looped = Loop::new(&session, Rc::new(hca), Series::of(256)).expect("a loop");
    assert_eq!(looped.queues.pair.endpoint.qpn, first + 1);
    let outcome = looped.by_stream(&session, 100).map(|(_, wrong)| wrong);
    assert!(session.stream.is_idle().expect("a stream"), "no wait is left");
    outcome
}

#[test]
fn accepts_right_messages() {
    assert!(matches!(run_loop(|_, _| {}), Ok(None)));
}

#[test]
fn reports_syndrome_of_failed_wqe() {
    for expected in [Syndrome::RemoteAccess, Syndrome::LocalProtection, Syndrome::TransportRetry] {
        let effect = Effect::Fail { syndrome: expected, vendor: 0x81 };
        match run_loop(|hca, qpn| hca.inject(qpn, 7, effect)) {
            Err(StepError::Wqe { syndrome, vendor: 0x81 }) => assert_eq!(syndrome, expected),
            other => panic!("{expected:?}: {other:?}"),
        }
    }
}

#[test]
fn releases_stream_without_completion() {
    let late = Effect::Delay(TIMEOUT * 3);
    match run_loop(|hca, qpn| hca.inject(qpn, 30, late)) {
        Err(StepError::Released(why)) => {
            assert!(why.starts_with("completion 30 did not come within 15"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn kernel_finds_wrong_message() {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = SimHca::new(session.allocator.clone()).expect("a NIC");
    let mut looped = Loop::new(&session, Rc::new(hca), Series::of(256)).expect("a loop");
    // Sends other memory.
    let other: MappedMemory = session.allocator.place(MemoryLocation::Host, 4096).expect("memory");
    looped.sent.region = looped.queues.register(&other).expect("registered");
    let wrong = looped.by_stream(&session, 5).expect("it ends").1.expect("a wrong message");
    assert!(wrong.starts_with("message 0: 64 words are wrong, the first at byte 0"), "{wrong}");
}

#[test]
fn finds_stream_that_does_not_wait() {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let words = &session.words[0].1;
    let stop = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Signals before the CPU does.
            while !stop.load(Ordering::Relaxed) {
                words.store_u32(order::SIGNAL, 0x7fff_ffff).expect("a word");
            }
        });
        let wrong = order::first_failure(&session, words, Compare::Geq, 1000);
        stop.store(true, Ordering::Relaxed);
        wrong
    });
    let wrong = wrong.expect("it ends").expect("a wrong message");
    let words = [
        "the stream did not wait for the signal",
        "an operation after the wait took effect before it",
    ];
    assert!(words.iter().any(|words| wrong.ends_with(words)), "{wrong}");
}

#[test]
fn unregistered_memory_fails_with_protection_error() {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = SimHca::new(session.allocator.clone()).expect("a NIC");
    let other: MappedMemory = session.allocator.place(MemoryLocation::Host, 4096).expect("memory");
    let foreign = SimHca::new(session.allocator.clone()).expect("another NIC");
    let region = foreign.register(&other, Access::ALL).expect("registered elsewhere");
    let mut looped = Loop::new(&session, Rc::new(hca), Series::of(256)).expect("a loop");
    looped.sent.region = MemoryRegion::new(&other, region.lkey + 1000, 0, Box::new(()));
    match looped.by_stream(&session, 5) {
        Err(StepError::Wqe { syndrome: Syndrome::LocalProtection, .. }) => {}
        other => panic!("{other:?}"),
    }
}
