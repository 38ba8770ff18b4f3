//! The machine in `FAKE_CUDA`.
//!
//! ```json
//! {
//!   "driver_version": 13000, "attributes_up_to": 147,
//!   "gpu": {"name": "NVIDIA H200", "memory": 150754820096, "attributes": {"75": 9, "116": 1}},
//!   "gpus": [{"bdf": "0000:03:00.0", "attributes": {"116": 0}}],
//!   "pair": {"can_access": true, "p2p": {"2": 1}},
//!   "pairs": [{"from": 1, "to": 0, "can_access": false}]
//! }
//! ```
//!
//! `gpu` has values common to all `gpus`, `pair` those common to all ordered pairs. Attributes are
//! numbered as in cuda.h; a missing one is 0, and one above `attributes_up_to` is unknown to this
//! driver. A GPU without `bdf` is not a PCI device. GPUs are numbered by their index in `gpus`,
//! regardless of `CUDA_VISIBLE_DEVICES`.
//!
//! Failures:
//!
//! ```json
//! {
//!   "errors": {"cuInit": 802}, "hang_in": "cuInit",
//!   "errors_after": {"cuMemcpyPeerAsync": {"calls": 100, "code": 220, "sticky": true}},
//!   "gpus": [{"errors": {"cuDevicePrimaryCtxRetain": 46}},
//!            {"errors_after": {"cuStreamSynchronize": {"calls": 3, "code": 719, "sticky": true}}}],
//!   "pair": {"copies": "zero"},
//!   "pairs": [{"from": 1, "to": 0, "copies": "drop", "can_access": false}]
//! }
//! ```
//!
//! - `errors`, `errors_after` and `hang_in` are common to all simulated libraries (crate
//!   `fakes::machine`). In an element of `gpus` they apply to calls about that device (the first of
//!   two), or with that GPU's context current.
//! - A sticky failure acts like an Xid: from then on every function that needs a current context
//!   returns that code, for that GPU, or for all if it is in the machine's `errors_after`. A
//!   kernel's fault does the same for its GPU. Pushing, popping, retaining and releasing contexts
//!   still work, as do queries about devices and addresses.
//! - `copies` of an ordered pair: the data of `cuMemcpyPeerAsync` and `cuMemcpyDtoDAsync` arrives
//!   as zeros (`"zero"`), not at all (`"drop"`) or with one bit flipped (`"flip"`), without an
//!   error, as with a wrong IOMMU setting.
//! - If attribute 124 of a GPU is 0, `cuMemGetHandleForAddressRange` returns 801 for its memory.
//!   Attribute 116 is the result of `cuPointerGetAttribute` for its memory (15), which the
//!   simulated NIC of crate `fake-verbs` checks.
//! - `"dmabuf_pcie": false`, of a GPU or of the machine: that function does not know the flag for a
//!   mapping over PCIe (before CUDA 12.8), and returns 1. A number is its result for the flag
//!   instead: 801 on an H200 with driver 580.159. `dmabuf_default` is its result without the flag.
//! - `io_memory` of a GPU is the result of `cuMemHostRegister` for another device's registers
//!   (`IOMEMORY`): 800 without `PeerMappingOverride`, 304 on a kernel that is too new for the
//!   driver, 801 if unsupported.
//! - With `"cpu_access": false`, of a GPU or of the machine, the CPU faults at the addresses of GPU memory, as at a real GPU's.
//! - Without `can_access`, `cuCtxEnablePeerAccess` of the pair returns 217, and a kernel's access
//!   to the other GPU's memory 700.

use std::sync::LazyLock;

use fakes::machine::Machine;
use serde_json::Value;

/// The file, read at first use.
pub static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::of("FAKE_CUDA"));

/// Attribute of a GPU, else the common one, else 0; `None` if the driver does not know it.
pub fn attribute(index: usize, number: u32) -> Option<i32> {
    let newest = MACHINE["attributes_up_to"].as_u64().unwrap_or(147);
    if u64::from(number) > newest {
        return None;
    }
    let key = number.to_string();
    let own = MACHINE["gpus"][index]["attributes"].get(&key);
    let value = own.or_else(|| MACHINE["gpu"]["attributes"].get(&key));
    Some(value.and_then(integer).unwrap_or(0))
}

/// Injected error of `key`, of a GPU, else of the machine: `default` if the value is `false`, or the
/// value if it is a number.
pub fn configured_error(index: usize, key: &str, default: u32) -> Option<u32> {
    match MACHINE.gpu(index, key).unwrap_or(&MACHINE[key]) {
        Value::Bool(false) => Some(default),
        value => fakes::machine::number(value),
    }
}

/// Value of an ordered pair, else the common one.
pub fn pair(from: usize, to: usize, key: &str) -> Option<&'static Value> {
    MACHINE.pair(key, |pair| pair["from"] == from && pair["to"] == to)
}

/// A number that fits, `true` and `false` being 1 and 0.
pub fn integer(value: &Value) -> Option<i32> {
    value
        .as_bool()
        .map(i32::from)
        .or_else(|| value.as_i64().and_then(|value| i32::try_from(value).ok()))
}
