//! What both processes have: queues that are connected to the other's, and steps that end.

use std::time::{Duration, Instant};

use gdsync::Watched;
use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Endpoint, Hca};
use gdsync::queue::Wait;

use super::super::plan::{MESSAGE, MOST};
use super::super::queues::Queues;
use super::super::session::Session;
use super::super::task::{HcaChoice, Which};
use super::way::{Way, Word};
use crate::probe::failure::StepError;

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
    connection: Option<socket::Connection>,
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
    pub fn new(
        session: &'a Session<'a>,
        which: Which,
        way: &'a mut Way,
    ) -> Result<Self, StepError> {
        let hca = session.task.hca.as_ref().ok_or(StepError::OutOfStep)?;
        let bytes = match session.task.terms.sizes.as_slice() {
            [] => MESSAGE,
            sizes => {
                sizes
                    .iter()
                    .copied()
                    .max()
                    .unwrap_or(MESSAGE)
                    .clamp(16, MOST)
                    & !15
            }
        };
        let batch = (ROOM / bytes / BATCHES).clamp(1, BATCH);
        let (hca, connection) = opened(hca, session, which, way)?;
        // With room for sends whose completions come a little after what they brought back.
        let queues = Queues::alone(session, hca, (batch * BATCHES * 2) as u32)?;
        way.say(Word::Queues(queues.pair.endpoint.to_string()));
        let Word::Queues(there) = way.hear(Duration::ZERO)? else {
            return Err(StepError::OutOfStep);
        };
        let there: Endpoint = there.parse().map_err(|_| StepError::OutOfStep)?;
        queues.connect(there)?;
        Ok(Self {
            session,
            queues,
            connection,
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
        mut done: impl FnMut(&mut Self) -> Result<bool, StepError>,
    ) -> Result<(), StepError> {
        let timeout = self.session.timeout * 4;
        let begun = Instant::now();
        let mut looks = 0_u32;
        while !done(self)? {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(self.looks) {
                self.way.look()?;
                if begun.elapsed() > timeout {
                    return Err(self.why(StepError::Late { what, timeout }));
                }
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// The same for a message that arrives, which the CPU polls for.
    pub fn arrives(&mut self) -> Result<(), StepError> {
        self.until("a message of the other process", |end| {
            Ok(end.queues.completed()? > 0)
        })
    }

    /// Has a stream that was left in the middle come to its end: what it waits for is released at once.
    pub fn release<'w>(&self, waits: impl Iterator<Item = &'w Wait>) -> Result<(), StepError> {
        let watched = waits.map(Watched::completion).collect();
        let guard = self.session.dog.watch(watched, Duration::from_millis(1));
        let ended = self
            .session
            .stream
            .synchronize_within(self.session.timeout * 4);
        drop(guard);
        Ok(ended?)
    }

    /// What lies behind a trouble, where that is the link between two software HCAs, or an entry that failed.
    pub fn why(&mut self, failure: StepError) -> StepError {
        match self.queues.completed() {
            Err(failed @ StepError::Wqe { .. }) => failed,
            _ => match self.connection.as_ref().and_then(socket::Connection::ended) {
                Some(ended) => {
                    StepError::Released(format!("{failure}: {}", gpu::sentence(&*ended)))
                }
                None => failure,
            },
        }
    }
}

/// The HCA. Software ones are joined over the second socket, and their LIDs are told apart.
fn opened(
    hca: &HcaChoice,
    session: &Session<'_>,
    which: Which,
    way: &mut Way,
) -> Result<(Box<dyn Hca>, Option<socket::Connection>), StepError> {
    let lid = match which {
        Which::Local => 1,
        Which::Remote => 2,
    };
    match hca {
        HcaChoice::Sim => {
            let hca = SimHca::with_lid(session.allocator.clone(), lid)?;
            let options = socket::Options {
                timeout: session
                    .task
                    .terms
                    .timeout
                    .max(socket::Options::default().timeout),
                ..socket::Options::default()
            };
            let connection =
                socket::join(&hca, way.messages()?, options).map_err(gdsync::Error::from)?;
            Ok((Box::new(hca), Some(connection)))
        }
        hca => Ok((hca.open(session)?, None)),
    }
}
