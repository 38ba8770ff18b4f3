//! Parts of nvidia-smi's output without their heads, as of grep: fields of `-q`, rows of the table, rows of a query.

use super::summary;
use crate::import::find;
use crate::import::support::attached;
use crate::model::limited::MAX_GPUS;
use crate::model::{Bdf, ListedGpu};

/// The address in `Bus Id : 00000000:17:00.0`, or in the line that begins a GPU, of `nvidia-smi -q` without its head.
fn of_part(line: &str) -> Option<Bdf> {
    let address = match line.split_once(" : ") {
        Some((key, address)) if key.trim_end() == "Bus Id" => address,
        Some(_) => return None,
        // The form of `nvidia-smi -q`: other programs print four digits.
        None => line.strip_prefix("GPU ").filter(|address| address.len() == 16)?,
    };
    address.trim().parse().ok()
}

/// True for a line of `nvidia-smi -q` that names a GPU, or says how many there are.
pub fn is_part(line: &str) -> bool {
    of_part(line).is_some() || attached(line).is_some()
}

/// Output of `nvidia-smi -q` that begins with a GPU or with its address, as of grep, with a head that says nothing.
pub fn whole(text: &str) -> String {
    let mut out = "NVSMI LOG\n\n".to_owned();
    if text.starts_with("GPU ") || text.starts_with("Attached GPUs") {
        return out + text;
    }
    let indent = text.lines().next().map_or(0, |line| line.len() - line.trim_start().len());
    let by = if indent == 0 { 8 } else { 4 };
    for line in text.lines() {
        if let Some(bdf) = of_part(line.trim()) {
            out.push_str(&format!("GPU {bdf}\n    PCI\n"));
        }
        out.push_str(&format!("{:by$}{line}\n", ""));
    }
    out
}

/// True for a row of nvidia-smi's table that shows a GPU, or a process on one.
pub fn is_row(line: &str) -> bool {
    let mut cells = line.strip_prefix('|').unwrap_or_default().split('|').map(str::trim);
    let first = |cell: Option<&str>| cell?.split_ascii_whitespace().next().map(str::to_owned);
    let number = first(cells.next()).is_some_and(|word| word.parse::<u32>().is_ok());
    let address = first(cells.next()).filter(|word| word.len() >= 12);
    number && address.is_some_and(|word| word.parse::<Bdf>().is_ok())
        || process(line).is_some()
        || cut_row(line).is_some()
        || is_usage(line)
}

/// The number and the model in a row whose address is cut off or masked: `|   0  NVIDIA GeForce ...  On`. Long names are cut.
fn cut_row(line: &str) -> Option<(usize, Option<&str>)> {
    const MOST: usize = 64;
    let cell = line.strip_prefix('|')?.split('|').next()?.trim();
    let (number, rest) = cell.split_once(' ')?;
    let number = number.parse().ok().filter(|number| *number < MOST)?;
    let rest = rest.trim_start();
    summary::BRANDS.iter().find(|brand| rest.starts_with(*brand))?;
    let name = rest.strip_suffix(" On").or(rest.strip_suffix(" Off")).map(str::trim_end);
    Some((number, name.filter(|name| !name.ends_with("..."))))
}

/// True for `| N/A   31C    P0   60W / 700W |   0MiB / 81559MiB |`, the second row of a GPU.
fn is_usage(line: &str) -> bool {
    let mut cells = line.strip_prefix('|').unwrap_or_default().split('|').map(str::trim);
    let is_state =
        |word: &str| word.strip_prefix('P').is_some_and(|state| state.parse::<u8>().is_ok());
    let state = cells
        .next()
        .is_some_and(|cell| cell.contains(" / ") && cell.split_ascii_whitespace().any(is_state));
    let is_memory = |cell: &str| {
        let (used, total) = cell.split_once('/').unwrap_or_default();
        used.trim_end().ends_with("MiB") && total.ends_with("MiB")
    };
    state && cells.next().is_some_and(is_memory)
}

/// GPUs of a table in which no row has an address.
pub fn cut_rows(text: &str) -> Vec<(usize, ListedGpu)> {
    let rows = text.lines().filter_map(|line| cut_row(line.trim()));
    let rows: Vec<_> = rows
        .map(|(number, model)| {
            (number, ListedGpu { model: model.map(str::to_owned), ..ListedGpu::default() })
        })
        .collect();
    if !rows.is_empty() {
        return rows;
    }
    let usages = text.lines().filter(|line| is_usage(line.trim())).take(MAX_GPUS);
    usages.enumerate().map(|(at, _)| (at, ListedGpu::default())).collect()
}

/// The GPU in `|    0   N/A  N/A     10734      C   python    160MiB |`; older versions print no instances.
fn process(line: &str) -> Option<usize> {
    let words: Vec<&str> = line.strip_prefix('|')?.split_ascii_whitespace().collect();
    let kind = [2, 4]
        .into_iter()
        .find(|at| words.get(*at).is_some_and(|word| ["C", "G", "C+G", "M+C"].contains(word)))?;
    words.get(kind - 1)?.parse::<u64>().ok()?;
    let has_memory =
        words[kind..].iter().any(|word| word.ends_with("MiB") || word.ends_with("N/A"));
    words[0].parse().ok().filter(|_| has_memory)
}

/// The GPUs on which processes run.
pub fn processes(text: &str) -> Vec<(usize, ListedGpu)> {
    let numbers = text.lines().filter_map(|line| process(line.trim()));
    numbers.map(|number| (number, ListedGpu::default())).collect()
}

/// GPUs of `nvidia-smi -q` whose addresses people masked: `GPU 00000000:XX:00.0`.
pub fn masked(text: &str) -> Vec<ListedGpu> {
    const LENGTH: usize = 16;
    let mut gpus: Vec<ListedGpu> = Vec::new();
    for line in text.lines() {
        if let Some(address) = line.strip_prefix("GPU ").filter(|address| address.len() == LENGTH) {
            if address.parse::<Bdf>().is_ok() || gpus.len() == MAX_GPUS {
                return Vec::new();
            }
            gpus.push(ListedGpu::default());
        } else if let Some((key, value)) = line.split_once(" : ")
            && let Some(gpu) = gpus.last_mut().filter(|_| key.trim() == "Product Name")
        {
            gpu.model = Some(value.trim().to_owned());
        }
    }
    gpus
}

/// The cells of a row of `nvidia-smi --query-gpu=… --format=csv,noheader`: the model, and values.
pub fn cells(line: &str) -> Option<Vec<&str>> {
    const MOST: usize = 64;
    if !find::has(line, ", ") {
        return None;
    }
    let cells: Vec<&str> = line.split(',').map(str::trim).take(MOST).collect();
    let is_model = |cell: &&str| summary::is_model(cell) && summary::whole(cell).is_some();
    let models = cells.iter().filter(|cell| is_model(cell)).count();
    let fits = models == 1
        && cells.iter().all(|cell| is_model(cell) || is_value(cell))
        && cells.iter().any(|cell| is_certain(cell));
    fits.then_some(cells)
}

fn is_value(cell: &str) -> bool {
    const WORDS: [&str; 8] = [
        "Enabled",
        "Disabled",
        "Default",
        "Active",
        "Not Active",
        "N/A",
        "[N/A]",
        "[Not Supported]",
    ];
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let is_number =
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_certain(cell) || is_number && unit.is_empty() || WORDS.contains(&cell)
}

/// A value that prose does not have: an address, a UUID, a number with its unit, a version, a state.
fn is_certain(cell: &str) -> bool {
    const UNITS: [&str; 7] = ["MiB", "MB", "GiB", "%", "W", "C", "MHz"];
    let with_unit = cell
        .split_once(' ')
        .is_some_and(|(number, unit)| number.parse::<f64>().is_ok() && UNITS.contains(&unit));
    let state = cell.strip_prefix('P').is_some_and(|state| state.parse::<u8>().is_ok());
    with_unit
        || state
        || cell.starts_with("GPU-")
        || is_version(cell)
        || cell.parse::<Bdf>().is_ok()
}

/// A version of the driver with three parts; a value without its unit may have two.
pub fn is_version(cell: &str) -> bool {
    let parts: Vec<&str> = cell.split('.').collect();
    parts.len() == 3
        && parts[0].len() == 3
        && parts
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

pub fn is_values(line: &str) -> bool {
    cells(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_their_heads() {
        for line in [
            "|   1  NVIDIA A100-SXM4-80GB          On  | 00000000:2A:00.0 Off |                    0 |",
            "|    0   N/A  N/A     10734      C   ...Release/a/b         160MiB |",
            "|    0     10734      C   python         160MiB |",
            "|   0  NVIDIA GeForce ...  On",
            "|   1  NVIDIA L4          Off  | 0000####:##:00.0 Off |",
            "| N/A   31C    P0    60W / 700W |   0MiB / 81559MiB |      0%      Default |",
        ] {
            assert!(is_row(line), "{line}");
        }
        for line in [
            "| 0 | a table | of words |",
            "|  GPU   GI   CI        PID   Type   Process name |",
            "| 1 | 0000 |",
        ] {
            assert!(!is_row(line), "{line}");
        }
        for line in [
            "0, NVIDIA H100 80GB HBM3, 00000000:17:00.0, 81559 MiB",
            "NVIDIA GeForce RTX 3090, 525.105.17, 24576 MiB",
            "GPU-01234567-89ab-cdef-0123-456789abcdef, Tesla T4",
        ] {
            assert!(is_values(line), "{line}");
        }
        for line in [
            "NVIDIA GeForce RTX 3090, and it is slow",
            "I have a NVIDIA GeForce RTX 3090, 24576 MiB",
            "NVIDIA GeForce RTX 3090, 450.00",
            "1, 2, 3",
        ] {
            assert!(!is_values(line), "{line}");
        }
    }

    #[test]
    fn rows_are_gpus() {
        let read = |text: &str| {
            crate::import::text(text.as_bytes(), crate::import::SupportReport::default())
                .expect("a GPU")
        };
        let rows = "0, NVIDIA L4, 24 %\n1, NVIDIA L4, 25 %\n";
        assert_eq!(read(rows).listed.len(), 2);
        let processes = "| Processes: |\n|  0   N/A  N/A  10734  C   a  160MiB |\n|  2   N/A  N/A  10735  G   b  3MiB |\n";
        assert_eq!(read(processes).listed.len(), 3);
        let models = |text: &str| {
            let listed = read(text).listed.into_iter();
            listed.map(|gpu| gpu.model.unwrap_or_default()).collect::<Vec<_>>()
        };
        let query = "==============NVSMI LOG==============\n\nGPU 00000000:XX:00.0\n    Product Name   : NVIDIA L4\n";
        assert_eq!(models(query), ["NVIDIA L4"]);
        let masked = "|   0  NVIDIA L4          Off  | 0000####:##:00.0 Off |   0 |\n";
        assert_eq!(models(masked), ["NVIDIA L4"]);
        assert_eq!(models("|   1  NVIDIA GeForce ...  On"), ["", ""]);
        let usage = "| N/A   31C    P0    60W / 700W |   0MiB / 81559MiB |  0%  Default |\n";
        assert_eq!(models(usage), [""]);
    }
}
