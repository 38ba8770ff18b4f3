//! GPUs that `nvidia-smi -q` counts, of which the text shows some. Of the others only the number is known.

use std::collections::BTreeSet;

use super::{SupportReport, smi};
use crate::model::limited::MAX_GPUS;
use crate::model::{ListedGpu, Note, NvmlOutcome};

/// Lists the GPUs that the text does not show.
pub fn add(report: &mut SupportReport) {
    let is_partial = matches!(
        &report.nvml,
        Some(NvmlOutcome::Read(nvml)) if nvml.partial && nvml.unreachable.is_empty()
    );
    let Some((count, shown)) = counts(&report.smi).filter(|_| is_partial) else { return };
    if report.listed.len() < count {
        report.listed.resize(count, ListedGpu::default());
    }
    report.notes.push(Note {
        source: "nvidia-smi -q".to_owned(),
        message: format!("shows {shown} of {count} GPUs: of the others only the number is known"),
    });
}

/// The number in `Attached GPUs                             : 4`.
pub fn attached(line: &str) -> Option<usize> {
    let (_, count) = line.strip_prefix("Attached GPUs")?.split_once(": ")?;
    count.trim().parse().ok()
}

/// How many GPUs there are, and how many a list shows; `None` if all are shown or two lists count differently.
fn counts(text: &str) -> Option<(usize, usize)> {
    let (_, list) = text.split_once("NVSMI LOG")?;
    let counts: BTreeSet<usize> = list.lines().filter_map(attached).collect();
    let count = counts.first().filter(|_| counts.len() == 1)?;
    let shown = smi::blocks(list).1.len();
    (shown < *count && *count <= MAX_GPUS).then_some((*count, shown))
}
