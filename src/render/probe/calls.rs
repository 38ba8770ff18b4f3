//! The latency of calls and of round trips: figures, and a small drawing of how the samples are distributed.

use super::grid::grid;
use super::{figure_or_dash, size};
use crate::model::figure::copy;
use crate::model::{Bucket, ProbeResult};
use crate::render::Style;

/// Columns of a drawing.
const WIDTH: usize = 16;
/// Heights of a column, from the lowest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Cost of calls and of round trips, by size.
pub fn costs(results: &[&ProbeResult], style: Style) -> String {
    let kinds = || copy::CALLS.iter().chain(&copy::ROUND_TRIPS);
    let measured = results.iter().filter(|result| result.median.is_some());
    let rows: Vec<Vec<String>> = measured
        .filter_map(|result| {
            let kind = kinds().find(|kind| kind.name == result.name)?;
            let call = kind.heading.replace("{size}", &result.bytes.map_or_else(String::new, size));
            let figures = [result.min, result.median, result.p99, result.max];
            let figures = figures.map(figure_or_dash);
            let row = [call, result.samples.to_string()].into_iter().chain(figures);
            Some(row.chain([draw(&result.histogram)]).collect())
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["call", "count", "min", "median", "p99", "max", "min to max"];
    let head = head.map(str::to_owned);
    grid("latency of calls, us", &head, &rows, style)
}

/// Samples from the smallest to the largest, on a logarithmic scale, the most frequent ones highest. A bucket fills the columns that
/// it covers.
fn draw(histogram: &[Bucket]) -> String {
    let (Some(first), Some(last)) = (histogram.first(), histogram.last()) else {
        return String::new();
    };
    let span = (last.to / first.from).log2();
    let place = |edge: f64| (edge / first.from).log2() / span * WIDTH as f64;
    let samples = |column: usize| -> f64 {
        let (left, right) = (column as f64, column as f64 + 1.0);
        let share = |bucket: &Bucket| {
            let (from, to) = (place(bucket.from), place(bucket.to));
            let covered = to.min(right) - from.max(left);
            // Rounding of the logarithms covers nothing.
            if covered < 1e-6 {
                return 0.0;
            }
            bucket.samples as f64 * covered / (to - from)
        };
        histogram.iter().map(share).sum()
    };
    let columns: Vec<f64> = (0..WIDTH).map(samples).collect();
    let most = columns.iter().copied().fold(0.0, f64::max);
    let height = |samples: &f64| match (samples / most * HEIGHTS.len() as f64 - 1e-6).ceil() {
        height if height >= 1.0 => HEIGHTS[(height as usize - 1).min(HEIGHTS.len() - 1)],
        _ if *samples > 0.0 => HEIGHTS[0],
        _ => '·',
    };
    columns.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(from: f64, to: f64, samples: u64) -> Bucket {
        Bucket { from, to, samples }
    }

    #[test]
    fn draws_distribution() {
        assert_eq!(draw(&[]), "");
        // Four octaves: each has four columns.
        let octaves = [bucket(1.0, 2.0, 80), bucket(2.0, 4.0, 40), bucket(8.0, 16.0, 1)];
        assert_eq!(draw(&octaves), "████▄▄▄▄····▁▁▁▁");
        assert_eq!(draw(&[bucket(1.0, 2.0, 3)]), "█".repeat(16));
        // Eight octaves: two columns each, which share their samples.
        let rare = [bucket(1.0, 2.0, 1_000_000), bucket(128.0, 256.0, 1)];
        assert_eq!(draw(&rare), "██············▁▁");
    }
}
