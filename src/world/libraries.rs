//! Vendor libraries, read by a child of this binary with a deadline.
//!
//! A library that crashes or hangs takes the child with it and nothing else, and what the child answers is plain JSON:
//! isolation, parallel work and replay in one.

use std::io::{self, Write};
use std::marker::PhantomData;
use std::process::Command;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::child::Running;
use crate::model::{Fact, MappingOutcome, NvmlOutcome, P2pCapability, Why};

mod mapping;
mod nvml;

/// The vendor libraries of a world.
pub enum Libraries {
    /// Loaded on the machine gdr runs on; each may take so long.
    Live(Duration),
    /// What NVML answered when the machine was recorded, where that was recorded.
    Recorded(Option<Vec<u8>>),
}

/// Where a directory laid out like a machine holds what NVML answered there.
pub const RECORDED: &str = "/gdr/nvml.json";

/// What to ask NVML. Each part costs time: a P2P status 1.7 ms a pair and capability, the details about 15 ms (H200,
/// driver 580).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmlWant {
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

impl NvmlWant {
    /// Whether anything is wanted.
    pub fn is_any(self) -> bool {
        self.links || self.p2p || self.details
    }
}

/// A reading of NVML under way.
pub type NvmlReading = Reading<NvmlOutcome>;
/// A trial of mapping GPU memory under way.
pub type MappingReading = Reading<MappingOutcome>;

/// A library being read by a child, for the outcome `T`.
pub struct Reading<T> {
    state: State,
    library: &'static str,
    outcome: PhantomData<T>,
}

enum State {
    NotCovered,
    Recorded(Vec<u8>),
    Failed(io::Error),
    Running(Running, Duration),
}

/// The hidden subcommands that children are started with, and the library each is for.
const NVML: (&str, &str) = ("__read-nvml", "libnvidia-ml.so.1");
const MAPPING: (&str, &str) = ("__try-mapping", "libcuda.so.1");

impl Libraries {
    /// Starts to read NVML; the answer is fetched with [`Reading::finish`].
    pub fn nvml(&self, want: NvmlWant) -> NvmlReading {
        match self {
            Self::Live(patience) => start(NVML, &want, *patience),
            Self::Recorded(Some(answer)) => Reading::of(NVML, State::Recorded(answer.clone())),
            Self::Recorded(None) => Reading::of(NVML, State::NotCovered),
        }
    }

    /// Starts to map memory of each GPU for the CPU, write and read it; the outcome is fetched with [`Reading::finish`].
    pub fn mapping(&self) -> MappingReading {
        match self {
            Self::Live(patience) => start(MAPPING, &(), *patience),
            Self::Recorded(_) => Reading::of(MAPPING, State::NotCovered),
        }
    }
}

fn start<T>((child, library): (&'static str, &'static str), want: &impl Serialize, patience: Duration) -> Reading<T> {
    let start = || {
        let want = serde_json::to_string(want)?;
        // The file this process runs from, even where it has been replaced or its path is out of reach.
        let mut command = Command::new("/proc/self/exe");
        Running::start(command.arg(child).arg(want), patience)
    };
    let state = match start() {
        Ok(running) => State::Running(running, patience),
        Err(error) => State::Failed(error),
    };
    Reading::of((child, library), state)
}

impl<T> Reading<T> {
    fn of((_, library): (&'static str, &'static str), state: State) -> Self {
        Self {
            state,
            library,
            outcome: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Reading<T> {
    /// Waits for the answer, until the deadline at most. An error is why there is none, and a sentence about it.
    pub fn finish(self) -> Result<Fact<T>, (Why, String)> {
        let library = self.library;
        let (mut running, patience) = match self.state {
            State::NotCovered => return Ok(Fact::Unknown(Why::NotCovered)),
            State::Recorded(bytes) => {
                return serde_json::from_slice(&bytes)
                    .map(Fact::Known)
                    .map_err(|error| (Why::Broken, format!("{RECORDED} holds no answer of NVML: {error}")));
            }
            State::Failed(error) => return Err((Why::Broken, format!("its reader could not be started: {error}"))),
            State::Running(running, patience) => (running, patience),
        };
        let trouble = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => (
                Why::TimedOut,
                format!(
                    "{library} did not answer within {} s and was stopped; a GPU that hangs shows so: see \
                     dmesg for Xid lines, or give it longer with --library-timeout",
                    patience.as_secs_f64()
                ),
            ),
            _ => (Why::Broken, format!("its reader's answer could not be read: {error}")),
        };
        let output = running.output().map_err(trouble)?;
        match serde_json::from_slice(&output) {
            Ok(outcome) => Ok(Fact::Known(outcome)),
            Err(error) => {
                let status = running.status().map_err(trouble)?;
                Err((
                    Why::Broken,
                    format!("{library} ended its reader ({status}) or spoilt its answer ({error})"),
                ))
            }
        }
    }
}

/// If this process is such a child, answers its parent. The arguments are those after the program's name.
///
/// Called first thing in main, before anything costs time.
pub fn answer_for_parent(arguments: &[String], out: &mut dyn Write) -> Option<io::Result<()>> {
    let [name, want] = arguments else {
        return None;
    };
    let read: fn(&str) -> serde_json::Result<Vec<u8>> = match name.as_str() {
        name if name == NVML.0 => |want| serde_json::to_vec(&nvml::read(serde_json::from_str(want)?)),
        name if name == MAPPING.0 => |_| serde_json::to_vec(&mapping::try_each()),
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
