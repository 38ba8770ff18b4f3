//! Queue pairs of verbs devices and of the simulated NIC: creation, connection, work requests and completions.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use gdsync::hca::{self, Hca as _, RetryPolicy, sim::SimHca};
use gdsync::wire::{Event, Operation, RemoteAddress, Wqe};
use mp::session::random;
use verbs::{
    Address, Completion, CompletionQueue, Datagram, Init, Peer, ProtectionDomain, QueuePair,
    QueuePairOptions, Remote, Request, Rts, Transport, Work,
};

use super::control::{Endpoint, Offer};
use super::device::{Device, MemoryRegion};
use super::end::End;
use super::kind::Kind;
use super::purpose::{Purpose, Role};
use crate::probe::failure::StepError;

/// Requests to send that a queue holds.
const DEPTH: u32 = 128;
/// Receive buffers: more than messages in flight, so that no message is sent again.
pub const BUFFERS: u32 = 512;
/// Bytes of inline data to request. A provider refuses more than its NIC has: those of libefa and of the first NICs of libirdma have 32
/// and 48 (rdma-core 64.0, providers/irdma/i40iw_hw.h).
const INLINE: [u32; 3] = [64, 32, 0];
/// What providers answer then.
const EINVAL: i32 = 22;
/// Bytes of the GRH that the NIC stores before a datagram.
const ROUTE: usize = 40;
/// Bits of a PSN.
const PSN: u32 = 0xff_ffff;
/// Bits of a Q_Key that programs may choose: with the highest bit set the queue pair's own is used.
const QKEY: u32 = 0x7fff_ffff;
/// Completions of one poll.
const AT_ONCE: usize = 16;

/// A request to send.
#[derive(Debug, Clone, Copy)]
pub struct Post {
    /// Work request id, from 1.
    pub id: u64,
    pub operation: Operation,
    /// Offset of its bytes in the region.
    pub at: usize,
    pub bytes: usize,
    /// It has a completion.
    pub signalled: bool,
    /// The bytes are in the WQE.
    pub inline: bool,
}

impl Post {
    /// A request with a completion.
    pub fn new(operation: Operation, at: usize, bytes: usize) -> Self {
        Self { id: 1, operation, at, bytes, signalled: true, inline: false }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct WorkCompletion {
    pub id: u64,
    /// The immediate data of a message.
    pub immediate: Option<u32>,
}

/// A queue pair of the simulated NIC.
pub struct SimulatedQueuePair {
    queues: hca::QueuePair,
    /// Ids of the outstanding signalled requests, in order.
    ids: VecDeque<u64>,
}

type Simulated = Rc<RefCell<SimulatedQueuePair>>;

/// A queue pair before it is connected.
pub enum Unconnected {
    Verbs {
        pair: Box<QueuePair<Init>>,
        endpoint: Endpoint,
        sent: CompletionQueue,
        received: CompletionQueue,
    },
    Sim(Box<hca::QueuePair>),
}

/// A connected queue pair.
pub enum ActiveQueuePair {
    Verbs {
        pair: Box<QueuePair<Rts>>,
        datagram: Option<Datagram>,
        transport: Transport,
        inline_bytes: usize,
    },
    Sim(Simulated),
}

/// Completions of sent or of received messages.
pub enum Completions {
    Verbs(CompletionQueue),
    Sent(Simulated),
    Received(Simulated),
}

impl Unconnected {
    /// A queue pair for a test case.
    pub fn create(end: &End, purpose: Purpose, role: Role) -> Result<Self, StepError> {
        match &end.device {
            Device::Verbs { context, domain } => {
                let sent = context.completions(DEPTH)?;
                Self::with_verbs(end, domain, [sent, context.completions(BUFFERS)?], purpose, role)
            }
            Device::Sim(hca) => Ok(Self::Sim(Box::new(hca.create(&hca::Request {
                send_blocks: 2 * DEPTH,
                receives: BUFFERS,
                receive_segments: 1,
                send_completions: 2 * DEPTH,
                receive_completions: BUFFERS,
                ..hca::Request::default()
            })?))),
        }
    }

    fn with_verbs(
        end: &End,
        domain: &ProtectionDomain,
        [sent, received]: [CompletionQueue; 2],
        purpose: Purpose,
        role: Role,
    ) -> Result<Self, StepError> {
        let transport = purpose.transport;
        let options = QueuePairOptions {
            receive_depth: BUFFERS,
            // The first SGE takes the GRH of a datagram.
            receive_sges: if transport == Transport::Ud { 2 } else { 1 },
            ..QueuePairOptions::of(transport, DEPTH)
        };
        let create = |inline| {
            let inline_bytes = inline_bytes(end, inline);
            let options = QueuePairOptions { inline_bytes, ..options };
            domain.queue_pair(options, &sent, &received)
        };
        let mut created = create(INLINE[0]);
        for inline in &INLINE[1..] {
            match &created {
                Err(error) if error.errno() == Some(EINVAL) => created = create(*inline),
                _ => break,
            }
        }
        let pair = created?;
        let [psn, qkey] = random_numbers()?;
        let endpoint = Endpoint { queue_pair: pair.number(), psn: psn & PSN, qkey: qkey & QKEY };
        Ok(Self::Verbs {
            pair: Box::new(pair.init_with_pkey(
                end.port.number,
                end.port.pkey_index,
                purpose.access(role),
                endpoint.qkey,
            )?),
            endpoint,
            sent,
            received,
        })
    }

    /// The endpoint that the remote end needs.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            Self::Verbs { endpoint, .. } => *endpoint,
            Self::Sim(pair) => Endpoint { queue_pair: pair.endpoint.qpn, psn: 0, qkey: 0 },
        }
    }

    /// Connects it to the remote queue pair. Returns the completions of sent and of received messages.
    pub fn connect(
        self,
        end: &End,
        purpose: Purpose,
        other: &Offer,
        theirs: Endpoint,
    ) -> Result<(ActiveQueuePair, [Completions; 2]), StepError> {
        match (self, &end.device) {
            (Self::Verbs { pair, endpoint, sent, received }, Device::Verbs { domain, .. }) => {
                let Purpose { transport, settings, .. } = purpose;
                let route =
                    settings.route(end.port.number, end.gid.map_or(0, |gid| gid.index as u8));
                let reads = end.reads.min(other.reads).max(1);
                let behaviour = settings.behaviour(settings.mtu(end.mtu, other.mtu), reads);
                let address = Address { lid: other.lid, gid: other.gid };
                let peer = Peer { address, queue_pair: theirs.queue_pair, psn: theirs.psn };
                let pair = pair
                    .ready_to_receive(route, peer, behaviour)?
                    .ready_to_send(endpoint.psn, behaviour)?;
                let datagram = match transport {
                    Transport::Ud | Transport::Srd => {
                        Some(domain.datagram(route, address, theirs.queue_pair, theirs.qkey)?)
                    }
                    Transport::Rc | Transport::Uc => None,
                };
                let completions = [sent, received].map(Completions::Verbs);
                let pair = Box::new(pair);
                let inline_bytes = match (transport, purpose.kind) {
                    (Transport::Srd, Kind::Write | Kind::WriteImmediate) => 0,
                    // A driver may give more than was requested.
                    _ => inline_bytes(end, pair.inline_bytes()) as usize,
                };
                let active = ActiveQueuePair::Verbs { pair, datagram, transport, inline_bytes };
                Ok((active, completions))
            }
            (Self::Sim(pair), Device::Sim(hca)) => connect_simulated(hca, *pair, other, theirs),
            _ => Err(StepError::OutOfStep),
        }
    }
}

fn connect_simulated(
    hca: &SimHca,
    pair: hca::QueuePair,
    other: &Offer,
    theirs: Endpoint,
) -> Result<(ActiveQueuePair, [Completions; 2]), StepError> {
    let remote = hca::Endpoint::new(other.lid, theirs.queue_pair);
    hca.connect(pair.endpoint, remote, RetryPolicy::default())?;
    let pair = Rc::new(RefCell::new(SimulatedQueuePair { queues: pair, ids: VecDeque::new() }));
    let completions =
        [Completions::Sent(Rc::clone(&pair)), Completions::Received(Rc::clone(&pair))];
    Ok((ActiveQueuePair::Sim(pair), completions))
}

/// `bytes` in host memory. The CPU copies inline data, and cannot read GPU memory.
fn inline_bytes(end: &End, bytes: u32) -> u32 {
    match end.selection.memory_path {
        None => bytes,
        Some(_) => 0,
    }
}

/// A random PSN and Q_Key.
fn random_numbers() -> Result<[u32; 2], StepError> {
    let number = || random().map(u32::from_ne_bytes).map_err(StepError::Random);
    Ok([number()?, number()?])
}

impl ActiveQueuePair {
    /// Bytes that go with a request.
    pub fn inline_bytes(&self) -> usize {
        match self {
            Self::Verbs { inline_bytes, .. } => *inline_bytes,
            Self::Sim(_) => 0,
        }
    }

    /// True if requests end in any order, so that each has a completion and the last one says nothing of the others.
    pub fn is_unordered(&self) -> bool {
        matches!(self, Self::Verbs { transport: Transport::Srd, .. })
    }

    /// Posts a request to send.
    pub fn send(&mut self, region: &MemoryRegion, post: &Post) -> Result<(), StepError> {
        let is_unordered = self.is_unordered();
        match (self, region) {
            (Self::Verbs { pair, datagram, .. }, MemoryRegion::Verbs(region)) => {
                let sges = [region.sge(post.at, post.bytes)?];
                // All fields, because to copy those of another request would add to a latency.
                Ok(pair.send(&Request {
                    id: post.id,
                    work: work(post.operation, datagram.as_ref()),
                    sges: if post.bytes == 0 { &[] } else { &sges },
                    // libefa refuses requests without a completion.
                    signalled: post.signalled || is_unordered,
                    inline: post.inline,
                    solicited: false,
                    fenced: false,
                })?)
            }
            (Self::Sim(pair), MemoryRegion::Sim(region)) => {
                let segments = [region.segment(post.at as u64, post.bytes as u32)];
                let entry = Wqe::new(post.operation, if post.bytes == 0 { &[] } else { &segments });
                let mut pair = pair.borrow_mut();
                let entry = if post.signalled { entry.signalled() } else { entry };
                pair.queues.send.prepare(&entry)?.ring()?;
                if post.signalled {
                    pair.ids.push_back(post.id);
                }
                Ok(())
            }
            _ => Err(StepError::OutOfStep),
        }
    }

    /// Posts a receive buffer. The GRH of a datagram goes to `beside`.
    pub fn receive(
        &mut self,
        region: &MemoryRegion,
        id: u64,
        (at, bytes): (usize, usize),
        beside: usize,
    ) -> Result<(), StepError> {
        match (self, region) {
            (Self::Verbs { pair, transport, .. }, MemoryRegion::Verbs(region)) => {
                let message = region.sge(at, bytes)?;
                match transport {
                    Transport::Ud => pair.receive(id, &[region.sge(beside, ROUTE)?, message])?,
                    _ if bytes == 0 => pair.receive(id, &[])?,
                    _ => pair.receive(id, &[message])?,
                }
                Ok(())
            }
            (Self::Sim(pair), MemoryRegion::Sim(region)) => {
                let segments = [region.segment(at as u64, bytes as u32)];
                let posted = if bytes == 0 { &[] } else { &segments[..] };
                pair.borrow_mut().queues.receive.post(posted)?;
                Ok(())
            }
            _ => Err(StepError::OutOfStep),
        }
    }
}

/// As verbs has it.
fn work(operation: Operation, datagram: Option<&Datagram>) -> Work<'_> {
    let to_verbs = |RemoteAddress { address, key }| Remote { address, rkey: key };
    match (operation, datagram) {
        (Operation::Nop, _) => Work::Send(None),
        (Operation::Send { immediate }, Some(datagram)) => Work::SendTo(datagram, immediate),
        (Operation::Send { immediate }, None) => Work::Send(immediate),
        (Operation::Write { remote, immediate }, Some(to)) => {
            Work::WriteTo(to, to_verbs(remote), immediate)
        }
        (Operation::Read { remote }, Some(from)) => Work::ReadFrom(from, to_verbs(remote)),
        (Operation::Write { remote, immediate }, _) => Work::Write(to_verbs(remote), immediate),
        (Operation::Read { remote }, _) => Work::Read(to_verbs(remote)),
        (Operation::FetchAdd { remote, add }, _) => Work::FetchAdd(to_verbs(remote), add),
        (Operation::CompareSwap { remote, compare, swap }, _) => {
            Work::CompareSwap { remote: to_verbs(remote), compare, swap }
        }
    }
}

impl Completions {
    /// Takes the available completions, at most 16. A failed request is an error.
    pub fn take(&self, into: &mut Vec<WorkCompletion>) -> Result<(), StepError> {
        into.clear();
        match self {
            Self::Verbs(queue) => {
                let mut taken = [None; AT_ONCE];
                let count = queue.poll(&mut taken)?;
                for completion in taken[..count].iter().flatten() {
                    into.push(WorkCompletion::of(completion)?);
                }
            }
            Self::Sent(_) | Self::Received(_) => {
                while into.len() < AT_ONCE {
                    let Some(completion) = self.take_one()? else {
                        break;
                    };
                    into.push(completion);
                }
            }
        }
        Ok(())
    }

    /// Takes one completion, with fewer instructions than [`Self::take`]: they would add to a latency.
    pub fn take_one(&self) -> Result<Option<WorkCompletion>, StepError> {
        match self {
            Self::Verbs(queue) => {
                let mut taken = [None];
                queue.poll(&mut taken)?;
                taken[0].as_ref().map(WorkCompletion::of).transpose()
            }
            Self::Sent(pair) => pair.borrow_mut().take(true),
            Self::Received(pair) => pair.borrow_mut().take(false),
        }
    }
}

impl WorkCompletion {
    fn of(completion: &Completion) -> Result<Self, StepError> {
        Ok(Self {
            id: completion.id,
            immediate: completion.outcome.map_err(StepError::Work)?.immediate,
        })
    }
}

impl SimulatedQueuePair {
    /// Takes a completion of a sent or of a received message.
    fn take(&mut self, is_sent: bool) -> Result<Option<WorkCompletion>, StepError> {
        let Self { queues, ids } = self;
        let completions =
            if is_sent { &mut queues.send_completions } else { &mut queues.receive_completions };
        let Some(completion) = completions.poll()? else {
            return Ok(None);
        };
        if let Some(failed) = completion.event.failed() {
            return Err(StepError::Wqe { syndrome: failed.syndrome, vendor: failed.vendor });
        }
        let id = if is_sent {
            queues.send.complete(&completion)?;
            ids.pop_front().ok_or(StepError::OutOfStep)?
        } else {
            queues.receive.complete(&completion)?
        };
        Ok(Some(WorkCompletion {
            id,
            immediate: match completion.event {
                Event::Written { immediate } | Event::ReceivedImmediate { immediate } => {
                    Some(immediate)
                }
                _ => None,
            },
        }))
    }
}
