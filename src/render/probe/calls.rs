//! The latency of calls and of round trips: figures, and a small drawing of how the samples are distributed.

use super::grid::grid;
use super::{figure_or_dash, size};
use crate::model::{Bucket, ProbeResult};
use crate::render::Style;

/// Columns of a drawing.
const WIDTH: usize = 16;
/// Heights of a column, from the lowest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Cost of calls and of round trips, by size.
pub fn costs(results: &[&ProbeResult], style: Style) -> String {
    let rows: Vec<Vec<String>> = results
        .iter()
        .filter(|result| result.name.starts_with("api.") || result.name.starts_with("ping-pong"))
        .filter(|result| result.median.is_some())
        .map(|result| {
            let figures = [result.min, result.median, result.p99, result.max];
            let figures = figures.map(figure_or_dash);
            [what(result), result.samples.to_string()]
                .into_iter()
                .chain(figures)
                .chain([draw(&result.histogram)])
                .collect()
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["call", "count", "min", "median", "p99", "max", "min to max"];
    let head = head.map(str::to_owned);
    grid("latency of calls, us", &head, &rows, style)
}

/// The first column: the call, and its size.
fn what(result: &ProbeResult) -> String {
    let call = result.name.strip_prefix("api.");
    match (call, result.bytes) {
        (None, Some(bytes)) if result.name == "ping-pong.data" => {
            format!("round trip with {}", size(bytes))
        }
        (Some(call), Some(bytes)) => format!("{call} {}", size(bytes)),
        (Some(call), None) => call.to_owned(),
        (None, _) => "round trip with a kernel".to_owned(),
    }
}

/// Samples from the smallest to the largest, on a logarithmic scale, the most frequent ones highest.
fn draw(histogram: &[Bucket]) -> String {
    let (Some(first), Some(last)) = (histogram.first(), histogram.last()) else {
        return String::new();
    };
    let span = (last.to / first.from).log2();
    let mut columns = [0_u64; WIDTH];
    for bucket in histogram {
        let middle = (bucket.from * bucket.to).sqrt();
        let share = (middle / first.from).log2() / span;
        let column = (share * WIDTH as f64) as usize;
        if let Some(samples) = columns.get_mut(column) {
            *samples += bucket.samples;
        }
    }
    let most = columns.iter().copied().max().unwrap_or(0).max(1);
    let height = |samples: &u64| match (samples * HEIGHTS.len() as u64).div_ceil(most) {
        0 => '·',
        height => HEIGHTS[(height as usize - 1).min(HEIGHTS.len() - 1)],
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
        // Four octaves: each has four columns, and a bucket of an octave is drawn in its middle.
        let octaves = [
            bucket(1.0, 2.0, 80),
            bucket(2.0, 4.0, 40),
            bucket(8.0, 16.0, 1),
        ];
        assert_eq!(draw(&octaves), "··█···▄·······▁·");
        assert_eq!(draw(&[bucket(1.0, 2.0, 3)]), "········█·······");
    }
}
