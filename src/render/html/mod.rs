//! Reports as one HTML page each, for people who get them by mail: nothing is loaded, nothing runs.

mod comparison;
mod diff;
mod doctor;
mod explain;
mod fleet;
mod heat;
mod history;
mod page;
mod probe;
mod ranks;
mod topo;

pub use diff::diff;
pub use doctor::doctor;
pub use explain::explain;
pub use fleet::fleet;
pub use history::history;
pub use probe::probe;
pub use topo::topo;

use page::Page;

use crate::model::Host;

/// By what and when a page was made.
fn made(taken: &str) -> String {
    format!("Made by gdr {} at {taken}.", env!("CARGO_PKG_VERSION"))
}

/// The machine on one line.
fn machine(host: &Host) -> String {
    let parts = [&host.os, &host.kernel, &host.cpu].into_iter().flatten();
    let parts: Vec<&str> = parts.map(String::as_str).collect();
    let recorded = host.recording();
    let recorded = recorded.map_or_else(String::new, |source| format!(" (recorded: {source})"));
    format!("{}{recorded}", parts.join(", "))
}

fn name(host: &Host) -> &str {
    host.name.as_deref().unwrap_or("unnamed machine")
}

/// The facts about a machine.
fn facts(page: &mut Page, host: &Host) {
    page.section("Machine");
    let text = |text: &Option<String>| text.clone();
    let facts = [
        ("name", text(&host.name)),
        ("system", text(&host.os)),
        ("kernel", text(&host.kernel)),
        ("CPU", text(&host.cpu)),
        ("CPUs", host.cpus.map(|cpus| cpus.to_string())),
        ("memory", host.memory.map(|bytes| format!("{} GiB", (bytes + (1 << 29)) >> 30))),
        ("source", Some(host.source.clone())),
        ("recorded", text(&host.recorded)),
    ];
    page.facts(facts.into_iter().filter_map(|(name, value)| Some((name, value?))));
}
