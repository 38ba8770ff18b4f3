//! NVLinks between the GPUs of NCCL's topology.

use std::collections::BTreeMap;

use crate::model::{Bdf, Fact, LinkedPair, NcclElement, Why};

/// Number of GPUs whose pairs are kept.
const MAX_GPUS: usize = 64;

/// The NVLinks of one GPU.
#[derive(Default)]
struct Links {
    direct: BTreeMap<Bdf, u32>,
    switched: u32,
}

/// The NVLinks of each pair; unknown if one GPU has no element `gpu`, as in files that clouds ship.
pub fn pairs(system: &NcclElement) -> Fact<Vec<LinkedPair>> {
    let mut gpus = BTreeMap::new();
    let complete = system.of_tag("cpu").all(|cpu| below(cpu, &mut gpus));
    if !complete || gpus.is_empty() || gpus.len() > MAX_GPUS {
        return Fact::Unknown(Why::NotCovered);
    }
    let mut pairs = Vec::new();
    for (from, links) in &gpus {
        for (to, others) in gpus.range(*from..).skip(1) {
            let direct = links.direct.get(to).max(others.direct.get(from));
            let nvlinks = direct.copied().unwrap_or(links.switched.min(others.switched));
            pairs.push(LinkedPair { from: *from, to: *to, nvlinks });
        }
    }
    Fact::Known(pairs)
}

/// False if a display function is not described as a GPU.
fn below(element: &NcclElement, gpus: &mut BTreeMap<Bdf, Links>) -> bool {
    element.of_tag("pci").all(|pci| {
        let bdf = pci.attribute("busid").and_then(|busid| busid.parse::<Bdf>().ok());
        let described = match (bdf, pci.of_tag("gpu").next()) {
            (Some(bdf), Some(gpu)) => {
                gpus.insert(bdf, links(gpu));
                true
            }
            _ => pci.attribute("class").is_none_or(|class| !class.starts_with("0x03")),
        };
        described && below(pci, gpus)
    })
}

/// NCCL takes what is neither a GPU nor a CPU for an NVSwitch.
fn links(gpu: &NcclElement) -> Links {
    let mut links = Links::default();
    for nvlink in gpu.of_tag("nvlink") {
        let count = nvlink.attribute("count").and_then(|count| count.parse::<u16>().ok());
        let count = u32::from(count.unwrap_or(0));
        let class = nvlink.attribute("tclass").unwrap_or("");
        let target = nvlink.attribute("target").and_then(|target| target.parse::<Bdf>().ok());
        match target {
            Some(target) if class.starts_with("0x03") => {
                *links.direct.entry(target).or_default() += count;
            }
            _ if class == "0x068001" || class.starts_with("0x03") => {}
            _ => links.switched += count,
        }
    }
    links
}
