//! The NVLink error counters of one GPU.

use std::collections::BTreeMap;

use super::raw::Device;
use super::reading::Reading;
use super::session::Session;

/// Fields with the sum over all links (nvml.h, `NVML_FI_DEV_NVLINK_*_TOTAL`).
const TOTALS: [(u32, &str); 5] =
    [(38, "crc_flit"), (45, "crc_data"), (52, "replay"), (59, "recovery"), (160, "ecc")];
/// Fields of one link: `NVML_FI_DEV_NVLINK_ERROR_DL_*` (Hopper), then
/// `NVML_FI_DEV_NVLINK_COUNT_*` (Blackwell and later).
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

/// One call for all fields. Bit error rates are left out: they are estimates, not counts.
pub(super) fn read(session: &Session, device: Device<'_>) -> Reading<BTreeMap<String, u64>> {
    let links: Vec<u32> =
        (0..LINKS).filter(|link| session.link_state(device, *link).is_ok()).collect();
    if links.is_empty() {
        return Reading::NotCovered;
    }
    let totals = TOTALS.into_iter().map(|(field, name)| (field, 0, name));
    let of_links = links
        .into_iter()
        .flat_map(|link| OF_A_LINK.into_iter().map(move |(field, name)| (field, link, name)));
    let asked: Vec<(u32, u32, &str)> = totals.chain(of_links).collect();
    let fields: Vec<(u32, u32)> = asked.iter().map(|(field, link, _)| (*field, *link)).collect();
    let values = match session.fields(device, &fields) {
        Ok(values) => values,
        Err(fault) => return fault.into(),
    };
    let mut counters = BTreeMap::new();
    for ((_, _, name), value) in asked.iter().zip(values) {
        if let Some(value) = value {
            let counter: &mut u64 = counters.entry((*name).to_owned()).or_default();
            *counter = counter.saturating_add(value);
        }
    }
    if counters.is_empty() { Reading::NotCovered } else { Reading::Known(counters) }
}
