//! A queue pair, connected to itself or to that of another process, and its registered memory.

use std::time::{Duration, Instant};

use gdsync::Place;
use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::proxy::ProxyHca;
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::Completion;
use gpu::{Allocation, DeviceMemory, pointer};
use verbs::Context;

use super::session::Session;
use super::task::HcaChoice;
use crate::probe::failure::StepError;
use crate::probe::rdma::Port;

/// Access that SEND and RECV need.
const MESSAGES: Access = Access {
    local_write: true,
    ..Access::NONE
};

/// GPU memory for messages.
pub fn allocate(session: &Session<'_>, bytes: usize) -> Result<DeviceMemory, StepError> {
    let bytes = bytes.next_multiple_of(64 << 10);
    let memory = session.gpu.allocate(Allocation::Malloc, bytes)?;
    if !session.gpu.is_sim() {
        // Ignored: a driver without the attribute needs none for the copies of this probe.
        let _ = pointer::set_sync_memops(memory.address());
    }
    Ok(memory)
}

/// An HCA and a queue pair on it.
pub struct Queues {
    // Drop order: the queue pair before its HCA.
    pub pair: QueuePair,
    hca: Box<dyn Hca>,
}

impl HcaChoice {
    pub fn open(&self, session: &Session<'_>) -> Result<Box<dyn Hca>, StepError> {
        Ok(match self {
            Self::Sim => Box::new(SimHca::new(session.allocator.clone())?),
            Self::Mlx5(port) => {
                let (context, options) = open_port(port)?;
                Box::new(Mlx5Hca::open(session.allocator.clone(), &context, options)?)
            }
            Self::Proxy(port) => {
                let (context, options) = open_port(port)?;
                Box::new(ProxyHca::open(
                    session.allocator.clone(),
                    &context,
                    options,
                )?)
            }
        })
    }
}

fn open_port(port: &Port) -> Result<(Context, Options), StepError> {
    let options = Options {
        port: port.number,
        gid_index: port.gid,
        ..Options::default()
    };
    Ok((Context::open(&port.device)?, options))
}

impl Queues {
    /// Queues for `messages` in flight, of at most two WQE blocks each, connected to themselves.
    pub fn new(session: &Session<'_>, hca: Box<dyn Hca>, messages: u32) -> Result<Self, StepError> {
        let queues = Self::unconnected(session, hca, messages)?;
        queues.connect(queues.pair.endpoint)?;
        Ok(queues)
    }

    /// Queues without a connection.
    pub fn unconnected(
        session: &Session<'_>,
        hca: Box<dyn Hca>,
        messages: u32,
    ) -> Result<Self, StepError> {
        let depth = messages.next_power_of_two();
        let pair = hca.create(&Request {
            send_blocks: depth * 2,
            receives: depth,
            receive_segments: 1,
            send_completions: depth,
            receive_completions: depth,
            waiting: match session.capabilities.nor {
                true => Waiting::Nor,
                false => Waiting::WithoutNor,
            },
            ..Request::default()
        })?;
        Ok(Self { pair, hca })
    }

    pub fn connect(&self, remote: Endpoint) -> Result<(), StepError> {
        Ok(self
            .hca
            .connect(self.pair.endpoint, remote, RetryPolicy::default())?)
    }

    /// Registers memory for SEND and RECV, which need no rkey.
    pub fn register(&self, place: &Place) -> Result<MemoryRegion, StepError> {
        Ok(self.hca.register(place, MESSAGES)?)
    }

    /// Registers memory as the target of RDMA WRITE.
    pub fn register_target(&self, place: &Place) -> Result<MemoryRegion, StepError> {
        let access = Access {
            remote_write: true,
            ..MESSAGES
        };
        Ok(self.hca.register(place, access)?)
    }

    /// Registers GPU memory; the error is a sentence.
    pub fn register_gpu(
        &self,
        session: &Session<'_>,
        memory: &DeviceMemory,
    ) -> Result<(Place, MemoryRegion), String> {
        let gdr = session.allocator.gdr();
        let gdr = gdr.ok_or("no backend maps GPU memory for the CPU")?;
        let place = Place::device(memory.clone(), gdr).map_err(|error| gpu::sentence(&error))?;
        let region = self.register(&place);
        let region = region.map_err(|error| gpu::sentence(&error))?;
        Ok((place, region))
    }

    /// Polls both completion queues, and returns the number of received messages.
    pub fn completed(&mut self) -> Result<u32, StepError> {
        while let Some(completion) = self.pair.send_completions.poll()? {
            check(&completion)?;
            self.pair.send.complete(&completion)?;
        }
        let mut arrived = 0;
        while let Some(completion) = self.pair.receive_completions.poll()? {
            check(&completion)?;
            self.pair.receive.complete(&completion)?;
            arrived += 1;
        }
        Ok(arrived)
    }

    /// Polls until a message arrives; false after the timeout.
    pub fn arrives(&mut self, timeout: Duration) -> Result<bool, StepError> {
        let begun = Instant::now();
        while self.completed()? == 0 {
            if begun.elapsed() > timeout {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
        Ok(true)
    }
}

/// The error of a failed WQE.
fn check(completion: &Completion) -> Result<(), StepError> {
    match completion.event.failed() {
        None => Ok(()),
        Some(failed) => Err(StepError::Wqe {
            syndrome: failed.syndrome,
            vendor: failed.vendor,
        }),
    }
}
