//! The format of the machine file `FAKE_NVML`.
//!
//! ```json
//! {
//!   "driver_version": "580.159.04", "cuda_driver_version": 13000,
//!   "confidential_compute": {"environment": 0, "feature": 0, "devtools": 0, "multi_gpu": 0},
//!   "gpu": {"name": "NVIDIA H200"},
//!   "gpus": [{"bdf": "00000000:00:06.0", "uuid": "GPU-…", "minor": 0, "links": [{"repeat": 18, "active": true}]}],
//!   "pair": {"p2p": [0, 0, 0, 0, 5]},
//!   "pairs": [{"a": 0, "b": 1, "p2p": [0, 77, 0, 0, 5]}]
//! }
//! ```
//!
//! `gpu` holds defaults for `gpus`, `pair` for `pairs`. Values are NVML's numbers; missing ones are "not supported". Members of a GPU:
//! `name uuid bdf minor persistence mig` (current and pending) `bar1` (total, free, used) `memory_total
//! numa_node fabric` (`state status clique_id cluster_uuid health_mask health_summary`, and `version`, the newest structure that the
//! driver supports) `performance_state virtualization architecture fields` (`nvmlDeviceGetFieldValues`: values by number, of a link by
//! `NUMBER/LINK`) and `links`, each `active remote_type remote_bdf`, and `repeat` for several equal ones.
//! `"error": 15` makes a GPU impossible to open.

use std::sync::LazyLock;

use fakes::machine::Machine;
use serde_json::Value;

/// Read on first use.
pub static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::of("FAKE_NVML"));

/// A value of a pair in either order, or of `pair`.
pub fn pair(a: usize, b: usize, key: &str) -> Option<&'static Value> {
    let is = |pair: &Value, x: usize, y: usize| pair["a"] == x && pair["b"] == y;
    MACHINE.pair(key, |pair| is(pair, a, b) || is(pair, b, a))
}

/// A link, with `repeat` expanded; `None` past the last.
pub fn link(index: usize, link: u32) -> Option<&'static Value> {
    let mut left = u64::from(link);
    for entry in MACHINE.gpu(index, "links")?.as_array()? {
        let repeat = entry["repeat"].as_u64().unwrap_or(1);
        if left < repeat {
            return Some(entry);
        }
        left -= repeat;
    }
    None
}
