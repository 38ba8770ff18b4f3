//! GIDs: the addresses of a port.

use std::net::Ipv6Addr;

use ibverbs_sys::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, ibv_gid_entry};

/// A nonempty entry of a port's GID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gid {
    /// The port.
    pub port: u32,
    /// Its index in the table.
    pub index: u32,
    /// The type of address.
    pub kind: GidKind,
    /// The address; for RoCE v2 over IPv4 the mapped IPv4 address.
    pub address: Ipv6Addr,
    /// The network interface's index; none on InfiniBand, or if the interface is in another network namespace.
    pub interface: Option<u32>,
}

/// The type of a GID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GidKind {
    /// InfiniBand's.
    InfiniBand,
    /// RoCE v1: not routable.
    RoceV1,
    /// RoCE v2: over UDP.
    RoceV2,
    /// Another value.
    Other(u32),
}

impl Gid {
    /// The preferred entry of a port for a connection: RoCE v2 before v1, IPv4 before other routable addresses, these before link-local ones;
    /// on InfiniBand the first.
    #[must_use]
    pub fn best(table: &[Self], port: u8) -> Option<Self> {
        let rank = |gid: &Self| {
            let kind = match gid.kind {
                GidKind::RoceV2 => 0,
                GidKind::RoceV1 | GidKind::InfiniBand => 1,
                GidKind::Other(_) => 2,
            };
            let reach =
                match (gid.kind, gid.address.to_ipv4_mapped(), gid.address.is_unicast_link_local())
                {
                    (GidKind::InfiniBand, ..) => 0,
                    (_, Some(_), _) => 0,
                    (_, None, false) => 1,
                    (_, None, true) => 2,
                };
            (kind, reach, gid.index)
        };
        let of_port = table.iter().filter(|gid| gid.port == u32::from(port));
        of_port.min_by_key(|gid| rank(gid)).copied()
    }

    pub(crate) fn of(raw: &ibv_gid_entry) -> Self {
        // SAFETY: both members of the union are plain bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_roce_v2_over_ipv4() {
        let gid = |port, index, kind, address: &str| Gid {
            port,
            index,
            kind,
            address: address.parse().expect("an address"),
            interface: None,
        };
        let table = [
            gid(1, 0, GidKind::RoceV1, "fe80::1"),
            gid(1, 1, GidKind::RoceV2, "fe80::1"),
            gid(1, 2, GidKind::RoceV1, "::ffff:10.0.0.1"),
            gid(1, 3, GidKind::RoceV2, "::ffff:10.0.0.1"),
            gid(1, 5, GidKind::RoceV2, "fd00::1"),
            gid(2, 0, GidKind::InfiniBand, "fe80::2"),
        ];
        let best = |table: &[Gid], port| Gid::best(table, port).map(|gid| gid.index);
        assert_eq!(best(&table, 1), Some(3));
        assert_eq!(best(&table[4..], 1), Some(5));
        assert_eq!(best(&table[..2], 1), Some(1));
        assert_eq!(best(&table, 2), Some(0));
        assert_eq!(best(&table, 3), None);
    }
}
