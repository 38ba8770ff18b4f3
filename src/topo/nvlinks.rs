//! The number of NVLinks between two GPUs, from NVML.

use std::collections::BTreeMap;

use crate::model::{Bdf, Fact, Facts, NvmlOutcome, Why};

/// The NVLinks of every GPU in NVML, by target.
pub struct NvLinks(Fact<BTreeMap<Bdf, Fact<Ends>>>);

#[derive(Default)]
struct Ends {
    direct: BTreeMap<Bdf, u32>,
    switched: u32,
}

impl NvLinks {
    pub fn new(facts: &Facts) -> Self {
        let nvml = match (&facts.nvml, facts.nvml()) {
            (_, Some(nvml)) => nvml,
            (Fact::Unknown(why), _) => return Self(Fact::Unknown(*why)),
            (
                Fact::Known(
                    NvmlOutcome::Read(_) | NvmlOutcome::Absent { .. } | NvmlOutcome::Failed { .. },
                ),
                None,
            ) => {
                return Self(Fact::Unknown(Why::NotCovered));
            }
        };
        let mut gpus = BTreeMap::new();
        for gpu in &nvml.gpus {
            gpus.entry(gpu.bdf).or_insert_with(|| {
                gpu.active_links.as_ref().map(|links| {
                    let mut ends = Ends::default();
                    for link in links {
                        if let Fact::Known(remote) = link.remote_bdf {
                            *ends.direct.entry(remote).or_default() += 1;
                        }
                        ends.switched +=
                            u32::from(link.remote.known().is_some_and(|remote| remote == "switch"));
                    }
                    ends
                })
            });
        }
        Self(Fact::Known(gpus))
    }

    /// The number of NVLinks between two GPUs. With NVSwitches each GPU reaches each other one over all its links.
    pub fn between(&self, a: Option<Bdf>, b: Option<Bdf>) -> Fact<u32> {
        let (Some(a), Some(b)) = (a, b) else {
            return Fact::Known(0);
        };
        let gpus = match &self.0 {
            Fact::Known(gpus) => gpus,
            Fact::Unknown(why) => return Fact::Unknown(*why),
        };
        let (Some(from), Some(to)) = (gpus.get(&a), gpus.get(&b)) else {
            // A NIC, or a GPU outside NVML.
            return Fact::Known(0);
        };
        match (from, to) {
            (Fact::Known(from), Fact::Known(to)) => Fact::Known(match from.direct.get(&b) {
                Some(direct) => *direct,
                None => from.switched.min(to.switched),
            }),
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
        }
    }
}
