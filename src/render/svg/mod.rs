//! The PCI tree as an SVG drawing, from facts and topology only; equal machines give equal bytes.
//!
//! Only branches with a row of the topology are drawn. `tree` and `nets` select the content, `measure`, `decks`,
//! `layout`, `place` and `lanes` place it, and `draw` writes it.

mod acs;
mod card;
mod chart;
mod decks;
mod draw;
mod escape;
mod lanes;
mod layout;
mod legend;
mod measure;
mod nets;
mod place;
mod scene;
mod text;
mod tree;

#[cfg(test)]
mod machines;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use chart::{Chart, ChartLine, Stroke, chart};
pub(in crate::render) use draw::start;
pub(in crate::render) use escape::escape;

use crate::model::{Fact, Facts, Ids};
use crate::topo::Topology;

use card::Cards;
use layout::Layout;
use nets::Nets;
use scene::{Ink, Scene};
use text::Type;
use tree::Sources;

const MARGIN: i32 = 28;
const MIN_WIDTH: i32 = 720;

/// Draws a machine as an SVG document.
///
/// `names` returns the name of a device by vendor and device id; empty text omits it. Names may contain any
/// characters.
pub fn svg(facts: &Facts, topology: &Topology<'_>, names: &dyn Fn(&Ids) -> String) -> String {
    let title = match &facts.host.name {
        Some(name) => format!("GPUDirect topology of {name}"),
        None => "GPUDirect topology".to_owned(),
    };
    draw::document(&scene(facts, topology, names), &title)
}

fn scene(facts: &Facts, topology: &Topology<'_>, names: &dyn Fn(&Ids) -> String) -> Scene {
    let acs = acs::find(topology);
    let sources = Sources { facts, topology, forest: &topology.forest, acs: &acs, names };
    let omission = topology.omission().filter(|_| !topology.has_all_pairs());
    let (groups, nets) = match &omission {
        None => (sources.groups(), nets::nets(topology)),
        Some(_) => (Vec::new(), Nets::default()),
    };
    let cards = Cards::new(facts, topology, names, &nets.drawn);
    let mut layout = Layout::new(&cards, &nets.drawn);

    let width = legend::head(&mut layout.scene, facts, topology, MARGIN).max(MIN_WIDTH);
    let (right, bottom) = if groups.is_empty() {
        nothing(&mut layout.scene, facts, omission.as_deref())
    } else {
        layout.groups(&groups, MARGIN, legend::HEAD, width)
    };
    let mut scene = layout.scene;
    let right = right.max(MARGIN + width);
    let page = legend::Page {
        facts,
        topology,
        groups: &groups,
        nets: &nets,
        acs: &acs,
        undrawn: sources.undrawn(),
    };
    let bottom = match omission {
        None => legend::legend(&mut scene, &page, MARGIN, bottom, right - MARGIN),
        Some(_) => bottom,
    };
    scene.width = right + MARGIN;
    scene.height = bottom + MARGIN / 2;
    scene
}

/// The drawing of a machine without rows or with too many.
fn nothing(scene: &mut Scene, facts: &Facts, omission: Option<&str>) -> (i32, i32) {
    let text = match (&facts.pci, omission) {
        (_, Some(omission)) => {
            let hint =
                "gdr topo and gdr topo --format json show the devices and their nearest partners.";
            scene.write(
                MARGIN,
                legend::HEAD + 60,
                Type::plain(13),
                Ink::Text,
                format!("{omission}."),
            );
            scene.write(MARGIN, legend::HEAD + 82, Type::plain(13), Ink::Grey, hint);
            "There are too many devices to draw.".to_owned()
        }
        (Fact::Known(_), None) => "No GPU and no RDMA device was found.".to_owned(),
        (Fact::Unknown(why), None) => format!("The PCI devices are unknown: {}.", why.phrase()),
    };
    scene.write(MARGIN, legend::HEAD + 34, Type::plain(16), Ink::Text, text);
    (0, legend::HEAD + if omission.is_some() { 96 } else { 60 })
}
