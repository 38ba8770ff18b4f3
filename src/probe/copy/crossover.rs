//! The sizes from which on the copy engine is faster than the CPU, and from which on it uses less CPU time.

use std::collections::BTreeMap;

use crate::model::figure::Direction;
use crate::model::figure::copy::{MAPPING, PINNED, Quantity};
use crate::model::{BYTES, ProbeResult};
use crate::probe::verdict::Subject;

/// The smallest size from which on cuMemcpy with pinned memory costs less at every measured size, of one direction, GPU and node. `None` without the results of both sweeps.
pub fn crossover(
    results: &[ProbeResult],
    about: &Subject,
    direction: Direction,
    cost: Quantity,
) -> Option<ProbeResult> {
    let costs = |name: String| -> BTreeMap<u64, f64> {
        results
            .iter()
            .filter(|result| {
                result.name == name && result.subject == about.subject && result.numa == about.numa
            })
            .filter_map(|result| Some((result.bytes?, cost.of(result)?)))
            .collect()
    };
    let mapped = costs(MAPPING.latency(direction));
    let engine = costs(PINNED.latency(direction));
    let both: Vec<(u64, bool)> = mapped
        .iter()
        .filter_map(|(bytes, mapped)| Some((*bytes, engine.get(bytes)? < mapped)))
        .collect();
    if both.is_empty() {
        return None;
    }
    let wins = both.iter().rev().take_while(|(_, engine)| *engine);
    let from = wins.last().map(|(bytes, _)| *bytes as f64);
    Some(about.figure(&cost.crossover(direction), BYTES, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Subject {
        Subject::new("GPU0", "rm")
    }

    fn sweep(name: &str, medians: &[f64]) -> Vec<ProbeResult> {
        let points = medians.iter().enumerate();
        points.map(|(at, seconds)| about().latency(name, Some(1 << at), 0, &[*seconds])).collect()
    }

    fn crossover_of(mapped: &[f64], engine: &[f64]) -> Option<Option<f64>> {
        let mut results = sweep("copy.write.latency", mapped);
        results.extend(sweep("cuda.pinned.write.latency", engine));
        crossover(&results, &about(), Direction::ToGpu, Quantity::Latency)
            .map(|result| result.median)
    }

    #[test]
    fn cpu_time_decides_alone() {
        let mut results = sweep("copy.write.latency", &[1.0, 2.0, 4.0]);
        results.extend(sweep("cuda.pinned.write.latency", &[9.0; 3]));
        let by_cpu = |results: &[ProbeResult]| {
            crossover(results, &about(), Direction::ToGpu, Quantity::CpuTime)
                .map(|result| (result.name, result.median))
        };
        assert_eq!(by_cpu(&results), None, "no CPU time was measured");
        for (result, cpu) in results.iter_mut().zip([1.0, 2.0, 4.0, 3.0, 3.0, 3.0]) {
            result.cpu = Some(cpu);
        }
        let name = "crossover.write.cpu".to_owned();
        assert_eq!(by_cpu(&results), Some((name, Some(4.0))));
    }

    #[test]
    fn ignores_single_faster_points() {
        assert_eq!(crossover_of(&[1.0, 2.0, 4.0, 8.0], &[3.0, 3.0, 3.0, 3.0]), Some(Some(4.0)));
        assert_eq!(crossover_of(&[4.0, 2.0, 4.0, 8.0], &[3.0, 3.0, 3.0, 3.0]), Some(Some(4.0)));
        assert_eq!(
            crossover_of(&[1.0, 1.0], &[3.0, 3.0]),
            Some(None),
            "the mapping is always faster"
        );
        assert_eq!(crossover_of(&[1.0], &[]), None);
        let results = sweep("copy.read.latency", &[1.0]);
        assert_eq!(crossover(&results, &about(), Direction::ToGpu, Quantity::Latency), None);
    }
}
