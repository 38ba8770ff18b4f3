//! The machine `FAKE_CUDA` describes.
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
//! `gpu` holds what `gpus` have in common, `pair` what ordered pairs do. Attributes go by cuda.h's numbers; one that a file
//! does not say is 0, and one past `attributes_up_to` is unknown to this driver. Without `bdf` a GPU is no PCI device. GPUs go
//! by their places in `gpus`, whatever `CUDA_VISIBLE_DEVICES` makes of them.
//!
//! What goes wrong:
//!
//! ```json
//! {
//!   "errors": {"cuInit": 802}, "hang_in": "cuInit", "stall": {"cuStreamSynchronize": 250},
//!   "errors_after": {"cuMemcpyPeerAsync": {"calls": 100, "code": 220, "sticky": true}},
//!   "gpus": [{"errors": {"cuDevicePrimaryCtxRetain": 46}},
//!            {"errors_after": {"cuStreamSynchronize": {"calls": 3, "code": 719, "sticky": true}}, "downloads": "flip"}],
//!   "pair": {"copies": "zero"},
//!   "pairs": [{"from": 1, "to": 0, "copies": "drop", "can_access": false}]
//! }
//! ```
//!
//! - `errors`, `errors_after`, `stall` and `hang_in` are those of every simulated library (crate `fake-machine`). In an
//!   element of `gpus` they are of calls about that device (of two, the first), or with that GPU's context current.
//! - A sticky failure is what an Xid leaves: from then on every function that needs a current context answers that code, for
//!   that GPU, or for all where the whole machine's `errors_after` asks for it. So does a kernel's fault, of its GPU. Pushing,
//!   popping, retaining and releasing contexts go on working, as do questions about devices and addresses.
//! - `copies` of an ordered pair: what `cuMemcpyPeerAsync` and `cuMemcpyDtoDAsync` take from the one GPU's memory to the
//!   other's arrives as zeros (`"zero"`), not at all (`"drop"`) or with one bit wrong (`"flip"`), and they report success: a
//!   wrong setting of the IOMMU, say. `kernel_copies` is the same of what the kernel `copy_words` takes, and `uploads` and
//!   `downloads` of a GPU of copies from and to the host; but 64 bytes or less, results, arrive there.
//! - Where a GPU's attribute 124 is 0, `cuMemGetHandleForAddressRange` answers 801 of its memory. Attribute 116 is what
//!   `cuPointerGetAttribute` says of its memory (15), by which the simulated card of crate `fake-verbs` goes.
//! - `"dmabuf_pcie": false`: that function does not know the flag for a mapping over PCIe (before CUDA 12.8), and answers 1. A
//!   number is what it answers to the flag instead: 801, as seen on an H200 with driver 580.159.
//! - `io_memory` of a GPU is what `cuMemHostRegister` answers there of another device's registers (`IOMEMORY`): 800 as without
//!   `PeerMappingOverride`, 304 as on a kernel that is too new for the driver, 801 where there is no such thing.
//! - Without `can_access` the pair's `cuCtxEnablePeerAccess` answers 217, and a kernel that touches the other's memory 700.

use std::sync::LazyLock;

use fake_machine::Machine;
use serde_json::Value;

/// The file, read at the first question.
pub static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::of("FAKE_CUDA"));

/// A GPU's own attribute, else the one all have, else 0; none past the last that the driver knows.
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

/// The code with which something is refused: `refused` where the file says `false`, or the number that it has.
#[cfg(not(feature = "old"))]
pub fn refusal(key: &str, refused: u32) -> Option<u32> {
    match &MACHINE[key] {
        Value::Bool(false) => Some(refused),
        value => fake_machine::number(value),
    }
}

/// An ordered pair's own value, else the one all have.
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
