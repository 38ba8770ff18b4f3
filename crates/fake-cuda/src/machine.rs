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

use std::io::Write;
use std::sync::OnceLock;

use serde_json::Value;

static MACHINE: OnceLock<Value> = OnceLock::new();

/// The file, read at the first question; without a usable one, an empty object and a line on standard error.
pub fn machine() -> &'static Value {
    MACHINE.get_or_init(|| {
        let path = std::env::var_os("FAKE_CUDA").unwrap_or_default();
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
            .unwrap_or_else(|error| {
                // Nothing can be done about a closed standard error.
                let _ = writeln!(
                    std::io::stderr(),
                    "fake-cuda: FAKE_CUDA={}: {error}",
                    path.to_string_lossy()
                );
                Value::Object(serde_json::Map::new())
            })
    })
}

/// The number of GPUs.
pub fn count() -> usize {
    machine()["gpus"].as_array().map_or(0, Vec::len)
}

/// A GPU's own value, else the one all have.
pub fn gpu(index: usize, key: &str) -> Option<&'static Value> {
    let own = machine()["gpus"].get(index)?;
    own.get(key)
        .or_else(|| machine()["gpu"].get(key))
        .filter(|value| !value.is_null())
}

/// A GPU's own attribute, else the one all have, else 0; none past the last that the driver knows.
pub fn attribute(index: usize, number: u32) -> Option<i32> {
    let newest = machine()["attributes_up_to"].as_u64().unwrap_or(147);
    if u64::from(number) > newest {
        return None;
    }
    let key = number.to_string();
    let own = machine()["gpus"][index]["attributes"].get(&key);
    let value = own.or_else(|| machine()["gpu"]["attributes"].get(&key));
    Some(value.and_then(integer).unwrap_or(0))
}

/// An ordered pair's own value, else the one all have.
pub fn pair(from: usize, to: usize, key: &str) -> Option<&'static Value> {
    let pairs = machine()["pairs"].as_array().map_or(&[][..], Vec::as_slice);
    let own = pairs
        .iter()
        .find(|pair| pair["from"] == from && pair["to"] == to)
        .and_then(|pair| pair.get(key));
    own.or_else(|| machine()["pair"].get(key))
}

/// A number that fits, `true` and `false` being 1 and 0.
pub fn integer(value: &Value) -> Option<i32> {
    value
        .as_bool()
        .map(i32::from)
        .or_else(|| value.as_i64().and_then(|value| i32::try_from(value).ok()))
}
