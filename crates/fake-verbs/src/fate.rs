//! Faults of work requests that the machine file asks for: which requests fail, vanish or arrive wrong.

use std::slice;

use fake_machine::number;
use serde_json::Value;

use crate::bytes::Delivery;
use crate::machine::{device, verbs};
use crate::world::World;

/// Outcome of a request that the machine file imposes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    #[default]
    Works,
    Fails {
        status: u32,
        vendor: u32,
    },
    Vanishes,
}

/// The elements of a list, or a single value as a list.
fn rules(value: &'static Value) -> &'static [Value] {
    match value {
        Value::Null => &[],
        Value::Array(rules) => rules,
        one => slice::from_ref(one),
    }
}

fn matches_opcode(rule: &Value, opcode: &str) -> bool {
    match rule["opcode"].as_str() {
        Some(wanted) => wanted == opcode,
        // Received messages are not requests to send.
        None => opcode != "recv",
    }
}

impl World {
    /// Counts one more request of a device and returns its fate.
    pub fn fate(&mut self, device: usize, opcode: &str) -> Fate {
        let mut fate = Fate::Works;
        for (of, object) in scopes(device) {
            for (place, rule) in rules(&object["fail"]).iter().enumerate() {
                if matches_opcode(rule, opcode)
                    && Some(self.counted(of, "fail", place)) == rule["nth"].as_u64()
                {
                    let status = number(&rule["status"]).unwrap_or(21);
                    let vendor =
                        number(&rule["vendor_err"]).unwrap_or_else(|| vendor_error(status));
                    fate = Fate::Fails { status, vendor };
                }
            }
            if let Some(from) = object["swallow"].as_u64().filter(|_| opcode != "recv")
                && self.counted(of, "swallow", 0) >= from
            {
                return Fate::Vanishes;
            }
        }
        fate
    }

    /// Counts one more transfer of a device and returns how its bytes arrive.
    pub fn delivery(
        &mut self,
        device: usize,
        opcode: &str,
        bytes: usize,
        touches_device: bool,
    ) -> Delivery {
        let memory = if touches_device { "device" } else { "host" };
        let mut delivery = Delivery::Bytes;
        for (of, object) in scopes(device) {
            for (place, rule) in rules(&object["corrupt"]).iter().enumerate() {
                let is_meant = matches_opcode(rule, opcode)
                    && bytes as u64 > rule["over"].as_u64().unwrap_or(0)
                    && rule["memory"].as_str().is_none_or(|meant| meant == memory);
                if !is_meant {
                    continue;
                }
                let every = rule["every"].as_u64().unwrap_or(1).max(1);
                if self.counted(of, "corrupt", place).is_multiple_of(every) {
                    delivery = match rule["as"].as_str() {
                        Some("zero") => Delivery::Zeros,
                        Some("drop") => Delivery::Nothing,
                        _ => Delivery::Flipped,
                    };
                }
            }
        }
        delivery
    }

    fn counted(&mut self, of: Option<usize>, rule: &'static str, place: usize) -> u64 {
        let count = self.counts.entry((of, rule, place)).or_default();
        *count += 1;
        *count
    }
}

/// The vendor's syndrome for a status.
pub fn vendor_error(status: u32) -> u32 {
    number(&verbs()["vendor_errors"][status.to_string()]).unwrap_or(0)
}

fn scopes(of: usize) -> [(Option<usize>, &'static Value); 2] {
    [(None, verbs()), (Some(of), device(of))]
}
