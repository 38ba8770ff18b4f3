//! The output of `nvidia-smi topo`, byte for byte.
//!
//! From its output on driver 580 (docs/measured), and from public logs for older branches. It underlines even in
//! files. The line of a GPU has two tabs before the NUMA node of its memory; that of a NIC ends in four.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Style;

use super::text::{counted, printable};
use super::{Cell, View};
use crate::model::{Fact, Facts, Kind, Nvml, P2pCapability, P2pStatus, PciClass, Row};
use crate::output::paint;

/// Output format of a driver branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    branch: Option<u32>,
    /// Underlines the header with escape sequences.
    underline: bool,
    /// NICs have numbers and a legend; older branches use the names of the RDMA devices.
    numbered_nics: bool,
    /// Has the column `GPU NUMA ID`.
    memory_node: bool,
}

/// Branches that were compared byte for byte.
const SAMPLED: [u32; 1] = [580];

/// The format of this machine's driver.
pub fn dialect(facts: &Facts) -> Dialect {
    let version = facts.driver.version();
    let branch = version.present().and_then(|version| version.split('.').next()?.parse().ok());
    let at_least = |first: u32| branch.is_none_or(|branch| branch >= first);
    Dialect {
        branch,
        underline: at_least(545),
        numbered_nics: at_least(515),
        memory_node: at_least(525),
    }
}

impl Dialect {
    /// A note for users who rely on the exact bytes.
    pub fn note(&self) -> Option<String> {
        match self.branch {
            Some(branch) if SAMPLED.contains(&branch) => None,
            Some(branch) => Some(format!(
                "gdr has no sample of nvidia-smi {branch}; this is the nearest known format"
            )),
            None => Some(format!(
                "unknown driver version; this is the format of nvidia-smi {}",
                SAMPLED[0]
            )),
        }
    }
}

/// `nvidia-smi topo -m`, or `-mp` if the view shows PCI only.
pub fn matrix(view: &View<'_>, dialect: &Dialect, out: &mut dyn Write) -> io::Result<()> {
    let rows: Vec<(usize, &Row)> = view
        .topology
        .rows
        .iter()
        .enumerate()
        // nvidia-smi does not list RDMA devices without a PCI function.
        .filter(|(_, row)| row.bdf.is_some())
        .collect();
    let name = |row: &Row| match row.kind {
        Kind::Nic if !dialect.numbered_nics => printable(&row.label),
        _ => row.name.clone(),
    };
    let mut header: Vec<String> = rows.iter().map(|(_, row)| name(row)).collect();
    header.push("CPU Affinity".to_owned());
    header.push("NUMA Affinity".to_owned());
    if dialect.memory_node {
        header.push("GPU NUMA ID".to_owned());
    }
    writeln!(out, "\t{}", underlined(dialect, &header.join("\t")))?;
    for (at, row) in &rows {
        out.write_all(name(row).as_bytes())?;
        for (other, _) in &rows {
            match view.cell(*at, *other) {
                _ if at == other => out.write_all(b"\t X ")?,
                Some(cell) if !is_undecided(Some(cell)) => write!(out, "\t{cell}")?,
                Some(_) | None => out.write_all(b"\tN/A")?,
            }
        }
        writeln!(out, "{}", tail(row, dialect))?;
    }
    let mut text = "\nLegend:\n\n".to_owned();
    text.push_str(LEGEND);
    if !view.pci_only {
        text.push_str("  NV#  = Connection traversing a bonded set of # NVLinks\n");
    }
    let nics: Vec<&Row> =
        rows.iter().map(|(_, row)| *row).filter(|row| row.kind == Kind::Nic).collect();
    if !nics.is_empty() && dialect.numbered_nics {
        text.push_str("\nNIC Legend:\n\n");
        for row in nics {
            text.push_str(&format!("  {}: {}\n", row.name, printable(&row.label)));
        }
        text.push('\n');
    }
    out.write_all(text.as_bytes())
}

/// nvidia-smi has no word for these.
fn is_undecided(cell: Option<Cell>) -> bool {
    matches!(cell, None | Some(Cell::Class(PciClass::NodeOrSys)))
}

/// A note on pairs whose class nvidia-smi cannot express.
pub fn undecided(view: &View<'_>) -> Option<String> {
    let rows = view.topology.rows.len();
    let pairs = (0..rows).flat_map(|a| (a + 1..rows).map(move |b| (a, b)));
    let count = pairs.filter(|(a, b)| is_undecided(view.cell(*a, *b))).count();
    (count > 0).then(|| {
        format!(
            "N/A stands for {}: nvidia-smi has no word for \"NODE or SYS\" or for a path that is unknown; the table shows which",
            counted(count, "pair")
        )
    })
}

fn underlined(dialect: &Dialect, text: &str) -> String {
    if dialect.underline { paint(Style::new().underline(), text) } else { text.to_owned() }
}

fn tail(row: &Row, dialect: &Dialect) -> String {
    if row.kind != Kind::Gpu {
        return "\t\t\t\t".to_owned();
    }
    let list = |fact: &Fact<crate::model::IdList>| match fact {
        Fact::Known(list) if !list.is_empty() => list.to_string(),
        _ => "N/A".to_owned(),
    };
    let mut text = format!("\t{}\t{}", list(&row.cpus), list(&row.nodes));
    if dialect.memory_node {
        let node = row.memory_node.map_or_else(|| "N/A".to_owned(), |node| node.to_string());
        text.push_str(&format!("\t\t{node}"));
    }
    text
}

const LEGEND: &str = "  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
";

/// `nvidia-smi topo -p2p`.
pub fn p2p(nvml: &Nvml, capability: P2pCapability, out: &mut dyn Write) -> io::Result<()> {
    let names: String = nvml.gpus.iter().map(|gpu| format!("GPU{}\t", gpu.index)).collect();
    writeln!(out, " \t{}", paint(Style::new().underline(), &names))?;
    let mut pairs = BTreeMap::new();
    for pair in &nvml.pairs {
        pairs.entry((pair.from, pair.to)).or_insert(pair);
    }
    let status = |from, to| {
        let pair = pairs.get(&(from, to)).and_then(|pair| pair.p2p.get(&capability));
        pair.and_then(|status| status.known().copied()).unwrap_or(P2pStatus::Unknown)
    };
    for from in &nvml.gpus {
        write!(out, " GPU{}", from.index)?;
        for to in &nvml.gpus {
            let cell = if from.index == to.index {
                "X"
            } else {
                status(from.index, to.index).abbreviation()
            };
            write!(out, "\t{cell}")?;
        }
        out.write_all(b"\t\n")?;
    }
    let mut text = "\nLegend:\n\n".to_owned();
    for (letters, meaning) in [
        ("X", "Self"),
        ("OK", "Status Ok"),
        ("CNS", "Chipset not supported"),
        ("GNS", "GPU not supported"),
        ("TNS", "Topology not supported"),
        ("NS", "Not supported"),
        ("U", "Unknown"),
    ] {
        text.push_str(&format!("  {letters:<4} = {meaning}\n"));
    }
    out.write_all(text.as_bytes())
}
