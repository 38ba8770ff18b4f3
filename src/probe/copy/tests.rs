//! The checks find wrong bytes: each gets a mapping of other memory than it expects.

use std::time::Duration;

use gdrcopy::{BackendKind, Gdr};
use gpu::{Allocation, Gpu};

use super::check::{Check, Part, Verified};
use super::session::{Session, map};
use super::task::{Choices, Task};
use super::{kernels_check, sweep};
use crate::model::{ProbeResult, ProbeVerdict};
use crate::probe::events::{Event, Reporter};
use crate::probe::target::Target;
use crate::probe::terms::Terms;

const BYTES: usize = 8192;

fn task() -> Task {
    Task {
        target: Target::simulated(),
        node: None,
        sweep_only: true,
        backend: None,
        choices: Choices::default(),
        terms: Terms::quick(&[100, BYTES], Duration::from_secs(10)),
    }
}

fn session<'a>(task: &'a Task, reporter: &mut Reporter<'_>) -> Session<'a> {
    let gdr = Gdr::open_with(BackendKind::Sim);
    Session::new(task, Gpu::sim(), gdr, Vec::new(), reporter)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

/// The memory's address and the results of a part of the task. If `crossed`, the session maps other memory.
fn results(
    crossed: bool,
    work: fn(&mut Session<'_>, &mut Reporter<'_>),
) -> (u64, Vec<ProbeResult>) {
    let (task, mut out) = (task(), Vec::new());
    let mut reporter = Reporter::new(&mut out, task.terms.timeout);
    let mut session = session(&task, &mut reporter);
    let address = session.memory.address().get();
    let other = session.gpu.allocate(Allocation::Malloc, session.memory.len()).expect("memory");
    if crossed {
        session.mapping = map(&session.gdr, &other).expect("a mapping");
    }
    work(&mut session, &mut reporter);
    drop(session);
    let text = String::from_utf8(out).expect("text");
    let events = text.lines().map(|line| serde_json::from_str(line).expect("an event"));
    let results = events.filter_map(|event| match event {
        Event::Result(result) => Some(*result),
        _ => None,
    });
    (address, results.collect())
}

#[test]
fn sweeps_and_kernels_locate_wrong_bytes() {
    for (work, name) in [
        (
            (|session, reporter| sweep::run(session, reporter).expect("results"))
                as fn(&mut Session<'_>, &mut Reporter<'_>),
            "copy.",
        ),
        (
            |session, reporter| kernels_check::run(session, reporter).expect("results"),
            "validate.kernel.",
        ),
    ] {
        let (_, fine) = results(false, work);
        assert!(!fine.is_empty());
        for result in fine {
            assert_eq!(result.verdict, ProbeVerdict::Ok, "{result:?}");
        }
        let (address, wrong) = results(true, work);
        assert!(!wrong.is_empty());
        for result in wrong {
            assert!(result.name.starts_with(name), "{result:?}");
            assert_eq!((result.verdict, result.median), (ProbeVerdict::Wrong, None), "{result:?}");
            let reason = result.reason.expect("a reason");
            let at = reason.split(':').next().and_then(|word| word.strip_prefix("0x"));
            let at = u64::from_str_radix(at.expect("an address"), 16).expect("a number");
            assert!((address..address + (4 << 20)).contains(&at), "{reason}");
            assert!(reason.contains(" is 0x") && reason.contains("should be 0x"), "{reason}");
        }
    }
}

#[test]
fn allocation_checks_locate_wrong_bytes() {
    let (task, mut out, mut events) = (task(), Vec::new(), Vec::new());
    let session = session(&task, &mut Reporter::new(&mut out, task.terms.timeout));
    let allocate = || session.gpu.allocate(Allocation::Malloc, BYTES).expect("memory");
    let (memory, other) = (allocate(), allocate());
    for crossed in [false, true] {
        let mapped = if crossed { &other } else { &memory };
        let mut mapping = map(&session.gdr, mapped).expect("a mapping");
        let mut check = Check {
            session: &session,
            memory: &memory,
            mapping: &mut mapping,
            reporter: &mut Reporter::new(&mut events, task.terms.timeout),
        };
        for part in Part::ALL {
            match check.run(part).unwrap_or_else(|failure| panic!("{failure}")) {
                Verified::Right(bytes) => assert!(!crossed && bytes >= BYTES, "{part:?}: {bytes}"),
                Verified::Wrong(reason) => {
                    assert!(crossed, "{part:?}: {reason}");
                    let start = format!("{:#x}", memory.address().get() >> 16);
                    assert!(
                        reason.starts_with(&start) && reason.contains("should be"),
                        "{part:?}: {reason}"
                    );
                }
            }
        }
    }
}
