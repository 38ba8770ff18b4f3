//! Messages between two ranks. Headings are those of columns.

use super::{FigureKind, bandwidth, latency};

pub const STREAM_LATENCY: FigureKind = latency("mp.stream.latency", "stream");
pub const CPU_LATENCY: FigureKind = latency("mp.cpu.latency", "CPU");
pub const KERNEL_LATENCY: FigureKind = latency("mp.kernel.latency", "kernel");
pub const PUT_LATENCY: FigureKind = latency("mp.put.latency", "put");
pub const GET_LATENCY: FigureKind = latency("mp.get.latency", "get");

/// Those of `gdr probe mpi` for host memory.
pub const MPI_LATENCY: FigureKind = latency("mp.mpi.latency", "MPI");
pub const MPI_BANDWIDTH: FigureKind =
    bandwidth("mp.mpi.bandwidth", "MPI").drawn(4, "MPI, in host memory");

pub const LATENCIES: [FigureKind; 6] =
    [CPU_LATENCY, STREAM_LATENCY, KERNEL_LATENCY, PUT_LATENCY, GET_LATENCY, MPI_LATENCY];

pub const CPU: FigureKind = bandwidth("mp.cpu.bandwidth", "CPU").drawn(1, "messages by the CPU");
pub const STREAM: FigureKind =
    bandwidth("mp.stream.bandwidth", "stream").drawn(2, "messages by a stream");
pub const PUT: FigureKind = bandwidth("mp.put.bandwidth", "put").drawn(3, "puts");
pub const GET: FigureKind = bandwidth("mp.get.bandwidth", "get");

pub const BANDWIDTHS: [FigureKind; 5] = [CPU, STREAM, PUT, GET, MPI_BANDWIDTH];
