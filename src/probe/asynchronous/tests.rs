//! What a stream or a NIC does wrong is found, and what never comes ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gdsync::hca::sim::{Effect, SimHca};
use gdsync::hca::{Access, Hca as _, MemoryRegion, Request};
use gdsync::wire::Syndrome;
use gdsync::{MemoryLocation, Place};
use gpu::Gpu;

use super::loopback::Ring;
use super::order;
use super::session::{Session, TIMEOUT};
use super::task::{HcaChoice, Task};
use crate::model::Shares;
use crate::probe::depth::{Depth, Terms};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::target::Target;

fn task() -> Task {
    Task {
        target: Target {
            subject: "GPU0".to_owned(),
            ordinal: None,
            bdf: None,
            home: None,
            link: None,
        },
        hca: Some(HcaChoice::Sim),
        terms: Terms {
            depth: Depth::Quick,
            sizes: Vec::new(),
            shares: Shares::default(),
            // The least there is: what never comes is to end soon.
            timeout: Duration::ZERO,
        },
        pingpong: None,
    }
}

fn session<'a>(task: &'a Task, out: &mut Vec<u8>) -> Session<'a> {
    let mut reporter = Reporter::new(out, Duration::ZERO);
    Session::new(task, Gpu::sim(), &mut reporter).expect("a session")
}

/// What a loop of 100 messages of 256 bytes comes to, whose NIC is prepared so.
fn gone_round(prepare: impl FnOnce(&SimHca, u32)) -> Result<Option<String>, StepError> {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = SimHca::new(session.allocator.clone()).expect("a NIC");
    // A queue pair that is made and destroyed, only to learn which number comes next.
    let first = hca
        .create(&Request::default())
        .expect("a pair")
        .endpoint
        .qpn;
    prepare(&hca, first + 1);
    let mut ring = Ring::new(&session, Box::new(hca), 256).expect("a loop");
    assert_eq!(ring.queues.pair.endpoint.qpn, first + 1);
    let gone = ring.by_stream(&session, 100).map(|(_, wrong)| wrong);
    assert!(
        session.stream.is_idle().expect("a stream"),
        "nothing is left that waits"
    );
    gone
}

#[test]
fn a_loop_that_is_right_is_right() {
    assert!(matches!(gone_round(|_, _| {}), Ok(None)));
}

#[test]
fn whatever_fails_in_the_middle_of_a_loop_is_told_with_its_syndrome_and_no_stream_hangs() {
    for told in [
        Syndrome::RemoteAccess,
        Syndrome::LocalProtection,
        Syndrome::TransportRetry,
    ] {
        let effect = Effect::Fail {
            syndrome: told,
            vendor: 0x81,
        };
        match gone_round(|hca, qpn| hca.inject(qpn, 7, effect)) {
            Err(StepError::Wqe {
                syndrome,
                vendor: 0x81,
            }) => assert_eq!(syndrome, told),
            other => panic!("{told:?}: {other:?}"),
        }
    }
}

#[test]
fn a_completion_that_never_comes_is_told_by_its_word_and_the_stream_let_go() {
    // The remote side's message is put off for longer than anybody waits.
    let late = Effect::Delay(TIMEOUT * 3);
    match gone_round(|hca, qpn| hca.inject(qpn, 30, late)) {
        Err(StepError::Released(why)) => assert!(
            why.starts_with("completion 30 did not come within 15"),
            "{why}"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_message_that_is_not_what_a_kernel_wrote_is_found_by_the_kernel_after_the_wait() {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = SimHca::new(session.allocator.clone()).expect("a NIC");
    let mut ring = Ring::new(&session, Box::new(hca), 256).expect("a loop");
    // What is sent is another place.
    let other: Place = session
        .allocator
        .place(MemoryLocation::Host, 4096)
        .expect("memory");
    ring.from = ring.queues.register(&other).expect("registered");
    let wrong = ring
        .by_stream(&session, 5)
        .expect("it ends")
        .1
        .expect("it is told");
    assert!(
        wrong.starts_with("message 1: 64 words are wrong, the first at byte 0"),
        "{wrong}"
    );
}

#[test]
fn a_stream_that_goes_on_by_itself_is_found() {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let words = &session.words[0].1;
    let stop = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Somebody signals before the CPU does.
            while !stop.load(Ordering::Relaxed) {
                words.store_u32(order::SIGNAL, 0x7fff_ffff).expect("a word");
            }
        });
        let wrong = order::tried(&session, words, &order::WAYS[0], 1000);
        stop.store(true, Ordering::Relaxed);
        wrong
    });
    let wrong = wrong.expect("it ends").expect("it is told");
    let words = [
        "the stream did not wait for the signal",
        "what comes after the wait was there before it",
    ];
    assert!(words.iter().any(|words| wrong.ends_with(words)), "{wrong}");
}

#[test]
fn memory_that_is_not_registered_for_it_is_refused_in_words() {
    let (task, mut out) = (task(), Vec::new());
    let session = session(&task, &mut out);
    let hca = SimHca::new(session.allocator.clone()).expect("a NIC");
    let other: Place = session
        .allocator
        .place(MemoryLocation::Host, 4096)
        .expect("memory");
    let foreign = SimHca::new(session.allocator.clone()).expect("another NIC");
    let region = foreign
        .register(&other, Access::ALL)
        .expect("registered elsewhere");
    let mut ring = Ring::new(&session, Box::new(hca), 256).expect("a loop");
    ring.from = MemoryRegion::new(&other, region.lkey + 1000, 0, Box::new(()));
    match ring.by_stream(&session, 5) {
        Err(StepError::Wqe {
            syndrome: Syndrome::LocalProtection,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}
