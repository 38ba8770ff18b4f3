//! What the documents of a node say of it beside its findings and figures. A fact is a row here: nodes are compared by it, and the table of
//! actions may show it.

use super::document::{Host, Part};
use crate::model::NodeAction;

/// A fact of a node.
#[derive(Debug)]
pub(super) struct NodeFact {
    pub name: &'static str,
    pub of: fn(&Part<'_>) -> Option<String>,
    /// The field that has a column in the table of actions.
    pub field: Option<Field>,
}

pub(super) type Field = fn(&mut NodeAction) -> &mut Option<String>;

pub(super) const NODE_FACTS: &[NodeFact] = &[
    fact("system", |part| host(part)?.os.as_deref().map(str::to_owned)),
    fact("kernel", |part| host(part)?.kernel.as_deref().map(str::to_owned)),
    fact("CPU", |part| host(part)?.cpu.as_deref().map(str::to_owned)),
    fact("CPUs", |part| host(part)?.cpus.map(|count| count.to_string())),
    // Equal machines differ by a few MiB.
    fact("memory, GiB", |part| {
        Some((host(part)?.memory?.saturating_add(1 << 29) >> 30).to_string())
    }),
];

/// A fact without a column.
const fn fact(name: &'static str, of: fn(&Part<'_>) -> Option<String>) -> NodeFact {
    NodeFact { name, of, field: None }
}

fn host<'p>(part: &'p Part<'_>) -> Option<&'p Host<'p>> {
    match part {
        Part::Host(host) => Some(host),
        _ => None,
    }
}
