//! Containers, in which files of the machine may be missing.

use super::Ctx;
use crate::model::Why;

/// True if this process is known to be in a container.
pub fn in_container(ctx: &Ctx<'_>) -> bool {
    let marks = ctx.facts.platform.container_marks.known();
    marks.is_some_and(|marks| marks.iter().any(|mark| mark.starts_with("namespace ")))
}

/// What would provide an absent file of /proc or /sys: a run outside of the container, or `machine`. `None` for a recorded
/// machine, whose snapshot may lack the file.
pub fn needs_for_absent<'n>(ctx: &Ctx<'_>, why: Why, machine: &'n str) -> Option<&'n str> {
    match why {
        Why::NotCovered if in_container(ctx) => Some("gdr doctor outside of the container"),
        Why::NotCovered if ctx.facts.host.origin() == "live" => Some(machine),
        _ => None,
    }
}
