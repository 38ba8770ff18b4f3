//! Verifies copies of random words with each kind of host memory, in both directions.

use gpu::{DeviceMemory, Error, HostMemory, Stream};

use super::links::allowance;
use super::session::{Direction, HostMemoryKind, Session};
use crate::model::figure::validated;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{LOOK_AT, ROUNDS, Seeds, Wrong, by_host, by_kernel, fill, fill_host};

/// Largest size of write-combined memory that the CPU reads back: it reads one word at a time.
const MAX_WRITE_COMBINED: usize = 16 << 20;

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let most = session.memory.len();
    let mut sizes: Vec<usize> = session.task.terms.depth.host_verified().to_vec();
    sizes.retain(|size| *size <= most);
    reporter.expect_more((HostMemoryKind::ALL.len() * sizes.len() * 2) as u64);
    for memory_kind in HostMemoryKind::ALL {
        let largest = sizes.last().copied().unwrap_or(4);
        let host = match memory_kind.allocate(&session.gpu, largest) {
            Ok(host) => host,
            Err(error) => {
                let failure = StepError::from(error);
                if failure.is_fatal() {
                    return Err(failure);
                }
                // The sweep reports it.
                continue;
            }
        };
        for bytes in sizes.iter().copied() {
            for direction in Direction::BOTH {
                if (memory_kind, direction) == (HostMemoryKind::WriteCombined, Direction::FromGpu)
                    && bytes > MAX_WRITE_COMBINED
                {
                    continue;
                }
                let (kind, to) = (memory_kind.name(), direction.copied());
                let name = validated(format_args!("{kind}.{to}"));
                reporter.doing_for(format!("{name} of {bytes} bytes"), allowance(bytes * 8))?;
                let path = Path {
                    stream: &session.stream,
                    witness: &session.witness,
                    memory: &session.memory,
                    host: &host,
                };
                let wrong = path.verify(direction, bytes, &session.seeds)?;
                let wrong = wrong.map(|(round, wrong)| {
                    let (direction, kind) = (direction.copied(), memory_kind.name());
                    format!("{direction} with {kind} memory, round {round}: {wrong}. {LOOK_AT}")
                });
                let verified = bytes * ROUNDS as usize;
                let right = session.about.right(&name, Some(bytes), verified);
                reporter.result(session.about.checked(right, wrong))?;
            }
        }
    }
    Ok(())
}

/// A path between host and GPU memory.
pub(super) struct Path<'a> {
    pub stream: &'a Stream,
    /// Fills and compares GPU memory.
    pub witness: &'a Stream,
    pub memory: &'a DeviceMemory,
    pub host: &'a HostMemory,
}

impl Path<'_> {
    /// The first wrong round.
    pub fn verify(
        &self,
        direction: Direction,
        bytes: usize,
        seeds: &Seeds,
    ) -> Result<Option<(u32, Wrong)>, Error> {
        for round in 1..=ROUNDS {
            let (sent, before) = (seeds.next(), seeds.next());
            let copy = || {
                direction.copy(self.stream, (self.memory, 0), (self.host, 0), bytes)?;
                self.stream.synchronize()
            };
            let wrong = match direction {
                Direction::ToGpu => {
                    fill(self.witness, self.memory, bytes, before)?;
                    fill_host(self.host, bytes, sent)?;
                    copy()?;
                    by_kernel(self.witness, self.memory, bytes, sent)?
                }
                Direction::FromGpu => {
                    fill_host(self.host, bytes, before)?;
                    fill(self.witness, self.memory, bytes, sent)?;
                    copy()?;
                    by_host(self.host, bytes, sent)?
                }
            };
            if let Some(wrong) = wrong {
                return Ok(Some((round, wrong)));
            }
        }
        Ok(None)
    }
}
