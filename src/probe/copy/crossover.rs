//! The size from which on the copy engine is faster than the CPU.

use std::collections::BTreeMap;

use crate::model::{BYTES, ProbeResult};
use crate::probe::verdict::Subject;

/// The smallest size from which on cuMemcpy with pinned memory is faster at every measured size, of one direction (write or read) of
/// one GPU and node. `None` without the results of both sweeps.
pub fn crossover(results: &[ProbeResult], about: &Subject, direction: &str) -> Option<ProbeResult> {
    let medians = |name: String| -> BTreeMap<u64, f64> {
        results
            .iter()
            .filter(|result| {
                result.name == name && result.subject == about.subject && result.numa == about.numa
            })
            .filter_map(|result| Some((result.bytes?, result.median?)))
            .collect()
    };
    let mapped = medians(format!("copy.{direction}.latency"));
    let engine = medians(format!("cuda.pinned.{direction}.latency"));
    let both: Vec<(u64, bool)> = mapped
        .iter()
        .filter_map(|(bytes, mapped)| Some((*bytes, engine.get(bytes)? < mapped)))
        .collect();
    if both.is_empty() {
        return None;
    }
    let wins = both.iter().rev().take_while(|(_, engine)| *engine);
    let from = wins.last().map(|(bytes, _)| *bytes as f64);
    Some(about.figure(&format!("crossover.{direction}"), BYTES, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Subject {
        Subject::new("GPU0", "rm")
    }

    fn sweep(name: &str, medians: &[f64]) -> Vec<ProbeResult> {
        let points = medians.iter().enumerate();
        points
            .map(|(at, seconds)| about().latency(name, Some(1 << at), 0, &[*seconds]))
            .collect()
    }

    fn crossover_of(mapped: &[f64], engine: &[f64]) -> Option<Option<f64>> {
        let mut results = sweep("copy.write.latency", mapped);
        results.extend(sweep("cuda.pinned.write.latency", engine));
        crossover(&results, &about(), "write").map(|result| result.median)
    }

    #[test]
    fn ignores_single_faster_points() {
        assert_eq!(
            crossover_of(&[1.0, 2.0, 4.0, 8.0], &[3.0, 3.0, 3.0, 3.0]),
            Some(Some(4.0))
        );
        assert_eq!(
            crossover_of(&[4.0, 2.0, 4.0, 8.0], &[3.0, 3.0, 3.0, 3.0]),
            Some(Some(4.0))
        );
        assert_eq!(
            crossover_of(&[1.0, 1.0], &[3.0, 3.0]),
            Some(None),
            "the mapping is always faster"
        );
        assert_eq!(crossover_of(&[1.0], &[]), None);
        let results = sweep("copy.read.latency", &[1.0]);
        assert_eq!(crossover(&results, &about(), "write"), None);
    }
}
