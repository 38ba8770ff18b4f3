//! The address path (`ads`) in a queue pair's context, after mlx5_ib's `mlx5_set_path` (`qp.c`).

use std::net::Ipv6Addr;

use ibverbs_sys::{self as raw, mlx5dv_obj_type as object};

use super::command::Command;
use super::layout::path as at;
use crate::{Address, Datagram, Error, LinkLayer, ProtectionDomain, Route};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressPath {
    /// A LID, and for routed packets a GID.
    InfiniBand { lid: u16, gid: Option<Ipv6Addr> },
    /// A MAC address and a UDP source port.
    Ethernet { mac: [u8; 6], port: u16, gid: Ipv6Addr },
}

impl AddressPath {
    /// Resolves an address. On Ethernet the kernel looks up the MAC address, as for an address handle.
    ///
    /// # Errors
    ///
    /// [`Error::NoGid`] on Ethernet without a GID; [`Error::Call`]: ETIMEDOUT if the address cannot be resolved.
    pub(super) fn to(
        domain: &ProtectionDomain,
        route: Route,
        address: Address,
    ) -> Result<Self, Error> {
        let context = domain.context();
        match (context.port(route.port)?.link_layer, address.gid) {
            (LinkLayer::Ethernet, None) => {
                Err(Error::NoGid { name: context.name().to_owned(), port: route.port })
            }
            (LinkLayer::Ethernet, Some(gid)) => {
                let (mac, port) = resolved(&domain.datagram(route, address, 0, 0)?)?;
                Ok(Self::Ethernet { mac, port, gid })
            }
            (_, gid) => Ok(Self::InfiniBand { lid: address.lid, gid }),
        }
    }

    /// Writes the path and the port's attributes.
    pub(super) fn put(self, command: &mut Command, route: Route) -> Result<(), Error> {
        command.set(at::VHCA_PORT_NUM, route.port.into())?;
        let level = u64::from(route.service_level);
        let gid = match self {
            Self::InfiniBand { lid, gid } => {
                command.set(at::RLID, lid.into())?;
                command.set(at::MLID, 0)?;
                command.set(at::GRH, gid.is_some().into())?;
                command.set(at::SL, level)?;
                gid
            }
            Self::Ethernet { mac, port, gid } => {
                let mac = mac.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
                command.set(at::RMAC, mac)?;
                command.set(at::UDP_SPORT, port.into())?;
                command.set(at::ETH_PRIO, level & 7)?;
                command.set(at::DSCP, u64::from(route.traffic_class) >> 2)?;
                Some(gid)
            }
        };
        if let Some(gid) = gid {
            let gid = u128::from(gid);
            command.set(at::SRC_ADDR_INDEX, route.gid_index.into())?;
            command.set(at::HOP_LIMIT, route.hop_limit.into())?;
            command.set(at::TCLASS, route.traffic_class.into())?;
            command.set(at::FLOW_LABEL, route.flow_label.into())?;
            command.set(at::RGID_HIGH, (gid >> 64) as u64)?;
            command.set(at::RGID_LOW, gid as u64)?;
        }
        Ok(())
    }
}

/// The MAC address and UDP source port that the provider chose for an address.
fn resolved(handle: &Datagram) -> Result<([u8; 6], u16), Error> {
    let mut attributes = raw::mlx5dv_ah::default();
    let mut object_pointers = raw::mlx5dv_obj {
        ah_in: handle.raw().ah,
        ah_out: &raw mut attributes,
        ..raw::mlx5dv_obj::default()
    };
    let context = handle.domain().context();
    context.init_object(&mut object_pointers, object::MLX5DV_OBJ_AH.0, "an address")?;
    if attributes.av.is_null() {
        let what = "an address";
        return Err(Error::Layout { what, bytes: 48 });
    }
    // SAFETY: part of the address handle, which is alive.
    let vector = unsafe { attributes.av.read() };
    Ok((vector.rmac, u16::from_be(vector.rlid)))
}

#[cfg(test)]
mod tests {
    use super::super::layout::{bytes, opcode};
    use super::*;

    /// `init2rtr_qp_in`: the 44 bytes of the path start at byte 48.
    fn put(address_path: AddressPath, route: Route) -> Vec<u8> {
        let mut command = Command::new("INIT2RTR_QP", opcode::INIT2RTR_QP, bytes::LONG).unwrap();
        address_path.put(&mut command, route).unwrap();
        let all = command.bytes();
        assert!(all[2..48].iter().chain(&all[92..]).all(|byte| *byte == 0));
        all[48..92].to_vec()
    }

    #[test]
    fn infiniband_path_bytes() {
        let route = Route { service_level: 9, ..Route::of(1, 3) };
        let mut expected = [0; 44];
        expected[6..8].copy_from_slice(&[0x12, 0x34]);
        expected[36..38].copy_from_slice(&[0x09, 1]);
        let address_path = AddressPath::InfiniBand { lid: 0x1234, gid: None };
        assert_eq!(put(address_path, route), expected);
        let gid: Ipv6Addr = "fe80::a:b".parse().unwrap();
        expected[5] = 0x80;
        expected[9] = 3;
        expected[11] = 64;
        expected[16..32].copy_from_slice(&gid.octets());
        let address_path = AddressPath::InfiniBand { lid: 0x1234, gid: Some(gid) };
        assert_eq!(put(address_path, route), expected);
    }

    #[test]
    fn ethernet_path_bytes() {
        let route = Route { traffic_class: 0x6a, service_level: 0xb, ..Route::of(2, 1) };
        let gid: Ipv6Addr = "::ffff:10.0.0.2".parse().unwrap();
        let address_path =
            AddressPath::Ethernet { mac: [0x02, 0x11, 0x22, 0x33, 0x44, 0x55], port: 0xc00a, gid };
        let mut expected = [0; 44];
        expected[9] = 1;
        expected[11] = 64;
        // The traffic class follows four bits.
        expected[12..14].copy_from_slice(&[0x06, 0xa0]);
        expected[16..32].copy_from_slice(&gid.octets());
        // DSCP, port; the priority is the low three bits of the service level.
        expected[33..36].copy_from_slice(&[0x1a, 0xc0, 0x0a]);
        expected[36..38].copy_from_slice(&[0x30, 2]);
        expected[38..44].copy_from_slice(&[0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(put(address_path, route), expected);
    }
}
