//! Samples of CUDA that name GPUs in passing: simpleP2P, topologyQuery, deviceQuery without its beginning.

use std::collections::BTreeSet;

use super::{Kind, Starts, by_index, summary};
use crate::import::support::Recording;
use crate::model::ListedGpu;
use crate::model::limited::MAX_GPUS;

pub const SAMPLES: Kind = Kind {
    name: "simpleP2P, topologyQuery, the end of deviceQuery",
    starts: Starts::Line,
    begins: |line| !gpus(line).is_empty() || count(line).is_some(),
    yields: "number and models of the GPUs that the program sees; pairs without peer access, as remarks",
    example: "> Peer access from NVIDIA H100 80GB HBM3 (GPU0) -> NVIDIA H100 80GB HBM3 (GPU1) : Yes
> Peer access from NVIDIA H100 80GB HBM3 (GPU1) -> NVIDIA H100 80GB HBM3 (GPU0) : No
deviceQuery, CUDA Driver = CUDART, CUDA Driver Version = 12.8, CUDA Runtime Version = 12.8, NumDevs = 2
",
    read: |text, recording| {
        read(text, recording);
        Ok(())
    },
};

/// The number that CUDA gives a GPU, and its model.
type Gpu<'a> = (usize, &'a str);

fn gpus(line: &str) -> Vec<Gpu<'_>> {
    peers(line).map(|(from, to, _)| vec![from, to]).or_else(|| pair(line)).unwrap_or_default()
}

/// `Peer access from NVIDIA H100 (GPU0) -> NVIDIA H100 (GPU1) : Yes`. The mark before it is taken for that of a quotation.
fn peers(line: &str) -> Option<(Gpu<'_>, Gpu<'_>, bool)> {
    let rest = line.trim_start_matches(['>', ' ']).strip_prefix("Peer access from ")?;
    let (pair, answer) = rest.rsplit_once(" : ")?;
    let (from, to) = pair.split_once(" -> ")?;
    let gpu = |text: &'_ str| -> Option<(usize, usize)> {
        let (model, number) = text.rsplit_once(" (GPU")?;
        summary::whole(model)?;
        Some((number.strip_suffix(')')?.parse().ok().filter(|at| *at < MAX_GPUS)?, model.len()))
    };
    let ((a, of_a), (b, of_b)) = (gpu(from)?, gpu(to)?);
    let has_access = match answer.trim() {
        "Yes" => true,
        "No" => false,
        _ => return None,
    };
    Some(((a, &from[..of_a]), (b, &to[..of_b]), has_access))
}

/// `GPU0 <-> GPU1:` and `GPU0 <-> CPU:` of topologyQuery.
fn pair(line: &str) -> Option<Vec<Gpu<'_>>> {
    let (from, to) = line.strip_suffix(':')?.split_once(" <-> ")?;
    let number = |text: &str| text.strip_prefix("GPU")?.parse().ok().filter(|at| *at < MAX_GPUS);
    let from: usize = number(from)?;
    match to {
        "CPU" => Some(vec![(from, "")]),
        to => Some(vec![(from, ""), (number(to)?, "")]),
    }
}

/// The number in `deviceQuery, CUDA Driver = CUDART, …, NumDevs = 2`, in `Detected 2 CUDA Capable device(s)` and in
/// `CUDA-capable device count: 2`.
fn count(line: &str) -> Option<usize> {
    let number = if let Some(rest) = line.strip_prefix("deviceQuery") {
        rest.split_once(", NumDevs = ")?.1.split(',').next()?
    } else if let Some(rest) = line.strip_prefix("Detected ") {
        rest.strip_suffix(" CUDA Capable device(s)")?
    } else {
        line.strip_prefix("CUDA-capable device count: ")?
    };
    number.trim().parse().ok().filter(|count| (1..=MAX_GPUS).contains(count))
}

fn read(text: &str, recording: &mut Recording) {
    let lines = || text.lines().map(str::trim);
    let mut found: Vec<(usize, ListedGpu)> = Vec::new();
    // Runs of several machines differ in what they count.
    let counts: BTreeSet<usize> = lines().filter_map(count).collect();
    if let (Some(count), 1) = (counts.first(), counts.len()) {
        found.extend((0..*count).map(|at| (at, ListedGpu::default())));
    }
    // CUDA may number the fastest GPU first, nvidia-smi numbers by address.
    let named = || lines().flat_map(gpus);
    let models: BTreeSet<&str> = named().map(|(_, model)| model).collect();
    let model = models.first().filter(|model| models.len() == 1 && !model.is_empty());
    let gpu =
        || ListedGpu { model: model.map(|model| (*model).to_owned()), ..ListedGpu::default() };
    found.extend(named().map(|(at, _)| (at, gpu())));
    recording.listed(by_index(found));
    let refused: BTreeSet<(usize, usize)> = lines()
        .filter_map(peers)
        .filter(|(.., has_access)| !has_access)
        .map(|((from, _), (to, _), _)| (from.min(to), from.max(to)))
        .collect();
    for (from, to) in refused {
        let message = format!("CUDA allows no peer access between its devices {from} and {to}");
        recording.note("sample of CUDA", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_samples() {
        let h100 = "NVIDIA H100 80GB HBM3";
        for (line, expected) in [
            (
                "> Peer access from NVIDIA H100 80GB HBM3 (GPU0) -> NVIDIA H100 80GB HBM3 (GPU3) : No",
                vec![(0, h100), (3, h100)],
            ),
            ("GPU1 <-> GPU2:", vec![(1, ""), (2, "")]),
            ("GPU1 <-> CPU:", vec![(1, "")]),
            ("Peer access from the first (GPU0) -> the second (GPU1) : Yes", vec![]),
            (
                "Peer access from NVIDIA H100 80GB HBM3 (GPU0) -> NVIDIA H100 80GB HBM3 (GPU1) : why?",
                vec![],
            ),
            ("GPU0 <-> GPU1 is slow:", vec![]),
        ] {
            assert_eq!(gpus(line), expected, "{line}");
        }
        for (line, expected) in [
            ("Detected 8 CUDA Capable device(s)", Some(8)),
            ("CUDA-capable device count: 2", Some(2)),
            ("deviceQuery, CUDA Driver = CUDART, NumDevs = 1, Device0 = Tesla K40m", Some(1)),
            ("Detected 0 CUDA Capable device(s)", None),
            ("Detected a fault", None),
        ] {
            assert_eq!(count(line), expected, "{line}");
        }
    }

    /// A run on a machine with two GPUs and one with four are not one machine.
    #[test]
    fn numbers_that_differ_are_no_number() {
        let of = |text: &str| {
            let report =
                crate::import::text(text.as_bytes(), crate::import::SupportReport::default());
            report.map(|report| report.listed.len()).unwrap_or_default()
        };
        let two = "Detected 2 CUDA Capable device(s)\n";
        assert_eq!(of(two), 2);
        assert_eq!(of(&format!("{two}\n{}", two.replace('2', "4"))), 0);
    }
}
