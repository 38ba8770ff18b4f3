//! Each size in both directions: through the mapping, and by cuMemcpy with pinned and pageable memory.

use super::session::{Session, pattern};
use super::{engine, mapped};
use crate::model::figure::Direction;
use crate::model::figure::copy::WAYS;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Copies through the mapping and by cuMemcpy; from other NUMA nodes through the mapping alone.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let with_engine = !session.task.sweep_only;
    sweep(session, with_engine, reporter)
}

/// Copies through the mapping.
pub fn mapping(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    sweep(session, false, reporter)
}

fn sweep(
    session: &mut Session<'_>,
    with_engine: bool,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let sizes = session.sizes.clone();
    let ways = if with_engine { WAYS.len() } else { 1 };
    reporter.expect_more((sizes.len() * ways * Direction::BOTH.len()) as u64);
    let host = if with_engine {
        engine::host_memory(session, sizes.last().copied().unwrap_or(1), reporter)?
    } else {
        None
    };
    for bytes in sizes {
        // A new pattern for each size, so that data of an earlier size is wrong.
        let source = pattern(2 * bytes as u64 + 1000, bytes);
        mapped::run(session, &source, reporter)?;
        if with_engine {
            engine::run(session, host.as_ref(), &source, reporter)?;
        }
    }
    Ok(())
}
