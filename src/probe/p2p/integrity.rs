//! Each way between two GPUs: random words, compared where they arrived by other means than those that moved them.

use gpu::{DeviceMemory, Error};

use super::cluster::Member;
use crate::probe::integrity::{Seeds, Wrong, by_engine, by_kernel, fill};

/// Rounds for each size, each with words of its own.
pub const ROUNDS: u32 = 3;
/// What a person does next.
pub const LOOK_AT: &str = "CUDA reported success: see gdr doctor --only pcie.iommu,pcie.acs";

/// How one GPU reaches the other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Its copy engine writes.
    Write,
    /// Its copy engine reads.
    Read,
    Store,
    Load,
}

impl Means {
    pub const ALL: [Self; 4] = [Self::Write, Self::Read, Self::Store, Self::Load];

    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "copy.write",
            Self::Read => "copy.read",
            Self::Store => "kernel.store",
            Self::Load => "kernel.load",
        }
    }

    /// Whether words go to the other GPU.
    pub fn goes_there(self) -> bool {
        matches!(self, Self::Write | Self::Store)
    }

    /// Whether a kernel does it.
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Store | Self::Load)
    }
}

/// Two GPUs, and a buffer of each.
pub struct Two<'a> {
    /// The one that reaches.
    pub here: &'a Member,
    /// The one that is reached.
    pub there: &'a Member,
    pub local: &'a DeviceMemory,
    pub remote: &'a DeviceMemory,
}

impl Two<'_> {
    /// Puts one transfer in, by the stream of the one that reaches.
    pub fn put(&self, means: Means, bytes: usize) -> Result<(), Error> {
        let (stream, local, remote) = (&self.here.stream, self.local, self.remote);
        match means {
            Means::Write => stream.copy(remote, 0, local, 0, bytes),
            Means::Read => stream.copy(local, 0, remote, 0, bytes),
            Means::Store => stream.copy_words(remote, 0, local, 0, bytes),
            Means::Load => stream.copy_words(local, 0, remote, 0, bytes),
        }
    }

    /// All rounds of one size: the first wrong one.
    pub fn verify(
        &self,
        means: Means,
        bytes: usize,
        seeds: &Seeds,
    ) -> Result<Option<(u32, Wrong)>, Error> {
        let here = (self.here, self.local);
        let there = (self.there, self.remote);
        let ((sender, source), (receiver, target)) = match means.goes_there() {
            true => (here, there),
            false => (there, here),
        };
        for round in 1..=ROUNDS {
            let (sent, before) = (seeds.next(), seeds.next());
            fill(&sender.witness, source, bytes, sent)?;
            fill(&receiver.witness, target, bytes, before)?;
            self.put(means, bytes)?;
            self.here.stream.synchronize()?;
            let wrong = match means.is_kernel() {
                true => by_engine(&receiver.witness, target, bytes, sent)?,
                false => by_kernel(&receiver.witness, target, bytes, sent)?,
            };
            if let Some(wrong) = wrong {
                return Ok(Some((round, wrong)));
            }
        }
        Ok(None)
    }
}
