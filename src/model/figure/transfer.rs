//! The ways of GPUDirect's versions from GPU memory to GPU memory.

use super::{FigureKind, bandwidth, latency};

/// A way: columns of the tables and a line of each chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurveKind {
    /// In names, and its heading.
    pub name: &'static str,
    pub latency: FigureKind,
    pub bandwidth: FigureKind,
    /// Its verified bytes.
    pub validated: &'static str,
}

impl CurveKind {
    /// Another result of this way.
    pub fn of(self, what: &str) -> String {
        format!("transfer.{}.{what}", self.name)
    }
}

macro_rules! curve {
    ($name:literal, $line:expr) => {
        CurveKind {
            name: $name,
            latency: FigureKind {
                line: $line,
                ..latency(concat!("transfer.", $name, ".latency"), $name)
            },
            bandwidth: FigureKind {
                line: $line,
                ..bandwidth(concat!("transfer.", $name, ".bandwidth"), $name)
            },
            validated: concat!("validate.transfer.", $name),
        }
    };
}

pub const HOST: CurveKind = curve!("host", Some((0, "host to host, the ceiling")));
pub const V3: CurveKind = curve!("v3", Some((1, "v3, RDMA of GPU memory")));
pub const V2: CurveKind = curve!("v2", Some((2, "v2, peer to peer in one node")));
pub const V1_PIPELINED: CurveKind =
    curve!("v1-pipelined", Some((3, "v1, copy and send in chunks")));
pub const V1: CurveKind = curve!("v1", Some((5, "v1, copy and send")));
pub const NO_GPUDIRECT: CurveKind =
    curve!("no-gpudirect", Some((4, "no GPUDirect, pageable copies")));
/// Over the NIC that is farthest from the GPU. Its line is in the chart of distances.
pub const V3_FAR: CurveKind = curve!("v3-far", None);

/// In the order of the columns.
pub const CURVES: [CurveKind; 7] = [HOST, V3, V2, V1_PIPELINED, V1, NO_GPUDIRECT, V3_FAR];
