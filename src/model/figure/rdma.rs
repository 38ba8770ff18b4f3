//! Transfers by a NIC. Headings are those of columns.

use super::{FigureKind, bandwidth, latency};

/// Ends the name of a bandwidth with strict order, measured beside one with relaxed order.
pub const STRICT: &str = ".strict";

/// Ends the names of results of memory with on-demand paging.
pub const PAGED: &str = ".odp";
/// Ends that have none of it.
pub const UNPAGED: &str = "rdma.odp";

pub const LATENCY: &str = "latency";
pub const BANDWIDTH: &str = "bandwidth";

/// The name of an operation's figure.
pub fn of_operation(operation: &str, quantity: &str, suffix: &str) -> String {
    format!("rdma.{operation}.{quantity}{suffix}")
}

pub const WRITE_RATE: &str = "rdma.write.rate";

pub const WRITE: FigureKind = bandwidth("rdma.write.bandwidth", "write").drawn(1, "the NIC writes");
pub const READ: FigureKind = bandwidth("rdma.read.bandwidth", "read").drawn(2, "the NIC reads");
pub const SEND: FigureKind = bandwidth("rdma.send.bandwidth", "send").drawn(3, "the NIC sends");
pub const BOTH: FigureKind = bandwidth("rdma.write.both.bandwidth", "both ways");
pub const STAGED: FigureKind =
    bandwidth("rdma.staged.bandwidth", "staged").drawn(4, "staged, without GPUDirect RDMA");
pub const ALONE: FigureKind = bandwidth("rdma.alone.bandwidth", "alone");
pub const TOGETHER: FigureKind = bandwidth("rdma.together.bandwidth", "together");
pub const SUM: FigureKind = bandwidth("rdma.together.sum.bandwidth", "sum");

/// Bandwidths with strict order and with on-demand paging have names and columns of their own.
pub const BANDWIDTHS: [FigureKind; 16] = [
    WRITE,
    bandwidth("rdma.write.bandwidth.strict", "write, strict"),
    bandwidth("rdma.write.bandwidth.odp", "write, ODP"),
    READ,
    bandwidth("rdma.read.bandwidth.strict", "read, strict"),
    bandwidth("rdma.read.bandwidth.odp", "read, ODP"),
    SEND,
    bandwidth("rdma.send.bandwidth.strict", "send, strict"),
    bandwidth("rdma.send.bandwidth.odp", "send, ODP"),
    BOTH,
    bandwidth("rdma.write.both.bandwidth.strict", "both, strict"),
    STAGED,
    bandwidth("rdma.staged.bandwidth.strict", "staged, strict"),
    ALONE,
    TOGETHER,
    SUM,
];

pub const WRITE_LATENCY: FigureKind = latency("rdma.write.latency", "write");
pub const READ_LATENCY: FigureKind = latency("rdma.read.latency", "read");
pub const SEND_LATENCY: FigureKind = latency("rdma.send.latency", "send");

pub const LATENCIES: [FigureKind; 4] =
    [WRITE_LATENCY, latency("rdma.write-imm.latency", "write-imm"), READ_LATENCY, SEND_LATENCY];

/// A write into pages that are not there, and one into the same pages afterwards.
pub const FIRST_TOUCH: FigureKind = latency("rdma.write.first-touch.odp", "first touch");
pub const NEXT_TOUCH: FigureKind = latency("rdma.write.next-touch.odp", "next touch");

/// Latencies with on-demand paging, in a table of their own: a line has room for few.
pub const PAGED_LATENCIES: [FigureKind; 5] = [
    latency("rdma.write.latency.odp", "write"),
    latency("rdma.read.latency.odp", "read"),
    latency("rdma.send.latency.odp", "send"),
    FIRST_TOUCH,
    NEXT_TOUCH,
];
