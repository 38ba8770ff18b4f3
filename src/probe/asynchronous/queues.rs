//! A queue pair, connected to itself or to another process's, and memory that its card moves.

use std::time::{Duration, Instant};

use gdsync::Place;
use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::proxy::ProxyHca;
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Endpoint, Hca, Patience, QueuePair, Region, Request};
use gdsync::queue::Waiting;
use gdsync::wire::Completion;
use verbs::Context;

use super::Card;
use super::session::Session;
use crate::probe::rdma::Port;
use crate::probe::trouble::Trouble;

/// Access that SEND and RECV need.
const MESSAGES: Access = Access {
    local_write: true,
    ..Access::NONE
};

/// The card, and a queue pair on it.
pub struct Queues {
    // Dropped in this order: the pair is destroyed while its card is there.
    pub pair: QueuePair,
    card: Box<dyn Hca>,
}

impl Card {
    /// Opens it.
    pub fn open(&self, session: &Session<'_>) -> Result<Box<dyn Hca>, Trouble> {
        Ok(match self {
            Self::Sim => Box::new(SimHca::new(session.supply.clone())?),
            Self::Mlx5(port) => {
                let (context, options) = opened(port)?;
                Box::new(Mlx5Hca::open(session.supply.clone(), &context, options)?)
            }
            Self::Proxy(port) => {
                let (context, options) = opened(port)?;
                Box::new(ProxyHca::open(session.supply.clone(), &context, options)?)
            }
        })
    }
}

fn opened(port: &Port) -> Result<(Context, Options), Trouble> {
    let options = Options {
        port: port.number,
        gid_index: port.gid,
        ..Options::default()
    };
    Ok((Context::open(&port.device)?, options))
}

impl Queues {
    /// On a card, connected to itself, with room for so many messages at once, each of two blocks at most.
    pub fn new(session: &Session<'_>, card: Box<dyn Hca>, messages: u32) -> Result<Self, Trouble> {
        let queues = Self::alone(session, card, messages)?;
        queues.connect(queues.pair.endpoint)?;
        Ok(queues)
    }

    /// The same, connected to nobody.
    pub fn alone(session: &Session<'_>, card: Box<dyn Hca>, messages: u32) -> Result<Self, Trouble> {
        let depth = messages.next_power_of_two();
        let pair = card.create(&Request {
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
        Ok(Self { pair, card })
    }

    /// Connects it.
    pub fn connect(&self, far: Endpoint) -> Result<(), Trouble> {
        Ok(self.card.connect(self.pair.endpoint, far, Patience::default())?)
    }

    /// Registers all of a place for SEND and RECV: the other end needs no rkey.
    pub fn register(&self, place: &Place) -> Result<Region, Trouble> {
        Ok(self.card.register(place, MESSAGES)?)
    }

    /// Registers all of a place as the target of RDMA WRITE.
    pub fn register_target(&self, place: &Place) -> Result<Region, Trouble> {
        let access = Access {
            remote_write: true,
            ..MESSAGES
        };
        Ok(self.card.register(place, access)?)
    }

    /// Takes what has completed, and says how many messages arrived.
    pub fn completed(&mut self) -> Result<u32, Trouble> {
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
    pub fn arrives(&mut self, patience: Duration) -> Result<bool, Trouble> {
        let begun = Instant::now();
        while self.completed()? == 0 {
            if begun.elapsed() > patience {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
        Ok(true)
    }
}

/// What failed is an error.
fn refused(completion: &Completion) -> Result<(), Trouble> {
    match completion.event.failed() {
        None => Ok(()),
        Some(failed) => Err(Trouble::Entry {
            syndrome: failed.syndrome,
            vendor: failed.vendor,
        }),
    }
}
