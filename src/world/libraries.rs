//! Vendor libraries, read by a child of this binary with a deadline.
//!
//! A library that crashes or hangs takes the child with it and nothing else, and what the child answers is plain JSON:
//! isolation, parallel work and replay in one.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::child::Running;
use crate::input::{json_error, pass_environment};
use crate::model::{
    CudaOutcome, Fact, LibraryAnswer, MappingOutcome, NvmlOutcome, P2pCapability,
    RecordedLibraries, RegistrationOutcome, VerbsOutcome, Why,
};

mod cuda;
mod doorbell;
mod mapping;
mod nvml;
mod registration;
mod verbs;

/// The vendor libraries of a world.
pub struct Libraries {
    source: Source,
    record: Option<Answers>,
}

enum Source {
    /// Loaded on the machine gdr runs on; each may take so long.
    Live(Duration),
    /// What those answered whose answers were laid out beside the machine, by file.
    Directory(BTreeMap<&'static str, Vec<u8>>),
    /// What they answered when the snapshot was taken.
    Snapshot(Box<RecordedLibraries>),
}

/// What the libraries of a recorded world answered so far.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<RecordedLibraries>>);

impl Answers {
    pub fn take(&self) -> RecordedLibraries {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, RecordedLibraries> {
        // Each answer is written in one assignment: what a panic left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question to a library: the hidden subcommand its reader is started with, the library's name, and the file in which a
/// directory laid out like a machine holds what was answered there.
#[derive(Debug, Clone, Copy)]
struct Library {
    child: &'static str,
    name: &'static str,
    laid: &'static str,
}

const NVML: Library = Library {
    child: "__read-nvml",
    name: "libnvidia-ml.so.1",
    laid: "/gdr/nvml.json",
};
const CUDA: Library = Library {
    child: "__read-cuda",
    name: "libcuda.so.1",
    laid: "/gdr/cuda.json",
};
const VERBS: Library = Library {
    child: "__read-verbs",
    name: "libibverbs.so.1",
    laid: "/gdr/verbs.json",
};
const MAPPING: Library = Library {
    child: "__try-mapping",
    name: "libcuda.so.1",
    laid: "/gdr/mapping.json",
};
const REGISTRATION: Library = Library {
    child: "__try-registration",
    name: "libcuda.so.1 or libibverbs.so.1",
    laid: "/gdr/registration.json",
};
const ALL: [Library; 5] = [NVML, CUDA, VERBS, MAPPING, REGISTRATION];

/// What a library is read for, and its place among recorded answers.
trait Answer: Serialize + DeserializeOwned + Clone + 'static {
    const LIBRARY: Library;
    fn held(answers: &RecordedLibraries) -> &Option<LibraryAnswer<Self>>;
    fn place(answers: &mut RecordedLibraries) -> &mut Option<LibraryAnswer<Self>>;
}

macro_rules! answers {
    ($($outcome:ty: $library:expr, $field:ident;)*) => {$(
        impl Answer for $outcome {
            const LIBRARY: Library = $library;

            fn held(answers: &RecordedLibraries) -> &Option<LibraryAnswer<Self>> {
                &answers.$field
            }

            fn place(answers: &mut RecordedLibraries) -> &mut Option<LibraryAnswer<Self>> {
                &mut answers.$field
            }
        }
    )*};
}

answers! {
    NvmlOutcome: NVML, nvml;
    CudaOutcome: CUDA, cuda;
    VerbsOutcome: VERBS, verbs;
    MappingOutcome: MAPPING, mapping;
    RegistrationOutcome: REGISTRATION, registration;
}

/// What to ask NVML. Each part costs time: a P2P status 1.7 ms a pair and capability, the details about 15 ms (H200,
/// driver 580).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlQuery {
    /// NVLinks and their remote ends.
    pub links: bool,
    /// Peer-to-peer status and common ancestor of each pair.
    pub p2p: bool,
    /// Of the peer-to-peer statuses this one alone.
    pub p2p_only: Option<P2pCapability>,
    /// Everything about each GPU.
    pub details: bool,
    /// Ask only where the driver has at least so many GPUs: links are between two.
    pub from_gpus: usize,
}

impl NvmlQuery {
    /// All there is to ask, however few GPUs there are.
    pub const EVERYTHING: Self = Self {
        links: true,
        p2p: true,
        p2p_only: None,
        details: true,
        from_gpus: 0,
    };

    /// Whether anything is wanted.
    pub fn is_any(self) -> bool {
        self.links || self.p2p || self.details
    }
}

/// What to ask libibverbs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsQuery {
    /// Each device is opened and asked; else the library is only asked which devices it serves.
    pub trials: bool,
}

/// Why a library gave no answer, and a sentence about it.
type LibraryFailure = (Why, String);

/// Writes an answer down.
type Write<T> = Box<dyn FnOnce(&LibraryAnswer<T>)>;

/// A library being read by a child, for the outcome `T`.
pub struct Reading<T> {
    state: State<T>,
    library: Library,
    /// What was asked of a recorded answer, which may hold more.
    reduce: Box<dyn FnOnce(T) -> T>,
    /// Writes the answer down.
    record: Write<T>,
}

enum State<T> {
    NotCovered,
    Laid(Vec<u8>),
    Recorded(LibraryAnswer<T>),
    Failed(io::Error),
    Running(Running, Duration),
}

impl Libraries {
    /// Those of the machine gdr runs on; each may take so long.
    pub fn live(timeout: Duration) -> Self {
        Self::of(Source::Live(timeout))
    }

    /// Those of a laid-out machine: what they answered there, where `read` has it.
    pub fn laid_out(read: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let laid = ALL
            .iter()
            .filter_map(|library| Some((library.laid, read(library.laid)?)));
        Self::of(Source::Directory(laid.collect()))
    }

    /// Those of a snapshot.
    pub fn recorded(answers: RecordedLibraries) -> Self {
        Self::of(Source::Snapshot(Box::new(answers)))
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            record: None,
        }
    }

    /// The same, writing down what they answer.
    pub fn recording(self, answers: Answers) -> Self {
        Self {
            record: Some(answers),
            ..self
        }
    }

    /// Whether [`mapping`](Self::mapping) or [`registration`](Self::registration) tries, or knows what came of trying.
    pub fn can_try(&self) -> bool {
        match &self.source {
            Source::Live(_) => true,
            Source::Directory(laid) => [MAPPING, REGISTRATION]
                .iter()
                .any(|trial| laid.contains_key(trial.laid)),
            Source::Snapshot(answers) => {
                answers.mapping.is_some() || answers.registration.is_some()
            }
        }
    }

    /// Starts to read NVML; the answer is fetched with [`Reading::finish`].
    pub fn nvml(&self, want: NvmlQuery) -> Reading<NvmlOutcome> {
        Reading {
            reduce: Box::new(move |outcome| nvml::reduce(outcome, want)),
            ..self.ask(&want)
        }
    }

    /// Starts to read libcuda, without a context. Of many GPUs that are alike these are shown to it, by UUID, and no others:
    /// it takes a quarter of a second to start for each (H200, driver 580). All are where none is named.
    pub fn cuda(&self, one_of_each: &[String]) -> Reading<CudaOutcome> {
        let shown = (!one_of_each.is_empty()).then(|| one_of_each.join(","));
        self.ask_showing(&shown.is_some(), shown.as_deref())
    }

    /// Starts to read libibverbs.
    pub fn verbs(&self, want: VerbsQuery) -> Reading<VerbsOutcome> {
        Reading {
            reduce: Box::new(move |outcome| verbs::reduce(outcome, want)),
            ..self.ask(&want)
        }
    }

    /// Starts to map memory of each GPU for the CPU, write and read it.
    pub fn mapping(&self) -> Reading<MappingOutcome> {
        self.ask(&())
    }

    /// Starts to register memory of each GPU with each RDMA device, and the doorbells of mlx5 devices with each GPU. It makes contexts on the GPUs, and one that is for one
    /// process alone is busy while another trial holds it: to be started when [`mapping`](Self::mapping) has answered.
    pub fn registration(&self) -> Reading<RegistrationOutcome> {
        self.ask(&())
    }

    fn ask<T: Answer>(&self, want: &impl Serialize) -> Reading<T> {
        self.ask_showing(want, None)
    }

    fn ask_showing<T: Answer>(&self, want: &impl Serialize, shown: Option<&str>) -> Reading<T> {
        let library = T::LIBRARY;
        let state = match &self.source {
            Source::Live(timeout) => start(library, want, shown, *timeout),
            Source::Directory(laid) => laid
                .get(library.laid)
                .cloned()
                .map_or(State::NotCovered, State::Laid),
            Source::Snapshot(answers) => T::held(answers)
                .clone()
                .map_or(State::NotCovered, State::Recorded),
        };
        let record = self.record.clone();
        Reading {
            state,
            library,
            reduce: Box::new(|outcome| outcome),
            record: Box::new(move |answer| {
                if let Some(record) = record {
                    *T::place(&mut record.lock()) = Some(answer.clone());
                }
            }),
        }
    }
}

fn start<T>(
    library: Library,
    want: &impl Serialize,
    shown: Option<&str>,
    timeout: Duration,
) -> State<T> {
    let start = || {
        let want = serde_json::to_string(want)?;
        // The file this process runs from, even where it has been replaced or its path is out of reach.
        let mut command = Command::new("/proc/self/exe");
        pass_environment(&mut command);
        // The facts are the machine's: what this process was left to see of its GPUs is no part of them.
        if library.child == CUDA.child {
            match shown {
                Some(gpus) => command.env("CUDA_VISIBLE_DEVICES", gpus),
                None => command.env_remove("CUDA_VISIBLE_DEVICES"),
            };
        }
        Running::start(command.arg(library.child).arg(want), timeout)
    };
    match start() {
        Ok(running) => State::Running(running, timeout),
        Err(error) => State::Failed(error),
    }
}

impl<T: DeserializeOwned> Reading<T> {
    /// Waits for the answer, until the deadline at most. An error is why there is none, and a sentence about it.
    pub fn finish(self) -> Result<Fact<T>, LibraryFailure> {
        let answer = match self.state {
            State::NotCovered => return Ok(Fact::Unknown(Why::NotCovered)),
            State::Laid(bytes) => answered(serde_json::from_slice(&bytes).map_err(|error| {
                let Library { laid, name, .. } = self.library;
                (
                    Why::Broken,
                    format!("{laid} holds no answer of {name}: {}", json_error(&error)),
                )
            })),
            State::Recorded(answer) => answer,
            State::Failed(error) => answered(Err((
                Why::Broken,
                format!("its reader could not be started: {error}"),
            ))),
            State::Running(running, timeout) => answered(wait(running, timeout, self.library.name)),
        };
        (self.record)(&answer);
        match answer {
            LibraryAnswer::Answered(outcome) => Ok(Fact::Known((self.reduce)(outcome))),
            LibraryAnswer::Failed { why, message } => Err((why, message)),
        }
    }
}

fn answered<T>(result: Result<T, LibraryFailure>) -> LibraryAnswer<T> {
    match result {
        Ok(outcome) => LibraryAnswer::Answered(outcome),
        Err((why, message)) => LibraryAnswer::Failed { why, message },
    }
}

fn wait<T: DeserializeOwned>(
    mut running: Running,
    timeout: Duration,
    library: &str,
) -> Result<T, LibraryFailure> {
    let failure = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => (
            Why::TimedOut,
            format!(
                "{library} did not answer within {} s and was stopped; a GPU that hangs shows so: see dmesg for Xid \
                 lines, or give it longer with --library-timeout",
                timeout.as_secs_f64()
            ),
        ),
        _ => (
            Why::Broken,
            format!("its reader's answer could not be read: {error}"),
        ),
    };
    let output = running.output().map_err(failure)?;
    match serde_json::from_slice(&output) {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            let status = running.status().map_err(failure)?;
            Err((
                Why::Broken,
                format!(
                    "{library} ended its reader ({status}) or spoilt its answer ({})",
                    json_error(&error)
                ),
            ))
        }
    }
}

/// If this process is such a child, answers its parent. The arguments are those after the program's name.
///
/// Called first thing in main, before anything costs time.
pub fn answer_for_parent(arguments: &[String], out: &mut dyn io::Write) -> Option<io::Result<()>> {
    let [name, want] = arguments else {
        return None;
    };
    let read: fn(&str) -> serde_json::Result<Vec<u8>> = match name.as_str() {
        name if name == NVML.child => {
            |want| serde_json::to_vec(&nvml::read(serde_json::from_str(want)?))
        }
        name if name == CUDA.child => {
            |want| serde_json::to_vec(&cuda::read(serde_json::from_str(want)?))
        }
        name if name == VERBS.child => {
            |want| serde_json::to_vec(&verbs::read(serde_json::from_str(want)?))
        }
        name if name == MAPPING.child => |_| serde_json::to_vec(&mapping::try_each()),
        name if name == REGISTRATION.child => |_| serde_json::to_vec(&registration::try_each()),
        _ => return None,
    };
    let mut answer = || {
        // An orphan's answer is for nobody.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        out.write_all(&read(want)?)?;
        out.flush()
    };
    Some(answer())
}
