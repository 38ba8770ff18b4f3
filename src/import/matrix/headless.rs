//! A matrix without its head: the place of the cell `X` in a row is that of its device in the head.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    CutRow, MAX_DEVICES, MAX_GPUS, MAX_LEGEND, Row, apart, bare, cell, cut_row, gpu, named, row,
    with_nvlinks,
};
use crate::model::{Listed, ListedGpu};

/// True for a row of a matrix, in which one cell is the device itself.
pub fn is_row(line: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["GPU", "NIC", "mlx", "|", "#"];
    BEGINNINGS.iter().any(|begin| line.starts_with(begin)) && row_of(&bare(line)).is_some()
}

/// The row, however many cells it has.
fn row_of(line: &str) -> Option<Row<'_>> {
    let count = line
        .split_ascii_whitespace()
        .skip(1)
        .flat_map(apart)
        .take_while(|word| cell(word).is_some())
        .count();
    let found = row(line, count).filter(|_| (2..=MAX_DEVICES).contains(&count))?;
    let is_known = found.name.starts_with("GPU")
        || found.name.starts_with("NIC")
        || found.name.starts_with("mlx");
    (is_known && found.itself.is_some()).then_some(found)
}

/// The row in which the text ends, and its place: below a row, or where its own cell says.
fn cut<'a>(line: &'a str, count: usize, above: &Row<'_>) -> Option<(usize, CutRow<'a>)> {
    let number = |name: &str| {
        let at = name.rfind(|c: char| !c.is_ascii_digit())? + 1;
        Some((name.get(..at)?.to_owned(), name.get(at..)?.parse::<usize>().ok()?))
    };
    let row = cut_row(line, count)?;
    let (kind, last) = number(above.name)?;
    let is_first_nic = kind == "GPU" && row.name == "NIC0";
    let is_next = is_first_nic || number(row.name) == Some((kind, last + 1));
    let place = row.itself.or_else(|| above.itself.map(|at| at + 1).filter(|_| is_next))?;
    (place < count && above.itself.is_some_and(|at| at < place)).then_some((place, row))
}

/// The devices and pairs that the rows show; none if they contradict each other, or if a column may be a GPU or a NIC.
pub(super) fn listed(text: &str) -> Option<Listed> {
    let lines: Vec<Cow<'_, str>> = text.lines().take(MAX_DEVICES + MAX_LEGEND).map(bare).collect();
    let mut rows: Vec<Row<'_>> = lines.iter().filter_map(|line| row_of(line)).collect();
    let count = rows.first()?.cells.len();
    // A paste may end within a row.
    if rows.last().is_some_and(|last| last.cells.len() < count) {
        rows.pop();
    }
    let ends = lines.iter().rev().find(|line| !line.trim().is_empty());
    let cut = rows.last().and_then(|last| cut(ends?, count, last));
    let mut names: Vec<Option<&str>> = vec![None; count];
    for row in &rows {
        let place =
            row.itself.and_then(|at| names.get_mut(at)).filter(|_| row.cells.len() == count)?;
        (place.is_none_or(|known| known == row.name)).then_some(())?;
        *place = Some(row.name);
    }
    if let Some((place, cut)) = &cut
        && let Some(free @ None) = names.get_mut(*place)
    {
        *free = Some(cut.name);
    }
    let numbered = |name: &str, kind: &str| {
        name.strip_prefix(kind).and_then(|number| number.parse::<usize>().ok())
    };
    // Without the row of a NIC, the last columns may be GPUs or NICs.
    let gpus = match names.iter().position(|name| name.is_some_and(|name| !name.starts_with("GPU")))
    {
        Some(first) => {
            let number = names[first].and_then(|name| numbered(name, "NIC")).unwrap_or(0);
            first.checked_sub(number)?
        }
        None => names.last().copied().flatten().map(|_| count)?,
    };
    let mut nics = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let fits = match name {
            Some(name) if at < gpus => numbered(name, "GPU") == Some(at),
            Some(name) => !name.starts_with("GPU"),
            None => true,
        };
        fits.then_some(())?;
        if at >= gpus {
            nics.push(name.map_or_else(|| format!("NIC{}", at - gpus), str::to_owned));
        }
    }
    let known: BTreeMap<usize, &Row<'_>> =
        rows.iter().filter_map(|row| Some((row.itself?, row))).collect();
    let cell = |from: usize, to: usize| {
        let of = |row: usize, column: usize| {
            let cells = match &cut {
                Some((at, cut)) if *at == row => Some(&cut.cells),
                _ => known.get(&row).map(|row| &row.cells),
            };
            cells.and_then(|cells| cells.get(column)).copied()
        };
        of(from, to).or_else(|| of(to, from)).unwrap_or_default()
    };
    let rest: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
    let nics: Vec<&str> = nics.iter().map(String::as_str).collect();
    (1..=MAX_GPUS).contains(&gpus).then(|| {
        let listed = Listed {
            gpus: (0..gpus)
                .map(|at| known.get(&at).map_or_else(ListedGpu::default, |row| gpu(row)))
                .collect(),
            nics: named(&nics, &rest),
            cells: (0..count).map(|from| (0..count).map(|to| cell(from, to)).collect()).collect(),
        };
        with_nvlinks(listed, &rest)
    })
}

#[cfg(test)]
mod tests {
    use super::super::listed;
    use super::*;
    use crate::model::ListedPair;

    /// The cells `X` say what the head would say; bars, marks of comments and glued names are undone.
    #[test]
    fn a_matrix_without_its_head_or_in_another_form() {
        let text = "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tSYS\tPIX\tSYS\t0-31\t0
GPU1\tNV4\t X \tSYS\tSYS\tPXB\t0-31\t0
GPU2\tSYS\tSYS\t X \tNODE\tSYS\t32-63\t1
NIC0\tPIX\tSYS\tNODE\t X \tSYS
NIC1\tSYS\tPXB\tSYS\tSYS\t X
";
        let whole = listed(text).expect("a matrix");
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(listed(&rows[1..].join("\n")).as_ref(), Some(&whole));
        // The rows below say the pairs of those that are cut.
        let cut = listed(&rows[3..].join("\n")).expect("a matrix");
        assert_eq!((cut.gpus.len(), &cut.nics), (3, &whole.nics));
        assert_eq!(cut.pair(0, 2), whole.pair(0, 2));
        assert_eq!(cut.pair(0, 1), Some(ListedPair::default()));
        // The paste ends within a row, before its own cell or behind it.
        let ends = |cells: &str| listed(&format!("{}\n{cells}", rows[1..4].join("\n")));
        let within = ends("NIC0\tPIX\tSYS\tN\n\n").expect("a matrix");
        assert_eq!((within.gpus.len(), within.pair(3, 0)), (3, whole.pair(3, 0)));
        // Columns without rows may be GPUs or NICs; a row that contradicts another is not of this matrix.
        assert_eq!(listed(&rows[1..3].join("\n")), None);
        assert_eq!(listed(&rows[1..].join("\n").replace("GPU2", "GPU3")), None);
        assert!(is_row("GPU0 X PIX and so on"));
        for line in ["GPU0 is slower than GPU1", "NIC0 X", "GPU0: NVIDIA H100"] {
            assert!(!is_row(line), "{line}");
        }
        let bars = |line: &&str| format!("| {} |\n", line.replace('\t', " | "));
        let table: String =
            rows.iter().map(bars).collect::<String>().replacen('\n', "\n|---|---|---|\n", 1);
        assert_eq!(listed(&table).as_ref(), Some(&whole));
        let comment: String = rows.iter().map(|row| format!("# {row}\n")).collect();
        assert_eq!(listed(&comment).as_ref(), Some(&whole));
        let glued = text.replacen("NIC0\tNIC1\tCPU", "NIC0NIC1CPU", 1);
        assert_eq!(listed(&glued).as_ref(), Some(&whole));
    }
}
