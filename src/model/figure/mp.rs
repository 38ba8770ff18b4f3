//! Messages between two ranks. Headings are those of columns.

use super::FigureKind;

pub const CPU_LATENCY: FigureKind = FigureKind::new("mp.cpu.latency", "CPU");
pub const KERNEL_LATENCY: FigureKind = FigureKind::new("mp.kernel.latency", "kernel");
pub const PUT_LATENCY: FigureKind = FigureKind::new("mp.put.latency", "put");
pub const GET_LATENCY: FigureKind = FigureKind::new("mp.get.latency", "get");

/// Those of `gdr probe mpi` for host memory.
pub const MPI_LATENCY: FigureKind = FigureKind::new("mp.mpi.latency", "MPI");
pub const MPI_BANDWIDTH: FigureKind =
    FigureKind::new("mp.mpi.bandwidth", "MPI").drawn(4, "MPI, in host memory");

pub const LATENCIES: [FigureKind; 6] = [
    CPU_LATENCY,
    FigureKind::new("mp.stream.latency", "stream"),
    KERNEL_LATENCY,
    PUT_LATENCY,
    GET_LATENCY,
    MPI_LATENCY,
];

pub const PUT: FigureKind = FigureKind::new("mp.put.bandwidth", "put").drawn(3, "puts");
pub const GET: FigureKind = FigureKind::new("mp.get.bandwidth", "get");

pub const BANDWIDTHS: [FigureKind; 5] = [
    FigureKind::new("mp.cpu.bandwidth", "CPU").drawn(1, "messages by the CPU"),
    FigureKind::new("mp.stream.bandwidth", "stream").drawn(2, "messages by a stream"),
    PUT,
    GET,
    MPI_BANDWIDTH,
];
