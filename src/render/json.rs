//! The topology for programs: schema `gdr.topo/1`. Fields may be added; removing one or changing its meaning makes
//! `/2`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::stream::{Entries, Items};
use super::{Cell, View};
use crate::model::Order as _;
use crate::model::{Bdf, Fact, Host, Kind, Match, Note, Path, RdmaPath, Row, Verdict};
use crate::output;
use crate::topo::{MAX_PATHS, MAX_ROWS, redirects};

/// The document. The types of its lists describe their schema; the values are computed while they are written.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct Document<
    Devices = Vec<Device>,
    Matrix = BTreeMap<String, BTreeMap<String, Option<String>>>,
    Pairs = Vec<PairOut>,
    Paths = Vec<PathOut>,
    Notes = Vec<Note>,
> {
    pub host: Host,
    /// The rows: GPUs, NICs, NVMe controllers.
    pub devices: Devices,
    /// `matrix.ROW.COL`: X, NV#, PIX, PXB, PHB, NODE, SYS, "NODE or SYS"; null if unknown. Empty if `omitted` lists it.
    pub matrix: Matrix,
    /// The NIC for each GPU, and the GPU for each NIC.
    pub pairs: Pairs,
    /// The path between each GPU and each other GPU and NIC. Empty if `omitted` lists it.
    pub paths: Paths,
    /// Parts left out because there are too many devices; absent if complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
    /// Sources that could not be read or parsed.
    pub notes: Notes,
}

/// Parts left out of the document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Omitted {
    /// The fields that are empty.
    pub fields: Vec<&'static str>,
    pub reason: String,
    /// Maximum number of rows for which gdr computes all pairs.
    pub max_rows: usize,
    /// Maximum number of pairs with a GPU for which gdr computes paths.
    pub max_paths: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Device {
    /// Name, as in `GPU0`.
    pub name: String,
    /// Kind: gpu, nic or nvme.
    pub kind: Kind,
    /// PCI address; null for a software device without one.
    pub bdf: Option<Bdf>,
    /// NUMA node; null if the kernel reports −1 or it is unknown.
    pub numa: Option<u32>,
    /// Product name, or name of the RDMA device or controller.
    pub label: String,
    pub uuid: Option<String>,
    /// Nearby CPUs, as a list of ranges.
    pub cpus: Option<String>,
    /// NUMA nodes of those CPUs, as a list of ranges.
    pub cpu_nodes: Option<String>,
    /// NUMA node of the memory of a coherent GPU.
    pub memory_node: Option<u32>,
    /// Number of active NVLinks of a GPU; null without NVML.
    pub nvlinks: Option<u32>,
    /// A software device over a network device.
    pub software: bool,
    /// A virtual function of SR-IOV.
    pub virtual_function: bool,
    /// Physical function of a virtual function; null where it is not to be seen, as in a virtual machine.
    pub physical_function: Option<Bdf>,
    /// A port is up; null for devices without ports.
    pub active: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PairOut {
    pub device: String,
    /// The partner to use.
    pub partner: Option<String>,
    /// A nearer NIC that has no active port.
    pub nearer_down: Option<String>,
    /// All equally near partners; only `partner` if `omitted` lists the matrix.
    pub best: Vec<String>,
    /// The NICs that NCCL uses for a GPU, the partner first: its share of the equally near ones. Empty for NICs.
    pub nccl: Vec<String>,
    /// How the NIC of the pair is expected to reach the GPU's memory: data-direct, c2c, pcie. Null without a partner, for
    /// a software NIC, and if a fact that decides it is missing.
    pub rdma_path: Option<RdmaPath>,
    /// Rating: good, likely_good, bad, unknown.
    pub verdict: Verdict,
    pub reason: String,
    /// Which device to move where.
    pub advice: Option<String>,
}

/// A path and the effect of ACS.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PathOut {
    #[serde(flatten)]
    pub path: Path,
    /// Ports whose ACS bits redirect or block traffic on the path; null if unknown.
    pub redirected_at: Option<Vec<RedirectOut>>,
}

/// A port whose ACS bits redirect or block traffic.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RedirectOut {
    pub port: Bdf,
    /// The bits, in lspci's names.
    pub bits: Vec<String>,
}

/// Writes the document. Matrix and paths grow quadratically, so values are computed while they are written, and not
/// stored.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let topology = view.topology;
    let rows = &topology.rows;
    let name = |at: usize| rows[at].name.as_str();
    let mut by_name: Vec<usize> = (0..rows.len()).filter(|_| topology.has_all_pairs()).collect();
    by_name.order_by_key(|at| name(*at));
    let gpus: Vec<usize> = if topology.has_all_paths() {
        topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect()
    } else {
        Vec::new()
    };
    let (by_name, name) = (&by_name, &name);
    let document = Document {
        host: view.facts.host.clone(),
        devices: Items(|| rows.iter().map(|row| device(view, row))),
        matrix: Entries(|| {
            by_name.iter().map(|a| {
                let cells = move || by_name.iter().map(move |b| (name(*b), cell(view, *a, *b)));
                (name(*a), Entries(cells))
            })
        }),
        pairs: Items(|| topology.matches.iter().map(|m| pair(view, m))),
        paths: Items(|| {
            let pairs = gpus.iter().flat_map(|a| (a + 1..rows.len()).map(move |b| (*a, b)));
            pairs.filter_map(|(a, b)| path(view, a, b))
        }),
        omitted: topology.omission().map(|reason| omitted(view, reason)),
        notes: &view.facts.notes,
    };
    let recorded = view.facts.host.recorded.as_deref();
    output::write_pretty(out, &output::Document::of("gdr.topo/1", recorded, &document))
}

fn device(view: &View<'_>, row: &Row) -> Device {
    Device {
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
        virtual_function: row.virtual_function.is_some(),
        physical_function: row.virtual_function.and_then(|function| function.physical_function),
        active: row.active,
    }
}

fn cell(view: &View<'_>, a: usize, b: usize) -> Option<Cell> {
    if a == b { Some(Cell::Same) } else { view.cell(a, b) }
}

fn pair(view: &View<'_>, m: &Match) -> PairOut {
    let name = |at: usize| view.topology.rows[at].name.clone();
    PairOut {
        device: name(m.row),
        partner: m.pick.map(name),
        nearer_down: m.nearer_down.map(name),
        best: m.best.iter().map(|at| name(*at)).collect(),
        nccl: m.nccl.iter().map(|at| name(*at)).collect(),
        rdma_path: m.pick.and_then(|pick| {
            let path = view.topology.rdma_path(m.row, pick);
            path.known().copied()
        }),
        verdict: m.verdict,
        reason: m.reason.clone(),
        advice: m.advice.clone(),
    }
}

fn path(view: &View<'_>, a: usize, b: usize) -> Option<PathOut> {
    let path = view.topology.between(a, b).ok()?;
    Some(PathOut { redirected_at: redirected(view, &path), path })
}

fn omitted(view: &View<'_>, reason: String) -> Omitted {
    let fields: &[_] =
        if view.topology.has_all_pairs() { &["paths"] } else { &["matrix", "paths"] };
    Omitted { fields: fields.to_vec(), reason, max_rows: MAX_ROWS, max_paths: MAX_PATHS }
}

fn redirected(view: &View<'_>, path: &Path) -> Option<Vec<RedirectOut>> {
    let mut out = Vec::new();
    for redirect in redirects(view.forest, path) {
        match redirect.bits {
            Fact::Known(bits) if bits.is_empty() => {}
            Fact::Known(bits) => out.push(RedirectOut {
                port: redirect.port,
                bits: bits.names().into_iter().map(str::to_owned).collect(),
            }),
            Fact::Unknown(_) => return None,
        }
    }
    Some(out)
}
