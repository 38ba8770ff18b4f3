//! What both processes have: queues that are connected to the other's, and steps that end.

use std::time::{Duration, Instant};

use gdsync::Watched;
use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Endpoint, Hca};
use gdsync::queue::Wait;

use super::super::Card;
use super::super::plan::{MESSAGE, MOST};
use super::super::queues::Queues;
use super::super::session::Session;
use super::Which;
use super::way::{Way, Word};
use crate::probe::trouble::Trouble;

/// Messages that are put in together.
const BATCH: usize = 20;
/// Batches that are in at once: while one runs the next is put in.
pub const BATCHES: usize = 2;
/// What the slots take together at most.
const ROOM: usize = 64 << 20;
/// What goes there at most, so that large messages take no longer than small ones.
const ALL: usize = 1 << 30;
/// Messages of a step that the parent hears of, and how long one may take: a tenth of a second each, as two processes on an emulated
/// machine that is busy may need.
pub const PORTION: u32 = 1000;
pub const A_PORTION: Duration = Duration::from_secs(100);
/// Looks between two at the clock and the other process, where there are so many CPUs that nobody waits for the one that looks; and
/// where there are fewer.
const LOOKS: u32 = 128;
const MANY_CPUS: usize = 8;
const LOOKS_OF_FEW: u32 = 4;

/// One of the two processes.
pub struct End<'a> {
    pub session: &'a Session<'a>,
    pub queues: Queues,
    // Behind the queues: what they still have to say goes out before it ends.
    joined: Option<socket::Joined>,
    pub way: &'a mut Way,
    pub bytes: usize,
    /// Messages of a batch.
    pub batch: u32,
    /// The next message's number.
    pub next: u32,
    /// Looks between two at the clock.
    looks: u32,
}

impl<'a> End<'a> {
    /// Makes queues and connects them to the other process's.
    pub fn new(session: &'a Session<'a>, which: Which, way: &'a mut Way) -> Result<Self, Trouble> {
        let card = session.task.card.as_ref().ok_or(Trouble::OutOfStep)?;
        let bytes = match session.task.terms.sizes.as_slice() {
            [] => MESSAGE,
            sizes => sizes.iter().copied().max().unwrap_or(MESSAGE).clamp(16, MOST) & !15,
        };
        let batch = (ROOM / bytes / BATCHES).clamp(1, BATCH);
        let (hca, joined) = opened(card, session, which, way)?;
        // With room for sends whose completions come a little after what they brought back.
        let queues = Queues::alone(session, hca, (batch * BATCHES * 2) as u32)?;
        way.say(&Word::Queues(queues.pair.endpoint.to_string()));
        let Word::Queues(there) = way.hear(Duration::ZERO)? else {
            return Err(Trouble::OutOfStep);
        };
        let there: Endpoint = there.parse().map_err(|_| Trouble::OutOfStep)?;
        queues.connect(there)?;
        Ok(Self {
            session,
            queues,
            joined,
            way,
            bytes,
            batch: batch as u32,
            next: 0,
            looks: match std::thread::available_parallelism() {
                Ok(cpus) if cpus.get() >= MANY_CPUS => LOOKS,
                _ => LOOKS_OF_FEW,
            },
        })
    }

    /// Slots that it needs for messages of one way.
    pub fn slots(&self) -> usize {
        self.batch as usize * BATCHES
    }

    /// How many messages go there and back: both processes count alike.
    pub fn messages(&self) -> u32 {
        let most = (ALL / self.bytes).max(self.batch as usize * BATCHES);
        let wanted = self.session.task.terms.depth.async_messages();
        wanted.min(u32::try_from(most).unwrap_or(wanted))
    }

    /// The number of the next message.
    pub fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// Looks until `done` says so; the other process's end, or too long a time, is an error.
    pub fn until(
        &mut self,
        what: &'static str,
        mut done: impl FnMut(&mut Self) -> Result<bool, Trouble>,
    ) -> Result<(), Trouble> {
        let patience = self.session.patience * 4;
        let begun = Instant::now();
        let mut looks = 0_u32;
        while !done(self)? {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(self.looks) {
                self.way.look()?;
                if begun.elapsed() > patience {
                    return Err(self.why(Trouble::Late { what, patience }));
                }
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// The same for a message that arrives, which the CPU polls for.
    pub fn arrives(&mut self) -> Result<(), Trouble> {
        self.until("a message of the other process", |end| Ok(end.queues.completed()? > 0))
    }

    /// Has a stream that was left in the middle come to its end: what it waits for is released at once.
    pub fn release<'w>(&self, waits: impl Iterator<Item = &'w Wait>) -> Result<(), Trouble> {
        let watched = waits.map(Watched::completion).collect();
        let guard = self.session.dog.watch(watched, Duration::from_millis(1));
        let ended = self.session.stream.synchronize_within(self.session.patience * 4);
        drop(guard);
        Ok(ended?)
    }

    /// What lies behind a trouble, where that is the link between two software HCAs, or an entry that failed.
    pub fn why(&mut self, trouble: Trouble) -> Trouble {
        match self.queues.completed() {
            Err(failed @ Trouble::Entry { .. }) => failed,
            _ => match self.joined.as_ref().and_then(socket::Joined::ended) {
                Some(ended) => Trouble::Released(format!("{trouble}: {}", gpu::sentence(&*ended))),
                None => trouble,
            },
        }
    }
}

/// The HCA. Software ones are joined over the second socket, and their LIDs are told apart.
fn opened(
    card: &Card,
    session: &Session<'_>,
    which: Which,
    way: &mut Way,
) -> Result<(Box<dyn Hca>, Option<socket::Joined>), Trouble> {
    let lid = match which {
        Which::Near => 1,
        Which::Far => 2,
    };
    match card {
        Card::Sim => {
            let hca = SimHca::with_lid(session.supply.clone(), lid)?;
            let options = socket::Options {
                patience: session.task.terms.patience.max(socket::Options::default().patience),
                ..socket::Options::default()
            };
            let joined = socket::join(&hca, way.messages()?, options).map_err(gdsync::Error::from)?;
            Ok((Box::new(hca), Some(joined)))
        }
        card => Ok((card.open(session)?, None)),
    }
}
