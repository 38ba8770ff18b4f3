//! Errors of a child's steps.

use std::io;
use std::time::Duration;

use super::channel::ChannelError;
use super::cpus::BindError;
use super::target::Target;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The pipe to the parent is closed.
    #[error("the pipe to the parent is closed")]
    Io(#[from] io::Error),
    /// Standard input is not a socket to the other process.
    #[error(transparent)]
    Socket(io::Error),
    #[error("cannot get random numbers from the kernel")]
    Random(#[source] io::Error),
    #[error(transparent)]
    Gpu(#[from] gpu::Error),
    #[error(transparent)]
    Map(#[from] gdrcopy::Error),
    /// The copy kernels cannot be chosen.
    #[error(transparent)]
    Kernel(#[from] gdrcopy::copy::Error),
    #[error(transparent)]
    Queues(#[from] gdsync::Error),
    /// The watchdog released a stream whose wait timed out.
    #[error("{0}")]
    Released(String),
    /// A WQE completed with an error.
    #[error("a WQE failed: {syndrome} (vendor's syndrome {vendor:#04x})")]
    Wqe { syndrome: gdsync::wire::Syndrome, vendor: u8 },
    #[error(transparent)]
    Ranks(#[from] mp::Error),
    #[error(transparent)]
    Mpi(#[from] mp::mpi::Error),
    #[error(transparent)]
    Verbs(#[from] verbs::Error),
    #[error(
        "this machine has no RDMA device: the kernel's RDMA modules are not loaded, or no NIC has a driver of theirs (there is no {0}): \
         see gdr doctor --only rdma.device"
    )]
    NoRdmaDevice(&'static str),
    /// The requested memory path is not available; with advice.
    #[error("GPU memory cannot be registered by {0}")]
    MemoryPath(&'static str, #[source] verbs::MemoryPathError, String),
    #[error("a request to the NIC failed")]
    Work(#[source] verbs::Failure),
    /// A failed request, with its description and a hint.
    #[error("{0}: a request to the NIC failed: {1}{2}")]
    Step(String, verbs::Failure, &'static str),
    /// Another rank of MPI.
    #[error(
        "rank {rank} did not answer within {} s: it has ended or hangs, and its own messages say why",
        timeout.as_secs()
    )]
    Rank { rank: u32, timeout: Duration },
    #[error("rank {rank} failed: {reason}")]
    RankFailed { rank: u32, reason: String },
    #[error("{what} did not come within {} s", timeout.as_secs())]
    Late { what: &'static str, timeout: Duration },
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
    DeviceFailed(String),
    #[error("port {port} has no GID at index {index}: ibv_devinfo -v shows those it has")]
    NoGid {
        /// As in `mlx5_0:1`.
        port: String,
        index: u8,
    },
    #[error("port {port} has no P_Key at index {index}: see /sys/class/infiniband/*/ports/*/pkeys")]
    NoPkey {
        /// As in `mlx5_0:1`.
        port: String,
        index: u16,
    },
    #[error(
        "the ports are not in one partition: P_Key {ours:#06x} here and {theirs:#06x} there (see --pkey-index)"
    )]
    Partitions { ours: u16, theirs: u16 },
    #[error("one port is InfiniBand and the other Ethernet: they cannot be connected")]
    Links,
    /// The parameters of devlink are those of ice, Linux 5.17 and later (commit e523af4ee560).
    #[error(
        "{0} speaks iWARP, whose queue pairs only the connection manager (librdmacm) connects; gdr measures InfiniBand, RoCE and EFA. Intel's E800 \
         speaks RoCE v2 instead: devlink dev param show, enable_iwarp false and enable_roce true"
    )]
    Iwarp(String),
    #[error("one port is of EFA and the other is not: they cannot be connected")]
    Efa,
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The other end sent an unexpected message.
    #[error("the other end is out of step: is it the same version of gdr?")]
    OutOfStep,
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An option that this GPU or backend does not support, and what to use instead.
    #[error("{0}")]
    Option(String),
}

/// For a library of rdma-core that is not installed.
const INSTALL: &str = "install rdma-core's libibverbs and the provider of the NIC (Debian, Ubuntu: libibverbs1 and \
                       ibverbs-providers; Fedora, RHEL, SUSE: libibverbs)";
const ENOMEM: i32 = 12;

impl StepError {
    /// The message, and what to do about it where that is known.
    pub fn advised(&self) -> String {
        let message = gpu::sentence(self);
        match self {
            Self::Gpu(error @ gpu::Error::Context { .. }) => Target::open_error(error),
            Self::MemoryPath(.., advice) => format!("{message}{advice}"),
            Self::Verbs(error) if error.is_absent() => format!("{message}: {INSTALL}"),
            Self::Verbs(error @ verbs::Error::Register { .. }) if error.errno() == Some(ENOMEM) => {
                format!(
                    "{message}; see the limit of locked memory: gdr doctor --only limits.memlock, gdr fix memlock"
                )
            }
            Self::Verbs(verbs::Error::Memory { pages: verbs::Pages::Huge, .. }) => {
                format!("{message}; too few huge pages are reserved: sysctl vm.nr_hugepages")
            }
            _ => message,
        }
    }

    /// True if later steps cannot succeed either.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Io(_)) || self.is_lost()
    }

    /// True if the other end is the cause.
    pub fn is_from_peer(&self) -> bool {
        matches!(
            self,
            Self::Channel(_) | Self::OutOfStep | Self::Rank { .. } | Self::RankFailed { .. }
        )
    }

    /// True if the GPU's context is lost, so that this process cannot use the GPU any more: after a failing kernel, an Xid or a
    /// broken link, but not after a failed call, with an old driver or without free memory.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Gpu(error) | Self::Queues(gdsync::Error::Gpu { source: error, .. }) => {
                error.kind() == gpu::Kind::Broken
                    && error.failure().is_some_and(|failure| failure.result().is_some())
            }
            _ => false,
        }
    }
}
