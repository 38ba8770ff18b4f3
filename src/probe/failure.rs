//! Why a child could not do a part of its work.

use std::io;
use std::time::Duration;

use super::channel::Gone;
use super::cpus::Unbound;

/// Why a part of the work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The parent no longer listens.
    #[error("the parent no longer listens")]
    Io(#[from] io::Error),
    /// Standard input connects this process with no other.
    #[error(transparent)]
    Socket(io::Error),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random(#[source] io::Error),
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
    #[error(transparent)]
    Map(#[from] gdrcopy::Error),
    /// The copy kernels cannot be chosen.
    #[error(transparent)]
    Kernel(#[from] gdrcopy::copy::Error),
    /// Queues, or words that streams wait for.
    #[error(transparent)]
    Queues(#[from] gdsync::Error),
    /// A stream waited for what did not come, and was released.
    #[error("{0}")]
    Released(String),
    /// An entry of a queue failed.
    #[error("the NIC gave an entry up: {syndrome} (vendor's syndrome {vendor:#04x})")]
    Wqe {
        syndrome: gdsync::wire::Syndrome,
        /// What the vendor's hardware adds.
        vendor: u8,
    },
    #[error(transparent)]
    Verbs(#[from] verbs::Error),
    /// The requested memory path is not available.
    #[error("GPU memory is not reached by {0}")]
    MemoryPath(&'static str, #[source] verbs::MemoryPathError),
    /// A request to a NIC failed.
    #[error("a request to the NIC failed")]
    Work(#[source] verbs::Failure),
    /// The same, with what it was, and what may lie behind it.
    #[error("{0}: a request to the NIC failed: {1}{2}")]
    Step(String, verbs::Failure, &'static str),
    #[error("{what} did not come within {} s", timeout.as_secs())]
    Late {
        /// What was waited for.
        what: &'static str,
        timeout: Duration,
    },
    /// A port is not up.
    #[error(
        "port {port} is not active but {state}: see its cable, and gdr doctor --only rdma.port"
    )]
    Port {
        /// As in `mlx5_0:1`.
        port: String,
        state: String,
    },
    #[error(
        "port {0} went down meanwhile: see its cable and the switch, and gdr doctor --only rdma.port"
    )]
    PortDown(String),
    #[error("{0} has failed: see the kernel's log")]
    CardFailed(String),
    /// A port has no GID at an index.
    #[error("port {port} has no GID at index {index}: ibv_devinfo -v shows those it has")]
    NoGid {
        /// As in `mlx5_0:1`.
        port: String,
        /// What was asked for.
        index: u8,
    },
    /// InfiniBand on one side, Ethernet on the other.
    #[error("one port is InfiniBand and the other Ethernet: they do not reach each other")]
    Links,
    /// The other end does not answer.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// The other end says what it should not say now.
    #[error("the other end is out of step: is it the same version of gdr?")]
    OutOfStep,
    /// This process cannot be bound to the CPUs it is to run on.
    #[error(transparent)]
    Unbound(#[from] Unbound),
}

impl StepError {
    /// What comes next cannot be done either.
    pub fn is_the_end(&self) -> bool {
        matches!(self, Self::Io(_)) || self.is_lost()
    }

    /// The other end is the cause, or says so.
    pub fn is_of_the_remote_end(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::OutOfStep)
    }

    /// The GPU's context is lost, and this process can do no more with that GPU: what a failing kernel, an Xid or a broken
    /// link leaves behind. An error of a call, an old driver or a full memory does not lose it.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Gpu(error) | Self::Queues(gdsync::Error::Gpu { source: error, .. }) => {
                error.kind() == gpu::Kind::Broken
                    && error
                        .failure()
                        .is_some_and(|failure| failure.result().is_some())
            }
            _ => false,
        }
    }
}
