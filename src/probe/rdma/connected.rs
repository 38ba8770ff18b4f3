//! A connection: queue pairs that are joined with the other end's, and what completes in them.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use verbs::{
    Address, Behaviour, Completion, CompletionQueue, Datagram, MemoryRegion, Peer, QueuePair,
    QueuePairOptions, Remote, Route, Rts, Transport,
};

use super::control::{Control, Endpoint, Message, Offer, Window};
use super::end::{End, half};
use super::purpose::{Purpose, Role};
use crate::probe::failure::StepError;
use crate::probe::random::random;

/// Requests to send that a queue holds.
const DEPTH: u32 = 128;
/// Buffers to receive into: more than messages are on their way, so that none has to be sent again.
pub const BUFFERS: u32 = 512;
/// Bytes that go with a request, where the NIC has room for so many.
pub const INLINE: u32 = 64;
/// What the NIC puts before a datagram: the route it came by.
pub const ROUTE: usize = 40;
/// Bits of a PSN.
const PSN: u32 = 0xff_ffff;
/// Bits of a Q_Key that programs may choose: with the highest bit set the queue pair's own is used.
const QKEY: u32 = 0x7fff_ffff;
/// How often it is looked at a queue or a byte before it is looked at the clock and for the other end: what that costs must not be part
/// of a turn, also where the CPU is an emulated one.
const LOOKS: u32 = 4096;

/// After so many looks in vain somebody else may run. On a single CPU who looks all the time keeps from it what it looks for;
/// elsewhere no answer of a NIC takes so long.
static POLITE: LazyLock<u32> = LazyLock::new(|| match std::thread::available_parallelism() {
    Ok(cpus) if cpus.get() < 2 => 4,
    _ => LOOKS,
});

/// Counts the CPUs, before the ends keep to some of them.
pub fn count_cpus() {
    LazyLock::force(&POLITE);
}

/// A queue pair that is joined with one of the other end.
pub struct ConnectedQueuePair {
    pub pair: QueuePair<Rts>,
    pub sent: Queue,
    pub received: Queue,
    /// This end's memory region, destroyed with the last queue pair of the test case.
    pub region: MemoryRegion,
    /// The other end's memory; address and rkey are 0 if no request names it.
    pub remote: Remote,
    /// Where the two halves of that meet.
    pub half: usize,
    pub datagram: Option<Datagram>,
}

/// In the names of results.
pub fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Rc => "rc",
        Transport::Uc => "uc",
        Transport::Ud => "ud",
    }
}

/// Connects the queue pairs that a test case needs with the other end's.
pub fn join(
    end: &End,
    purpose: Purpose,
    role: Role,
    other: &Offer,
    control: &mut dyn Control,
) -> Result<Vec<ConnectedQueuePair>, StepError> {
    let Purpose {
        transport, pairs, ..
    } = purpose;
    let region = end.register(purpose, role)?;
    let access = purpose.access(role);
    let options = QueuePairOptions {
        receive_depth: BUFFERS,
        // A datagram comes with its route.
        receive_pieces: if transport == Transport::Ud { 2 } else { 1 },
        // The CPU takes along what is inline, and reaches no GPU's memory.
        inline_bytes: if end.way.memory_path.is_none() {
            INLINE
        } else {
            0
        },
        ..QueuePairOptions::of(transport, DEPTH)
    };
    let mut made = Vec::new();
    for _ in 0..pairs {
        let (sent, received) = (
            end.context.completions(DEPTH)?,
            end.context.completions(BUFFERS)?,
        );
        let pair = end.domain.queue_pair(options, &sent, &received)?;
        let [psn, qkey] = random_numbers()?;
        let endpoint = Endpoint {
            queue_pair: pair.number(),
            psn: psn & PSN,
            qkey: qkey & QKEY,
        };
        let pair = pair.init(end.port.number, access, endpoint.qkey)?;
        made.push((pair, endpoint, sent, received));
    }
    let window = purpose.is_remote(role).then(|| {
        let Remote { address, rkey } = region.remote();
        Window { address, rkey }
    });
    let endpoints = made.iter().map(|(_, endpoint, ..)| *endpoint).collect();
    control.tell(Message::Pairs(endpoints, window))?;
    let (theirs, window) = match heard(control, Duration::ZERO)? {
        Message::Pairs(theirs, window) if theirs.len() == made.len() => (theirs, window),
        _ => return Err(StepError::OutOfStep),
    };
    let remote = match window {
        Some(Window { address, rkey }) => Remote { address, rkey },
        None if purpose.is_remote(role.other()) => return Err(StepError::OutOfStep),
        None => Remote {
            address: 0,
            rkey: 0,
        },
    };
    let route = Route::of(end.port.number, end.gid.map_or(0, |gid| gid.index as u8));
    let behaviour = Behaviour {
        // Four seconds for an answer: a machine that is emulated, or busy, may be late.
        timeout: 20,
        reads: end.reads.min(other.reads).max(1),
        ..Behaviour::of(end.mtu.min(other.mtu))
    };
    let mut connected = Vec::new();
    for ((pair, ours, sent, received), endpoint) in made.into_iter().zip(theirs) {
        let address = Address {
            lid: other.lid,
            gid: other.gid,
        };
        let peer = Peer {
            address,
            queue_pair: endpoint.queue_pair,
            psn: endpoint.psn,
        };
        let pair = pair.ready_to_receive(route, peer, behaviour)?;
        connected.push(ConnectedQueuePair {
            pair: pair.ready_to_send(ours.psn, behaviour)?,
            sent: Queue::new(sent, end.timeout),
            received: Queue::new(received, end.timeout),
            region: region.clone(),
            remote,
            half: half(purpose.bytes),
            datagram: match transport {
                Transport::Ud => {
                    Some(
                        end.domain
                            .datagram(route, address, endpoint.queue_pair, endpoint.qkey)?,
                    )
                }
                Transport::Rc | Transport::Uc => None,
            },
        });
    }
    Ok(connected)
}

/// A random PSN and Q_Key.
fn random_numbers() -> Result<[u32; 2], StepError> {
    let number = || random().map(u32::from_ne_bytes).map_err(StepError::Random);
    Ok([number()?, number()?])
}

/// What the other end says next, which may take so long.
pub fn heard(control: &mut dyn Control, timeout: Duration) -> Result<Message, StepError> {
    match control.hear(timeout)? {
        Message::Failed(why) => Err(StepError::RemoteEnd(why)),
        message => Ok(message),
    }
}

/// Completions, and how long one may take.
pub struct Queue {
    queue: CompletionQueue,
    timeout: Duration,
    taken: [Option<Completion>; 16],
}

impl Queue {
    fn new(queue: CompletionQueue, timeout: Duration) -> Self {
        Self {
            queue,
            timeout,
            taken: [None; 16],
        }
    }

    /// Those that are there, at most 16; a request that failed is an error.
    pub fn look(&mut self) -> Result<&[Option<Completion>], StepError> {
        let count = self.queue.poll(&mut self.taken)?;
        let taken = &self.taken[..count];
        match taken
            .iter()
            .flatten()
            .find_map(|completion| completion.outcome.err())
        {
            Some(failure) => Err(StepError::Work(failure)),
            None => Ok(taken),
        }
    }

    /// Waits until there is one at least.
    pub fn wait(&mut self, control: &mut dyn Control) -> Result<&[Option<Completion>], StepError> {
        let mut waiting = Waiting::new(self.timeout);
        loop {
            let count = self.look()?.len();
            if count > 0 {
                return Ok(&self.taken[..count]);
            }
            waiting.look("a completion", control)?;
        }
    }
}

/// Looks at something over and over, and now and then at the clock.
pub struct Waiting {
    begun: Option<Instant>,
    timeout: Duration,
    looks: u32,
    /// Looks until somebody else is let run.
    polite: u32,
}

impl Waiting {
    pub fn new(timeout: Duration) -> Self {
        Self {
            begun: None,
            timeout,
            looks: 0,
            polite: *POLITE,
        }
    }

    /// It was looked at the clock.
    pub fn is_long(&self) -> bool {
        self.looks.is_multiple_of(LOOKS)
    }

    /// It was not there yet; now and then the other end may have said why.
    pub fn look(&mut self, what: &'static str, control: &mut dyn Control) -> Result<(), StepError> {
        self.looks += 1;
        // A power of two: no division between two looks.
        if self.looks & (self.polite - 1) == 0 {
            std::thread::yield_now();
        }
        if self.looks.is_multiple_of(LOOKS) {
            if let Some(why) = control.look()? {
                return Err(StepError::RemoteEnd(why));
            }
            let begun = *self.begun.get_or_insert_with(Instant::now);
            if begun.elapsed() > self.timeout {
                return Err(StepError::Late {
                    what,
                    timeout: self.timeout,
                });
            }
        }
        Ok(())
    }
}
