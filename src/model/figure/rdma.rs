//! Transfers by a NIC. Headings are those of columns.

use super::FigureKind;

/// Ends the name of a bandwidth with strict order, measured beside one with relaxed order.
pub const STRICT: &str = ".strict";

pub const WRITE_RATE: &str = "rdma.write.rate";

pub const WRITE: FigureKind =
    FigureKind::new("rdma.write.bandwidth", "write").drawn(1, "the NIC writes");
pub const READ: FigureKind =
    FigureKind::new("rdma.read.bandwidth", "read").drawn(2, "the NIC reads");
pub const SEND: FigureKind =
    FigureKind::new("rdma.send.bandwidth", "send").drawn(3, "the NIC sends");
pub const BOTH: FigureKind = FigureKind::new("rdma.write.both.bandwidth", "both ways");
pub const STAGED: FigureKind =
    FigureKind::new("rdma.staged.bandwidth", "staged").drawn(4, "staged, without GPUDirect RDMA");
pub const ALONE: FigureKind = FigureKind::new("rdma.alone.bandwidth", "alone");
pub const TOGETHER: FigureKind = FigureKind::new("rdma.together.bandwidth", "together");
pub const SUM: FigureKind = FigureKind::new("rdma.together.sum.bandwidth", "sum");

/// Bandwidths with strict order and with on-demand paging have names and columns of their own.
pub const BANDWIDTHS: [FigureKind; 16] = [
    WRITE,
    FigureKind::new("rdma.write.bandwidth.strict", "write, strict"),
    FigureKind::new("rdma.write.bandwidth.odp", "write, ODP"),
    READ,
    FigureKind::new("rdma.read.bandwidth.strict", "read, strict"),
    FigureKind::new("rdma.read.bandwidth.odp", "read, ODP"),
    SEND,
    FigureKind::new("rdma.send.bandwidth.strict", "send, strict"),
    FigureKind::new("rdma.send.bandwidth.odp", "send, ODP"),
    BOTH,
    FigureKind::new("rdma.write.both.bandwidth.strict", "both, strict"),
    STAGED,
    FigureKind::new("rdma.staged.bandwidth.strict", "staged, strict"),
    ALONE,
    TOGETHER,
    SUM,
];

pub const WRITE_LATENCY: FigureKind = FigureKind::new("rdma.write.latency", "write");
pub const READ_LATENCY: FigureKind = FigureKind::new("rdma.read.latency", "read");
pub const SEND_LATENCY: FigureKind = FigureKind::new("rdma.send.latency", "send");

pub const LATENCIES: [FigureKind; 4] = [
    WRITE_LATENCY,
    FigureKind::new("rdma.write-imm.latency", "write-imm"),
    READ_LATENCY,
    SEND_LATENCY,
];

/// A write into pages that are not there, and one into the same pages afterwards.
pub const FIRST_TOUCH: FigureKind = FigureKind::new("rdma.write.first-touch.odp", "first touch");
pub const NEXT_TOUCH: FigureKind = FigureKind::new("rdma.write.next-touch.odp", "next touch");

/// Latencies with on-demand paging, in a table of their own: a line has room for few.
pub const PAGED_LATENCIES: [FigureKind; 5] = [
    FigureKind::new("rdma.write.latency.odp", "write"),
    FigureKind::new("rdma.read.latency.odp", "read"),
    FigureKind::new("rdma.send.latency.odp", "send"),
    FIRST_TOUCH,
    NEXT_TOUCH,
];
