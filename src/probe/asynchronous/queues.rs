//! A queue pair, connected to itself or to another process's, and memory that its NIC moves.

use std::time::{Duration, Instant};

use gdsync::Place;
use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::proxy::ProxyHca;
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::queue::Waiting;
use gdsync::wire::Completion;
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

/// The NIC, and a queue pair on it.
pub struct Queues {
    // Dropped in this order: the pair is destroyed while its NIC is there.
    pub pair: QueuePair,
    hca: Box<dyn Hca>,
}

impl HcaChoice {
    pub fn open(&self, session: &Session<'_>) -> Result<Box<dyn Hca>, StepError> {
        Ok(match self {
            Self::Sim => Box::new(SimHca::new(session.allocator.clone())?),
            Self::Mlx5(port) => {
                let (context, options) = opened(port)?;
                Box::new(Mlx5Hca::open(session.allocator.clone(), &context, options)?)
            }
            Self::Proxy(port) => {
                let (context, options) = opened(port)?;
                Box::new(ProxyHca::open(
                    session.allocator.clone(),
                    &context,
                    options,
                )?)
            }
        })
    }
}

fn opened(port: &Port) -> Result<(Context, Options), StepError> {
    let options = Options {
        port: port.number,
        gid_index: port.gid,
        ..Options::default()
    };
    Ok((Context::open(&port.device)?, options))
}

impl Queues {
    /// On a NIC, connected to itself, with room for so many messages at once, each of two blocks at most.
    pub fn new(session: &Session<'_>, hca: Box<dyn Hca>, messages: u32) -> Result<Self, StepError> {
        let queues = Self::alone(session, hca, messages)?;
        queues.connect(queues.pair.endpoint)?;
        Ok(queues)
    }

    /// The same, connected to nobody.
    pub fn alone(
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
            waiting: match session.can.nor {
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

    /// Registers all of a place for SEND and RECV: the other end needs no rkey.
    pub fn register(&self, place: &Place) -> Result<MemoryRegion, StepError> {
        Ok(self.hca.register(place, MESSAGES)?)
    }

    /// Registers all of a place as the target of RDMA WRITE.
    pub fn register_target(&self, place: &Place) -> Result<MemoryRegion, StepError> {
        let access = Access {
            remote_write: true,
            ..MESSAGES
        };
        Ok(self.hca.register(place, access)?)
    }

    /// Takes what has completed, and says how many messages arrived.
    pub fn completed(&mut self) -> Result<u32, StepError> {
        while let Some(completion) = self.pair.send_completions.poll()? {
            refused(&completion)?;
            self.pair.send.complete(&completion)?;
        }
        let mut arrived = 0;
        while let Some(completion) = self.pair.receive_completions.poll()? {
            refused(&completion)?;
            self.pair.receive.complete(&completion)?;
            arrived += 1;
        }
        Ok(arrived)
    }

    /// Polls until a message has arrived; false where none does within the time.
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

/// What failed is an error.
fn refused(completion: &Completion) -> Result<(), StepError> {
    match completion.event.failed() {
        None => Ok(()),
        Some(failed) => Err(StepError::Wqe {
            syndrome: failed.syndrome,
            vendor: failed.vendor,
        }),
    }
}
