//! Verifies each copy kernel that this CPU supports: small sizes at many alignments, some large and odd sizes, both directions.

use gdrcopy::MappingType;
use gdrcopy::copy::{Copier, kernels};

use super::check::Verified;
use super::session::{Session, device_differs, pattern, wrong_at};
use crate::model::figure::validated;
use crate::probe::bytes::{compare, inverted};
use crate::probe::depth::Depth;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::UNTOUCHED;

/// Bytes for one small copy and its surroundings.
const SLOT: usize = 512;
/// Bytes of a slot before the copy at offset 0.
const BEFORE: usize = 64;
/// Sizes and device offsets in a slot.
fn small(depth: Depth) -> Vec<(usize, usize)> {
    let (sizes, offsets): (Vec<usize>, Vec<usize>) = match depth {
        Depth::Quick => (
            (1..=33).chain([63, 64, 65, 127, 128, 129, 192]).collect(),
            vec![0, 1, 2, 4, 8, 31, 63],
        ),
        Depth::Default | Depth::Full => {
            ((1..=192).collect(), (0..17).chain([31, 32, 33, 48, 63]).collect())
        }
    };
    sizes.iter().flat_map(|size| offsets.iter().map(move |offset| (*size, *offset))).collect()
}

/// Odd sizes, also above the thresholds from which on threads share a copy.
const LARGE: [(usize, usize); 3] = [(4095, 1), (65_537, 3), (1_048_589, 5)];

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let chosen = session.mapping.copier();
    // An uncached mapping has copy functions of its own.
    if session.mapping.mapping_type() == MappingType::Device {
        reporter.doing("copies to an uncached mapping")?;
        let name = validated(format_args!("kernel.{}", chosen.write_kernel()));
        let found = check(session)?.result(&session.about, &name, None);
        return Ok(reporter.result(found)?);
    }
    for kernel in kernels().iter().filter(|kernel| kernel.supported()) {
        let name = validated(format_args!("kernel.{}", kernel.name()));
        reporter.doing(format!("copy kernel {}", kernel.name()))?;
        let result =
            match Copier::with_kernels(kernel, kernel).map_err(StepError::from).and_then(|copier| {
                session.mapping.set_copier(copier)?;
                check(session)
            }) {
                Ok(verified) => verified.result(&session.about, &name, None),
                Err(StepError::Io(error)) => return Err(error.into()),
                Err(failure) => {
                    session.about.impossible(&name, None, false, gpu::sentence(&failure))
                }
            };
        session.mapping.set_copier(chosen)?;
        reporter.result(result)?;
    }
    Ok(())
}

fn check(session: &mut Session<'_>) -> Result<Verified, StepError> {
    let mut verified = 0;
    let slots = session.memory.len() / SLOT;
    let all = small(session.task.terms.depth);
    for cases in all.chunks(slots.clamp(1, 4096)) {
        match small_copies(session, cases)? {
            Verified::Right(bytes) => verified += bytes,
            wrong @ Verified::Wrong(_) => return Ok(wrong),
        }
    }
    let room = session.memory.len();
    for (size, offset) in LARGE {
        if BEFORE + offset + size + BEFORE > room {
            continue;
        }
        match large_copy(session, size, offset)? {
            Verified::Right(bytes) => verified += bytes,
            wrong @ Verified::Wrong(_) => return Ok(wrong),
        }
    }
    Ok(Verified::Right(verified))
}

/// Makes small copies to separate slots, then compares all slots and the bytes between them.
fn small_copies(
    session: &mut Session<'_>,
    cases: &[(usize, usize)],
) -> Result<Verified, StepError> {
    let source = pattern(5, SLOT);
    let mut image = vec![UNTOUCHED; cases.len() * SLOT];
    session.stream.fill(&session.memory, 0, image.len(), UNTOUCHED)?;
    session.stream.synchronize()?;
    for (slot, (size, offset)) in cases.iter().enumerate() {
        let at = slot * SLOT + BEFORE + offset;
        // The host's alignment varies independently.
        let host = slot % 17;
        session.mapping.write(at, &source[host..host + size])?;
        image[at..at + size].copy_from_slice(&source[host..host + size]);
    }
    if let Some(mismatch) = device_differs(&session.stream, &session.memory, 0, &image)? {
        let wrong = wrong_at(&session.memory, 0, &mismatch);
        return Ok(Verified::Wrong(format!("{wrong} ({})", case(cases, mismatch.at, "to"))));
    }
    let mut found = vec![UNTOUCHED; SLOT];
    let mut expected = vec![UNTOUCHED; SLOT];
    for (slot, (size, offset)) in cases.iter().enumerate() {
        let at = slot * SLOT + BEFORE + offset;
        let host = slot % 17;
        found.fill(UNTOUCHED);
        expected.fill(UNTOUCHED);
        session.mapping.read(at, &mut found[host..host + size])?;
        expected[host..host + size].copy_from_slice(&image[at..at + size]);
        if let Some(mismatch) = compare(&expected, &found) {
            let wrong = wrong_at(&session.memory, at - host, &mismatch);
            return Ok(Verified::Wrong(format!("{wrong} ({})", case(cases, slot * SLOT, "from"))));
        }
    }
    Ok(Verified::Right(2 * image.len()))
}

fn case(cases: &[(usize, usize)], at: usize, direction: &str) -> String {
    cases.get(at / SLOT).map_or_else(String::new, |(size, offset)| {
        format!(
            "a copy of {size} bytes {direction} an address {offset} bytes above a multiple of 64"
        )
    })
}

fn large_copy(
    session: &mut Session<'_>,
    size: usize,
    offset: usize,
) -> Result<Verified, StepError> {
    let Session { stream, memory, mapping, .. } = session;
    let source = pattern(6 + size as u64, size);
    // Overwrites the right bytes that an earlier kernel left, and marks the bytes around the copy.
    let offset = BEFORE + offset;
    let mut image = vec![UNTOUCHED; offset + size + BEFORE];
    stream.fill(memory, 0, image.len(), UNTOUCHED)?;
    stream.synchronize()?;
    image[offset..offset + size].copy_from_slice(&source);
    let wrong = |at: usize, mismatch, direction| {
        let wrong = wrong_at(memory, at, mismatch);
        Ok(Verified::Wrong(format!("{wrong} (a copy of {size} bytes {direction} offset {offset})")))
    };
    mapping.write(offset, &source)?;
    if let Some(mismatch) = device_differs(stream, memory, 0, &image)? {
        return wrong(0, &mismatch, "to");
    }
    let mut found = inverted(&source);
    mapping.read(offset, &mut found)?;
    if let Some(mismatch) = compare(&source, &found) {
        return wrong(offset, &mismatch, "from");
    }
    Ok(Verified::Right(image.len() + size))
}
