//! The topology for programs: schema `gdr.topo/1`. Fields may be added; a removal or a new meaning is `/2`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::View;
use crate::model::{Bdf, Fact, Host, Kind, Note, Path, Verdict};
use crate::output;
use crate::topo::{between, redirects};

/// The document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document {
    /// `gdr.topo/1`.
    pub schema: &'static str,
    /// The machine.
    pub host: Host,
    /// The rows: GPUs, NICs, NVMe controllers.
    pub devices: Vec<Device>,
    /// `matrix.ROW.COL`: X, NV#, PIX, PXB, PHB, NODE, SYS; null where it is not known.
    pub matrix: BTreeMap<String, BTreeMap<String, Option<String>>>,
    /// For each GPU its NIC, and for each NIC its GPU.
    pub pairs: Vec<PairOut>,
    /// The way between each GPU and each other GPU and NIC.
    pub paths: Vec<PathOut>,
    /// What could not be read or made sense of.
    pub notes: Vec<Note>,
}

/// A row.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Device {
    /// As in `GPU0`.
    pub name: String,
    /// gpu, nic or nvme.
    pub kind: Kind,
    /// PCI address; null for a software device without one.
    pub bdf: Option<Bdf>,
    /// NUMA node; null where the kernel says −1 or it is not known.
    pub numa: Option<u32>,
    /// Product name, RDMA device or controller.
    pub label: String,
    /// GPU UUID.
    pub uuid: Option<String>,
    /// CPUs near it, as a list of ranges.
    pub cpus: Option<String>,
    /// NUMA nodes of those CPUs, as a list of ranges.
    pub cpu_nodes: Option<String>,
    /// NUMA node of a coherent GPU's own memory.
    pub memory_node: Option<u32>,
    /// Active NVLinks of a GPU; null where NVML did not tell.
    pub nvlinks: Option<u32>,
    /// Software over a network device.
    pub software: bool,
    /// Physical function of a virtual one.
    pub physical_function: Option<Bdf>,
    /// A port is up; null for what has none.
    pub active: Option<bool>,
}

/// A match.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairOut {
    /// The row.
    pub device: String,
    /// The partner to use.
    pub partner: Option<String>,
    /// All partners that are equally near.
    pub best: Vec<String>,
    /// good, likely_good, bad, unknown.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// What to move where.
    pub advice: Option<String>,
}

/// A path with what ACS does to it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PathOut {
    /// The path.
    #[serde(flatten)]
    pub path: Path,
    /// Ports whose ACS bits redirect or block it; null where that could not be read.
    pub redirected_at: Option<Vec<RedirectOut>>,
}

/// A port whose ACS bits redirect or block.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RedirectOut {
    /// The port.
    pub port: Bdf,
    /// The bits, by lspci's names.
    pub bits: Vec<String>,
}

/// The document as text.
pub fn text(view: &View<'_>) -> Result<String, serde_json::Error> {
    output::pretty(&document(view))
}

fn document(view: &View<'_>) -> Document {
    let rows = &view.topology.rows;
    let name = |at: usize| rows[at].name.clone();
    Document {
        schema: "gdr.topo/1",
        host: view.facts.host.clone(),
        devices: rows
            .iter()
            .map(|row| Device {
                name: row.name.clone(),
                kind: row.kind,
                bdf: row.bdf,
                numa: row.numa.present().copied(),
                label: view.label(row),
                uuid: row.uuid.clone(),
                cpus: row.cpus.known().map(ToString::to_string),
                cpu_nodes: row.nodes.known().map(ToString::to_string),
                memory_node: row.memory_node,
                nvlinks: row.nvlinks.known().copied(),
                software: row.software,
                physical_function: row.physical_function,
                active: row.active,
            })
            .collect(),
        matrix: (0..rows.len())
            .map(|a| {
                let cell = |b: usize| if a == b { Some("X".to_owned()) } else { view.cell(a, b) };
                (name(a), (0..rows.len()).map(|b| (name(b), cell(b))).collect())
            })
            .collect(),
        pairs: view
            .topology
            .matches
            .iter()
            .map(|m| PairOut {
                device: name(m.row),
                partner: m.pick.map(name),
                best: m.best.iter().map(|at| name(*at)).collect(),
                verdict: m.verdict,
                reason: m.reason.clone(),
                advice: m.advice.clone(),
            })
            .collect(),
        paths: paths(view),
        notes: view.facts.notes.clone(),
    }
}

fn paths(view: &View<'_>) -> Vec<PathOut> {
    let rows = &view.topology.rows;
    let gpu = |at: usize| rows[at].kind == Kind::Gpu;
    (0..rows.len())
        .flat_map(|a| (a + 1..rows.len()).map(move |b| (a, b)))
        .filter(|(a, _)| gpu(*a))
        .filter_map(|(a, b)| between(view.facts, view.forest, view.topology, a, b).ok())
        .map(|path| PathOut {
            redirected_at: redirected(view, &path),
            path,
        })
        .collect()
}

fn redirected(view: &View<'_>, path: &Path) -> Option<Vec<RedirectOut>> {
    let mut out = Vec::new();
    for redirect in redirects(view.forest, path) {
        match redirect.bits {
            Fact::Known(bits) if bits.is_empty() => {}
            Fact::Known(bits) => out.push(RedirectOut {
                port: redirect.port,
                bits: bits.into_iter().map(str::to_owned).collect(),
            }),
            Fact::Unknown(_) => return None,
        }
    }
    Some(out)
}
