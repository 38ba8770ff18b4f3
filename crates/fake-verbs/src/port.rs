//! Port attributes and the GID and P_Key tables.

use std::ffi::c_int;
use std::mem::offset_of;

use ibverbs_sys::{
    __be16, IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, IBV_MTU_4096, ibv_context, ibv_gid,
    ibv_mtu, ibv_port_attr, ibv_port_state,
};

use crate::answer::{Errno, minus_one, put, status};
use crate::machine::{efa, efa_number, gids, is_ethernet, lid, of_port, port_number, ports};
use crate::objects::{Objects, objects};

/// A port's state: of the machine file, or down after a fault.
pub fn state(objects: &Objects, device: usize, port: u8) -> ibv_port_state::Type {
    if objects.ports.get(&(device, port)).is_some_and(|port| port.is_down) {
        return ibv_port_state::IBV_PORT_DOWN;
    }
    match of_port(device, port, "state").as_str() {
        Some("down") => ibv_port_state::IBV_PORT_DOWN,
        _ => ibv_port_state::IBV_PORT_ACTIVE,
    }
}

/// A packet's payload in bytes.
pub fn mtu(device: usize, port: u8) -> u32 {
    port_number(device, port, "active_mtu", 4096)
}

/// verbs.h's number for an MTU in bytes: 256 is 1, 4096 is 5.
pub fn mtu_number(bytes: u32) -> ibv_mtu {
    (bytes.max(256).ilog2() - 7).min(5)
}

/// `max_msg_sz`: the longest message in bytes.
pub fn longest(device: usize) -> u32 {
    if efa(device).is_null() { 1 << 30 } else { efa_number(device, "max_message", 8928) }
}

/// The partition keys of a port.
pub fn pkeys(device: usize, port: u8) -> Vec<u16> {
    let key = |key: &serde_json::Value| key.as_u64().and_then(|key| u16::try_from(key).ok());
    match of_port(device, port, "pkeys").as_array() {
        Some(keys) => keys.iter().filter_map(key).collect(),
        None => vec![0xffff],
    }
}

/// The device of a context; EINVAL if it has no such port.
pub fn device_of(
    objects: &Objects,
    context: *mut ibv_context,
    port: u32,
) -> Result<(usize, u8), Errno> {
    let device = objects.context(context)?.device;
    let port = u8::try_from(port).ok().filter(|port| (1..=ports(device)).contains(port));
    Ok((device, port.ok_or(libc::EINVAL)?))
}

fn attributes(objects: &Objects, device: usize, port: u8) -> ibv_port_attr {
    let state = state(objects, device, port);
    let is_down = state == ibv_port_state::IBV_PORT_DOWN;
    let ethernet = is_ethernet(device, port);
    let size = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
    ibv_port_attr {
        state,
        max_mtu: IBV_MTU_4096,
        active_mtu: mtu_number(mtu(device, port)),
        gid_tbl_len: size(gids(device, port).len()).into(),
        max_msg_sz: longest(device),
        pkey_tbl_len: size(pkeys(device, port).len()),
        lid: lid(device, port),
        sm_lid: u16::from(!ethernet),
        active_width: port_number(device, port, "width", 2),
        active_speed: port_number(device, port, "speed", 128),
        // Polling, LinkUp.
        phys_state: if is_down { 2 } else { 5 },
        link_layer: if !efa(device).is_null() {
            0 // IBV_LINK_LAYER_UNSPECIFIED
        } else if ethernet {
            IBV_LINK_LAYER_ETHERNET as u8
        } else {
            IBV_LINK_LAYER_INFINIBAND as u8
        },
        ..ibv_port_attr::default()
    }
}

/// As the library's own export: fills the members up to `flags` and leaves the rest alone.
///
/// # Safety
///
/// `out` is null or valid for a write of these.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    out: *mut ibv_port_attr,
) -> c_int {
    status("ibv_query_port", || {
        let objects = objects();
        let (device, port) = device_of(&objects, context, port.into())?;
        let all = attributes(&objects, device, port);
        if out.is_null() {
            return Err(libc::EINVAL);
        }
        let known = offset_of!(ibv_port_attr, flags) + 1;
        // SAFETY: `all` is that long, and so is the caller's structure.
        unsafe { (&raw const all).cast::<u8>().copy_to_nonoverlapping(out.cast(), known) };
        Ok(())
    })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    out: *mut ibv_gid,
) -> c_int {
    minus_one("ibv_query_gid", || {
        let (device, port) = device_of(&objects(), context, port.into())?;
        let table = gids(device, port);
        let entry = usize::try_from(index).ok().and_then(|index| table.get(index));
        let raw = entry.ok_or(libc::EINVAL)?.map_or([0; 16], |gid| gid.raw);
        // SAFETY: the caller's guarantee.
        unsafe { put(out, ibv_gid { raw }) }
    })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    out: *mut __be16,
) -> c_int {
    minus_one("ibv_query_pkey", || {
        let (device, port) = device_of(&objects(), context, port.into())?;
        let keys = pkeys(device, port);
        let key = usize::try_from(index).ok().and_then(|index| keys.get(index));
        // SAFETY: the caller's guarantee.
        unsafe { put(out, key.ok_or(libc::EINVAL)?.to_be()) }
    })
}
