//! Verifies each kind of allocation with the checks of `check`, and small allocations that share a page.

use gpu::{Allocation, Kind};

use super::check::{BLOCK, Check, Outcome, Part, STORED, Verified};
use super::session::{Session, allowance, device_differs, map, pattern, wrong_at};
use crate::model::figure::validated;
use crate::probe::depth::Depth;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Allocations that share a page: size and count.
const NEIGHBOUR: usize = 512;
const NEIGHBOURS: u64 = 16;

/// A kind of memory to verify.
struct MemoryCase {
    name: &'static str,
    allocation: Allocation,
    sizes: Vec<usize>,
    /// The probe fails if this kind cannot be mapped.
    required: bool,
}

fn kinds(depth: Depth) -> Vec<MemoryCase> {
    let others: &[usize] = match depth {
        Depth::Quick => &[2 << 20],
        Depth::Default => &[2 << 20, 64 << 20],
        // CUDA exports memory of 512 MiB as several objects where GPUs have an NVLink fabric.
        Depth::Full => &[2 << 20, 64 << 20, 512 << 20],
    };
    let kind = |name, allocation, sizes: &[usize], required| MemoryCase {
        name,
        allocation,
        sizes: sizes.to_vec(),
        required,
    };
    let create = |exportable| Allocation::Create { exportable, rdma: true };
    vec![
        kind("malloc", Allocation::Malloc, depth.verified_sizes(), true),
        kind("create", create(false), others, true),
        kind("create-exportable", create(true), others, true),
        kind("pool", Allocation::Pool { exportable: false }, others, false),
        kind("pool-exportable", Allocation::Pool { exportable: true }, others, false),
    ]
}

/// Verifies the kinds of memory with these names.
pub fn run(
    session: &mut Session<'_>,
    names: &[&str],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let mut kinds = kinds(session.task.terms.depth);
    kinds.retain(|kind| names.contains(&kind.name));
    for kind in kinds {
        // Simulated memory is host memory, which may be scarce.
        let fits = |bytes: &&usize| **bytes <= BLOCK || !session.gpu.is_sim();
        for bytes in kind.sizes.iter().filter(fits) {
            match verify(session, &kind, *bytes, reporter) {
                Ok(()) => {}
                Err(StepError::Io(error)) => return Err(error.into()),
                Err(failure) => {
                    let name = validated(format_args!("{}.map", kind.name));
                    if is_beyond_backend(kind.allocation, &failure) {
                        let why = gpu::sentence(&failure);
                        reporter.result(session.about.not_measured(&name, *bytes, why))?;
                        continue;
                    }
                    let required = kind.required && !lacks_room(&failure);
                    reporter.result(session.about.impossible(
                        &name,
                        Some(*bytes),
                        required,
                        gpu::sentence(&failure),
                    ))?;
                }
            }
        }
    }
    Ok(())
}

/// True if the backend cannot map this kind of memory on any machine.
fn is_beyond_backend(allocation: Allocation, failure: &StepError) -> bool {
    matches!(allocation, Allocation::Pool { exportable: false })
        && matches!(failure, StepError::Map(gdrcopy::Error::Memory { .. }))
}

/// True if other processes use the GPU's memory, or if its BAR1 is smaller than the mapping.
fn lacks_room(failure: &StepError) -> bool {
    match failure {
        StepError::Gpu(error) => error.kind() == Kind::OutOfMemory,
        StepError::Map(error) => matches!(error, gdrcopy::Error::Bar1 { .. }),
        _ => false,
    }
}

pub fn run_neighbours(
    session: &mut Session<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing("small allocations that share a page")?;
    let name = &validated("malloc.neighbours");
    let result = match neighbours(session) {
        Ok(found) => found.result(&session.about, name, Some(NEIGHBOUR)),
        Err(failure) => {
            session.about.impossible(name, Some(NEIGHBOUR), true, gpu::sentence(&failure))
        }
    };
    Ok(reporter.result(result)?)
}

/// Small allocations share a page: a write to one must not change the others.
fn neighbours(session: &Session<'_>) -> Outcome {
    let mut all = Vec::new();
    for number in 0..NEIGHBOURS {
        let memory = session.gpu.allocate(Allocation::Malloc, NEIGHBOUR)?;
        session.stream.write(&memory, 0, &pattern(number, NEIGHBOUR))?;
        all.push(memory);
    }
    let odd = |number: usize| number % 2 == 1;
    for (number, memory) in all.iter().enumerate().filter(|(number, _)| odd(*number)) {
        map(&session.gdr, memory)?.write(0, &pattern(NEIGHBOURS + number as u64, NEIGHBOUR))?;
    }
    for (number, memory) in all.iter().enumerate() {
        let seed = number as u64 + if odd(number) { NEIGHBOURS } else { 0 };
        if let Some(mismatch) =
            device_differs(&session.stream, memory, 0, &pattern(seed, NEIGHBOUR))?
        {
            let wrong = wrong_at(memory, 0, &mismatch);
            return Ok(Verified::Wrong(format!(
                "{wrong} (allocation {number} of {NEIGHBOURS}, every other one written)"
            )));
        }
    }
    Ok(Verified::Right(all.len() * NEIGHBOUR))
}

/// Runs all checks on one allocation and its mapping.
fn verify(
    session: &Session<'_>,
    kind: &MemoryCase,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let step = |what: &str| format!("{what} of {bytes} bytes ({})", kind.allocation);
    reporter.doing(step("an allocation"))?;
    let memory = session.gpu.allocate(kind.allocation, bytes)?;
    reporter.doing(step("a mapping"))?;
    let mut mapping = map(&session.gdr, &memory)?;
    let mut check = Check { session, memory: &memory, mapping: &mut mapping, reporter };
    let about = &session.about;
    for part in Part::ALL {
        let name = part.name();
        let allowed = allowance(bytes.clamp(STORED, BLOCK));
        check.reporter.doing_for(step(&format!("check {name}")), allowed)?;
        let found = check.run(part)?;
        let name = validated(format_args!("{}.{name}", kind.name));
        check.reporter.result(found.result(about, &name, Some(bytes)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bar1_is_no_failure() {
        let small = gdrcopy::Error::Bar1 { wanted: 512 << 20, mapped: 0, limit: 240 << 20 };
        assert!(lacks_room(&small.into()));
        let invalid = gdrcopy::Error::Address { address: gpu::DevicePtr::new(8) };
        assert!(!lacks_room(&invalid.into()));
    }
}
