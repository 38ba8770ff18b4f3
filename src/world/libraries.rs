//! Vendor libraries, read by a child of this binary with a deadline.
//!
//! A crash or hang affects only the child, and its JSON answer can be recorded and replayed.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::child::{MOST, Running};
use crate::input::{json_error, pass_environment};
use crate::keeper;
use crate::model::to_json;
use crate::model::{
    CudaOutcome, Fact, LibraryAnswer, MappingOutcome, Network, NvmlOutcome, P2pCapability,
    RecordedLibraries, RegistrationOutcome, VerbsOutcome, Why,
};
use crate::output::{Redirected, escaped};

mod cuda;
mod doorbell;
mod mapping;
mod network;
mod nvml;
mod registration;
mod verbs;

pub struct Libraries {
    source: Source,
    record: Option<Answers>,
}

enum Source {
    /// Loaded on this machine, each with this timeout.
    Live(Duration),
    /// Answers in files of the directory.
    Directory(BTreeMap<&'static str, Vec<u8>>),
    /// Answers of a snapshot.
    Snapshot(Box<RecordedLibraries>),
}

/// The answers recorded so far.
#[derive(Clone, Default)]
pub struct Answers(Arc<Mutex<RecordedLibraries>>);

impl Answers {
    pub fn take(&self) -> RecordedLibraries {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, RecordedLibraries> {
        // Each answer is one assignment, so a panic leaves no partial state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A library's query: the hidden subcommand of its child, its name, and the answer's file in a directory laid out
/// like a machine.
#[derive(Debug, Clone, Copy)]
struct Library {
    child: &'static str,
    name: &'static str,
    path: &'static str,
}

const NVML: Library =
    Library { child: "__read-nvml", name: "libnvidia-ml.so.1", path: "/gdr/nvml.json" };
const CUDA: Library =
    Library { child: "__read-cuda", name: "libcuda.so.1", path: "/gdr/cuda.json" };
const VERBS: Library =
    Library { child: "__read-verbs", name: "libibverbs.so.1", path: "/gdr/verbs.json" };
const NETWORK: Library = Library {
    child: "__read-network",
    name: "the kernel (netlink, ethtool)",
    path: "/gdr/network.json",
};
const MAPPING: Library =
    Library { child: "__try-mapping", name: "libcuda.so.1", path: "/gdr/mapping.json" };
const REGISTRATION: Library = Library {
    child: "__try-registration",
    name: "libcuda.so.1 or libibverbs.so.1",
    path: "/gdr/registration.json",
};
const ALL: [Library; 6] = [NVML, CUDA, VERBS, NETWORK, MAPPING, REGISTRATION];

/// Why a fact is unknown whose question failed so.
fn unknown(kind: gpu::Kind) -> Why {
    match kind {
        gpu::Kind::Unsupported => Why::NotCovered,
        gpu::Kind::Denied => Why::Denied,
        _ => Why::Broken,
    }
}

/// The type of an answer, and its place among recorded answers.
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
    Network: NETWORK, network;
    MappingOutcome: MAPPING, mapping;
    RegistrationOutcome: REGISTRATION, registration;
}

/// NVML's queries. A P2P status takes 1.7 ms per pair and capability, the details about 15 ms, an error counter of a link 1 ms, and there
/// are three of each of 18 links (H200, driver 580).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlQuery {
    /// NVLinks and their remote ends.
    pub links: bool,
    /// P2P status of each pair.
    pub p2p: bool,
    /// Only this P2P status.
    pub p2p_only: Option<P2pCapability>,
    /// All details of each GPU, but the error counters.
    pub details: bool,
    /// The error counters of its NVLinks.
    pub errors: bool,
    /// Query only from this number of GPUs on: links need two.
    pub from_gpus: usize,
}

impl NvmlQuery {
    /// Everything, for any number of GPUs.
    pub const EVERYTHING: Self =
        Self { links: true, p2p: true, p2p_only: None, details: true, errors: true, from_gpus: 0 };

    pub fn is_any(self) -> bool {
        self.links || self.p2p || self.details || self.errors
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsQuery {
    /// Open and query each device; otherwise only list them.
    pub trials: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkQuery {
    /// Read the counters twice, with an interval.
    pub twice: bool,
}

/// Why a library gave no answer, with a message.
type LibraryFailure = (Why, String);

/// Records an answer.
type Write<T> = Box<dyn FnOnce(&LibraryAnswer<T>)>;

/// A library being read.
pub struct Reading<T> {
    state: AnswerState<T>,
    library: Library,
    /// Reduces a recorded answer to what was queried.
    reduce: Box<dyn FnOnce(T) -> T>,
    /// Records the answer.
    record: Write<T>,
}

enum AnswerState<T> {
    NotCovered,
    Laid(Vec<u8>),
    Recorded(LibraryAnswer<T>),
    Failed(io::Error),
    Running(Running, Duration),
}

impl Libraries {
    /// The libraries of this machine, each with this timeout.
    pub fn live(timeout: Duration) -> Self {
        Self::of(Source::Live(timeout))
    }

    /// Answers from files, for a machine in a directory.
    pub fn laid_out(read: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let path = ALL.iter().filter_map(|library| Some((library.path, read(library.path)?)));
        Self::of(Source::Directory(path.collect()))
    }

    pub fn recorded(answers: RecordedLibraries) -> Self {
        Self::of(Source::Snapshot(Box::new(answers)))
    }

    fn of(source: Source) -> Self {
        Self { source, record: None }
    }

    /// Records all answers.
    pub fn recording(self, answers: Answers) -> Self {
        Self { record: Some(answers), ..self }
    }

    /// True if [`mapping`](Self::mapping) or [`registration`](Self::registration) can run or is recorded.
    pub fn can_try(&self) -> bool {
        match &self.source {
            Source::Live(_) => true,
            Source::Directory(path) => {
                [MAPPING, REGISTRATION].iter().any(|trial| path.contains_key(trial.path))
            }
            Source::Snapshot(answers) => {
                answers.mapping.is_some() || answers.registration.is_some()
            }
        }
    }

    /// Starts NVML; fetch the answer with [`Reading::finish`].
    pub fn nvml(&self, query_options: NvmlQuery) -> Reading<NvmlOutcome> {
        Reading {
            reduce: Box::new(move |outcome| nvml::reduce(outcome, query_options)),
            ..self.query(&query_options)
        }
    }

    /// Starts libcuda, without a context. CUDA takes a quarter of a second per GPU (H200, driver 580), so of many
    /// equal GPUs only these, by UUID, are visible to it; all if empty.
    pub fn cuda(&self, one_per_model: &[String]) -> Reading<CudaOutcome> {
        let shown = (!one_per_model.is_empty()).then(|| one_per_model.join(","));
        self.query_showing(&shown.is_some(), shown.as_deref())
    }

    /// Starts libibverbs.
    pub fn verbs(&self, query_options: VerbsQuery) -> Reading<VerbsOutcome> {
        Reading {
            reduce: Box::new(move |outcome| verbs::reduce(outcome, query_options)),
            ..self.query(&query_options)
        }
    }

    /// Starts a reader of the network interfaces and counters of RDMA ports. It opens no library; a driver may hang all the same.
    pub fn network(&self, query_options: NetworkQuery) -> Reading<Network> {
        Reading {
            reduce: Box::new(move |answer| network::reduce(answer, query_options)),
            ..self.query(&query_options)
        }
    }

    /// Starts a trial: map memory of each GPU for the CPU, write and read it.
    pub fn mapping(&self) -> Reading<MappingOutcome> {
        self.query(&())
    }

    /// Starts a trial: register memory of each GPU with each RDMA device, and doorbells of mlx5 devices with each
    /// GPU. Creates contexts: with an exclusive-process GPU, start it only after [`mapping`](Self::mapping) has
    /// finished.
    pub fn registration(&self) -> Reading<RegistrationOutcome> {
        self.query(&())
    }

    fn query<T: Answer>(&self, query_options: &impl Serialize) -> Reading<T> {
        self.query_showing(query_options, None)
    }

    fn query_showing<T: Answer>(
        &self,
        query_options: &impl Serialize,
        shown: Option<&str>,
    ) -> Reading<T> {
        let library = T::LIBRARY;
        let state = match &self.source {
            Source::Live(timeout) => start(library, query_options, shown, *timeout),
            Source::Directory(path) => {
                path.get(library.path).cloned().map_or(AnswerState::NotCovered, AnswerState::Laid)
            }
            Source::Snapshot(answers) => {
                T::held(answers).clone().map_or(AnswerState::NotCovered, AnswerState::Recorded)
            }
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
    query_options: &impl Serialize,
    shown: Option<&str>,
    timeout: Duration,
) -> AnswerState<T> {
    let start = || {
        let query_options = crate::model::to_json(query_options)?;
        let mut command = keeper::command();
        pass_environment(&mut command);
        // Facts describe the machine, so CUDA_VISIBLE_DEVICES must not restrict them.
        if library.child == CUDA.child {
            match shown {
                Some(gpus) => command.env("CUDA_VISIBLE_DEVICES", gpus),
                None => command.env_remove("CUDA_VISIBLE_DEVICES"),
            };
        }
        Running::start_kept(command.arg(library.child).arg(query_options), timeout)
    };
    match start() {
        Ok(running) => AnswerState::Running(running, timeout),
        Err(error) => AnswerState::Failed(error),
    }
}

impl<T: DeserializeOwned> Reading<T> {
    /// Waits for the answer, at most until the deadline.
    pub fn finish(self) -> Result<Fact<T>, LibraryFailure> {
        let answer = match self.state {
            AnswerState::NotCovered => return Ok(Fact::Unknown(Why::NotCovered)),
            AnswerState::Laid(bytes) => answered(serde_json::from_slice(&bytes).map_err(|error| {
                let Library { path, name, .. } = self.library;
                (Why::Broken, format!("invalid answer of {name} in {path}: {}", json_error(&error)))
            })),
            AnswerState::Recorded(answer) => answer,
            AnswerState::Failed(error) => {
                answered(Err((Why::Broken, format!("cannot start its reader: {error}"))))
            }
            AnswerState::Running(running, timeout) => {
                answered(wait(running, timeout, self.library.name))
            }
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
                "{library} did not answer within {} s and was stopped; a GPU may hang: look for Xid lines in dmesg, or raise \
                 --library-timeout",
                timeout.as_secs_f64()
            ),
        ),
        io::ErrorKind::FileTooLarge => (
            Why::Broken,
            format!(
                "{library} wrote more than {} MiB into the answer of the process that reads it, and was stopped",
                MOST >> 20
            ),
        ),
        _ => (Why::Broken, format!("cannot read its reader's answer: {error}")),
    };
    let output = running.output().map_err(failure)?;
    match serde_json::from_slice(&output) {
        Ok(outcome) => Ok(outcome),
        Err(error) => {
            let status = running.status().map_err(failure)?;
            Err((Why::Broken, ended(library, status, &output, &error)))
        }
    }
}

/// How a library ended its reader or spoiled its answer.
fn ended(library: &str, status: ExitStatus, output: &[u8], error: &serde_json::Error) -> String {
    const KILLED: i32 = 9;
    const PANICKED: i32 = 101;
    match (status.signal(), status.code()) {
        (Some(KILLED), _) => format!(
            "{library}, or a lack of memory, killed the process that reads it ({status}): dmesg names the latter"
        ),
        (Some(_), _) => format!("{library} crashed the process that reads it ({status})"),
        (None, Some(PANICKED)) => {
            format!(
                "the process that reads {library} failed ({status}): lack of memory, or a bug of gdr"
            )
        }
        (None, _) if output.is_empty() => {
            format!("{library} ended the process that reads it, without an answer ({status})")
        }
        (None, _) => format!(
            "{library} wrote into the answer of the process that reads it ({})",
            json_error(error)
        ),
    }
}

/// Answers the parent if this process is such a child. `arguments` follow the program's name. Called first in
/// main.
pub fn answer_for_parent(arguments: &[String]) -> Option<io::Result<()>> {
    let [name, query_options] = arguments else {
        return None;
    };
    let read: fn(&[u8]) -> serde_json::Result<String> = match name.as_str() {
        name if name == NVML.child => {
            |query_options| to_json(&nvml::read(serde_json::from_slice(query_options)?))
        }
        name if name == CUDA.child => {
            |query_options| to_json(&cuda::read(serde_json::from_slice(query_options)?))
        }
        name if name == VERBS.child => {
            |query_options| to_json(&verbs::read(serde_json::from_slice(query_options)?))
        }
        name if name == NETWORK.child => {
            |query_options| to_json(&network::read(serde_json::from_slice(query_options)?))
        }
        name if name == MAPPING.child => |_| to_json(&mapping::try_each()),
        name if name == REGISTRATION.child => |_| to_json(&registration::try_each()),
        _ => return None,
    };
    let answer = || {
        keeper::end_with_parent()?;
        let redirected = Redirected::begin()?;
        let mut out = escaped(redirected.original()?);
        // The C library writes what it has buffered at the exit.
        std::mem::forget(redirected);
        out.write_all(read(query_options.as_bytes())?.as_bytes())?;
        out.flush()
    };
    Some(answer())
}
