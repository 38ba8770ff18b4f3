//! The paths of a job as a drawing: one cell for each pair of ranks, of nodes, or of nodes with equal paths.

use std::fmt::Write as _;

use crate::model::{Communicator, Gdrdma, JobPath};
use crate::render::svg::{escape, start};

const CELL: usize = 14;
/// Width of a character of a name.
const LETTER: usize = 7;
const FOOT: usize = 40;
/// Width of an entry of the legend.
const ENTRY: usize = 165;
/// Most characters of a name.
const LONGEST: usize = 30;

/// Kinds of paths, the slowest last. The colours differ in lightness too.
const KINDS: [(&str, &str); 6] = [
    ("#2166ac", "P2P"),
    ("#67a9cf", "GPUDirect RDMA"),
    ("#d1e5f0", "other network"),
    ("#fddbc7", "shared memory"),
    ("#ef8a62", "RDMA, host memory"),
    ("#b2182b", "TCP sockets"),
];

/// The lightest colours are next to nothing on the page, and in the dark, where a drawing is inverted.
const EDGE: &str = "stroke=\"#6e7781\" stroke-width=\".7\"";

fn kind(path: &JobPath) -> usize {
    let ends = [path.gdrdma_send, path.gdrdma_receive];
    let is_staged = ends.iter().any(|end| matches!(end, Some(Gdrdma::No | Gdrdma::Mixed)));
    match path.transport.as_str() {
        name if name.starts_with("P2P/") || name == "NVLS" => 0,
        "SHM" => 3,
        "NET/Socket" => 5,
        _ if is_staged => 4,
        _ if ends.iter().any(Option::is_some) => 1,
        _ => 2,
    }
}

/// `None` if there is nothing to draw.
pub fn matrix(communicator: &Communicator) -> Option<String> {
    let matrix = &communicator.matrix;
    if matrix.cells.is_empty() {
        return None;
    }
    let side = matrix.names.len() * CELL;
    let longest = matrix.names.iter().map(|name| name.chars().count().min(LONGEST)).max();
    let names = longest.unwrap_or(0) * LETTER + 16;
    let (width, height) = ((names + side + 20).max(ENTRY * KINDS.len() + 20), names + side + FOOT);
    let mut svg = start(width, height, "The slowest path of each pair, from the row to the column");
    for (at, name) in matrix.names.iter().enumerate() {
        let (middle, left) = (names + at * CELL + CELL - 4, names - 6);
        let name = escape(&shortened(name));
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{middle}\" font-size=\"11\" text-anchor=\"end\" fill=\"#1f2328\">{name}</text>\n\
             <text x=\"{middle}\" y=\"{left}\" font-size=\"11\" fill=\"#1f2328\" transform=\"rotate(-90 {middle} {left})\">{name}</text>"
        );
    }
    for cell in &matrix.cells {
        let paths: Vec<&JobPath> =
            cell.paths.iter().filter_map(|at| communicator.paths.get(*at)).collect();
        let Some(slowest) = paths.iter().map(|path| kind(path)).max() else { continue };
        let (colour, _) = KINDS[slowest];
        let mut words: Vec<&str> = paths.iter().map(|path| path.transport.as_str()).collect();
        words.dedup();
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\" {EDGE}><title>{} to {}: {}</title></rect>",
            names + cell.to * CELL,
            names + cell.from * CELL,
            CELL - 1,
            CELL - 1,
            escape(&shortened(&matrix.names[cell.from])),
            escape(&shortened(&matrix.names[cell.to])),
            escape(&words.join(", ")),
        );
    }
    for (at, (colour, words)) in KINDS.iter().enumerate() {
        let (x, y) = (10 + at * ENTRY, names + side + 14);
        let (text, base) = (x + CELL + 4, y + CELL - 3);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{colour}\" {EDGE}/>\n\
             <text x=\"{text}\" y=\"{base}\" font-size=\"11\" fill=\"#1f2328\">{words}</text>"
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

fn shortened(name: &str) -> String {
    match name.chars().count() {
        ..=LONGEST => name.to_owned(),
        _ => name.chars().take(LONGEST - 1).chain(['\u{2026}']).collect(),
    }
}
