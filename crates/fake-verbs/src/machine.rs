//! The format of the machine file `FAKE_VERBS`: section `verbs`; other sections belong to other fake libraries.
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
//! A port inherits from its device, and a device from `verbs`. A device without `ports` has one.
//! - Device: `name` (default `fake_N`), `guid` (hexadecimal digits, with or without colons; default:
//!   position plus 1), `fw_ver` (`0.0.0`), `limits`: members of `ibv_device_attr` by name, and `max_inline_data`;
//!   `src/device.rs` has the defaults.
//! - Port: `state` (`"active"`, `"down"`), `link_layer` (`"infiniband"`, `"ethernet"`), `lid` (default on InfiniBand: the port's
//!   running number), `active_mtu` (4096), `pkeys` (`[65535]`), `speed` and `width` in verbs.h's numbers (128: NDR, 2: 4x), `gids` (default on
//!   InfiniBand: one derived from the GUID): type `"ib"`, `"roce1"` or `"roce2"`; null is an empty entry.
//!
//! Failures of functions:
//!
//! - `errors`, `errors_after` and `hang_in` at the top of the file: as for every fake library (`fakes::machine`),
//!   by function name; functions of the context's table are `ibv_post_send` and so on. A function that returns a pointer gives
//!   NULL with `errno`, `ibv_poll_cq` gives -1.
//! - `dmabuf` of a device: `"yes"` (the default), or the error number of every dma-buf registration: 93, 95.
//! - `attach` and `registration` of a device: error numbers of dma-bufs by `"default"` and `"pcie"`, the mapping that the fake CUDA
//!   exported, and by `"data_direct"`; the GPU's driver refuses the device, and then the device's own driver the memory:
//!   `"attach": {"pcie": 524}`. 0 is not an error.
//! - `data_direct` of a device: the path of its Data Direct function, or the error number of the query (19: it has none). Without it
//!   the device is not an mlx5 device (`src/mlx5.rs`).
//! - `iwarp` of a device: if `true`, its kind is that of an iWARP NIC.
//! - `odp` of a device: it offers on-demand paging: `{"implicit": true, "rc": ["send", "recv", "write", "read", "atomic", "srq_recv"],
//!   "uc": [], "ud": ["send"]}`. `registration` is the error number of every such registration. Its pages do not count against
//!   `memlock`. Without `odp` such a registration fails with EOPNOTSUPP.
//! - `efa` of a device: it is an EFA device (`src/efa.rs`), with SRD and UD queue pairs only, and these members: `caps`, a list of
//!   `"read"`, `"write"`, `"rnr_retry"`; `max_rdma_size` (1 GiB), `max_message` (8928), `inline_buf_size` (32), `max_sq_wr` (4096),
//!   `max_rq_wr` (32768). `false` is a device of another vendor.
//! - `peermem` of a device: if `false`, registering device memory fails with EFAULT. Device memory is what the process's libcuda
//!   reports as such. Memory that it reports as not capable of GPUDirect RDMA (pointer attribute 15) always fails.
//! - `memlock` of `verbs`: the bytes that can be registered, in whole pages, before ENOMEM. Device memory does not count.
//!
//! Faults of work requests. In `verbs` they count the requests of all devices, in a device those of that device, from 1, in the
//! order in which they are posted to send queues:
//!
//! - `"fail": [{"nth": 3, "status": 12, "vendor_err": 129}]`: the third ends with this status and moves no data. `"opcode"`
//!   restricts the count to `"send"`, `"write"`, `"read"`, `"fetch_add"` or `"compare_swap"`.
//! - `"count": {"nth": 5, "file": "/sys/…/np_cnp_sent", "add": 3}`: the fifth adds to the number in a file, as hardware does to its
//!   counters. `"opcode"` as above. Also a list.
//! - `"swallow": 5`: from the fifth on, requests never complete and move no data, even if the queue pair fails.
//! - `"flushes_late_receives": false` of a device: a receive posted in the state ERR stays, as on Soft-RoCE.
//! - `"corrupt": {"as": "flip"}`: each data transfer, atomic operations included, arrives as zeros (`"zero"`), not at all
//!   (`"drop"`) or with one wrong bit in the middle byte (`"flip"`), and succeeds. `"opcode"` as above; `"over": 64`: only larger
//!   ones; `"memory": "device"` or `"host"`: only those that touch device memory, or do not. Also a list.
//! - `"port_down_after": 10`, in a port, a device or `verbs`: the port goes down with its tenth work request and reports
//!   `IBV_EVENT_PORT_ERR`; later requests end with retry exceeded.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use fakes::machine::{Machine, number};
use ibverbs_sys::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2};
use serde_json::Value;

/// Read on first use.
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

/// Number of devices.
pub fn devices() -> usize {
    verbs()["devices"].as_array().map_or(0, Vec::len)
}

/// Number of ports of a device.
pub fn ports(device: usize) -> u8 {
    let ports = self::device(device)["ports"].as_array().map_or(1, Vec::len);
    u8::try_from(ports).unwrap_or(u8::MAX)
}

/// All ports, as device index and port number.
pub fn all_ports() -> impl Iterator<Item = (usize, u8)> {
    (0..devices()).flat_map(|device| (1..=ports(device)).map(move |port| (device, port)))
}

/// A value of a device, or inherited from `verbs`.
pub fn of_device(device: usize, key: &str) -> &'static Value {
    first_present([&self::device(device)[key], &verbs()[key]])
}

/// A value of a port, or inherited from its device or `verbs`.
pub fn of_port(device: usize, port: u8, key: &str) -> &'static Value {
    let own = self::device(device)["ports"].get(usize::from(port).wrapping_sub(1));
    let own = own.map_or(&Value::Null, |own| &own[key]);
    first_present([own, of_device(device, key)])
}

/// As [`of_port`], for a number that fits `T`.
pub fn port_number<T: TryFrom<u64>>(device: usize, port: u8, key: &str, default: T) -> T {
    let value = of_port(device, port, key).as_u64();
    value.and_then(|value| T::try_from(value).ok()).unwrap_or(default)
}

pub fn limit<T: TryFrom<u64>>(device: usize, key: &str, default: T) -> T {
    let value = first_present([&self::device(device)["limits"][key], &verbs()["limits"][key]]);
    let value = value.as_u64().and_then(|value| T::try_from(value).ok());
    value.unwrap_or(default)
}

/// What an EFA device has; null for other devices.
pub fn efa(device: usize) -> &'static Value {
    match of_device(device, "efa") {
        of_efa @ Value::Object(_) => of_efa,
        _ => &Value::Null,
    }
}

/// True if the device is an EFA device with this ability.
pub fn efa_has(device: usize, ability: &str) -> bool {
    let abilities = efa(device)["caps"].as_array();
    abilities.is_some_and(|abilities| abilities.iter().any(|known| known == ability))
}

/// A number of an EFA device.
pub fn efa_number(device: usize, key: &str, default: u32) -> u32 {
    number(&efa(device)[key]).unwrap_or(default)
}

pub fn guid(device: usize) -> u64 {
    let text = self::device(device)["guid"].as_str().unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(device as u64 + 1)
}

/// True if the port's link layer is Ethernet.
pub fn is_ethernet(device: usize, port: u8) -> bool {
    of_port(device, port, "link_layer") == "ethernet"
}

pub fn lid(device: usize, port: u8) -> u16 {
    let place = all_ports().position(|at| at == (device, port)).unwrap_or(0);
    let default = if is_ethernet(device, port) || !efa(device).is_null() {
        0
    } else {
        u16::try_from(place + 1).unwrap_or(0)
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
    vec![Some(Gid { raw, kind, ifindex: 0 })]
}

/// The GID at this index, unless the entry is empty.
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
    Some(Gid { raw: address.octets(), kind, ifindex: number(&entry["ifindex"]).unwrap_or(0) })
}

/// The first value that is present.
fn first_present(values: [&'static Value; 2]) -> &'static Value {
    values.into_iter().find(|value| !value.is_null()).unwrap_or(&Value::Null)
}
