//! One end: an open port, memory that is registered with it, and a connection.

use std::time::{Duration, Instant};

use gpu::Pattern;
use verbs::{
    Access, Address, Behaviour, Buffer, Completion, CompletionQueue, Context, Domain, Event, Gid, LinkLayer, Pages,
    Peer, PortState, QueuePair, QueuePairOptions, Region, Remote, Route, Rts, Transport,
};

use super::control::{Control, Endpoint, Message, Offer};
use super::{Port, Sort};
use crate::probe::integrity::{Wrong, by_slice};
use crate::probe::trouble::Trouble;

/// Requests to send that a queue holds.
const DEPTH: u32 = 128;
/// Buffers to receive into: more than messages are on their way, so that none has to be sent again.
pub const BUFFERS: u32 = 512;
/// Bytes that go with a request, where the card has room for so many.
pub const INLINE: u32 = 64;
/// How often it is looked at a queue before it is looked at the clock.
const LOOKS: u32 = 256;

/// An end.
pub struct End {
    context: Context,
    port: Port,
    gid: Option<Gid>,
    lid: u16,
    mtu: u32,
    reads: u8,
    ethernet: bool,
    domain: Domain,
    pub buffer: Buffer,
    pub region: Region,
    /// How long a completion may take.
    pub patience: Duration,
    first_packet: u32,
}

/// A connection to the other end.
pub struct Joined {
    pub pair: QueuePair<Rts>,
    pub sent: Queue,
    pub received: Queue,
    /// The other end's memory.
    pub remote: Remote,
}

impl End {
    /// Opens it. There is room for two messages of `room` bytes each way.
    pub fn open(port: &Port, sort: Sort, room: usize, patience: Duration) -> Result<Self, Trouble> {
        let context = Context::open(&port.device)?;
        let found = context.port(port.number)?;
        if found.state != PortState::Active {
            return Err(Trouble::Port {
                port: format!("{}:{}", port.device, port.number),
                state: format!("{:?}", found.state),
            });
        }
        let table = context.gids(found.gids)?;
        let gid = match port.gid {
            None => Gid::best(&table, port.number),
            Some(index) => {
                let named = |gid: &&Gid| (gid.port, gid.index) == (u32::from(port.number), u32::from(index));
                Some(*table.iter().find(named).ok_or_else(|| Trouble::NoGid {
                    port: format!("{}:{}", port.device, port.number),
                    index,
                })?)
            }
        };
        let domain = context.domain()?;
        let pages = match sort {
            Sort::Host => Pages::Ordinary,
            Sort::Huge => Pages::Huge,
        };
        let buffer = Buffer::new(room.next_multiple_of(64).max(64) * 2, pages)?;
        let region = domain.register(&buffer, Access::ALL)?;
        Ok(Self {
            port: port.clone(),
            gid,
            lid: found.lid,
            mtu: found.active_mtu.unwrap_or(1024),
            reads: context.limits()?.reads,
            ethernet: found.link_layer == LinkLayer::Ethernet,
            context,
            domain,
            buffer,
            region,
            patience,
            // Any number does; one that comes round soon shows that it may.
            first_packet: 0xff_ff00,
        })
    }

    /// What the other end is told of it.
    pub fn offer(&self) -> Offer {
        let Remote { address, rkey } = self.region.remote();
        Offer {
            lid: self.lid,
            gid: self.gid.map(|gid| gid.address),
            mtu: self.mtu,
            reads: self.reads,
            ethernet: self.ethernet,
            address,
            rkey,
            bytes: self.region.len() as u64,
        }
    }

    /// Makes a connection to an end that does the same.
    pub fn join(&self, transport: Transport, other: &Offer, control: &mut dyn Control) -> Result<Joined, Trouble> {
        let sent = self.context.completions(DEPTH)?;
        let received = self.context.completions(BUFFERS)?;
        let options = QueuePairOptions {
            receive_depth: BUFFERS,
            inline_bytes: INLINE,
            ..QueuePairOptions::of(transport, DEPTH)
        };
        let access = match transport {
            Transport::Rc => Access::ALL,
            Transport::Uc | Transport::Ud => Access {
                remote_read: false,
                remote_atomic: false,
                ..Access::ALL
            },
        };
        let pair = self
            .domain
            .queue_pair(options, &sent, &received)?
            .init(self.port.number, access, 0)?;
        control.tell(Message::Pair(Endpoint {
            queue_pair: pair.number(),
            first_packet: self.first_packet,
        }))?;
        let Message::Pair(endpoint) = super::lead::heard(control, Duration::ZERO)? else {
            return Err(Trouble::OutOfStep);
        };
        let route = Route::of(self.port.number, self.gid.map_or(0, |gid| gid.index as u8));
        let peer = Peer {
            address: Address {
                lid: other.lid,
                gid: other.gid,
            },
            queue_pair: endpoint.queue_pair,
            first_packet: endpoint.first_packet,
        };
        let behaviour = Behaviour {
            // Four seconds for an answer: a machine that is emulated, or busy, may be late.
            timeout: 20,
            reads: self.reads.min(other.reads).max(1),
            ..Behaviour::of(self.mtu.min(other.mtu))
        };
        let pair = pair.ready_to_receive(route, peer, behaviour)?;
        Ok(Joined {
            pair: pair.ready_to_send(self.first_packet, behaviour)?,
            sent: Queue::new(sent, self.patience),
            received: Queue::new(received, self.patience),
            remote: Remote {
                address: other.address,
                rkey: other.rkey,
            },
        })
    }

    /// What lies behind a failure: the device may have said that its port went down, or that it failed itself.
    pub fn cause(&self, trouble: Trouble) -> Trouble {
        loop {
            let port = format!("{}:{}", self.port.device, self.port.number);
            match self.context.event(Duration::ZERO) {
                Ok(Some(Event::PortDown(number))) if number == self.port.number => return Trouble::PortDown(port),
                Ok(Some(Event::Device)) => return Trouble::CardFailed(self.port.device.clone()),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return trouble,
            }
        }
    }

    /// Writes a pattern to the start of its memory.
    pub fn fill(&self, bytes: usize, pattern: Pattern) -> Result<(), Trouble> {
        let mut text = vec![0; bytes.next_multiple_of(4)];
        pattern.fill(&mut text, 0);
        Ok(self.buffer.write(0, &text[..bytes])?)
    }

    /// Compares the start of its memory, the bytes after the last whole word too.
    pub fn check(&self, bytes: usize, pattern: Pattern) -> Result<Option<Wrong>, Trouble> {
        let mut seen = vec![0; bytes.next_multiple_of(4)];
        pattern.fill(&mut seen, 0);
        self.buffer.read(0, &mut seen[..bytes])?;
        Ok(by_slice(&seen, pattern)?)
    }
}

/// Completions, and how long one may take.
pub struct Queue {
    queue: CompletionQueue,
    patience: Duration,
    taken: [Option<Completion>; 16],
}

impl Queue {
    fn new(queue: CompletionQueue, patience: Duration) -> Self {
        Self {
            queue,
            patience,
            taken: [None; 16],
        }
    }

    /// Those that are there, at most 16; a request that failed is an error.
    pub fn look(&mut self) -> Result<&[Option<Completion>], Trouble> {
        let count = self.queue.poll(&mut self.taken)?;
        let taken = &self.taken[..count];
        match taken.iter().flatten().find_map(|completion| completion.outcome.err()) {
            Some(failure) => Err(Trouble::Work(failure)),
            None => Ok(taken),
        }
    }

    /// Waits until there is one at least.
    pub fn wait(&mut self, control: &mut dyn Control) -> Result<&[Option<Completion>], Trouble> {
        let mut waiting = Waiting::new(self.patience);
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
    patience: Duration,
    looks: u32,
}

impl Waiting {
    /// Begins.
    pub fn new(patience: Duration) -> Self {
        Self {
            begun: None,
            patience,
            looks: 0,
        }
    }

    /// It was looked at the clock.
    pub fn is_long(&self) -> bool {
        self.looks.is_multiple_of(LOOKS)
    }

    /// It was not there yet; now and then the other end may have said why.
    pub fn look(&mut self, what: &'static str, control: &mut dyn Control) -> Result<(), Trouble> {
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            if let Some(why) = control.look()? {
                return Err(Trouble::Far(why));
            }
            let begun = *self.begun.get_or_insert_with(Instant::now);
            if begun.elapsed() > self.patience {
                return Err(Trouble::Late {
                    what,
                    patience: self.patience,
                });
            }
        }
        Ok(())
    }
}
