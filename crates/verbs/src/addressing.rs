//! How a queue pair reaches another: the fields of its packets' headers, and how it retries.

use std::net::Ipv6Addr;

use ibverbs_sys as raw;

/// Limits of the rate: gigabits per second, and the value of [`Route::static_rate`].
pub const STATIC_RATES: [(f64, u8); 23] = [
    (2.5, raw::IBV_RATE_2_5_GBPS as u8),
    (5.0, raw::IBV_RATE_5_GBPS as u8),
    (10.0, raw::IBV_RATE_10_GBPS as u8),
    (14.0, raw::IBV_RATE_14_GBPS as u8),
    (20.0, raw::IBV_RATE_20_GBPS as u8),
    (25.0, raw::IBV_RATE_25_GBPS as u8),
    (28.0, raw::IBV_RATE_28_GBPS as u8),
    (30.0, raw::IBV_RATE_30_GBPS as u8),
    (40.0, raw::IBV_RATE_40_GBPS as u8),
    (50.0, raw::IBV_RATE_50_GBPS as u8),
    (56.0, raw::IBV_RATE_56_GBPS as u8),
    (60.0, raw::IBV_RATE_60_GBPS as u8),
    (80.0, raw::IBV_RATE_80_GBPS as u8),
    (100.0, raw::IBV_RATE_100_GBPS as u8),
    (112.0, raw::IBV_RATE_112_GBPS as u8),
    (120.0, raw::IBV_RATE_120_GBPS as u8),
    (168.0, raw::IBV_RATE_168_GBPS as u8),
    (200.0, raw::IBV_RATE_200_GBPS as u8),
    (300.0, raw::IBV_RATE_300_GBPS as u8),
    (400.0, raw::IBV_RATE_400_GBPS as u8),
    (600.0, raw::IBV_RATE_600_GBPS as u8),
    (800.0, raw::IBV_RATE_800_GBPS as u8),
    (1200.0, raw::IBV_RATE_1200_GBPS as u8),
];

/// An address in a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The LID; 0 on Ethernet.
    pub lid: u16,
    /// The GID; RoCE requires it.
    pub gid: Option<Ipv6Addr>,
}

/// The local port and its packet header fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The port, from 1.
    pub port: u8,
    /// The index of the local GID.
    pub gid_index: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class; its upper six bits are the DSCP.
    pub traffic_class: u8,
    /// The service level; on RoCE its lower three bits are the priority.
    pub service_level: u8,
    /// The flow label, 20 bits. With RoCE v2 it decides the UDP source port; 0 lets the driver choose.
    pub flow_label: u32,
    /// The limit of the rate, one of [`STATIC_RATES`]; 0 is the port's.
    pub static_rate: u8,
}

impl Route {
    /// Uses this port and GID index.
    #[must_use]
    pub fn of(port: u8, gid_index: u8) -> Self {
        Self {
            port,
            gid_index,
            hop_limit: 64,
            traffic_class: 0,
            service_level: 0,
            flow_label: 0,
            static_rate: 0,
        }
    }

    pub(crate) fn to(self, address: Address) -> raw::ibv_ah_attr {
        let mut attributes = raw::ibv_ah_attr {
            dlid: address.lid,
            sl: self.service_level,
            static_rate: self.static_rate,
            port_num: self.port,
            ..raw::ibv_ah_attr::default()
        };
        if let Some(gid) = address.gid {
            attributes.is_global = 1;
            attributes.grh = raw::ibv_global_route {
                dgid: raw::ibv_gid { raw: gid.octets() },
                flow_label: self.flow_label,
                sgid_index: self.gid_index,
                hop_limit: self.hop_limit,
                traffic_class: self.traffic_class,
            };
        }
        attributes
    }
}

/// The remote end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: Address,
    /// Its QPN.
    pub queue_pair: u32,
    /// The PSN of its first packet, 24 bits.
    pub psn: u32,
}

/// The parameters of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// The path MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// The retransmission timeout: 4.096 µs times two to the power of this.
    pub timeout: u8,
    /// Retransmissions, at most 7.
    pub retries: u8,
    /// Retries after receiver-not-ready; 7 is unlimited.
    pub receiver_retries: u8,
    /// How long a receiver that is not ready makes the sender wait, in the numbers of the InfiniBand specification: 12 is 0.64 ms.
    pub receiver_timer: u8,
    /// Outstanding reads and atomics; the smaller value of both ends.
    pub reads: u8,
}

impl Behaviour {
    /// perftest's defaults: 14 (67 ms), 7, 7 and 12. One outstanding read is always allowed.
    #[must_use]
    pub fn of(mtu: u32) -> Self {
        Self { mtu, timeout: 14, retries: 7, receiver_retries: 7, receiver_timer: 12, reads: 1 }
    }
}
