//! The topology as a page.

use super::page::{Page, mark, text};
use super::{facts, machine, made, name};
use crate::model::Kind;
use crate::render::View;
use crate::render::text::Tone;

/// `drawing` is the topology as SVG.
pub fn topo(view: &View<'_>, drawing: &str, taken: &str) -> String {
    let host = &view.facts.host;
    let mut page = Page::new(&format!("Topology of {}", name(host)), &machine(host));
    let rows = &view.topology.rows;
    let count = |kind| rows.iter().filter(|row| row.kind == kind).count();
    page.remark(&format!(
        "{} GPUs, {} NICs, {} NVMe controllers",
        count(Kind::Gpu),
        count(Kind::Nic),
        count(Kind::Nvme)
    ));
    page.section("Drawing");
    page.drawing("Drawing of the PCI tree", drawing);
    page.section("Best partners");
    if view.has_no_nic() {
        page.paragraph("There is no RDMA device: no GPU has a NIC.");
    } else {
        partners(&mut page, view);
    }
    page.section("Paths");
    if let Some(omission) = view.topology.omission().filter(|_| !view.topology.has_all_pairs()) {
        page.paragraph(&format!("No matrix: {omission}."));
    } else {
        matrix(&mut page, view);
    }
    page.section("Devices");
    let devices = rows.iter().map(|row| {
        let numa = row.numa.present().map_or("none".to_owned(), u32::to_string);
        let bdf = row.bdf.map_or("none".to_owned(), |bdf| bdf.to_string());
        vec![text(&row.name), text(&view.label(row)), text(&bdf), text(&numa)]
    });
    page.table(
        "GPUs, NICs and NVMe controllers",
        &["device", "name", "PCI address", "NUMA node"],
        devices,
    );
    facts(&mut page, host);
    page.finish(&made(taken))
}

fn partners(page: &mut Page, view: &View<'_>) {
    let rows = &view.topology.rows;
    let matches = view.topology.matches.iter().map(|found| {
        let partner = found.pick.map_or("none", |pick| rows[pick].name.as_str());
        vec![
            text(&rows[found.row].name),
            text(partner),
            mark(Tone::of_verdict(found.verdict), found.verdict.phrase()),
            text(&found.reason),
            text(found.advice.as_deref().unwrap_or("")),
        ]
    });
    page.table(
        "The nearest NIC of each GPU, and the nearest GPU of each NIC",
        &["device", "partner", "rating", "reason", "advice"],
        matches,
    );
}

fn matrix(page: &mut Page, view: &View<'_>) {
    let rows = &view.topology.rows;
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let headings: Vec<&str> = std::iter::once("from").chain(names.iter().copied()).collect();
    let cells = rows.iter().enumerate().map(|(a, row)| {
        let cell = |b| {
            if a == b {
                return "X".to_owned();
            }
            let word = view.cell(a, b).map_or("?".to_owned(), |cell| cell.to_string());
            match view.tone(a, b) {
                Some(tone) => mark(tone, &word),
                None => text(&word),
            }
        };
        std::iter::once(text(&row.name)).chain((0..rows.len()).map(cell)).collect()
    });
    page.table(
        "How each pair is connected: NVLinks, or the class of the PCI path",
        &headings,
        cells,
    );
    page.paragraph(
        "PIX: at most one PCIe bridge. PXB: several bridges. PHB: through one host bridge. NODE: between host bridges of one NUMA node. \
         SYS: across the interconnect between NUMA nodes. NV#: that many NVLinks.",
    );
}
