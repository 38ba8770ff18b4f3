//! The machine `FAKE_VERBS` describes: the section `verbs` of a file that may hold other libraries' machines, too.
//!
//! ```json
//! {"verbs": {
//!   "limits": {"max_qp_wr": 32768, "max_inline_data": 220},
//!   "devices": [{
//!     "name": "mlx5_0", "guid": "9803:9b03:0000:0001", "limits": {"vendor_part_id": 4129},
//!     "ports": [{"state": "active", "link_layer": "infiniband", "lid": 7},
//!               {"link_layer": "ethernet", "active_mtu": 1024, "speed": 128, "width": 2,
//!                "gids": [{"gid": "::ffff:192.0.2.1", "type": "roce1"}, null,
//!                         {"gid": "::ffff:192.0.2.1", "type": "roce2", "ifindex": 3}]}]
//!   }]
//! }}
//! ```
//!
//! What a port does not say its device does, and what that does not say `verbs`. Without `ports` a device has one.
//!
//! - Of a device: `name` (`fake_N`), `index` (its place), `guid` (hexadecimal digits, with or without colons; its place plus 1),
//!   `fw_ver` (`0.0.0`), `limits`: `ibv_device_attr`'s members by their names, and `max_inline_data`; `src/device.rs` has the
//!   defaults.
//! - Of a port: `state` (`"active"`, `"down"`, `"init"`, `"armed"`), `link_layer` (`"infiniband"`, `"ethernet"`), `lid` (the port's
//!   running number on InfiniBand), `sm_lid` (1), `max_mtu` and `active_mtu` (4096), `max_msg_sz` (1 GiB), `speed` and `width` as
//!   verbs.h numbers them (128: NDR, 2: 4x), `phys_state` (5, or 2 where it is down), `pkeys` (`[65535]`), `gids` (on InfiniBand one
//!   that is made of the GUID, else none): type `"ib"`, `"roce1"` or `"roce2"`, null for an empty entry.
//!
//! What it refuses:
//!
//! - `errors`, `errors_after`, `stall` and `hang_in` at the top of the file are those of every simulated library (crate
//!   `fake-machine`): error numbers by the names of functions, those of the context's table being `ibv_post_send` and so on.
//!   What returns a pointer gives NULL with `errno`, `ibv_poll_cq` -1.
//! - `dmabuf` of a device: `"yes"` (as without it), or an error number with which it refuses every dma-buf: 93, 95.
//! - `peermem` of a device: `false`, and device memory is refused with EFAULT. Device memory is what the process's libcuda
//!   calls so, where one is open, and mappings whose name in `/proc/self/maps` holds `device_memory` (`memfd:fake-cuda`).
//!   Where libcuda says that GPUDirect RDMA does not reach it (pointer attribute 15), it is refused in any case.
//! - `memlock` of `verbs`: so many bytes may be registered, in whole pages, then ENOMEM. Device memory is not counted.
//!
//! How work goes wrong, each in `verbs`, for the work requests of all devices, or in a device, for its own; they are counted
//! from 1 as they are posted to send queues:
//!
//! - `"fail": [{"nth": 3, "status": 12, "vendor_err": 129}]`: the third ends with this status and moves nothing.
//!   `"opcode"`: only those are counted: `"send"`, `"write"`, `"read"`, `"fetch_add"`, `"compare_swap"`, or `"recv"`, which
//!   counts messages that a queue pair of the device receives.
//! - `"swallow": 5`: the fifth and all later ones never complete and move nothing, even if the queue pair fails.
//! - `"corrupt": {"every": 2, "as": "flip"}`: of every second that moves bytes, an atomic operation too, these arrive as zeros (`"zero"`), not at all
//!   (`"drop"`) or with a bit of the middle byte wrong (`"flip"`), and success is told. `"opcode"` as above, `"over": 64` counts
//!   only larger ones, `"memory": "device"` (or `"host"`) only those that touch device memory (or none). Also a list of such.
//! - `"port_down_after": 10`, in a port, a device or `verbs`: with the port's tenth work request it goes down, with
//!   `IBV_EVENT_PORT_ERR`; what is posted then ends with retry exceeded.
//! - `"vendor_errors": {"12": 129}` of `verbs`: the `vendor_err` of each completion with this status; 0 without.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use fake_machine::{Machine, number};
use ibverbs_sys::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2};
use serde_json::Value;

/// The file, read at the first question.
pub static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::of("FAKE_VERBS"));

/// An entry of a GID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gid {
    pub raw: [u8; 16],
    /// verbs.h's `enum ibv_gid_type`.
    pub kind: u32,
    pub ifindex: u32,
}

pub fn verbs() -> &'static Value {
    &MACHINE["verbs"]
}

pub fn device(device: usize) -> &'static Value {
    &verbs()["devices"][device]
}

/// How many devices there are.
pub fn devices() -> usize {
    verbs()["devices"].as_array().map_or(0, Vec::len)
}

/// How many ports a device has.
pub fn ports(device: usize) -> u8 {
    let ports = self::device(device)["ports"].as_array().map_or(1, Vec::len);
    u8::try_from(ports).unwrap_or(u8::MAX)
}

/// All ports there are, each by its device and its number.
pub fn all_ports() -> impl Iterator<Item = (usize, u8)> {
    (0..devices()).flat_map(|device| (1..=ports(device)).map(move |port| (device, port)))
}

/// What a device says, or `verbs` for it.
pub fn of_device(device: usize, key: &str) -> &'static Value {
    said([&self::device(device)[key], &verbs()[key]])
}

/// What a port says, or its device or `verbs` for it.
pub fn of_port(device: usize, port: u8, key: &str) -> &'static Value {
    let own = self::device(device)["ports"].get(usize::from(port).wrapping_sub(1));
    let own = own.map_or(&Value::Null, |own| &own[key]);
    said([own, of_device(device, key)])
}

/// The same, where it is a number that fits.
pub fn port_number<T: TryFrom<u64>>(device: usize, port: u8, key: &str, default: T) -> T {
    let value = of_port(device, port, key).as_u64();
    value
        .and_then(|value| T::try_from(value).ok())
        .unwrap_or(default)
}

/// One of a device's limits.
pub fn limit<T: TryFrom<u64>>(device: usize, key: &str, default: T) -> T {
    let value = said([
        &self::device(device)["limits"][key],
        &verbs()["limits"][key],
    ]);
    let value = value.as_u64().and_then(|value| T::try_from(value).ok());
    value.unwrap_or(default)
}

pub fn guid(device: usize) -> u64 {
    let text = self::device(device)["guid"].as_str().unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(device as u64 + 1)
}

/// Whether a port's link is Ethernet.
pub fn is_ethernet(device: usize, port: u8) -> bool {
    of_port(device, port, "link_layer") == "ethernet"
}

pub fn lid(device: usize, port: u8) -> u16 {
    let place = all_ports().position(|at| at == (device, port)).unwrap_or(0);
    let default = match is_ethernet(device, port) {
        true => 0,
        false => u16::try_from(place + 1).unwrap_or(0),
    };
    port_number(device, port, "lid", default)
}

/// A port's GID table; an empty entry is `None`.
pub fn gids(device: usize, port: u8) -> Vec<Option<Gid>> {
    if let Some(table) = of_port(device, port, "gids").as_array() {
        return table.iter().map(gid).collect();
    }
    if is_ethernet(device, port) {
        return Vec::new();
    }
    let mut raw = [0; 16];
    raw[..2].copy_from_slice(&[0xfe, 0x80]);
    raw[8..].copy_from_slice(&(guid(device) + u64::from(port) - 1).to_be_bytes());
    let kind = IBV_GID_TYPE_IB;
    vec![Some(Gid {
        raw,
        kind,
        ifindex: 0,
    })]
}

/// The entry of this index, unless it is empty.
pub fn gid_at(device: usize, port: u8, index: usize) -> Option<Gid> {
    gids(device, port).get(index).copied().flatten()
}

fn gid(entry: &Value) -> Option<Gid> {
    let address: Ipv6Addr = entry["gid"].as_str()?.parse().ok()?;
    let kind = match entry["type"].as_str() {
        Some("roce1") => IBV_GID_TYPE_ROCE_V1,
        Some("roce2") => IBV_GID_TYPE_ROCE_V2,
        _ => IBV_GID_TYPE_IB,
    };
    Some(Gid {
        raw: address.octets(),
        kind,
        ifindex: number(&entry["ifindex"]).unwrap_or(0),
    })
}

/// The first that is there.
fn said(values: [&'static Value; 2]) -> &'static Value {
    values
        .into_iter()
        .find(|value| !value.is_null())
        .unwrap_or(&Value::Null)
}
