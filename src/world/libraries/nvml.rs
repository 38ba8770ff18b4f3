//! NVML through crate `gpu`.

use std::collections::BTreeMap;

use gpu::nvml::{Capability, Details, Gpu, Link, Outcome, Pair, Query, Reading};

use super::NvmlQuery;
use crate::model::{
    Bar1, Bdf, FabricRegistration, Fact, NvLink, Nvml, NvmlGpu, NvmlOutcome, NvmlPair,
    P2pCapability, P2pStatus, Why,
};

pub fn read(query: NvmlQuery) -> NvmlOutcome {
    let query = Query {
        links: query.links,
        p2p: query.p2p,
        p2p_only: query.p2p_only.map(|capability| match capability {
            P2pCapability::Read => Capability::Read,
            P2pCapability::Write => Capability::Write,
            P2pCapability::Nvlink => Capability::Nvlink,
            P2pCapability::Atomics => Capability::Atomics,
            P2pCapability::Pci => Capability::Pci,
        }),
        details: query.details,
    };
    match gpu::nvml::read(&query, None) {
        Outcome::Read(nvml) => NvmlOutcome::Read(Box::new(self::nvml(nvml))),
        Outcome::Absent { reason } => NvmlOutcome::Absent { reason },
        Outcome::Failed { code, name, reason } => {
            NvmlOutcome::Failed { code, reason: format!("{name}: {reason}") }
        }
    }
}

/// Reduces an answer to what was queried.
pub fn reduce(outcome: NvmlOutcome, query: NvmlQuery) -> NvmlOutcome {
    let NvmlOutcome::Read(mut nvml) = outcome else {
        return outcome;
    };
    for gpu in &mut nvml.gpus {
        if !query.links {
            gpu.active_links = Fact::default();
            gpu.inactive_links = Fact::default();
        }
        if !query.details {
            *gpu = NvmlGpu {
                index: gpu.index,
                bdf: gpu.bdf,
                name: gpu.name.clone(),
                uuid: gpu.uuid.clone(),
                minor: gpu.minor.clone(),
                active_links: gpu.active_links.clone(),
                inactive_links: gpu.inactive_links.clone(),
                ..without_details(gpu.index, gpu.bdf)
            };
        }
    }
    if !query.p2p {
        nvml.pairs.clear();
    }
    if let Some(only) = query.p2p_only {
        for pair in &mut nvml.pairs {
            for (capability, status) in &mut pair.p2p {
                if *capability != only {
                    *status = Fact::default();
                }
            }
        }
    }
    NvmlOutcome::Read(nvml)
}

fn nvml(nvml: gpu::nvml::Nvml) -> Nvml {
    Nvml {
        library: nvml.library.map(|path| path.display().to_string()),
        driver_version: fact(nvml.driver_version),
        cuda_version: fact_or_unqueried(nvml.cuda_driver_version).and_then(|version| {
            u32::try_from(version).map_or(Fact::Unknown(Why::Broken), Fact::Known)
        }),
        confidential_compute: fact(nvml.confidential_compute.enabled),
        protected_links: fact(nvml.confidential_compute.links).map(|links| word(&links)),
        partial: false,
        unreachable: nvml
            .unreachable
            .into_iter()
            .map(|gpu| format!("GPU {}: {}", gpu.index, gpu.reason))
            .collect(),
        gpus: nvml.gpus.into_iter().filter_map(self::gpu).collect(),
        pairs: nvml.pairs.into_iter().flatten().flat_map(both_ways).collect(),
    }
}

/// One GPU; `None` if NVML gave no valid address.
fn gpu(gpu: Gpu) -> Option<NvmlGpu> {
    let bdf = gpu.bdf.parse().ok()?;
    let bare = NvmlGpu {
        name: fact(gpu.name),
        uuid: fact(gpu.uuid),
        minor: fact(gpu.minor),
        inactive_links: fact_or_unqueried(gpu.links.clone()).and_then(|links| {
            let down = links.iter().filter(|link| !link.active).count();
            u32::try_from(down).map_or(Fact::Unknown(Why::Broken), Fact::Known)
        }),
        active_links: fact_or_unqueried(gpu.links)
            .map(|links| links.into_iter().filter(|link| link.active).map(link).collect()),
        ..without_details(gpu.index, bdf)
    };
    Some(match gpu.details {
        Some(details) => with_details(bare, details),
        None => bare,
    })
}

fn without_details(index: u32, bdf: Bdf) -> NvmlGpu {
    NvmlGpu {
        index,
        bdf,
        name: Fact::default(),
        uuid: Fact::default(),
        minor: Fact::default(),
        active_links: Fact::default(),
        inactive_links: Fact::default(),
        link_errors: Fact::default(),
        memory_node: Fact::default(),
        bar1: Fact::default(),
        memory_total: Fact::default(),
        persistence: Fact::default(),
        mig: Fact::default(),
        fabric: Fact::default(),
        fabric_registration: Fact::default(),
        performance_state: Fact::default(),
        virtualization: Fact::default(),
        architecture: Fact::default(),
    }
}

fn with_details(bare: NvmlGpu, details: Details) -> NvmlGpu {
    NvmlGpu {
        memory_node: fact(details.numa_node),
        link_errors: fact(details.link_errors),
        bar1: fact(details.bar1).map(|bar1| Bar1 { total: bar1.total, used: bar1.used }),
        memory_total: fact(details.memory_total),
        persistence: fact(details.persistence),
        mig: fact(details.mig),
        fabric: fact(details.fabric.clone()).map(|fabric| word(&fabric.state)),
        fabric_registration: fact(details.fabric).map(registration),
        performance_state: fact(details.performance_state),
        virtualization: fact(details.virtualization).map(|mode| word(&mode)),
        architecture: fact(details.architecture).map(|architecture| word(&architecture)),
        ..bare
    }
}

fn registration(fabric: gpu::nvml::Fabric) -> FabricRegistration {
    FabricRegistration {
        status: fabric.status,
        clique: fabric.clique_id,
        cluster: fabric.cluster_uuid.bytes().any(|byte| !matches!(byte, b'0' | b'-')),
        health: fabric.health.map(|health| word(&health)),
    }
}

fn link(link: Link) -> NvLink {
    NvLink {
        index: link.index,
        remote: fact(link.remote).map(|remote| word(&remote)),
        remote_bdf: fact(link.remote_bdf)
            .and_then(|bdf| bdf.parse().map_or(Fact::Unknown(Why::Broken), Fact::Known)),
    }
}

/// NVML is queried once per pair; the result holds in both directions.
fn both_ways(pair: Pair) -> [NvmlPair; 2] {
    let Pair { a, b, read, write, nvlink, atomics, pcie } = pair;
    let p2p: BTreeMap<P2pCapability, Fact<P2pStatus>> = [
        (P2pCapability::Read, read),
        (P2pCapability::Write, write),
        (P2pCapability::Nvlink, nvlink),
        (P2pCapability::Atomics, atomics),
        (P2pCapability::Pci, pcie),
    ]
    .into_iter()
    .map(|(capability, status)| (capability, fact(status).map(self::status)))
    .collect();
    [(a, b), (b, a)].map(|(from, to)| NvmlPair { from, to, p2p: p2p.clone() })
}

fn status(status: gpu::nvml::P2p) -> P2pStatus {
    use gpu::nvml::P2p;
    match status {
        P2p::Ok => P2pStatus::Ok,
        P2p::ChipsetNotSupported => P2pStatus::Chipset,
        P2p::GpuNotSupported => P2pStatus::Gpu,
        P2p::IohTopologyNotSupported => P2pStatus::Topology,
        P2p::DisabledByRegkey => P2pStatus::Disabled,
        P2p::NotSupported => P2pStatus::NotSupported,
        P2p::Unknown(_) => P2pStatus::Unknown,
    }
}

fn fact<T>(reading: Reading<T>) -> Fact<T> {
    match reading {
        Reading::Known(value) => Fact::Known(value),
        Reading::NotCovered => Fact::Unknown(Why::NotCovered),
        Reading::Denied => Fact::Unknown(Why::Denied),
        Reading::Broken(_) => Fact::Unknown(Why::Broken),
    }
}

/// Unknown if not queried.
fn fact_or_unqueried<T>(reading: Option<Reading<T>>) -> Fact<T> {
    reading.map_or(Fact::Unknown(Why::NotCovered), fact)
}

/// An enum's name as in JSON (`not_supported`); `unknown 7` for numbers that NVML's header does not name.
fn word(value: &impl serde::Serialize) -> String {
    match crate::model::to_tree(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(map)) => map
            .into_iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect::<Vec<_>>()
            .join(" "),
        Ok(other) => other.to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVML's answer on a machine with two H200, reduced to the query.
    fn reduced(query: NvmlQuery) -> Box<Nvml> {
        let all = include_str!("../../../tests/machines/h200-x2/nvml.json");
        match reduce(serde_json::from_str(all).expect("an answer"), query) {
            NvmlOutcome::Read(nvml) => nvml,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reduces_answer_to_query() {
        let none = NvmlQuery::default();
        let links = reduced(NvmlQuery { links: true, ..none });
        assert_eq!((links.gpus.len(), links.pairs.len()), (2, 0));
        let gpu = &links.gpus[0];
        assert!(gpu.name.known().is_some() && gpu.active_links.known().is_some());
        assert_eq!((&gpu.bar1, &gpu.memory_total), (&Fact::default(), &Fact::default()));

        let only = P2pCapability::Read;
        let peers = reduced(NvmlQuery { p2p: true, p2p_only: Some(only), ..none });
        assert_eq!(peers.gpus[0].active_links, Fact::default());
        assert!(!peers.pairs.is_empty());
        for (capability, status) in peers.pairs.iter().flat_map(|pair| &pair.p2p) {
            assert_eq!(status.known().is_some(), *capability == only, "{capability:?}");
        }
        assert!(reduced(NvmlQuery::EVERYTHING).gpus[0].bar1.known().is_some());
    }
}
