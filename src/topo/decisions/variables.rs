//! NCCL's variables that change its decisions.

use std::collections::BTreeMap;

use crate::model::Facts;

const NAMES: [&str; 11] = [
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NVB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PXN_C2C",
    "NCCL_PXN_DISABLE",
];

/// The variables that are set; none if the environment is unknown.
pub fn variables(facts: &Facts) -> Option<BTreeMap<String, String>> {
    let environment = facts.environment.known()?;
    let set = environment.iter().filter(|(name, _)| NAMES.contains(&name.as_str()));
    Some(set.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// A number as C's `strtol` reads it with base 0: digits at the start count.
pub fn number(value: &str) -> Option<i64> {
    let value = value.trim_start();
    let (sign, digits) = match value.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, value.strip_prefix('+').unwrap_or(value)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    i64::from_str_radix(&digits[..end], radix).ok().map(|number| sign * number)
}

/// True if NCCL_IB_HCA selects a device: a list of `name[:port]`, of which each is the start of a name, `=` before the list for whole
/// names, `^` for all others (NCCL 2.27.7, src/transport/net_ib.cc, `ncclIbInit`; src/misc/utils.cc, `matchIfList`).
pub fn selects(value: &str, device: &str, port: Option<u32>) -> bool {
    let (excludes, value) = value.strip_prefix('^').map_or((false, value), |rest| (true, rest));
    let (whole, value) = value.strip_prefix('=').map_or((false, value), |rest| (true, rest));
    let mut names = value.split(',').filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return true;
    }
    let is_listed = names.any(|entry| {
        let (name, number) = entry
            .split_once(':')
            .map_or((entry, None), |(name, number)| (name, number.parse::<u32>().ok()));
        let is_named = if whole { device == name } else { device.starts_with(name) };
        is_named && (number.is_none() || port.is_none() || number == port)
    });
    is_listed != excludes
}
