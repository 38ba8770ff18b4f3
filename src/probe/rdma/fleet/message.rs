//! Messages between a node and rank 0.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Most NICs of a node.
pub const MAX_RAILS: usize = 64;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The first message of a node: who it is.
    Arrived { node: String, rank: u32, gdr: String },
    /// The node serves; or why it cannot.
    Ready(Result<Ready, String>),
    /// From rank 0: a round in which the node is a client.
    Work(Work),
    /// The node has finished a round, with a result for each pair of NICs.
    Measured(u32, Vec<PairFigures>),
    /// From rank 0: no further round.
    End,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The TCP port on which it serves.
    pub port: u16,
    pub nics: Vec<Nic>,
    /// Its GPUs are simulated.
    pub simulated: bool,
    pub notes: Vec<String>,
}

/// A NIC of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// As results name it: `GPU0 mlx5_0:1`.
    pub subject: String,
    /// As in `mlx5_0`.
    pub device: String,
    /// Its network interfaces.
    pub interfaces: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Of the round.
    pub number: u32,
    /// The server; without an address it is on the host of rank 0.
    pub address: Option<IpAddr>,
    /// The interface for a link-local address; 0 is the one by which the client reached rank 0.
    pub interface: u32,
    pub port: u16,
    /// NICs of the client and of the server, by number.
    pub pairs: Vec<(usize, usize)>,
    /// All at once.
    pub together: bool,
    /// How long it may take.
    pub seconds: u64,
}

/// The interface of a link-local address, as a number of this host; 0 for other addresses.
pub fn interface(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) if address.ip().is_unicast_link_local() => address.scope_id(),
        _ => 0,
    }
}

/// The figures of two NICs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PairFigures {
    /// Bandwidth from the client to the server and back, GB/s.
    pub there: Option<f64>,
    pub back: Option<f64>,
    /// Half the round-trip time of the smallest message, us.
    pub latency: Option<f64>,
    /// How much counters of losses and bad links rose at both ends.
    pub lost: u64,
    /// Why nothing was measured.
    pub failed: Option<String>,
}
