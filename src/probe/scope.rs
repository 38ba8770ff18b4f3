//! The options that every probe has, and the GPUs and NUMA nodes that they select.

use std::io;

use super::events::Listed;
use super::machine::{LocatedGpu, Machine};
use super::target::Target;
use super::terms::Terms;
use crate::model::Order as _;
use crate::model::{Bdf, IdList, NumaNode};

/// The options that every probe has.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Use simulated GPUs only.
    pub sim: bool,
    /// GPUs by number, name, address or UUID, or `all`.
    pub gpus: Vec<String>,
    pub terms: Terms,
}

/// The NUMA nodes to probe from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    All,
    Near,
    One(u32),
}

/// Why nothing could be probed; printed as a usage error.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot run the child process of the probe")]
    Child(#[from] io::Error),
    #[error("cannot write the child's task")]
    Request(#[from] serde_json::Error),
    #[error("there is no GPU '{wanted}' here; there are: {available}")]
    NoSuchGpu { wanted: String, available: String },
    #[error("there is no NUMA node {wanted} with CPUs here; there are: {available}")]
    NoSuchNode { wanted: u32, available: String },
}

/// A GPU to probe, and its position in the machine.
pub struct Chosen<'a> {
    pub listed: Listed,
    /// `None` if the machine's topology does not have it.
    pub place: Option<&'a LocatedGpu>,
}

impl Chosen<'_> {
    /// The name of `gdr topo`, or else CUDA's number.
    fn name(&self) -> String {
        self.place.map_or_else(|| format!("GPU{}", self.listed.ordinal), |place| place.name.clone())
    }

    /// As in `GPU0 (0000:3b:00.0)`.
    pub fn subject(&self) -> String {
        let name = self.name();
        match self.listed.bdf {
            Some(bdf) => format!("{name} ({bdf})"),
            None => format!("{name} (simulated)"),
        }
    }

    pub fn target(&self) -> Target {
        Target {
            subject: self.subject(),
            ordinal: (!self.listed.simulated).then_some(self.listed.ordinal),
            bdf: self.listed.bdf,
            home: self.place.and_then(|place| place.numa),
            link: self.place.and_then(|place| place.link),
        }
    }

    fn matches(&self, wanted: &str) -> bool {
        let name = self.name();
        let address = wanted.parse::<Bdf>().is_ok_and(|bdf| self.listed.bdf == Some(bdf));
        address
            || name.eq_ignore_ascii_case(wanted)
            || name.strip_prefix("GPU") == Some(wanted)
            || self.listed.uuid.eq_ignore_ascii_case(wanted)
    }
}

/// The selected GPUs, without duplicates.
pub fn chosen<'a>(
    scope: &Scope,
    machine: &'a Machine,
    listed: &[Listed],
) -> Result<Vec<Chosen<'a>>, ProbeError> {
    let place = |listed: &Listed| machine.gpus.iter().find(|place| Some(place.bdf) == listed.bdf);
    let all =
        || listed.iter().map(|listed| Chosen { listed: listed.clone(), place: place(listed) });
    if scope.sim || scope.gpus.iter().any(|gpu| gpu == "all") {
        return Ok(all().collect());
    }
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for wanted in &scope.gpus {
        let Some(found) = all().find(|gpu| gpu.matches(wanted)) else {
            let available: Vec<String> = all().map(|gpu| gpu.subject()).collect();
            return Err(ProbeError::NoSuchGpu {
                wanted: wanted.clone(),
                available: available.join(", "),
            });
        };
        if chosen.iter().all(|gpu| gpu.listed != found.listed) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// The NUMA nodes to probe a GPU from, one child for each, the GPU's own node first. `None`: the child is not bound.
pub fn bindings(
    wanted: Nodes,
    machine: &Machine,
    home: Option<u32>,
) -> Result<Vec<Option<Binding>>, ProbeError> {
    let nodes = nodes(wanted, machine, home)?;
    Ok(match nodes.as_slice() {
        [] => vec![None],
        nodes => nodes.iter().map(|node| Some((node.id, node.cpus.clone()))).collect(),
    })
}

/// A NUMA node that a child is bound to, and its CPUs.
pub type Binding = (u32, IdList);

fn nodes(
    wanted: Nodes,
    machine: &Machine,
    home: Option<u32>,
) -> Result<Vec<&NumaNode>, ProbeError> {
    let mut nodes: Vec<&NumaNode> =
        machine.nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    nodes.order_by_key(|node| (Some(node.id) != home, node.id));
    match wanted {
        Nodes::One(number) => {
            let available: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            nodes.retain(|node| node.id == number);
            if nodes.is_empty() {
                let available = if available.is_empty() {
                    "none that are known".to_owned()
                } else {
                    available.join(", ")
                };
                return Err(ProbeError::NoSuchNode { wanted: number, available });
            }
        }
        // With one node, or if the GPU's node is unknown, the child is not bound.
        Nodes::Near if nodes.len() < 2 || nodes.first().map(|node| node.id) != home => {
            nodes.clear()
        }
        Nodes::Near => nodes.truncate(1),
        Nodes::All if nodes.len() < 2 => nodes.clear(),
        Nodes::All => {}
    }
    Ok(nodes)
}
