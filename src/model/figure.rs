//! The figures of `gdr probe p2p`, `rdma` and `mp`, each declared once: the probe measures under its name, tables and charts show it
//! under its heading and label. A name is a promise of `gdr.probe/1`.

/// A kind of result with a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureKind {
    /// Name of the results.
    pub name: &'static str,
    /// Heading of the column or the matrix.
    pub heading: &'static str,
    /// Tables show its share of the link.
    pub of_link: bool,
    /// The line in the chart, from 1, and its label; none if it is not drawn.
    pub line: Option<(usize, &'static str)>,
}

impl FigureKind {
    const fn new(name: &'static str, heading: &'static str) -> Self {
        Self { name, heading, of_link: false, line: None }
    }

    const fn of_link(self) -> Self {
        Self { of_link: true, ..self }
    }

    /// Name and heading.
    pub fn column(self) -> (&'static str, &'static str) {
        (self.name, self.heading)
    }

    const fn drawn(self, line: usize, label: &'static str) -> Self {
        Self { line: Some((line, label)), ..self }
    }
}

/// Copies between GPUs. Headings are those of matrices.
pub mod p2p {
    use super::FigureKind;

    /// The diagonal of the matrix of writes.
    pub const LOCAL: &str = "p2p.local.bandwidth";

    pub const WRITE: FigureKind =
        FigureKind::new("p2p.copy.write.bandwidth", "GB/s, the copy engine writes, peer access on")
            .of_link()
            .drawn(1, "copy engine, peer access on");
    pub const READ: FigureKind =
        FigureKind::new("p2p.copy.read.bandwidth", "GB/s, the copy engine reads").of_link();
    pub const BOTH: FigureKind =
        FigureKind::new("p2p.copy.both.bandwidth", "GB/s, both directions at once, the sum");
    pub const STAGED: FigureKind =
        FigureKind::new("p2p.staged.bandwidth", "GB/s, peer access off: staged through the host")
            .of_link()
            .drawn(4, "through the host, peer access off");
    pub const STORE: FigureKind =
        FigureKind::new("p2p.kernel.store.bandwidth", "GB/s, a kernel stores")
            .of_link()
            .drawn(2, "kernel that stores");
    pub const LOAD: FigureKind =
        FigureKind::new("p2p.kernel.load.bandwidth", "GB/s, a kernel loads")
            .of_link()
            .drawn(3, "kernel that loads");
    pub const ROUND_TRIP: FigureKind = FigureKind::new(
        "p2p.copy.round-trip.bandwidth",
        "GB/s, there and back again, size by half the round trip",
    );
    pub const LOAD_LATENCY: FigureKind =
        FigureKind::new("p2p.kernel.load.latency", "us, a kernel waits for one load");
    pub const KERNEL_ROUND_TRIP: FigureKind = FigureKind::new(
        "p2p.kernel.round-trip.latency",
        "us, a word there and back between two kernels",
    );

    /// Of pairs, in the order of the matrices.
    pub const PAIRS: [FigureKind; 9] =
        [WRITE, READ, BOTH, STAGED, STORE, LOAD, ROUND_TRIP, LOAD_LATENCY, KERNEL_ROUND_TRIP];

    pub const ONE_TO_ALL: FigureKind =
        FigureKind::new("p2p.one-to-all.bandwidth", "to all others at once");
    pub const ALL_TO_ONE: FigureKind =
        FigureKind::new("p2p.all-to-one.bandwidth", "from all others at once");
    pub const ALL_PAIRS: FigureKind =
        FigureKind::new("p2p.all-pairs.bandwidth", "every pair at once");

    /// Of several pairs at once.
    pub const TOGETHER: [FigureKind; 3] = [ONE_TO_ALL, ALL_TO_ONE, ALL_PAIRS];
}

/// Transfers by a NIC. Headings are those of columns.
pub mod rdma {
    use super::FigureKind;

    pub const WRITE_RATE: &str = "rdma.write.rate";

    pub const WRITE: FigureKind =
        FigureKind::new("rdma.write.bandwidth", "write").drawn(1, "the NIC writes");
    pub const READ: FigureKind =
        FigureKind::new("rdma.read.bandwidth", "read").drawn(2, "the NIC reads");
    pub const SEND: FigureKind =
        FigureKind::new("rdma.send.bandwidth", "send").drawn(3, "the NIC sends");
    pub const BOTH: FigureKind = FigureKind::new("rdma.write.both.bandwidth", "both ways");
    pub const STAGED: FigureKind = FigureKind::new("rdma.staged.bandwidth", "staged")
        .drawn(4, "staged, without GPUDirect RDMA");
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
    pub const FIRST_TOUCH: FigureKind =
        FigureKind::new("rdma.write.first-touch.odp", "first touch");
    pub const NEXT_TOUCH: FigureKind = FigureKind::new("rdma.write.next-touch.odp", "next touch");

    /// Latencies with on-demand paging, in a table of their own: a line has room for few.
    pub const PAGED_LATENCIES: [FigureKind; 5] = [
        FigureKind::new("rdma.write.latency.odp", "write"),
        FigureKind::new("rdma.read.latency.odp", "read"),
        FigureKind::new("rdma.send.latency.odp", "send"),
        FIRST_TOUCH,
        NEXT_TOUCH,
    ];
}

/// Messages between two ranks. Headings are those of columns.
pub mod mp {
    use super::FigureKind;

    pub const CPU_LATENCY: FigureKind = FigureKind::new("mp.cpu.latency", "CPU");
    pub const KERNEL_LATENCY: FigureKind = FigureKind::new("mp.kernel.latency", "kernel");
    pub const PUT_LATENCY: FigureKind = FigureKind::new("mp.put.latency", "put");
    pub const GET_LATENCY: FigureKind = FigureKind::new("mp.get.latency", "get");

    pub const LATENCIES: [FigureKind; 6] = [
        CPU_LATENCY,
        FigureKind::new("mp.stream.latency", "stream"),
        KERNEL_LATENCY,
        PUT_LATENCY,
        GET_LATENCY,
        FigureKind::new("mp.mpi.latency", "MPI"),
    ];

    pub const PUT: FigureKind = FigureKind::new("mp.put.bandwidth", "put").drawn(3, "puts");
    pub const GET: FigureKind = FigureKind::new("mp.get.bandwidth", "get");

    pub const BANDWIDTHS: [FigureKind; 5] = [
        FigureKind::new("mp.cpu.bandwidth", "CPU").drawn(1, "messages by the CPU"),
        FigureKind::new("mp.stream.bandwidth", "stream").drawn(2, "messages by a stream"),
        PUT,
        GET,
        FigureKind::new("mp.mpi.bandwidth", "MPI").drawn(4, "MPI, in host memory"),
    ];
}
