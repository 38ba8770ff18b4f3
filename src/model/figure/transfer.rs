//! The ways of GPUDirect's versions from GPU memory to GPU memory.

/// A way: columns of the tables and a line of each chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurveKind {
    /// In names, and its heading.
    pub name: &'static str,
    pub latency: &'static str,
    pub bandwidth: &'static str,
    /// Its verified bytes.
    pub validated: &'static str,
    /// In the charts.
    pub label: &'static str,
    /// The line in the charts, from 1; none for the ceiling.
    pub line: Option<usize>,
}

macro_rules! curve {
    ($name:literal, $label:literal, $line:expr) => {
        CurveKind {
            name: $name,
            latency: concat!("transfer.", $name, ".latency"),
            bandwidth: concat!("transfer.", $name, ".bandwidth"),
            validated: concat!("validate.transfer.", $name),
            label: $label,
            line: $line,
        }
    };
}

pub const HOST: CurveKind = curve!("host", "host to host, the ceiling", None);
pub const V3: CurveKind = curve!("v3", "v3, RDMA of GPU memory", Some(1));
pub const V2: CurveKind = curve!("v2", "v2, peer to peer in one node", Some(2));
pub const V1_PIPELINED: CurveKind = curve!("v1-pipelined", "v1, copy and send in chunks", Some(3));
pub const V1: CurveKind = curve!("v1", "v1, copy and send", Some(5));
pub const NO_GPUDIRECT: CurveKind =
    curve!("no-gpudirect", "no GPUDirect, pageable copies", Some(4));
/// Over the NIC that is farthest from the GPU. Its line is in the chart of distances.
pub const V3_FAR: CurveKind = curve!("v3-far", "v3, the farthest NIC", None);

/// The lines of the charts, in the order of the columns.
pub const CURVES: [CurveKind; 6] = [HOST, V3, V2, V1_PIPELINED, V1, NO_GPUDIRECT];
