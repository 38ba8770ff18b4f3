//! Verifies transfers between two GPUs with random words, by another engine than the one that moved them.

use gpu::{DeviceMemory, Error};

use super::cluster::Member;
use crate::model::figure::{FigureKind, p2p};
use crate::probe::integrity::{ROUNDS, Seeds, Wrong, by_engine, by_kernel, fill};

/// How one GPU accesses the other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// The copy engine writes.
    Write,
    /// The copy engine reads.
    Read,
    /// A kernel stores.
    Store,
    /// A kernel loads.
    Load,
}

impl Transfer {
    pub const ALL: [Self; 4] = [Self::Write, Self::Read, Self::Store, Self::Load];

    /// Its bandwidth.
    pub fn figure(self) -> FigureKind {
        match self {
            Self::Write => p2p::WRITE,
            Self::Read => p2p::READ,
            Self::Store => p2p::STORE,
            Self::Load => p2p::LOAD,
        }
    }

    /// True if data goes to the remote GPU.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::Store)
    }

    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Store | Self::Load)
    }
}

/// Two GPUs with a buffer of each.
pub struct GpuPair<'a> {
    /// The GPU whose engines transfer.
    pub local_gpu: &'a Member,
    pub remote_gpu: &'a Member,
    pub local: &'a DeviceMemory,
    pub remote: &'a DeviceMemory,
}

impl GpuPair<'_> {
    /// Queues one transfer in the local GPU's stream.
    pub fn queue(&self, transfer: Transfer, bytes: usize) -> Result<(), Error> {
        let (stream, local, remote) = (&self.local_gpu.stream, self.local, self.remote);
        match transfer {
            Transfer::Write => stream.copy(remote, 0, local, 0, bytes),
            Transfer::Read => stream.copy(local, 0, remote, 0, bytes),
            Transfer::Store => stream.copy_words(remote, 0, local, 0, bytes),
            Transfer::Load => stream.copy_words(local, 0, remote, 0, bytes),
        }
    }

    /// The first wrong round.
    pub fn verify(
        &self,
        transfer: Transfer,
        bytes: usize,
        seeds: &Seeds,
    ) -> Result<Option<(u32, Wrong)>, Error> {
        let local = (self.local_gpu, self.local);
        let remote = (self.remote_gpu, self.remote);
        let ((sender, source), (receiver, target)) =
            if transfer.is_write() { (local, remote) } else { (remote, local) };
        for round in 1..=ROUNDS {
            let (sent, before) = (seeds.next(), seeds.next());
            fill(&sender.witness, source, bytes, sent)?;
            fill(&receiver.witness, target, bytes, before)?;
            self.queue(transfer, bytes)?;
            self.local_gpu.stream.synchronize()?;
            let wrong = if transfer.is_kernel() {
                by_engine(&receiver.witness, target, bytes, sent)?
            } else {
                by_kernel(&receiver.witness, target, bytes, sent)?
            };
            if let Some(wrong) = wrong {
                return Ok(Some((round, wrong)));
            }
        }
        Ok(None)
    }
}
