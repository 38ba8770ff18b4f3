//! What every probe is asked, and what of the machine that means: which GPUs, from the CPUs of which NUMA nodes.

use std::io;

use super::depth::Terms;
use super::events::Listed;
use super::machine::{Machine, Place};
use super::target::Target;
use crate::model::{Bdf, IdList, NumaNode};

/// What every probe is asked.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Simulated GPUs, and no others.
    pub sim: bool,
    /// The GPUs by number, address or UUID; `all` is all.
    pub gpus: Vec<String>,
    /// How much, and how long.
    pub terms: Terms,
}

/// From the CPUs of which NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    All,
    Near,
    One(u32),
}

/// Why nothing could be probed: the words of a usage error.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The child could not be started or heard.
    #[error("the child that probes cannot be run")]
    Child(#[from] io::Error),
    /// The request could not be written.
    #[error("the child's task cannot be written")]
    Request(#[from] serde_json::Error),
    /// No GPU goes by that name.
    #[error("there is no GPU '{wanted}' here; there are: {there}")]
    NoSuchGpu {
        /// What was asked for.
        wanted: String,
        there: String,
    },
    /// No NUMA node has that number, or it has no CPU.
    #[error("there is no NUMA node {wanted} with CPUs here; there are: {there}")]
    NoSuchNode {
        /// What was asked for.
        wanted: u32,
        there: String,
    },
}

/// A GPU to probe, with what is known of its place.
pub struct Chosen<'a> {
    /// What CUDA says of it.
    pub listed: Listed,
    /// Its place, where it is among the machine's.
    pub place: Option<&'a Place>,
}

impl Chosen<'_> {
    /// As in `GPU0 (0000:3b:00.0)`: the number is that of `gdr topo`, where the GPU is among its rows.
    pub fn subject(&self) -> String {
        let number = || format!("GPU{}", self.listed.ordinal);
        let name = self.place.map_or_else(number, |place| place.name.clone());
        match self.listed.bdf {
            Some(bdf) => format!("{name} ({bdf})"),
            None => format!("{name} (simulated)"),
        }
    }

    /// What a child is told of it.
    pub fn target(&self) -> Target {
        Target {
            subject: self.subject(),
            ordinal: (!self.listed.simulated).then_some(self.listed.ordinal),
            bdf: self.listed.bdf,
            home: self.place.and_then(|place| place.numa),
            link: self.place.and_then(|place| place.link),
        }
    }

    fn goes_by(&self, wanted: &str) -> bool {
        let name = self.place.map_or_else(
            || format!("GPU{}", self.listed.ordinal),
            |place| place.name.clone(),
        );
        let address = wanted
            .parse::<Bdf>()
            .is_ok_and(|bdf| self.listed.bdf == Some(bdf));
        address
            || name.eq_ignore_ascii_case(wanted)
            || name.strip_prefix("GPU") == Some(wanted)
            || self.listed.uuid.eq_ignore_ascii_case(wanted)
    }
}

/// The GPUs that were asked for, each once.
pub fn chosen<'a>(
    scope: &Scope,
    machine: &'a Machine,
    listed: &[Listed],
) -> Result<Vec<Chosen<'a>>, ProbeError> {
    let place = |listed: &Listed| {
        machine
            .gpus
            .iter()
            .find(|place| Some(place.bdf) == listed.bdf)
    };
    let all = || {
        listed.iter().map(|listed| Chosen {
            listed: listed.clone(),
            place: place(listed),
        })
    };
    if scope.sim || scope.gpus.iter().any(|gpu| gpu == "all") {
        return Ok(all().collect());
    }
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for wanted in &scope.gpus {
        let Some(found) = all().find(|gpu| gpu.goes_by(wanted)) else {
            let there: Vec<String> = all().map(|gpu| gpu.subject()).collect();
            return Err(ProbeError::NoSuchGpu {
                wanted: wanted.clone(),
                there: there.join(", "),
            });
        };
        if chosen.iter().all(|gpu| gpu.listed != found.listed) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// The NUMA nodes and their CPUs to probe a GPU from, one child for each, the GPU's own node first. `None` where there is nothing to
/// bind to.
pub fn bindings(
    wanted: Nodes,
    machine: &Machine,
    home: Option<u32>,
) -> Result<Vec<Option<Binding>>, ProbeError> {
    let nodes = nodes(wanted, machine, home)?;
    Ok(match nodes.as_slice() {
        [] => vec![None],
        nodes => nodes
            .iter()
            .map(|node| Some((node.id, node.cpus.clone())))
            .collect(),
    })
}

/// A NUMA node that a child is bound to, and its CPUs.
pub type Binding = (u32, IdList);

fn nodes(
    wanted: Nodes,
    machine: &Machine,
    home: Option<u32>,
) -> Result<Vec<&NumaNode>, ProbeError> {
    let mut nodes: Vec<&NumaNode> = machine
        .nodes
        .iter()
        .filter(|node| !node.cpus.is_empty())
        .collect();
    nodes.sort_by_key(|node| (Some(node.id) != home, node.id));
    match wanted {
        Nodes::One(number) => {
            let there: Vec<String> = nodes.iter().map(|node| node.id.to_string()).collect();
            nodes.retain(|node| node.id == number);
            if nodes.is_empty() {
                let there = if there.is_empty() {
                    "none that are known".to_owned()
                } else {
                    there.join(", ")
                };
                return Err(ProbeError::NoSuchNode {
                    wanted: number,
                    there,
                });
            }
        }
        // Where there is one, or the GPU's is not known, there is nothing to bind to.
        Nodes::Near if nodes.len() < 2 || nodes.first().map(|node| node.id) != home => {
            nodes.clear()
        }
        Nodes::Near => nodes.truncate(1),
        Nodes::All if nodes.len() < 2 => nodes.clear(),
        Nodes::All => {}
    }
    Ok(nodes)
}
