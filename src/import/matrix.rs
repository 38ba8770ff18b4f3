//! The matrix of `nvidia-smi topo -m` in a text with lspci's output: NVLinks between GPUs, their CPUs and NUMA nodes.

use crate::model::Order as _;
use crate::model::{Bdf, Fact, Facts, Ids, LinkedPair, Note, PciDevice};

/// Limit of GPUs: their pairs are kept.
const MAX_GPUS: usize = 64;

/// A row of the matrix.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    /// Number of NVLinks to the GPU of each column.
    nvlinks: Vec<u32>,
    /// The columns after the devices: CPUs, NUMA node.
    rest: Vec<&'a str>,
}

/// Adds the facts of a matrix. NVML, and so nvidia-smi, numbers GPUs by PCI address.
pub fn add(facts: &mut Facts, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(rows) = matrix(&text) else {
        return;
    };
    let Fact::Known(devices) = &mut facts.pci else {
        return;
    };
    let mut gpus: Vec<&mut PciDevice> = devices
        .iter_mut()
        .filter(|device| device.ids.known().is_some_and(Ids::is_nvidia_gpu))
        .collect();
    gpus.order_by_key(|gpu| gpu.bdf);
    if gpus.len() != rows.len() {
        facts.notes.push(Note {
            source: "nvidia-smi topo -m".to_owned(),
            message: format!(
                "ignored: its matrix has {} GPUs and the list of PCI functions {}",
                rows.len(),
                gpus.len()
            ),
        });
        return;
    }
    let addresses: Vec<Bdf> = gpus.iter().map(|gpu| gpu.bdf).collect();
    let mut pairs = Vec::new();
    for ((row, gpu), at) in rows.iter().zip(gpus).zip(0..) {
        for (other, nvlinks) in addresses.iter().zip(&row.nvlinks).skip(at + 1) {
            pairs.push(LinkedPair { from: addresses[at], to: *other, nvlinks: *nvlinks });
        }
        if let Some(cpus) = row.rest.first().and_then(|cpus| cpus.parse().ok()) {
            gpu.attributes.get_or_insert_default().local_cpus = Fact::Known(cpus);
        }
        let node = row.rest.get(1).and_then(|node| node.parse().ok());
        if let Some(node) = node
            && gpu.numa_node.known().is_none()
        {
            gpu.numa_node = Fact::Known(Some(node));
        }
    }
    facts.linked_pairs = Fact::Known(pairs);
}

/// The rows of the GPUs in the first whole matrix of a text.
fn matrix(text: &str) -> Option<Vec<Row<'_>>> {
    let mut lines = text.lines();
    loop {
        // On a terminal nvidia-smi underlines the head.
        let head = lines.find(|line| line.contains("GPU0"))?.replace("\u{1b}[4m", " ");
        let words = head.split_ascii_whitespace();
        let devices: Vec<&str> = words.take_while(|word| *word != "CPU").collect();
        let gpus = devices.iter().filter(|name| name.starts_with("GPU")).count();
        if !(1..=MAX_GPUS).contains(&gpus) {
            continue;
        }
        // A row may look like another head, so no more rows are read than decide.
        let rows: Vec<Row<'_>> =
            lines.clone().take(gpus + 1).map_while(|line| row(line, devices.len())).collect();
        if rows.len() == gpus {
            return Some(rows);
        }
    }
}

/// A row of a GPU; `None` for another line.
fn row(line: &str, count: usize) -> Option<Row<'_>> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.strip_prefix("GPU")?;
    number.parse::<u32>().ok()?;
    let cells: Vec<&str> = words.by_ref().take(count).collect();
    let nvlinks: Option<Vec<u32>> = cells.iter().map(|cell| nvlinks(cell)).collect();
    Some(Row { nvlinks: nvlinks.filter(|links| links.len() == count)?, rest: words.collect() })
}

/// Number of NVLinks in a cell.
fn nvlinks(cell: &str) -> Option<u32> {
    match cell {
        "X" | "PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "SOC" => Some(0),
        _ => cell.strip_prefix("NV")?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::PciNames;

    const MATRIX: &str =
        "\t\u{1b}[4mGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV18\tPIX\t0-31,64-95\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t32-63\t1\t\tN/A
mlx5_0\tPIX\tSYS\t X
";

    fn gpus(count: u32) -> Facts {
        let text: String = (0..count)
            .map(|at| {
                format!(
                    "{:02x}:00.0 3D controller [0302]: NVIDIA Corporation [10de:2330]\n",
                    16 + at
                )
            })
            .collect();
        let names =
            PciNames::new(None, include_str!("../../profiles/devices.toml")).expect("names");
        super::super::lspci::facts(text.as_bytes(), &names).expect("functions")
    }

    #[test]
    fn the_matrix_adds_links_and_places() {
        let mut facts = gpus(2);
        add(&mut facts, MATRIX.as_bytes());
        let bdf = |text: &str| text.parse::<Bdf>().expect("an address");
        let pair = LinkedPair { from: bdf("10:00.0"), to: bdf("11:00.0"), nvlinks: 18 };
        assert_eq!(facts.linked_pairs, Fact::Known(vec![pair]));
        let second = &facts.devices()[1];
        assert_eq!(second.numa_node, Fact::Known(Some(1)));
        let cpus = &second.attributes.as_ref().expect("attributes").local_cpus;
        assert_eq!(cpus.known().map(ToString::to_string).as_deref(), Some("32-63"));
    }

    #[test]
    fn another_number_of_gpus_is_noted() {
        let mut facts = gpus(3);
        add(&mut facts, MATRIX.as_bytes());
        assert!(facts.linked_pairs.known().is_none());
        let message = &facts.notes.last().expect("a note").message;
        assert_eq!(message, "ignored: its matrix has 2 GPUs and the list of PCI functions 3");
    }

    #[test]
    fn a_cut_matrix_is_ignored() {
        let cut = MATRIX.replace("NV18\t X ", "NV18");
        for text in [cut.as_str(), "GPU0: NVIDIA H100\nGPU1: x\n", "GPU0", "GPU0 X NV999999999999"]
        {
            assert_eq!(matrix(text), None, "{text}");
        }
    }
}
