//! Properties of pins and mappings: ranges within pages, several mappings, threads, attributes, PCI Express on request.

use gdrcopy::{Attribute, BackendKind, MapRequest, Mapping, PinFlags};
use gpu::{Allocation, DeviceMemory};

use super::check::{Outcome, Verified};
use super::session::{Session, device_differs, map, pattern, wrong_at};
use crate::model::figure::validated;
use crate::probe::bytes::{compare, inverted};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::UNTOUCHED;

/// Bytes of a buffer: several GPU pages.
const BYTES: usize = 256 << 10;
/// A GPU page.
const PAGE: usize = 64 << 10;

/// Reports what a check found, or why it could not run.
fn report(
    session: &Session<'_>,
    name: &str,
    found: Outcome,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let name = validated(name);
    let about = &session.about;
    let result = match found {
        Ok(found) => found.result(about, &name, Some(BYTES)),
        Err(StepError::Io(error)) => return Err(error.into()),
        Err(failure) => about.impossible(&name, Some(BYTES), true, gpu::sentence(&failure)),
    };
    Ok(reporter.result(result)?)
}

fn allocate(session: &Session<'_>) -> Result<DeviceMemory, StepError> {
    let memory = session.gpu.allocate(Allocation::Malloc, BYTES)?;
    session.stream.fill(&memory, 0, BYTES, UNTOUCHED)?;
    session.stream.synchronize()?;
    Ok(memory)
}

/// Compares device memory, read by the copy engine.
fn verify(session: &Session<'_>, memory: &DeviceMemory, expected: &[u8]) -> Outcome {
    Ok(match device_differs(&session.stream, memory, 0, expected)? {
        Some(mismatch) => Verified::Wrong(wrong_at(memory, 0, &mismatch)),
        None => Verified::Right(expected.len()),
    })
}

/// Compares device memory, read through a mapping of all of it.
fn verify_mapping(memory: &DeviceMemory, mapping: &Mapping, expected: &[u8]) -> Outcome {
    let mut found = inverted(expected);
    mapping.read(0, &mut found)?;
    Ok(match compare(expected, &found) {
        Some(mismatch) => Verified::Wrong(wrong_at(memory, 0, &mismatch)),
        None => Verified::Right(expected.len()),
    })
}

/// The first wrong outcome, or the sum of the right ones.
fn all(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut verified = 0;
    for outcome in outcomes {
        match outcome? {
            Verified::Right(bytes) => verified += bytes,
            wrong @ Verified::Wrong(_) => return Ok(wrong),
        }
    }
    Ok(Verified::Right(verified))
}

pub fn unaligned(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("mappings that begin and end within pages")?;
    let ranges = [(1, 1), (4, PAGE), (PAGE - 1, 2), (PAGE + 4097, PAGE), (3 * PAGE - 3, PAGE + 3)];
    let run = |(start, length): (usize, usize)| {
        let memory = allocate(session)?;
        let pin = session.gdr.pin(&memory, start..start + length, PinFlags::default())?;
        let mut mapping = pin.map(MapRequest::Default)?;
        let mut image = vec![UNTOUCHED; BYTES];
        image[start..start + length].copy_from_slice(&pattern(start as u64, length));
        mapping.write(0, &image[start..start + length])?;
        let written = verify(session, &memory, &image);
        let mut found = inverted(&image[start..start + length]);
        mapping.read(0, &mut found)?;
        let read = match compare(&image[start..start + length], &found) {
            Some(mismatch) => Verified::Wrong(wrong_at(&memory, start, &mismatch)),
            None => Verified::Right(length),
        };
        all([written, Ok(read)])
    };
    let found = all(ranges.into_iter().map(run));
    report(session, "unaligned", found, reporter)
}

pub fn mixed_mappings(
    session: &mut Session<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing("two mappings of the same memory")?;
    let run = || {
        let memory = allocate(session)?;
        let (mut first, mut second) = (map(&session.gdr, &memory)?, map(&session.gdr, &memory)?);
        let (one, two) = (pattern(21, BYTES), pattern(22, BYTES));
        first.write(0, &one)?;
        let through_second = verify_mapping(&memory, &second, &one);
        second.write(0, &two)?;
        let through_first = verify_mapping(&memory, &first, &two);
        all([through_second, through_first, verify(session, &memory, &two)])
    };
    let found = run();
    report(session, "mixed-mappings", found, reporter)
}

pub fn two_mappings(
    session: &mut Session<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.doing("two allocations, one of them freed")?;
    let run = || {
        let (freed, kept) = (allocate(session)?, allocate(session)?);
        let mut first = map(&session.gdr, &freed)?;
        let mut second = map(&session.gdr, &kept)?;
        let (one, two) = (pattern(23, BYTES), pattern(24, BYTES));
        first.write(0, &one)?;
        second.write(0, &two)?;
        let before = all([verify(session, &freed, &one), verify(session, &kept, &two)]);
        drop(first);
        freed.free()?;
        let three = pattern(25, BYTES);
        let read = verify_mapping(&kept, &second, &two);
        second.write(0, &three)?;
        all([before, read, verify(session, &kept, &three)])
    };
    let found = run();
    report(session, "two-mappings", found, reporter)
}

pub fn thread(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("a pin of another thread")?;
    let run = || {
        let memory = allocate(session)?;
        let gdr = &session.gdr;
        let pinned = std::thread::scope(|scope| {
            let pin = || gdr.pin(&memory, 0..BYTES, PinFlags::default());
            scope.spawn(pin).join()
        });
        let Ok(pin) = pinned else {
            return Ok(Verified::Wrong("the thread that pins panicked".to_owned()));
        };
        let mut mapping = pin?.map(MapRequest::Default)?;
        let bytes = pattern(26, BYTES);
        mapping.write(0, &bytes)?;
        all([verify(session, &memory, &bytes), verify_mapping(&memory, &mapping, &bytes)])
    };
    let found = run();
    report(session, "thread", found, reporter)
}

pub fn attributes(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("attributes of the backend")?;
    let (gdr, kind) = (&session.gdr, session.gdr.backend());
    let without_gdrdrv = i32::from(kind != BackendKind::Gdrdrv);
    let wrong = [
        (Attribute::PersistentMapping, &[0, 1][..]),
        (Attribute::ForcePcie, &[0, 1][..]),
        (Attribute::UsingDmaBuf, &[without_gdrdrv][..]),
    ]
    .into_iter()
    .find(|(attribute, allowed)| !allowed.contains(&gdr.attribute(*attribute)))
    .map(|(attribute, allowed)| {
        let value = gdr.attribute(attribute);
        format!(
            "backend {kind}: attribute {attribute:?} is {value} and should be one of {allowed:?}"
        )
    });
    let name = &validated("attributes");
    let result = session.about.right(name, None, 0);
    Ok(reporter.result(session.about.checked(result, wrong))?)
}

pub fn force_pcie(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("a mapping over PCI Express")?;
    let run = || {
        let memory = allocate(session)?;
        let flags = PinFlags { force_pcie: true };
        let pin = session.gdr.pin(&memory, 0..BYTES, flags);
        let pin = pin.map_err(|error| no_force_pcie(session.gdr.backend(), &error))?;
        let mut mapping = pin.map(MapRequest::Default)?;
        let bytes = pattern(27, BYTES);
        mapping.write(0, &bytes)?;
        all([verify(session, &memory, &bytes), verify_mapping(&memory, &mapping, &bytes)])
    };
    let found = run();
    report(session, "force-pcie", found, reporter)
}

/// Why a backend pins no memory with this flag, and what to use.
fn no_force_pcie(backend: BackendKind, error: &gdrcopy::Error) -> StepError {
    let is_flag = matches!(error, gdrcopy::Error::Flag { .. });
    let why = match backend {
        BackendKind::Gdrdrv if is_flag => {
            "this gdrdrv is older than 2.5: update it, or use --backend dmabuf".to_owned()
        }
        BackendKind::Rm => {
            "it maps over PCI Express in any case; to choose on a GPU with NVLink-C2C, use --backend gdrdrv or dmabuf"
                .to_owned()
        }
        BackendKind::Sim => "simulated memory is behind no PCI Express".to_owned(),
        BackendKind::Gdrdrv | BackendKind::DmaBuf => {
            format!("{}; only GPUs with NVLink-C2C need it", gpu::sentence(error))
        }
    };
    StepError::Option(format!("backend {backend} does not map with GDR_PIN_FLAG_FORCE_PCIE: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejection_of_force_pcie_names_backend() {
        let flag = |backend| gdrcopy::Error::Flag { what: "PinFlags::force_pcie", backend };
        let lost = gdrcopy::Error::GpuLost { sign: "all bits are set" };
        for (backend, error, words) in [
            (
                BackendKind::Rm,
                flag(BackendKind::Rm),
                "over PCI Express in any case; to choose on a GPU with NVLink-C2C, use --backend gdrdrv",
            ),
            (
                BackendKind::Gdrdrv,
                flag(BackendKind::Gdrdrv),
                "older than 2.5: update it, or use --backend dmabuf",
            ),
            (BackendKind::Gdrdrv, lost, "the GPU is lost: all bits are set"),
            (BackendKind::Sim, flag(BackendKind::Sim), "simulated"),
        ] {
            let message = no_force_pcie(backend, &error).to_string();
            assert!(
                message.starts_with(&format!(
                    "backend {backend} does not map with GDR_PIN_FLAG_FORCE_PCIE: "
                )) && message.contains(words),
                "{message}"
            );
        }
    }
}
