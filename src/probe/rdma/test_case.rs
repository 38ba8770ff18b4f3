//! One test case, and the connection that it needs.

use verbs::Transport;

use super::curve::Chunking;
use super::kind::Kind;
use super::purpose::{Purpose, Traffic};
use super::settings::Settings;

/// Fewest queue pairs for the message rate.
const RATE_PAIRS: u32 = 4;

/// A test case of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCase {
    /// The bytes arrive unchanged.
    Verify(Transport, Kind, usize),
    PingPong(Kind, usize),
    Stream(Kind, usize),
    /// Bandwidth of both directions at once.
    Both(usize),
    Rate(usize),
    /// Latency of writes into pages that are not there, with on-demand paging.
    FirstTouch(usize),
    /// Bandwidth without GPUDirect RDMA.
    Staged(usize),
    /// The same in chunks of a certain size.
    Chunked(usize, Chunking),
}

/// A test case with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub test_case: TestCase,
    pub purpose: Purpose,
    /// It is measured with relaxed ordering too: its result has a name of its own.
    pub is_strict_twin: bool,
}

impl TestCase {
    pub fn is_bandwidth(self) -> bool {
        matches!(self, Self::Stream(..) | Self::Both(_) | Self::Rate(_) | Self::Staged(_))
    }

    /// The purpose of its connection. `transport` is the reliable one, and `pairs` the number of queue pairs for bandwidth.
    pub fn purpose(
        self,
        transport: Transport,
        pairs: u32,
        settings: Settings,
        relaxed_ordering: bool,
    ) -> Purpose {
        let reliable = |pairs, kind, bytes, traffic| Purpose {
            transport,
            pairs,
            kind,
            bytes,
            traffic,
            relaxed_ordering,
            on_demand: matches!(self, Self::FirstTouch(_)),
            settings,
        };
        match self {
            Self::Verify(transport, kind, bytes) => {
                Purpose { transport, ..reliable(1, kind, bytes, Traffic::OneWay) }
            }
            // Reads and atomics are one-sided.
            Self::PingPong(kind @ (Kind::Read | Kind::FetchAdd | Kind::CompareSwap), bytes) => {
                reliable(1, kind, bytes, Traffic::OneWay)
            }
            Self::PingPong(kind, bytes) => reliable(1, kind, bytes, Traffic::BothWays),
            Self::Stream(kind, bytes) => reliable(pairs, kind, bytes, Traffic::OneWay),
            Self::Both(bytes) => reliable(pairs, Kind::Write, bytes, Traffic::BothWays),
            Self::Rate(bytes) => {
                reliable(pairs.max(RATE_PAIRS), Kind::Write, bytes, Traffic::OneWay)
            }
            Self::FirstTouch(bytes) => reliable(1, Kind::Write, bytes, Traffic::OneWay),
            Self::Staged(bytes) | Self::Chunked(bytes, _) => {
                reliable(1, Kind::Send, bytes, Traffic::Staged)
            }
        }
    }
}
