//! How a machine or a fleet differs from an earlier report, in a page.

use super::page::{Page, mark, text};
use crate::model::Comparison;
use crate::render::comparison::{headline, sentence, tone};

/// The nodes are named if there are several.
pub fn comparison(page: &mut Page, comparison: &Comparison, with_nodes: bool) {
    page.section("What changed");
    page.paragraph(&headline(comparison));
    if !comparison.is_equal() {
        let rows = comparison.differences.iter().map(|difference| {
            let kind = mark(tone(difference.kind), difference.kind.word());
            vec![kind, text(&sentence(difference, with_nodes))]
        });
        page.table("Differences from the earlier report", &["kind", "difference"], rows);
    }
    for note in &comparison.notes {
        page.paragraph(note);
    }
}
