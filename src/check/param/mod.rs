//! Parameters of the NVIDIA driver: as loaded, as configured for the next load, and in the initramfs.

mod conflict;
mod drift;
mod grdma_topo;
mod iomap_wc;
pub mod next;
mod peer_mapping;
pub mod registry_keys;
mod stream_memops;

use std::collections::BTreeMap;

use super::{Check, Judgement};
use crate::model::{Area, Fact, Facts};
pub use conflict::{Misspelt, for_device, keeps_out, misspelt, refused, shown, unreached};
pub use peer_mapping::{PeerMapping, doorbells_mapped, remedy as peer_mapping_remedy};

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    peer_mapping::CHECK,
    stream_memops::CHECK,
    drift::CHECK,
    conflict::CHECK,
    grdma_topo::CHECK,
    iomap_wc::CHECK,
];

/// Ampere Computing's vendor id.
const AMPERE: u16 = 0x1def;

/// Lists all parameters; `/sys/module/nvidia/parameters` has only a few.
const PARAMS: &str = "/proc/driver/nvidia/params";

/// The parameters of the loaded driver, or what a check says without them.
fn loaded(facts: &Facts) -> Result<&BTreeMap<String, String>, Vec<Judgement>> {
    match &facts.driver.params {
        Fact::Known(Some(params)) => Ok(params),
        Fact::Known(None) => Err(vec![Judgement::no_driver("driver")]),
        Fact::Unknown(why) => Err(vec![Judgement::unknown("driver", *why, Area::Proc, PARAMS)]),
    }
}
