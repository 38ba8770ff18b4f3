//! Every sort of host memory, in both directions: random words, compared where they arrived by other means.

use gpu::{DeviceMemory, Error, HostMemory, Stream};

use super::links::allowance;
use super::session::{Direction, HostMemoryKind, Session};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{Seeds, Wrong, by_host, by_kernel, fill, fill_host};

/// Rounds for each size, each with words of its own.
pub(super) const ROUNDS: u32 = 3;
/// As much write-combined memory is read by the CPU.
const SLOW: usize = 16 << 20;
/// What a person does next.
pub(super) const LOOK_AT: &str = "CUDA reported success: see gdr doctor --only pcie.iommu,pcie.acs, and the kernel's log for IOMMU faults";

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let most = session.memory.len();
    let mut sizes: Vec<usize> = session.task.terms.depth.host_verified().to_vec();
    sizes.retain(|size| *size <= most);
    reporter.expect_more((HostMemoryKind::ALL.len() * sizes.len() * 2) as u64);
    for memory_kind in HostMemoryKind::ALL {
        let largest = sizes.last().copied().unwrap_or(4);
        let host = match memory_kind.take(&session.gpu, largest) {
            Ok(host) => host,
            Err(error) => {
                let failure = StepError::from(error);
                if failure.is_the_end() {
                    return Err(failure);
                }
                // The sweep says so.
                continue;
            }
        };
        for bytes in sizes.iter().copied() {
            for direction in Direction::BOTH {
                // The CPU reads write-combined memory a word at a time.
                if (memory_kind, direction) == (HostMemoryKind::WriteCombined, Direction::FromGpu)
                    && bytes > SLOW
                {
                    continue;
                }
                let name = format!("validate.{}.{}", memory_kind.name(), direction.name());
                reporter.doing_for(format!("{name} of {bytes} bytes"), allowance(bytes * 8))?;
                let way = Way {
                    stream: &session.stream,
                    witness: &session.witness,
                    memory: &session.memory,
                    host: &host,
                };
                let result = match way.verify(direction, bytes, &session.seeds)? {
                    None => session
                        .about
                        .right(&name, Some(bytes), bytes * ROUNDS as usize),
                    Some((round, wrong)) => {
                        let words = format!(
                            "{} with {} memory, round {round}: {wrong}. {LOOK_AT}",
                            direction.name(),
                            memory_kind.name()
                        );
                        session.about.wrong(&name, Some(bytes), words)
                    }
                };
                reporter.result(result)?;
            }
        }
    }
    Ok(())
}

/// A way between host and GPU, and who looks whether it is right.
pub(super) struct Way<'a> {
    pub stream: &'a Stream,
    /// It does none of the copies.
    pub witness: &'a Stream,
    pub memory: &'a DeviceMemory,
    pub host: &'a HostMemory,
}

impl Way<'_> {
    /// All rounds: the first wrong one.
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
