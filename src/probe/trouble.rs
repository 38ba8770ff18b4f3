//! Why a child could not do a part of its work.

use std::io;

use super::child::Unbound;

/// Why a part of the work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The parent no longer listens.
    #[error("the parent no longer listens")]
    Io(#[from] io::Error),
    /// CUDA refused.
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
    /// The mapping failed.
    #[error(transparent)]
    Map(#[from] gdrcopy::Error),
    /// The copy kernels cannot be chosen.
    #[error(transparent)]
    Kernel(#[from] gdrcopy::copy::Error),
    /// This process cannot be bound to the CPUs it is to run on.
    #[error(transparent)]
    Unbound(#[from] Unbound),
}

impl Trouble {
    /// What comes next cannot be done either.
    pub fn is_the_end(&self) -> bool {
        matches!(self, Self::Io(_)) || self.is_lost()
    }

    /// The GPU's context is lost, and this process can do no more with that GPU: what a failing kernel, an Xid or a broken
    /// link leaves behind. A refusal, an old driver or a full memory is none of these.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Gpu(error) => {
                error.kind() == gpu::Kind::Broken && error.failure().is_some_and(|failure| failure.result().is_some())
            }
            _ => false,
        }
    }
}
