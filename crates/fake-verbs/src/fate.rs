//! Faults of work requests that the machine file asks for: which requests fail, vanish or arrive wrong.

use std::slice;

use fakes::machine::number;
use serde_json::Value;

use crate::bytes::Delivery;
use crate::machine::{device, verbs};
use crate::objects::Objects;

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
    rule["opcode"].as_str().is_none_or(|wanted| wanted == opcode)
}

impl Objects {
    /// Counts one more request of a device and returns its fate.
    pub fn fate(&mut self, device: usize, opcode: &str) -> Fate {
        let mut fate = Fate::Works;
        for (of, object) in scopes(device) {
            for (place, rule) in rules(&object["fail"]).iter().enumerate() {
                if matches_opcode(rule, opcode)
                    && Some(self.counted(of, "fail", place)) == rule["nth"].as_u64()
                {
                    let status = number(&rule["status"]).unwrap_or(21);
                    let vendor = number(&rule["vendor_err"]).unwrap_or(0);
                    fate = Fate::Fails { status, vendor };
                }
            }
            for (place, rule) in rules(&object["count"]).iter().enumerate() {
                if matches_opcode(rule, opcode)
                    && Some(self.counted(of, "count", place)) == rule["nth"].as_u64()
                {
                    add(rule);
                }
            }
            if let Some(from) = object["swallow"].as_u64()
                && self.counted(of, "swallow", 0) >= from
            {
                return Fate::Vanishes;
            }
        }
        fate
    }

    fn counted(&mut self, of: Option<usize>, rule: &'static str, place: usize) -> u64 {
        let count = self.counts.entry((of, rule, place)).or_default();
        *count += 1;
        *count
    }
}

/// Adds to the number in a file.
fn add(rule: &Value) {
    let (Some(file), Some(more)) = (rule["file"].as_str(), rule["add"].as_u64()) else {
        return;
    };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let number: u64 = text.trim().parse().unwrap_or(0);
    // Ignored: the test that reads the counter notices.
    let _ = std::fs::write(file, format!("{}\n", number + more));
}

/// How the bytes of a transfer of a device arrive.
pub fn delivery(device: usize, opcode: &str, bytes: usize, touches_device: bool) -> Delivery {
    let memory = if touches_device { "device" } else { "host" };
    let is_meant = |rule: &&Value| {
        matches_opcode(rule, opcode)
            && bytes as u64 > rule["over"].as_u64().unwrap_or(0)
            && rule["memory"].as_str().is_none_or(|meant| meant == memory)
    };
    let rule = scopes(device)
        .into_iter()
        .flat_map(|(_, object)| rules(&object["corrupt"]))
        .rfind(is_meant);
    match rule.map(|rule| rule["as"].as_str()) {
        None => Delivery::Bytes,
        Some(Some("zero")) => Delivery::Zeros,
        Some(Some("drop")) => Delivery::Nothing,
        Some(_) => Delivery::Flipped,
    }
}

fn scopes(of: usize) -> [(Option<usize>, &'static Value); 2] {
    [(None, verbs()), (Some(of), device(of))]
}
