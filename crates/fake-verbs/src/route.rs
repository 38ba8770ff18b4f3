//! Address handles, checks of addresses, and which port and queue pair an address reaches.

use std::ffi::c_int;

use ibverbs_sys::{ibv_ah_attr, ibv_pd, ibv_port_state, ibv_qp_state, ibv_qp_type};

use crate::abi::Address;
use crate::answer::{Errno, pointer_or_null, status};
use crate::device::attributes;
use crate::machine::{all_ports, efa, gid_at, gids, is_ethernet, lid, ports};
use crate::objects::{Handle, Objects, QueuePair, Shared, objects, raw};
use crate::port::state;
use crate::transport::HEADER;

/// A queue pair that a request names.
pub struct Destination {
    pub to: Box<ibv_ah_attr>,
    /// The protection domain of the address handle.
    pub domain: usize,
    pub number: u32,
    pub qkey: u32,
}

/// # Safety
///
/// `to` is null or points to an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, to: *mut ibv_ah_attr) -> *mut Address {
    pointer_or_null("ibv_create_ah", || {
        // SAFETY: the caller's guarantee.
        let to = *unsafe { to.as_ref() }.ok_or(libc::EINVAL)?;
        let mut objects = objects();
        let domain = objects.domain(pd)?;
        let (context, device) = (domain.context, domain.device);
        is_sound(device, &to)?;
        if objects.handles.len() >= usize::try_from(attributes(device).max_ah).unwrap_or(0) {
            return Err(libc::ENOMEM);
        }
        let handle = objects.handle();
        let raw = Shared::new(Address {
            context: objects.contexts.get(&context).ok_or(libc::EINVAL)?.pointer(),
            pd,
            handle,
        });
        let pointer = raw.pointer();
        let domain = pd.addr();
        objects.handles.insert(raw.address(), Handle { _raw: raw, domain, to });
        Ok(pointer)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_ah(handle: *mut Address) -> c_int {
    status("ibv_destroy_ah", || {
        objects().handles.remove(&handle.addr()).map(drop).ok_or(libc::EINVAL)
    })
}

/// EINVAL for an invalid address: on Ethernet it must be global, and a global one names a source GID of the port.
pub fn is_sound(device: usize, to: &ibv_ah_attr) -> Result<(), Errno> {
    let port = to.port_num;
    if !(1..=ports(device)).contains(&port) {
        return Err(libc::EINVAL);
    }
    if to.is_global != 0 {
        return gid_at(device, port, to.grh.sgid_index.into()).map(drop).ok_or(libc::EINVAL);
    }
    // An EFA device is addressed by its GID alone.
    let needs_gid = is_ethernet(device, port) || !efa(device).is_null();
    if needs_gid { Err(libc::EINVAL) } else { Ok(()) }
}

/// The port that an address reaches from this one: on Ethernet and of EFA by GID of the same type, on InfiniBand by LID.
fn peer_port(device: usize, port: u8, to: &ibv_ah_attr) -> Option<(usize, u8)> {
    let ethernet = is_ethernet(device, port);
    let own = gid_at(device, port, to.grh.sgid_index.into());
    let wanted = raw(&to.grh.dgid);
    all_ports().find(|(device, port)| {
        if is_ethernet(*device, *port) != ethernet {
            return false;
        }
        if !ethernet && efa(*device).is_null() {
            return to.dlid != 0 && lid(*device, *port) == to.dlid;
        }
        let mut table = gids(*device, *port).into_iter().flatten();
        table.any(|gid| gid.raw == wanted && own.is_some_and(|own| own.kind == gid.kind))
    })
}

impl Objects {
    /// The queue pair with this number behind an address, if it is ready to receive and the link is up on both sides.
    pub fn reachable_pair(&self, from: &QueuePair, to: &ibv_ah_attr, number: u32) -> Option<usize> {
        let port = from.now.port_num;
        let peer = peer_port(from.device, port, to)?;
        let is_up = |(device, port)| state(self, device, port) == ibv_port_state::IBV_PORT_ACTIVE;
        if !is_up((from.device, port)) || !is_up(peer) {
            return None;
        }
        let mut pairs = self.pairs.values();
        let pair =
            pairs.find(|pair| (pair.device, pair.now.port_num) == peer && pair.number == number)?;
        let is_ready =
            [ibv_qp_state::IBV_QPS_RTR, ibv_qp_state::IBV_QPS_RTS].contains(&pair.now.qp_state);
        (is_ready && pair.kind == from.kind).then(|| pair.raw.address())
    }

    /// The remote queue pair of a connection, if it is connected back.
    pub fn remote_pair(&self, from: &QueuePair) -> Option<usize> {
        let peer = self.reachable_pair(from, &from.now.ah_attr, from.now.dest_qp_num)?;
        let end = &self.pairs[&peer];
        // The remote end answers to its own address; without an answer delivery stays unknown.
        let back = peer_port(end.device, end.now.port_num, &end.now.ah_attr);
        let leads_back =
            back == Some((from.device, from.now.port_num)) && end.now.dest_qp_num == from.number;
        let is_in_step = end.now.rq_psn == from.now.sq_psn && end.now.path_mtu >= from.now.path_mtu;
        // Without acknowledgements no answer is needed, and any first PSN is accepted.
        let unreliable = from.kind == ibv_qp_type::IBV_QPT_UC;
        (unreliable || (leads_back && is_in_step)).then_some(peer)
    }
}

/// The 40-byte GRH of the InfiniBand specification, on either link layer: version 6, traffic class and flow label, payload length,
/// next header 0x1b, hop limit, both GIDs.
pub fn route_header(from: &QueuePair, to: &ibv_ah_attr, bytes: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let own = gid_at(from.device, from.now.port_num, to.grh.sgid_index.into());
    let word = 6 << 28 | u32::from(to.grh.traffic_class) << 20 | (to.grh.flow_label & 0xf_ffff);
    // BTH and DETH have 20 bytes, the ICRC 4; data is padded to 4 bytes.
    let length = u16::try_from(bytes.next_multiple_of(4) + 24).unwrap_or(u16::MAX);
    header[..4].copy_from_slice(&word.to_be_bytes());
    header[4..6].copy_from_slice(&length.to_be_bytes());
    header[6] = 0x1b;
    header[7] = to.grh.hop_limit;
    header[8..24].copy_from_slice(&own.map_or([0; 16], |gid| gid.raw));
    header[24..].copy_from_slice(&raw(&to.grh.dgid));
    header
}
