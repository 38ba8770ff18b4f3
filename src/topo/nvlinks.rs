//! The number of NVLinks between two GPUs, from NVML.

use std::collections::BTreeMap;

use crate::model::{Bdf, Fact, Facts, LinkedPair, NvmlOutcome, Why};

/// The NVLinks of every GPU in NVML, by target.
pub struct NvLinks {
    gpus: Fact<BTreeMap<Bdf, Fact<Ends>>>,
    /// Pairs of a matrix; they count where NVML did not answer.
    pairs: Fact<BTreeMap<(Bdf, Bdf), u32>>,
}

#[derive(Default)]
struct Ends {
    direct: BTreeMap<Bdf, u32>,
    switched: u32,
}

impl NvLinks {
    pub fn new(facts: &Facts) -> Self {
        Self {
            gpus: Self::of_gpus(facts),
            pairs: facts.linked_pairs.as_ref().map(|pairs| {
                let key = |pair: &LinkedPair| (pair.from.min(pair.to), pair.from.max(pair.to));
                pairs.iter().map(|pair| (key(pair), pair.nvlinks)).collect()
            }),
        }
    }

    fn of_gpus(facts: &Facts) -> Fact<BTreeMap<Bdf, Fact<Ends>>> {
        let nvml = match (&facts.nvml, facts.nvml()) {
            (_, Some(nvml)) => nvml,
            (Fact::Unknown(why), _) => return Fact::Unknown(*why),
            (
                Fact::Known(
                    NvmlOutcome::Read(_) | NvmlOutcome::Absent { .. } | NvmlOutcome::Failed { .. },
                ),
                None,
            ) => {
                return Fact::Unknown(Why::NotCovered);
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
        Fact::Known(gpus)
    }

    /// The number of NVLinks between two GPUs. With NVSwitches each GPU reaches each other one over all its links.
    pub fn between(&self, a: Option<Bdf>, b: Option<Bdf>) -> Fact<u32> {
        let (Some(a), Some(b)) = (a, b) else {
            return Fact::Known(0);
        };
        let gpus = match (&self.gpus, &self.pairs) {
            (Fact::Known(gpus), _) => gpus,
            (Fact::Unknown(_), Fact::Known(pairs)) => {
                // A pair with a NIC has none.
                return Fact::Known(pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or(0));
            }
            (Fact::Unknown(why), _) => return Fact::Unknown(*why),
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
