//! Which addresses reach the NIC's own ports.

use std::path::PathBuf;

use crate::device::{ETHERNET, GIDS, INFINIBAND};
use crate::nic::peers;

/// A queue pair's destination: `struct ib_uverbs_qp_dest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination(pub [u8; 32]);

impl Destination {
    fn gid(&self) -> [u8; 16] {
        let mut gid = [0; 16];
        gid.copy_from_slice(&self.0[..16]);
        gid
    }

    pub fn lid(&self) -> u16 {
        u16::from_ne_bytes([self.0[20], self.0[21]])
    }

    fn own_gid_index(&self) -> u8 {
        self.0[24]
    }

    fn is_global(&self) -> bool {
        self.0[30] != 0
    }

    /// True if the kernel accepts it on a port: an Ethernet address needs a GID, and the source GID must exist.
    pub fn is_valid(&self, port: u8) -> bool {
        let has_own = gid_at(port, self.own_gid_index()).is_some();
        match port {
            INFINIBAND => !self.is_global() || has_own,
            ETHERNET => self.is_global() && has_own,
            _ => false,
        }
    }

    /// True if it reaches the port itself.
    pub fn is_own(&self, port: u8) -> bool {
        match (port, self.is_global()) {
            (INFINIBAND, false) => has_lid(port, self.lid()),
            _ => has_gid(port, &self.gid()),
        }
    }
}

/// True if a port has this LID.
pub fn has_lid(port: u8, lid: u16) -> bool {
    port == INFINIBAND && lid == peers::lid()
}

/// True if a port has this GID.
pub fn has_gid(port: u8, gid: &[u8; 16]) -> bool {
    let mut gids = (0..GIDS).filter_map(|index| gid_at(port, index));
    gids.any(|own| own == *gid)
}

/// The MAC address of a GID, in place of address resolution: its last six bytes, inverted.
pub fn mac(gid: &[u8; 16]) -> [u8; 6] {
    std::array::from_fn(|at| !gid[10 + at])
}

/// A port's GID from the sysfs tree that the program also reads; none if the entry is unset.
pub fn gid_at(port: u8, index: u8) -> Option<[u8; 16]> {
    let root = std::env::var_os("SYSFS_PATH").map(PathBuf::from)?;
    let file = root.join(format!("class/infiniband/mlx5_0/ports/{port}/gids/{index}"));
    let text = std::fs::read_to_string(file).ok()?;
    let address: std::net::Ipv6Addr = text.trim().parse().ok()?;
    Some(address.octets()).filter(|gid| *gid != [0; 16])
}
