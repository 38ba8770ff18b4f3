//! The address of a datagram: destination QPN and path.

use super::control::narrow;
use crate::wire::{Error, fields};

/// Destination and path of a datagram: 48 bytes.
///
/// ```text
///  0  u32  remote Q_Key                    16  u8[4]  0
///  4  u32  0                               20  u8[6]  MAC
///  8  u32  1 << 31 | remote QPN            26  u8     traffic class
/// 12  u8   rate << 4 | service level       27  u8     hop limit
/// 13  u8   source path                     28  u32    route << 30 | GID index << 20 | flow label
/// 14  u16  LID (or UDP port)               32  u8[16] GID
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// The remote QPN, 24 bits.
    pub qpn: u32,
    /// The remote Q_Key.
    pub key: u32,
    /// The path.
    pub path: AddressVector,
}

/// The path to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AddressVector {
    /// `stat_rate_sl`: static rate in the upper four bits; service level (InfiniBand) or twice the priority (Ethernet) below.
    pub rate_and_level: u8,
    /// `fl_mlid`: the lower 7 bits of the source LID; 0 on Ethernet.
    pub source_path: u8,
    /// The remote LID; on Ethernet, the UDP source port of RoCE v2.
    pub lid: u16,
    /// MAC address of the remote port or the router; zeros on InfiniBand.
    pub mac: [u8; 6],
    /// InfiniBand: packets have a GRH. False on Ethernet, where all have one.
    pub has_route: bool,
    /// The GRH; zeros without one.
    pub route: GlobalRoute,
}

/// A global route (GRH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GlobalRoute {
    /// The remote port's GID.
    pub gid: [u8; 16],
    /// Index of the source GID.
    pub source_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

pub(super) const BYTES: usize = 48;
/// `MLX5_EXTENDED_UD_AV`: the address has all 48 bytes.
const EXTENDED: u32 = 1 << 31;
const ROUTE: u32 = 1 << 30;
const FLOW_LABEL: u32 = 0xf_ffff;

impl AddressVector {
    /// A RoCE path, which always has a GRH. `udp_port` is the source port of RoCE v2, 0 for v1; `priority` is 0 to 7;
    /// `rate` is 0 for the port's rate, else mlx5's number of a static rate.
    #[must_use]
    pub fn ethernet(
        mac: [u8; 6],
        udp_port: u16,
        priority: u8,
        rate: u8,
        route: GlobalRoute,
    ) -> Self {
        Self {
            rate_and_level: rate << 4 | (priority & 7) << 1,
            source_path: 0,
            lid: udp_port,
            mac,
            has_route: false,
            route,
        }
    }

    /// An InfiniBand path. `level` is 0 to 15, `rate` as for Ethernet, `source_path` 0 to 127.
    #[must_use]
    pub fn infiniband(
        lid: u16,
        source_path: u8,
        level: u8,
        rate: u8,
        route: Option<GlobalRoute>,
    ) -> Self {
        Self {
            rate_and_level: rate << 4 | (level & 0xf),
            source_path: source_path & 0x7f,
            lid,
            mac: [0; 6],
            has_route: route.is_some(),
            route: route.unwrap_or_default(),
        }
    }

    /// Decodes the 48 bytes of an address handle from `mlx5dv_init_obj`. Ignores the first twelve, which hold QPN and Q_Key
    /// in a WQE.
    ///
    /// # Errors
    ///
    /// [`Error::Wide`] for reserved bits.
    pub fn decode(from: &[u8; BYTES]) -> Result<Self, Error> {
        Self::at(from, 0)
    }

    fn at(from: &[u8], offset: usize) -> Result<Self, Error> {
        let last = fields::u32_at(from, offset + 28)?;
        narrow("word with GID index and flow label", (last & !ROUTE).into(), 28)?;
        Ok(Self {
            rate_and_level: fields::u8_at(from, offset + 12)?,
            source_path: fields::u8_at(from, offset + 13)?,
            lid: fields::u16_at(from, offset + 14)?,
            mac: fields::bytes_at(from, offset + 20)?,
            has_route: last & ROUTE != 0,
            route: GlobalRoute {
                gid: fields::bytes_at(from, offset + 32)?,
                source_index: (last >> 20) as u8,
                flow_label: last & FLOW_LABEL,
                traffic_class: fields::u8_at(from, offset + 26)?,
                hop_limit: fields::u8_at(from, offset + 27)?,
            },
        })
    }
}

impl Datagram {
    pub(super) fn put(&self, to: &mut [u8], offset: usize) -> Result<(), Error> {
        narrow("remote QPN", self.qpn.into(), 24)?;
        let (path, route) = (&self.path, &self.path.route);
        narrow("flow label", route.flow_label.into(), 20)?;
        let flag = if path.has_route { ROUTE } else { 0 };
        let index = u32::from(route.source_index) << 20;
        fields::put_u32(to, offset, self.key)?;
        fields::put_u32(to, offset + 4, 0)?;
        fields::put_u32(to, offset + 8, self.qpn | EXTENDED)?;
        fields::put(to, offset + 12, &[path.rate_and_level, path.source_path])?;
        fields::put_u16(to, offset + 14, path.lid)?;
        fields::put_u32(to, offset + 16, 0)?;
        fields::put(to, offset + 20, &path.mac)?;
        fields::put(to, offset + 26, &[route.traffic_class, route.hop_limit])?;
        fields::put_u32(to, offset + 28, flag | index | route.flow_label)?;
        fields::put(to, offset + 32, &route.gid)
    }

    pub(super) fn at(from: &[u8], offset: usize) -> Result<Self, Error> {
        let peer = fields::u32_at(from, offset + 8)?;
        if peer & EXTENDED == 0 {
            let what = "unsupported short address: remote QPN word";
            let value = peer.into();
            return Err(Error::Wide { what, value, bits: 24 });
        }
        let qpn = peer & !EXTENDED;
        narrow("remote QPN", qpn.into(), 24)?;
        Ok(Self { qpn, key: fields::u32_at(from, offset)?, path: AddressVector::at(from, offset)? })
    }
}
