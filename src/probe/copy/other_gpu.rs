//! Memory of one GPU, pinned and mapped while the context of another GPU is current.

use gpu::{Allocation, Gpu};

use super::check::{Outcome, Verified};
use super::session::{Session, device_differs, map, pattern, wrong_at};
use crate::model::figure::validated;
use crate::probe::bytes::{compare, inverted};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

const BYTES: usize = 256 << 10;

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("memory of one GPU in the context of another")?;
    let (about, name) = (&session.about, &validated("other-gpu"));
    let result = match both_ways(session) {
        Ok(Some(found)) => found.result(about, name, Some(BYTES)),
        Ok(None) => about.not_measured(name, BYTES, ONE_GPU.to_owned()),
        Err(StepError::Io(error)) => return Err(error.into()),
        Err(failure) => about.impossible(name, Some(BYTES), true, gpu::sentence(&failure)),
    };
    Ok(reporter.result(result)?)
}

const ONE_GPU: &str =
    "skipped: it needs two GPUs, and CUDA shows this process one: see CUDA_VISIBLE_DEVICES";

/// Each of the two GPUs owns the memory once; `None` without a second GPU.
fn both_ways(session: &Session<'_>) -> Result<Option<Verified>, StepError> {
    let Some(other) = other(session)? else {
        return Ok(None);
    };
    let here = mapped_under(session, &session.gpu, &other)?;
    let there = mapped_under(session, &other, &session.gpu)?;
    Ok(Some(match (here, there) {
        (Verified::Right(here), Verified::Right(there)) => Verified::Right(here + there),
        (wrong @ Verified::Wrong(_), _) | (_, wrong) => wrong,
    }))
}

/// Another GPU of this process.
fn other(session: &Session<'_>) -> Result<Option<Gpu>, StepError> {
    let Some(own) = session.task.target.ordinal else {
        return Ok(Some(Gpu::sim()));
    };
    let devices = gpu::devices()?;
    let other = devices.iter().find(|device| device.ordinal != own);
    Ok(other.map(|device| Gpu::open(device.ordinal)).transpose()?)
}

/// Pins, maps and copies memory of `owner` while the context of `current` is current.
fn mapped_under(session: &Session<'_>, owner: &Gpu, current: &Gpu) -> Outcome {
    let memory = owner.allocate(Allocation::Malloc, BYTES)?;
    let bytes = pattern(31, BYTES);
    let copy = || -> Result<Vec<u8>, StepError> {
        let mut mapping = map(&session.gdr, &memory)?;
        mapping.write(0, &bytes)?;
        let mut found = inverted(&bytes);
        mapping.read(0, &mut found)?;
        Ok(found)
    };
    let found = current.with_current(copy)??;
    let engine = device_differs(&owner.stream()?, &memory, 0, &bytes)?;
    Ok(match engine.or_else(|| compare(&bytes, &found)) {
        Some(mismatch) => Verified::Wrong(format!(
            "{} (memory of {}, mapped in the context of another GPU)",
            wrong_at(&memory, 0, &mismatch),
            owner.device().name
        )),
        None => Verified::Right(2 * BYTES),
    })
}
