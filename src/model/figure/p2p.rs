//! Copies between GPUs. Headings are those of matrices.

use super::{FigureKind, bandwidth, latency, validated};

/// CUDA allows peer access.
pub const ACCESS: &str = "p2p.access";
/// Copies there and back again.
pub const ROUND_TRIPS: &str = "p2p.copy.round-trip";

/// The diagonal of the matrix of writes.
pub const LOCAL: &str = "p2p.local.bandwidth";

pub const WRITE: FigureKind =
    bandwidth("p2p.copy.write.bandwidth", "GB/s, the copy engine writes, peer access on")
        .of_link()
        .drawn(1, "copy engine, peer access on");
pub const READ: FigureKind =
    bandwidth("p2p.copy.read.bandwidth", "GB/s, the copy engine reads").of_link();
pub const BOTH: FigureKind =
    bandwidth("p2p.copy.both.bandwidth", "GB/s, both directions at once, the sum");
pub const STAGED: FigureKind =
    bandwidth("p2p.staged.bandwidth", "GB/s, peer access off: staged through the host")
        .of_link()
        .drawn(4, "through the host, peer access off");
pub const STORE: FigureKind = bandwidth("p2p.kernel.store.bandwidth", "GB/s, a kernel stores")
    .of_link()
    .drawn(2, "kernel that stores");
pub const LOAD: FigureKind = bandwidth("p2p.kernel.load.bandwidth", "GB/s, a kernel loads")
    .of_link()
    .drawn(3, "kernel that loads");
pub const ROUND_TRIP: FigureKind = bandwidth(
    "p2p.copy.round-trip.bandwidth",
    "GB/s, there and back again, size by half the round trip",
);
pub const LOAD_LATENCY: FigureKind =
    latency("p2p.kernel.load.latency", "us, a kernel waits for one load");
pub const KERNEL_ROUND_TRIP: FigureKind =
    latency("p2p.kernel.round-trip.latency", "us, a word there and back between two kernels");

/// The verified bytes of a bandwidth.
pub fn verified(bandwidth: FigureKind) -> String {
    validated(bandwidth.name.trim_start_matches("p2p.").trim_end_matches(".bandwidth"))
}

/// Of pairs, in the order of the matrices.
pub const PAIRS: [FigureKind; 9] =
    [WRITE, READ, BOTH, STAGED, STORE, LOAD, ROUND_TRIP, LOAD_LATENCY, KERNEL_ROUND_TRIP];

pub const ONE_TO_ALL: FigureKind = bandwidth("p2p.one-to-all.bandwidth", "to all others at once");
pub const ALL_TO_ONE: FigureKind = bandwidth("p2p.all-to-one.bandwidth", "from all others at once");
pub const ALL_PAIRS: FigureKind = bandwidth("p2p.all-pairs.bandwidth", "every pair at once");

/// Of several pairs at once.
pub const TOGETHER: [FigureKind; 3] = [ONE_TO_ALL, ALL_TO_ONE, ALL_PAIRS];
