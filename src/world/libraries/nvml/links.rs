//! The NVLinks of one GPU: state, remote ends, error counters, registration with the fabric.

use std::collections::BTreeMap;

use gpu::Kind;
use gpu::nvml::{Answer, Device, Fabric};

use super::{fact, words};
use crate::model::{FabricRegistration, Fact, NvLink, Why};

/// Twice `NVML_NVLINK_MAX_LINKS` of nvml.h 13: the library itself ends the list with "invalid argument", so one that
/// knows more links than the header is still read whole.
const MAX: u32 = 36;

/// `NVML_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: u32 = 3;

/// Fields with the sum over all links (nvml.h, `NVML_FI_DEV_NVLINK_*_TOTAL`).
const TOTALS: [(u32, &str); 5] =
    [(38, "crc_flit"), (45, "crc_data"), (52, "replay"), (59, "recovery"), (160, "ecc")];
/// Fields of one link: `NVML_FI_DEV_NVLINK_ERROR_DL_*` (Hopper), then `NVML_FI_DEV_NVLINK_COUNT_*` (Blackwell and
/// later).
const OF_A_LINK: [(u32, &str); 8] = [
    (161, "dl_replay"),
    (162, "dl_recovery"),
    (163, "dl_crc"),
    (208, "received_errors"),
    (211, "link_integrity"),
    (214, "failed_recoveries"),
    (219, "effective_errors"),
    (221, "symbol_errors"),
];
/// `NVML_NVLINK_MAX_LINKS` of nvml.h 13.
const LINKS: u32 = 18;

/// The active links, and the number of those that are down. A GPU without NVLink answers "not supported" for each.
pub fn read(device: Device<'_>) -> (Fact<Vec<NvLink>>, Fact<u32>) {
    let states = fact(states(device));
    let down = states.as_ref().map(|states| states.iter().filter(|(_, active)| !active).count());
    let active = states.map(|states| {
        let active = states.into_iter().filter(|(_, active)| *active);
        active.map(|(index, _)| link(device, index)).collect()
    });
    let down =
        down.and_then(|down| u32::try_from(down).map_or(Fact::Unknown(Why::Broken), Fact::Known));
    (active, down)
}

/// Number and state of each link.
fn states(device: Device<'_>) -> Answer<Vec<(u32, bool)>> {
    let mut links = Vec::new();
    for index in 0..MAX {
        match device.link_state(index) {
            Ok(state) => links.push((index, state != 0)),
            // "Invalid argument" for the first link would be our mistake, not the end.
            Err(failure) if failure.kind() == Kind::Invalid && index > 0 => break,
            // A link this model does not have; a later one may still exist.
            Err(failure) if failure.code() == Some(NOT_SUPPORTED) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(links)
}

fn link(device: Device<'_>, index: u32) -> NvLink {
    NvLink {
        index,
        remote: fact(device.link_remote_type(index)).map(words::remote_device),
        remote_bdf: fact(device.link_remote_bus_id(index)).and_then(|address| {
            if is_hidden(&address) {
                return Fact::Unknown(Why::NotCovered);
            }
            address.parse().map_or(Fact::Unknown(Why::Broken), Fact::Known)
        }),
    }
}

/// Every digit before the function an F, as a guest that has the GPUs but not their switches shows it.
fn is_hidden(address: &str) -> bool {
    let digits = address.split('.').next().unwrap_or_default();
    digits.chars().all(|c| matches!(c, 'F' | 'f' | ':'))
}

/// Error counters by name, each the sum over the GPU's links since the driver was loaded or the counters were cleared;
/// only those that this GPU has. Bit error rates are left out: they are estimates, not counts.
pub fn errors(device: Device<'_>) -> Fact<BTreeMap<String, u64>> {
    let links: Vec<u32> = (0..LINKS).filter(|link| device.link_state(*link).is_ok()).collect();
    if links.is_empty() {
        return Fact::Unknown(Why::NotCovered);
    }
    let totals = TOTALS.into_iter().map(|(field, name)| (field, 0, name));
    let of_links = links
        .into_iter()
        .flat_map(|link| OF_A_LINK.into_iter().map(move |(field, name)| (field, link, name)));
    let asked: Vec<(u32, u32, &str)> = totals.chain(of_links).collect();
    let fields: Vec<(u32, u32)> = asked.iter().map(|(field, link, _)| (*field, *link)).collect();
    fact(device.fields(&fields)).and_then(|values| {
        let mut counters = BTreeMap::new();
        for ((_, _, name), value) in asked.iter().zip(values) {
            if let Some(value) = value {
                let counter: &mut u64 = counters.entry((*name).to_owned()).or_default();
                *counter = counter.saturating_add(value);
            }
        }
        if counters.is_empty() { Fact::Unknown(Why::NotCovered) } else { Fact::Known(counters) }
    })
}

pub fn registration(fabric: Fabric) -> FabricRegistration {
    FabricRegistration {
        status: fabric.status,
        clique: fabric.clique_id,
        cluster: fabric.cluster_uuid != [0; 16],
        health: fabric.health.map(words::fabric_health),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first is what a guest with two H200 and no switch reads; the second a switch on bare metal.
    #[test]
    fn visible_and_hidden_switch() {
        assert!(is_hidden("FFFFFFFF:FF:FF.0"));
        assert!(!is_hidden("00000000:C3:00.0"));
    }
}
