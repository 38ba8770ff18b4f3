//! A queue pair, connected to itself or to that of another process, and its registered memory.

use std::rc::Rc;
use std::time::Duration;

use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::Options;
use gdsync::hca::proxy::ProxyHca;
use gdsync::hca::sim::SimHca;
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::queue::{Prepared, Waiting};
use gdsync::wire::{Completion, DataSegment, Datagram, Transport as WireTransport, Wqe};
use gdsync::{MappedMemory, MemoryLocation};
use gpu::{Allocation, DeviceMemory, pointer};
use verbs::Context;

use super::polls;
use super::session::Session;
use super::settings::Transport;
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;
use crate::probe::rdma::Port;

/// Access that SEND and RECV need.
const MESSAGES: Access = Access { local_write: true, ..Access::NONE };

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

/// The Q_Key of all datagrams.
const KEY: u32 = 0x0067_6472;
/// Space before a received datagram for a GRH.
const ROUTE_BYTES: usize = 40;

/// An HCA and a queue pair on it.
pub struct Queues {
    // Drop order: the queue pair before its HCA.
    pub pair: QueuePair,
    datagrams: Option<Datagrams>,
    hca: Rc<dyn Hca>,
}

/// What datagrams need besides a queue pair.
struct Datagrams {
    /// The destination, once connected.
    to: Option<Datagram>,
    /// Memory for the GRH of every received one.
    route: MemoryRegion,
}

impl HcaChoice {
    pub fn open(&self, session: &Session<'_>) -> Result<Rc<dyn Hca>, StepError> {
        Ok(match self {
            Self::Sim => Rc::new(SimHca::new(session.allocator.clone())?),
            Self::Mlx5(port) => {
                let (context, options) = open_port(port)?;
                Rc::new(Mlx5Hca::open(session.allocator.clone(), &context, options)?)
            }
            Self::Auto(port) | Self::Proxy(port) => {
                let (context, options) = open_port(port)?;
                Rc::new(ProxyHca::open(session.allocator.clone(), &context, options)?)
            }
        })
    }
}

fn open_port(port: &Port) -> Result<(Context, Options), StepError> {
    let options = Options { port: port.number, gid_index: port.gid, ..Options::default() };
    Ok((Context::open(&port.device)?, options))
}

impl Queues {
    /// Queues for `messages` in flight, of at most two WQE blocks each, connected to themselves.
    pub fn new(
        session: &Session<'_>,
        hca: Rc<dyn Hca>,
        messages: u32,
        transport: Transport,
    ) -> Result<Self, StepError> {
        let mut queues = Self::unconnected(session, hca, messages, transport)?;
        queues.connect(queues.pair.endpoint)?;
        Ok(queues)
    }

    /// Queues without a connection.
    pub fn unconnected(
        session: &Session<'_>,
        hca: Rc<dyn Hca>,
        messages: u32,
        transport: Transport,
    ) -> Result<Self, StepError> {
        let depth = messages.next_power_of_two();
        let is_datagram = transport == Transport::Ud;
        let mut request = Request {
            transport: if is_datagram { WireTransport::Datagram } else { WireTransport::Connected },
            key: KEY,
            send_blocks: depth * 2,
            receives: depth,
            receive_segments: if is_datagram { 2 } else { 1 },
            send_completions: depth,
            receive_completions: depth,
            waiting: if session.capabilities.nor { Waiting::Nor } else { Waiting::WithoutNor },
            completions: [MemoryLocation::Host, session.faster],
            ..Request::default()
        };
        let pair = match hca.create(&request) {
            // Not every HCA has completion queues in GPU memory.
            Err(_) if session.faster != MemoryLocation::Host => {
                request.completions = [MemoryLocation::Host; 2];
                hca.create(&request)?
            }
            created => created?,
        };
        let datagrams = if is_datagram {
            let memory = session.allocator.place(MemoryLocation::Host, ROUTE_BYTES)?;
            let route = hca.register(&memory, MESSAGES)?;
            Some(Datagrams { to: None, route })
        } else {
            None
        };
        Ok(Self { pair, datagrams, hca })
    }

    pub fn connect(&mut self, remote: Endpoint) -> Result<(), StepError> {
        let local = self.pair.endpoint;
        match &mut self.datagrams {
            None => self.hca.connect(local, remote, RetryPolicy::default())?,
            Some(datagrams) => datagrams.to = Some(self.hca.datagram(local, remote, KEY)?),
        }
        Ok(())
    }

    /// Posts a receive.
    pub fn receive(&mut self, segment: DataSegment) -> Result<(), StepError> {
        match &self.datagrams {
            None => self.pair.receive.post(&[segment])?,
            Some(Datagrams { route, .. }) => {
                let route = route.segment(0, ROUTE_BYTES as u32);
                self.pair.receive.post(&[route, segment])?
            }
        };
        Ok(())
    }

    /// Prepares a message for the remote end.
    pub fn send(&mut self, segment: DataSegment) -> Result<Prepared, StepError> {
        let wqe = Wqe::send(&[segment]).signalled();
        let wqe = match self.datagrams.as_ref().and_then(|datagrams| datagrams.to) {
            None => wqe,
            Some(to) => wqe.to(to),
        };
        Ok(self.pair.send.prepare(&wqe)?)
    }

    /// Registers memory for SEND and RECV, which need no rkey.
    pub fn register(&self, place: &MappedMemory) -> Result<MemoryRegion, StepError> {
        Ok(self.hca.register(place, MESSAGES)?)
    }

    /// Registers memory as the target of RDMA WRITE.
    pub fn register_target(&self, place: &MappedMemory) -> Result<MemoryRegion, StepError> {
        let access = Access { remote_write: true, ..MESSAGES };
        Ok(self.hca.register(place, access)?)
    }

    /// Registers GPU memory; the error is a sentence.
    pub fn register_gpu(
        &self,
        session: &Session<'_>,
        memory: &DeviceMemory,
    ) -> Result<(MappedMemory, MemoryRegion), String> {
        let gdr = session.allocator.gdr();
        let gdr = gdr.ok_or("no backend maps GPU memory for the CPU")?;
        let place =
            MappedMemory::device(memory.clone(), gdr).map_err(|error| gpu::sentence(&error))?;
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
        polls::until(timeout, || Ok(self.completed()? > 0))
    }
}

/// The error of a failed WQE.
fn check(completion: &Completion) -> Result<(), StepError> {
    match completion.event.failed() {
        None => Ok(()),
        Some(failed) => Err(StepError::Wqe { syndrome: failed.syndrome, vendor: failed.vendor }),
    }
}
