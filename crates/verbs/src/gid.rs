//! GIDs: the addresses of a port.

use std::net::Ipv6Addr;

use ibverbs_sys::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, ibv_gid_entry};

/// An entry of a port's GID table that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gid {
    /// The port.
    pub port: u32,
    /// Its index in the port's table.
    pub index: u32,
    /// What kind of address it is.
    pub kind: GidKind,
    /// The address; of RoCE version 2 over IPv4 it is the IPv4 address, mapped.
    pub address: Ipv6Addr,
    /// The number of its network interface in this namespace; none on InfiniBand, and where the interface is in another.
    pub interface: Option<u32>,
}

/// What kind of address a GID is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GidKind {
    /// InfiniBand's.
    InfiniBand,
    /// RoCE version 1: not routed.
    RoceV1,
    /// RoCE version 2: over UDP.
    RoceV2,
    /// Another value.
    Other(u32),
}

impl Gid {
    pub(crate) fn of(raw: &ibv_gid_entry) -> Self {
        // SAFETY: both members of the union are bytes of every value.
        let bytes = unsafe { raw.gid.raw };
        Self {
            port: raw.port_num,
            index: raw.gid_index,
            kind: match raw.gid_type {
                IBV_GID_TYPE_IB => GidKind::InfiniBand,
                IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
                IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
                other => GidKind::Other(other),
            },
            address: Ipv6Addr::from(bytes),
            interface: (raw.ndev_ifindex != 0).then_some(raw.ndev_ifindex),
        }
    }
}
