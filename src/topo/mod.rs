//! Facts → Topology: the PCI forest, the class of each pair, the way between two devices, the best NIC of each GPU.
//! Pure: it reads nothing.

mod acs;
mod classify;
mod forest;
mod pairing;
mod path;
mod rows;

pub use acs::{Redirect, redirects, verb};
pub use classify::class;
pub use forest::{Forest, Role};
pub use path::{between, route};

use crate::model::{Fact, Facts, NvmlOutcome, Pair, Row, Topology, Why};

/// The topology of a machine.
pub fn topology(facts: &Facts) -> Topology {
    let rows = rows::rows(facts);
    let forest = Forest::new(facts.devices());
    let pairs = (0..rows.len())
        .map(|a| (a + 1..rows.len()).map(|b| pair(facts, &rows[a], &rows[b])).collect())
        .collect();
    let mut topology = Topology {
        rows,
        pairs,
        matches: Vec::new(),
    };
    topology.matches = pairing::matches(facts, &forest, &topology);
    topology
}

fn pair(facts: &Facts, a: &Row, b: &Row) -> Pair {
    Pair {
        pci: class(facts, a, b),
        nvlinks: nvlinks(facts, a, b),
    }
}

/// NVLinks between two GPUs. Behind NVSwitches each GPU reaches each other one over all of its links.
fn nvlinks(facts: &Facts, a: &Row, b: &Row) -> Fact<u32> {
    let (Some(a), Some(b)) = (a.bdf, b.bdf) else {
        return Fact::Known(0);
    };
    let nvml = match (&facts.nvml, facts.nvml()) {
        (_, Some(nvml)) => nvml,
        (Fact::Unknown(why), _) => return Fact::Unknown(*why),
        (Fact::Known(NvmlOutcome::Read(_) | NvmlOutcome::Absent { .. } | NvmlOutcome::Failed { .. }), None) => {
            return Fact::Unknown(Why::NotCovered);
        }
    };
    let gpu = |bdf| nvml.gpus.iter().find(|gpu| gpu.bdf == bdf);
    let (Some(from), Some(to)) = (gpu(a), gpu(b)) else {
        // A NIC, or a GPU that NVML does not manage.
        return Fact::Known(0);
    };
    match (&from.active_links, &to.active_links) {
        (Fact::Known(from), Fact::Known(to)) => {
            let direct = from.iter().filter(|link| link.remote_bdf.known() == Some(&b)).count();
            let switched = |links: &[crate::model::NvLink]| {
                let remote = |link: &&crate::model::NvLink| link.remote.known().is_some_and(|r| r == "switch");
                links.iter().filter(remote).count()
            };
            let count = if direct > 0 {
                direct
            } else {
                switched(from).min(switched(to))
            };
            Fact::Known(u32::try_from(count).unwrap_or(u32::MAX))
        }
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
    }
}
