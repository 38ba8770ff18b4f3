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
//! does not say is 0, and one past `attributes_up_to` is unknown to this driver. Without `bdf` a GPU is no PCI device.

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
