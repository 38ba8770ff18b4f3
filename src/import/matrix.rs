//! The matrix of `nvidia-smi topo -m`: classes and NVLinks of pairs, CPUs and NUMA nodes of GPUs.

mod headless;
mod p2p;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::find;

pub use headless::is_row;
pub use p2p::p2p;

use crate::model::Order as _;
use crate::model::{
    Bdf, Fact, Facts, Ids, LinkedPair, Listed, ListedGpu, ListedPair, Note, PciClass, PciDevice,
    Why,
};

/// Limit of GPUs: their pairs are kept.
const MAX_GPUS: usize = 64;

/// Limit of GPUs and NICs.
const MAX_DEVICES: usize = 512;

/// Limit of heads that are tried: a text may repeat them.
const MAX_HEADS: usize = 64;

/// A row of the matrix.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    name: &'a str,
    cells: Vec<ListedPair>,
    /// The column of the device itself.
    itself: Option<usize>,
    /// The columns after the devices: CPUs, NUMA node.
    rest: Vec<&'a str>,
}

/// Adds the facts of a matrix to the list of PCI functions. NVML, and so nvidia-smi, numbers GPUs by PCI address.
pub fn add(facts: &mut Facts, text: &str) {
    let Some(listed) = listed(text) else {
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
    if gpus.len() != listed.gpus.len() {
        facts.notes.push(Note {
            source: "nvidia-smi topo -m".to_owned(),
            message: format!(
                "ignored: its matrix has {} GPUs and the list of PCI functions {}",
                listed.gpus.len(),
                gpus.len()
            ),
        });
        return;
    }
    let addresses: Vec<Bdf> = gpus.iter().map(|gpu| gpu.bdf).collect();
    for (row, gpu) in listed.gpus.iter().zip(gpus) {
        if row.cpus.known().is_some() {
            gpu.attributes.get_or_insert_default().local_cpus = row.cpus.clone();
        }
        if row.numa_node.present().is_some() && gpu.numa_node.known().is_none() {
            gpu.numa_node = row.numa_node.clone();
        }
    }
    if let Some(pairs) = linked_pairs(&listed, &addresses) {
        facts.linked_pairs = Fact::Known(pairs);
    }
    facts.listed = Some(listed);
}

/// The NVLinks of all pairs of GPUs; none if the matrix does not show NVLinks.
fn linked_pairs(listed: &Listed, addresses: &[Bdf]) -> Option<Vec<LinkedPair>> {
    let mut pairs = Vec::new();
    for (a, from) in addresses.iter().enumerate() {
        for (b, to) in addresses.iter().enumerate().skip(a + 1) {
            let nvlinks = listed.pair(a, b)?.nvlinks?;
            pairs.push(LinkedPair { from: *from, to: *to, nvlinks });
        }
    }
    Some(pairs)
}

/// The devices of the first whole matrix of a text, with what later ones say of pairs that it leaves open: `topo -m` hides the class
/// of GPUs with NVLinks, and `topo -mp` shows it.
pub fn listed(text: &str) -> Option<Listed> {
    let mut lines = text.lines();
    let mut found: Option<Listed> = None;
    let mut has_head = false;
    for _ in 0..MAX_HEADS {
        // On a terminal nvidia-smi underlines the head.
        let Some(head) = lines.find(|line| is_head(line)) else {
            break;
        };
        has_head = true;
        let Some(matrix) = matrix(&self::head(head), lines.clone()) else {
            continue;
        };
        match &mut found {
            None => found = Some(matrix),
            Some(found) => add_pairs(found, &matrix),
        }
    }
    if has_head { found } else { headless::listed(text) }
}

/// True for the first line of a matrix: names of devices, perhaps with titles of further columns.
pub fn is_head(line: &str) -> bool {
    if !find::has(line, "GPU0") {
        return false;
    }
    let line = head(line);
    let mut words = line.split_ascii_whitespace();
    words.next() == Some("GPU0")
        && words.next().is_none_or(|second| second == "CPU" || is_device(second))
        && (line.contains("CPU Affinity") || line.split_ascii_whitespace().all(is_device))
}

/// The line without the underline of a terminal and without the words of collect_env: `GPU topology: GPU0 …`.
fn head(line: &str) -> String {
    let line = bare(line).replace("\u{1b}[4m", " ");
    let line = match line.split_once(": ") {
        Some((words, head)) if words.to_ascii_lowercase().ends_with("topology") => head,
        _ => line.as_str(),
    };
    // Where a terminal or an editor wrapped the line, the blanks at the break are gone: `NIC10   NIC11CPU Affinity`.
    const NAMES: [&str; 4] = ["GPU", "NIC", "CPU", "mlx5_"];
    let mut out = String::with_capacity(line.len() + 8);
    let mut last = ' ';
    for (at, c) in line.char_indices() {
        if last.is_ascii_digit() && NAMES.iter().any(|name| line[at..].starts_with(name)) {
            out.push(' ');
        }
        out.push(c);
        last = c;
    }
    out
}

/// The line without the mark of a comment and the bars of a table.
fn bare(line: &str) -> Cow<'_, str> {
    let line = line.trim_start().trim_start_matches(['#', '/', ';', '*']);
    if line.contains('|') { Cow::Owned(line.replace('|', " ")) } else { Cow::Borrowed(line) }
}

/// The line below the head of a table in Markdown, or an empty one.
fn is_rule(line: &str) -> bool {
    line.chars().all(|c| c.is_whitespace() || "|-:#/*".contains(c))
}

fn is_device(name: &str) -> bool {
    name != "X"
        && class(name).is_none()
        && nvlinks(name).is_none()
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(|c: char| c.is_ascii_digit())
}

fn matrix<'a>(head: &str, rows: impl Iterator<Item = &'a str> + Clone) -> Option<Listed> {
    let words = head.split_ascii_whitespace();
    let names: Vec<&str> = words.take_while(|word| *word != "CPU").collect();
    let count = names.iter().take_while(|name| name.starts_with("GPU")).count();
    if !(1..=MAX_GPUS).contains(&count) || names.len() > MAX_DEVICES {
        return None;
    }
    let (gpus, nics) = names.split_at(count);
    // A paste may wrap or drop the empty lines between rows.
    let rows = rows.map(bare);
    let mut below = rows.clone().filter(|line| !is_rule(line));
    let mut cells: Vec<Vec<ListedPair>> = Vec::new();
    let mut found = Vec::new();
    for (at, name) in gpus.iter().enumerate() {
        // A paste may end within the rows.
        let Some(line) = below.next() else { break };
        let own = row(&line, names.len());
        if let Some(row) = own.filter(|row| row.name == *name && row.itself == Some(at)) {
            found.push(gpu(&row));
            cells.push(row.cells);
            continue;
        }
        if let Some(cut) = cut_row(&line, names.len()).filter(|row| row.name == *name)
            && below.clone().next().is_none()
        {
            let known = mirrored(&cells, names.len());
            cells.push(cut.cells.into_iter().chain(known.into_iter().skip(cut.known)).collect());
            found.push(ListedGpu::default());
        }
        break;
    }
    let is_whole = found.len() == count;
    let has_more = below
        .next()
        .is_some_and(|next| row(&next, names.len()).is_some_and(|row| row.name.starts_with("GPU")));
    if found.is_empty() || is_whole && has_more {
        // A cut head: there are more GPUs than columns.
        return None;
    }
    for _ in found.len()..count {
        found.push(ListedGpu::default());
        cells.push(mirrored(&cells, names.len()));
    }
    let skipped = if is_whole { count } else { usize::MAX };
    let mut below = rows.clone().filter(|line| !is_rule(line)).skip(skipped).peekable();
    for name in nics {
        let own = below
            .peek()
            .and_then(|line| Some(row(line, names.len()).filter(|row| row.name == *name)?.cells));
        match own {
            Some(own) => {
                cells.push(own);
                below.next();
            }
            // The columns of the GPUs say as much of the pairs that count.
            None => {
                let known = mirrored(&cells, names.len());
                let cut = below.peek().and_then(|line| cut_row(line, names.len()));
                let cut = cut.filter(|row| row.name == *name).map(|row| row.cells);
                let cut = cut.filter(|_| below.clone().nth(1).is_none()).unwrap_or_default();
                let rest = known.into_iter().skip(cut.len());
                cells.push(cut.into_iter().chain(rest).collect());
            }
        }
    }
    let rest: Vec<Cow<'a, str>> = rows.take(names.len() + MAX_LEGEND).collect();
    let rest: Vec<&str> = rest.iter().map(AsRef::as_ref).collect();
    Some(with_nvlinks(Listed { gpus: found, nics: named(nics, &rest), cells }, &rest))
}

/// The matrix, whose cells say nothing of NVLinks where it does not show them.
fn with_nvlinks(mut listed: Listed, rest: &[&str]) -> Listed {
    if !shows_nvlinks(&listed, rest) {
        for cell in listed.cells.iter_mut().flatten() {
            cell.nvlinks = None;
        }
    }
    listed
}

/// The GPU of a row.
fn gpu(row: &Row<'_>) -> ListedGpu {
    ListedGpu {
        cpus: row.rest.first().map_or(Fact::default(), |cpus| match cpus.parse() {
            Ok(cpus) => Fact::Known(cpus),
            Err(_) => Fact::Unknown(Why::NotCovered),
        }),
        numa_node: row
            .rest
            .get(1)
            .and_then(|node| node.parse().ok())
            .map_or(Fact::Unknown(Why::NotCovered), |node| Fact::Known(Some(node))),
        ..ListedGpu::default()
    }
}

/// The row of a device that the text lacks, as far as the columns of the rows above say it.
fn mirrored(above: &[Vec<ListedPair>], length: usize) -> Vec<ListedPair> {
    let at = above.len();
    let cell = |to: usize| above.get(to).and_then(|row| row.get(at)).copied();
    (0..length).map(cell).map(Option::unwrap_or_default).collect()
}

/// Limit of lines between a matrix and the end of its legends, besides one for each device.
const MAX_LEGEND: usize = 600;

/// The names of NICs: newer drivers number the columns and print `NIC0: mlx5_0` below.
fn named(nics: &[&str], rest: &[&str]) -> Vec<String> {
    let legend: BTreeMap<&str, &str> = rest
        .iter()
        .take_while(|line| !is_head(line))
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(number, name)| number.starts_with("NIC") && !name.trim().contains(' '))
        .collect();
    let name = |nic: &&str| legend.get(*nic).map_or(*nic, |name| name.trim()).to_owned();
    nics.iter().map(name).collect()
}

/// `topo -m` shows NVLinks, `topo -mp` shows the PCI class of all pairs; their legends say which.
fn shows_nvlinks(listed: &Listed, rest: &[&str]) -> bool {
    let has = |start: &str| {
        let legend = rest.iter().take_while(|line| !is_head(line));
        legend.map(|line| line.trim()).any(|line| line.starts_with(start))
    };
    let mut cells = listed.cells.iter().flatten();
    cells.any(|cell| cell.nvlinks.is_some_and(|links| links > 0)) || has("NV#") || !has("Legend")
}

/// Adds what another matrix of the same devices says.
fn add_pairs(found: &mut Listed, other: &Listed) {
    if found.gpus.len() != other.gpus.len() || found.nics != other.nics {
        return;
    }
    let cells = found.cells.iter_mut().flatten();
    for (cell, other) in cells.zip(other.cells.iter().flatten()) {
        cell.class = cell.class.or(other.class);
        cell.nvlinks = cell.nvlinks.or(other.nvlinks);
    }
}

/// A row of a device; `None` for another line.
fn row(line: &str, count: usize) -> Option<Row<'_>> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|name| is_device(name))?;
    let mut words = words.flat_map(apart);
    let cells: Vec<&str> = words.by_ref().take(count).collect();
    let itself = cells.iter().position(|cell| *cell == "X");
    let cells: Option<Vec<ListedPair>> = cells.into_iter().map(cell).collect();
    let cells = cells.filter(|cells| cells.len() == count)?;
    Some(Row { name, cells, itself, rest: words.collect() })
}

/// The row of a device in which a paste ends.
struct CutRow<'a> {
    name: &'a str,
    /// The cells that are whole.
    cells: Vec<ListedPair>,
    known: usize,
    itself: Option<usize>,
}

/// The cells of a row that ends before its last one.
fn cut_row(line: &str, count: usize) -> Option<CutRow<'_>> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|name| is_device(name))?;
    let words: Vec<&str> = words.flat_map(apart).collect();
    let mut cells: Vec<ListedPair> = words.iter().map_while(|word| cell(word)).collect();
    // The last word may be a part of one; of a count of NVLinks it does not show.
    let is_cut = cells.len() + 1 >= words.len() && cells.len() < count;
    if words.len() == cells.len() && cells.last().is_some_and(|last| last.nvlinks > Some(0)) {
        cells.pop();
    }
    let itself = words.iter().position(|word| *word == "X");
    (is_cut && !cells.is_empty()).then_some(CutRow { name, known: cells.len(), cells, itself })
}

/// True for a line of the legend of NICs: `NIC0: mlx5_0`.
pub fn is_legend(line: &str) -> bool {
    legend(line).is_some()
}

/// The name of a NIC in a line of the legend.
fn legend(line: &str) -> Option<&str> {
    let (number, name) = line.trim().strip_prefix("NIC")?.split_once(": ")?;
    let name = name.trim();
    (number.parse::<u16>().is_ok() && is_device(name) && !name.contains(' ')).then_some(name)
}

/// The names of NICs in legends of a text.
pub fn legends(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(legend)
}

/// The classes in a word: where a terminal wrapped a row, the blanks at the break are gone.
fn apart(word: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), word);
    while let Some(found) = CLASSES.into_iter().find(|class| rest.starts_with(class)) {
        let (part, behind) = rest.split_at(found.len());
        parts.push(part);
        rest = behind;
    }
    if rest.is_empty() { parts } else { vec![word] }
}

/// Names of classes in cells.
const CLASSES: [&str; 6] = ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC"];

fn cell(text: &str) -> Option<ListedPair> {
    match (text, class(text)) {
        ("X", _) => Some(ListedPair::default()),
        (_, Some(class)) => Some(ListedPair { class: Some(class), nvlinks: Some(0) }),
        _ => Some(ListedPair { class: None, nvlinks: Some(nvlinks(text)?) }),
    }
}

fn nvlinks(cell: &str) -> Option<u32> {
    cell.strip_prefix("NV")?.parse().ok()
}

/// The class in a cell. Old drivers print SOC for SYS.
fn class(cell: &str) -> Option<PciClass> {
    Some(match cell {
        "PIX" => PciClass::Pix,
        "PXB" => PciClass::Pxb,
        "PHB" => PciClass::Phb,
        "NODE" => PciClass::Node,
        "SYS" | "SOC" => PciClass::Sys,
        _ => return None,
    })
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
        add(&mut facts, MATRIX);
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
        add(&mut facts, MATRIX);
        assert!(facts.linked_pairs.known().is_none());
        let message = &facts.notes.last().expect("a note").message;
        assert_eq!(message, "ignored: its matrix has 2 GPUs and the list of PCI functions 3");
    }

    #[test]
    fn what_is_no_matrix_is_ignored() {
        let cut = MATRIX.replace("\t X \tNV18", "\tNV18");
        for text in [cut.as_str(), "GPU0: NVIDIA H100\nGPU1: x\n", "GPU0", "GPU0 X NV999999999999"]
        {
            assert_eq!(listed(text), None, "{text}");
        }
    }

    /// A paste ends within the rows: what they say of the other devices counts.
    #[test]
    fn a_cut_matrix_has_the_pairs_of_its_rows() {
        let end = MATRIX.find("NV18\t X ").expect("the second row");
        let listed = listed(&MATRIX[..end + 5]).expect("a matrix");
        assert_eq!(listed.gpus.len(), 2);
        assert_eq!(listed.pair(1, 0).expect("a pair").nvlinks, Some(18));
        assert_eq!(listed.pair(0, 2).expect("a pair").class, Some(PciClass::Pix));
        assert_eq!(listed.pair(1, 2), Some(ListedPair::default()));
        assert_eq!(listed.pair(2, 1), Some(ListedPair::default()));
    }

    /// Where a terminal wrapped the rows, the blanks at the break are gone.
    #[test]
    fn classes_without_a_blank_between_them_are_told_apart() {
        let text = "        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      NODE    NODESYS         0-31
GPU1    NODE     X      PIX     SYS     0-31
";
        let listed = listed(text).expect("a matrix");
        assert_eq!(listed.pair(0, 2).expect("a pair").class, Some(PciClass::Node));
        assert_eq!(listed.pair(0, 3).expect("a pair").class, Some(PciClass::Sys));
        assert_eq!(listed.gpus[0].cpus.known().map(ToString::to_string).as_deref(), Some("0-31"));
    }

    /// The last word may be a part of one: NV1 of NV18.
    #[test]
    fn a_paste_ends_within_a_row() {
        let text = "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity
GPU0\t X \tNV18\tNV18\tPIX\t0-31
GPU1\tNV18\t X \tNV";
        let cut = listed(text).expect("a matrix");
        assert_eq!(cut.gpus.len(), 3);
        assert_eq!(cut.pair(1, 0).and_then(|pair| pair.nvlinks), Some(18));
        assert_eq!(cut.pair(1, 2), Some(ListedPair::default()));
        let more = listed(&format!("{text}18\tSYS")).expect("a matrix");
        assert_eq!(more.pair(1, 2).and_then(|pair| pair.nvlinks), Some(18));
        assert_eq!(more.pair(1, 3).and_then(|pair| pair.class), Some(PciClass::Sys));
        let nics = "\tGPU0\tNIC0\tNIC1\tNIC2\nGPU0\t X \tPIX\tSYS\tSYS\nNIC0\tPIX\t X \tNODE\n";
        let cut = listed(nics).expect("a matrix");
        assert_eq!(cut.pair(1, 2).and_then(|pair| pair.class), Some(PciClass::Node));
        assert_eq!(cut.pair(1, 3), Some(ListedPair::default()));
    }

    /// As the driver 550 prints it: columns by number, names below.
    #[test]
    fn classes_and_names_of_nics_are_read() {
        let text = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tPIX\tSYS\t0-31\t0\t\tN/A
GPU1\tNV4\t X \tSYS\tPXB\t32-63\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS
NIC1\tSYS\tPXB\tSYS\t X

Legend:
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_4
  NIC1: mlx5_bond_0
";
        let listed = listed(text).expect("a matrix");
        assert_eq!(listed.nics, ["mlx5_4", "mlx5_bond_0"]);
        let pair = |class, nvlinks| Some(ListedPair { class, nvlinks });
        assert_eq!(listed.pair(0, 1), pair(None, Some(4)));
        assert_eq!(listed.pair(0, 2), pair(Some(PciClass::Pix), Some(0)));
        assert_eq!(listed.pair(3, 1), pair(Some(PciClass::Pxb), Some(0)));
        assert_eq!(listed.gpus[1].numa_node, Fact::Known(Some(1)));
        // topo -mp shows the class where topo -m shows the NVLinks.
        let only_pci = text.replace("NV4", "SYS").replace("NV#", "PIX");
        for both in [format!("{text}\n{only_pci}"), format!("{only_pci}\n{text}")] {
            let listed = super::listed(&both).expect("a matrix");
            assert_eq!(listed.pair(0, 1), pair(Some(PciClass::Sys), Some(4)));
        }
        let alone = super::listed(&only_pci).expect("a matrix");
        assert_eq!(alone.pair(0, 1), pair(Some(PciClass::Sys), None));
        assert!(super::listed(&text.replace("GPU0\tGPU1", "GPU0")).is_none());
    }
}
