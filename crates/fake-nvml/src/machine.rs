//! The machine `FAKE_NVML` describes.
//!
//! ```json
//! {
//!   "driver_version": "580.159.04", "nvml_version": "13.580.159.04", "cuda_driver_version": 13000,
//!   "confidential_compute": {"cpu": 0, "gpus": 0, "environment": 0, "feature": 0, "devtools": 0, "multi_gpu": 0},
//!   "gpu": {"name": "NVIDIA H200"},
//!   "gpus": [{"bdf": "00000000:00:06.0", "uuid": "GPU-…", "minor": 0, "links": [{"repeat": 18, "active": true}]}],
//!   "pair": {"common_ancestor": 30, "p2p": [0, 0, 0, 0, 5]},
//!   "pairs": [{"a": 0, "b": 1, "p2p": [0, 77, 0, 0, 5]}]
//! }
//! ```
//!
//! `gpu` holds what `gpus` have in common, `pair` what `pairs` do. Values are NVML's own numbers, and what a file does not
//! say is "not supported". A GPU may have: `name uuid bdf minor persistence mig` (current and pending) `bar1` (total, free,
//! used) `memory_total cpus memory_nodes` (lists) `numa_node fabric` (`state status clique_id cluster_uuid health_mask
//! health_summary`, and `version`, the newest structure the driver knows) `pcie` (`generation max_generation
//! gpu_max_generation width max_width`) `performance_state virtualization architecture multi_gpu_board` and `links`, each
//! `active version remote_type remote_bdf`, and `repeat` for so many alike. `"error": 15` makes a GPU impossible to open.

use std::io::Write;
use std::sync::OnceLock;

use serde_json::Value;

static MACHINE: OnceLock<Value> = OnceLock::new();

/// The file, read at the first question; without a usable one, an empty object and a line on standard error.
pub fn machine() -> &'static Value {
    MACHINE.get_or_init(|| {
        let path = std::env::var_os("FAKE_NVML").unwrap_or_default();
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
            .unwrap_or_else(|error| {
                // Nothing can be done about a closed standard error.
                let _ = writeln!(
                    std::io::stderr(),
                    "fake-nvml: FAKE_NVML={}: {error}",
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

/// A pair's own value in either order, else the one all have.
pub fn pair(a: usize, b: usize, key: &str) -> Option<&'static Value> {
    let is = |pair: &&Value, x: usize, y: usize| pair["a"] == x && pair["b"] == y;
    let pairs = machine()["pairs"].as_array().map_or(&[][..], Vec::as_slice);
    let own = pairs
        .iter()
        .find(|pair| is(pair, a, b) || is(pair, b, a))
        .and_then(|pair| pair.get(key));
    own.or_else(|| machine()["pair"].get(key))
        .filter(|value| !value.is_null())
}

/// A link with `repeat` counted out; `None` past the last.
pub fn link(index: usize, link: u32) -> Option<&'static Value> {
    let mut left = u64::from(link);
    for entry in gpu(index, "links")?.as_array()? {
        let repeat = entry["repeat"].as_u64().unwrap_or(1);
        if left < repeat {
            return Some(entry);
        }
        left -= repeat;
    }
    None
}

/// A number that fits.
pub fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|value| u32::try_from(value).ok())
}
