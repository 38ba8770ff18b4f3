//! What a rank has: a GPU, streams, the connection to the other rank, and registered memory.

use std::time::Duration;

use gdrcopy::{BackendKind, Gdr};
use gdsync::Allocator;
use gpu::{Gpu, HostMemory, Stream};
use mp::{Communicator, HcaKind, Options, Request, Window};

use super::memory::Memory;
use super::talk::{Exchange, Peer};
use super::task::{Side, Task};
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;
use crate::probe::verdict::Subject;

/// Time to open the GPU and the HCA, for both ranks.
pub const OPEN_TIME: Duration = Duration::from_secs(30);
/// Timeout of every wait of the crate `mp`.
const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Session<'a> {
    pub task: &'a Task,
    pub peer: Peer,
    // Dropped before the streams, which it releases.
    pub memory: Memory,
    pub window: Window,
    pub ranks: Communicator,
    pub stream: Stream,
    /// Copies while `stream` waits.
    pub reader: Stream,
    /// Work of `stream` begins when its word is not 0.
    pub gate: HostMemory,
    pub gpu: Gpu,
    pub about: Subject,
}

impl<'a> Session<'a> {
    pub fn new(task: &'a Task, peer: Peer, reporter: &mut Reporter<'_>) -> Result<Self, StepError> {
        reporter.doing_for("CUDA to open the GPU in two processes", OPEN_TIME)?;
        let gpu = task.target.open()?;
        gpu.load_kernels()?;
        let probed = task.target.probed(&gpu.device().name);
        reporter.send(&Event::Gpu(Box::new(probed)))?;
        let side = task.side;
        let exchange = Exchange { peer: peer.clone(), side };
        let allocator = Allocator::new(gpu.clone(), mapping(task, reporter)?);
        reporter.doing_for("the HCA, and the other process to open it", OPEN_TIME)?;
        let mut exchange = Box::new(exchange);
        let opened = task.hca.selection().open(&mut *exchange, &allocator, OPEN_TIME)?;
        if side == Side::Client {
            reporter.note(format!("the HCA is the {}", opened.name))?;
            if let Some(why) = &opened.fallback {
                reporter.note(format!("the GPU cannot ring its doorbells: {why}"))?;
            }
        }
        let options = Options { timeout: TIMEOUT + task.terms.timeout, ..Options::default() };
        let ranks = Communicator::connect(exchange, opened.hca, allocator, options)?;
        let memory = Memory::new(&ranks, task.room)?;
        if let (Side::Client, Some(why)) = (side, &memory.fallback) {
            reporter.note(format!("messages lie in pinned host memory: {why}"))?;
        }
        let hca = match opened.kind {
            HcaKind::Software => "sim-hca",
            HcaKind::Mlx5 => "mlx5",
            HcaKind::Proxy | HcaKind::Auto => "proxy",
        };
        Ok(Self {
            window: ranks.window(&memory.region)?,
            about: Subject {
                subject: task.subject.clone(),
                backend: format!("{}+{hca}", task.target.cuda()),
                numa: None,
            },
            stream: gpu.stream()?,
            reader: gpu.stream()?,
            gate: gpu.pinned(4)?,
            memory,
            ranks,
            gpu,
            peer,
            task,
        })
    }

    /// The other rank.
    pub fn other(&self) -> u32 {
        1 - self.ranks.rank()
    }

    /// Waits for requests, and frees them.
    pub fn wait_all(&self, requests: Vec<Request>) -> Result<(), StepError> {
        for request in requests {
            self.ranks.wait(request)?;
        }
        Ok(())
    }

    /// Waits for the stream, whose waits have ended.
    pub fn finish(&self) -> Result<(), StepError> {
        Ok(self.stream.synchronize_within(self.ranks.timeout())?)
    }
}

/// What lets the software HCA, a thread of the CPU, access GPU memory.
fn mapping(task: &Task, reporter: &mut Reporter<'_>) -> Result<Option<Gdr>, StepError> {
    if task.hca != HcaChoice::Sim {
        return Ok(None);
    }
    reporter.doing("a backend that maps GPU memory for the CPU")?;
    let gdr = match task.target.ordinal {
        None => Gdr::open_with(BackendKind::Sim),
        Some(_) => Gdr::open(),
    };
    // Without it `Memory` says why it uses host memory.
    Ok(gdr.ok())
}
