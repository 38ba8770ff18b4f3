//! `gdr probe`: the list of probes. Their options stand in their folders.

use clap::{Args, Subcommand};

use crate::probe::arguments::{Arguments as _, ScopeArguments};
use crate::probe::asynchronous::AsyncProbe;
use crate::probe::copy::CopyProbe;
use crate::probe::host::HostProbe;
use crate::probe::mp::MpProbe;
use crate::probe::mpi::MpiProbe;
use crate::probe::p2p::P2pProbe;
use crate::probe::rdma::RdmaProbe;
use crate::probe::transfer::TransferProbe;

/// `gdr probe`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Probe {
    /// The probe.
    #[command(subcommand)]
    pub what: ProbeWhat,
}

/// The probes.
#[derive(Debug, Subcommand)]
pub enum ProbeWhat {
    /// Map GPU memory for the CPU, verify every byte, and compare the copies with cuMemcpy
    ///
    /// With --sysroot or --from nothing is measured; the expected figures are shown.
    Copy(Box<CopyProbe>),
    /// Copy between host and GPU memory of every kind, verify every word, and find the best chunk size for staging
    ///
    /// GPUDirect v1: pageable, pinned, registered and write-combined memory, each direction and both at once, staging
    /// through two host buffers, and the pipeline of MPI libraries. With --sysroot or --from nothing is measured.
    Host(HostProbe),
    /// Copy between GPUs with and without peer access, verify every word, and measure every pair, alone and all at
    /// once
    ///
    /// GPUDirect v2: copy engines and kernels of each GPU access the memory of each other GPU. Results are in GB/s and
    /// as a share of the bandwidth of the NVLinks or the PCI Express path. With --sysroot or --from nothing is
    /// measured.
    P2p(P2pProbe),
    /// Move GPU memory with RDMA NICs, verify every byte at the destination, and measure as perftest does
    ///
    /// GPUDirect RDMA from a NIC to itself, to another port (--remote-device), or to another machine: run 'gdr probe
    /// rdma --listen' there and 'gdr probe rdma HOST' here. srun -N2 and mpirun -n 2 start both ends. Tests write,
    /// read, send, immediate data and atomic operations over RC, UC and UD. With --sysroot or --from nothing is
    /// measured. With
    /// --sim and another machine the GPU is simulated, and the NIC is real.
    Rdma(Box<RdmaProbe>),
    /// Let CUDA streams ring a NIC's doorbells and wait for its completions, and measure the latency
    ///
    /// GPUDirect Async: ordering of all wait conditions, latency from a CPU write to the stream, latency from the
    /// stream to the NIC's doorbell, and messages driven by the stream, over a loop and to another process, compared
    /// with the same messages driven by the CPU. With --sysroot or --from nothing is measured.
    Async(AsyncProbe),
    /// Exchange messages between two processes by the CPU, by CUDA streams and by kernels, and measure them beside MPI
    ///
    /// What libmp offers: sends and receives, puts and gets, between two processes of this machine or of two: run 'gdr
    /// probe mp --listen' there and 'gdr probe mp HOST' here. srun -N2 and mpirun -n 2 start both ends. Every byte is
    /// verified. With --sysroot or --from nothing is measured.
    Mp(Box<MpProbe>),
    /// Move GPU memory to GPU memory in each way of GPUDirect, verified, in one figure
    ///
    /// No GPUDirect (pageable copies), v1 (copy and send, whole and in chunks of the best size), v2 (peer to peer in one
    /// node), v3 (RDMA of GPU memory), and host memory as the ceiling: latency and bandwidth, 4 B to 64 MiB. Between two
    /// machines as 'gdr probe rdma'; on one machine between its ports. --device sim replaces the NIC by a CPU thread.
    Transfer(Box<TransferProbe>),
    /// Send host and GPU memory with the MPI library of the launcher, verify every byte, and name the transports
    ///
    /// mpirun -n 2 gdr probe mpi, or srun -N2 gdr probe mpi. Opens Open MPI or MPICH, and the libraries with their
    /// ABIs, as the launcher has them; checks in a process of its own, which may crash, whether the library takes GPU
    /// pointers; measures latency and bandwidth between ranks of one host and of two. Rank 0 reports.
    Mpi(MpiProbe),
}

impl ProbeWhat {
    /// The options of every probe.
    pub fn scope(&self) -> &ScopeArguments {
        match self {
            Self::Copy(probe) => probe.scope(),
            Self::Host(probe) => probe.scope(),
            Self::P2p(probe) => probe.scope(),
            Self::Rdma(probe) => probe.scope(),
            Self::Async(probe) => probe.scope(),
            Self::Mp(probe) => probe.scope(),
            Self::Transfer(probe) => probe.scope(),
            Self::Mpi(probe) => probe.scope(),
        }
    }
}
