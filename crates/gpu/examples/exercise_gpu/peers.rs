//! Two GPUs: copies with and without access, the kernels over each other's memory, and that access is off when nobody holds it.

use gpu::{Allocation, Error, Gpu, Kind, Pattern};

use crate::kernels::{self, best};
use crate::{Outcome, Report, ensure};

const BYTES: usize = 64 << 20;

/// The other GPU of the machine to try this one with, or a second simulated one; `None` where there is none.
pub fn other(gpu: &Gpu) -> Outcome<Option<Gpu>> {
    if gpu.is_sim() {
        return Ok(Some(Gpu::sim()));
    }
    let mut devices = gpu::devices()?.into_iter();
    let another = devices.find(|device| device.ordinal != gpu.device().ordinal);
    Ok(another
        .map(|device| Gpu::open(device.ordinal))
        .transpose()?)
}

pub fn run(report: &mut Report, near: &Gpu, far: &Gpu) -> Outcome<()> {
    far.load_kernels()?;
    let names = format!("{} and {}", near.device().ordinal, far.device().ordinal);
    report.trial(format_args!("GPUs {names}: copies without access"), || {
        copies(near, far)
    })?;
    report.trial(format_args!("GPUs {names}: kernels without access"), || {
        refused(near, far)
    })?;
    if !(near.can_access(far)? && far.can_access(near)?) {
        report.say(format_args!("no    GPUs {names} cannot access each other"))?;
        return Ok(());
    }
    let both = (near.access(far)?, far.access(near)?);
    report.trial(format_args!("GPUs {names}: copies with access"), || {
        copies(near, far)
    })?;
    for (name, reader, owner) in [("near", near, far), ("far", far, near)] {
        let stream = reader.stream()?;
        for bytes in kernels::SIZES {
            report.trial(
                format_args!("copy_words, pulled by the {name}, {bytes} bytes"),
                || {
                    let from = owner.allocate(Allocation::Malloc, bytes)?;
                    let to = reader.allocate(Allocation::Malloc, bytes + 8192)?;
                    kernels::words(&stream, &to, &from)
                },
            )?;
            report.trial(
                format_args!("copy_words, pushed by the {name}, {bytes} bytes"),
                || {
                    let from = reader.allocate(Allocation::Malloc, bytes)?;
                    let to = owner.allocate(Allocation::Malloc, bytes + 8192)?;
                    kernels::words(&stream, &to, &from)
                },
            )?;
        }
        report.trial(
            format_args!("chase by the {name}, 2 MiB of the other"),
            || kernels::chase(&stream, &owner.allocate(Allocation::Malloc, 2 << 20)?),
        )?;
    }
    report.trial("ping and ping-pong between the two", || {
        let words = (
            near.allocate(Allocation::Malloc, 4)?,
            far.allocate(Allocation::Malloc, 4)?,
        );
        kernels::ping(&near.stream()?, &far.stream()?, &words.0, &words.1)
    })?;
    report.trial("a stream holds the access its work needs", || {
        held(near, far)
    })?;
    drop(both);
    report.trial("kernels after access", || refused(near, far))?;
    report.trial("copies after access", || copies(near, far))?;
    report.trial("access, on and off", || {
        let start = std::time::Instant::now();
        let access = near.access(far)?;
        let on = start.elapsed();
        drop(access);
        Ok(format!("on in {on:?}, off in {:?}", start.elapsed() - on))
    })?;
    Ok(())
}

/// Both ways, by a stream of each; the copy engine of the GPU that has it, and the CPU, look at every byte.
fn copies(near: &Gpu, far: &Gpu) -> Outcome {
    let mut words = Vec::new();
    for (seed, (from_gpu, to_gpu)) in [(near, far), (far, near)].into_iter().enumerate() {
        let (from, to) = (
            from_gpu.allocate(Allocation::Malloc, BYTES)?,
            to_gpu.allocate(Allocation::Malloc, BYTES)?,
        );
        let (source, target) = (from_gpu.stream()?, to_gpu.stream()?);
        let mut seen = vec![0; BYTES];
        for (round, stream) in [&source, &target].into_iter().enumerate() {
            let pattern = Pattern::new((seed * 2 + round) as u64);
            source.fill_pattern(&from, 0, BYTES, pattern, 0)?;
            source.synchronize()?;
            target.fill(&to, 0, BYTES, 0)?;
            target.synchronize()?;
            words.push(best(stream, BYTES, || {
                Ok(stream.copy(&to, 0, &from, 0, BYTES)?)
            })?);
            target.read(&to, 0, &mut seen)?;
            let difference = pattern.first_difference(&seen, 0);
            ensure(
                difference.is_none(),
                format!("a wrong byte at {difference:?}"),
            )?;
        }
    }
    Ok(words.join("; "))
}

fn refused(near: &Gpu, far: &Gpu) -> Outcome {
    let (to, from) = (
        near.allocate(Allocation::Malloc, 64)?,
        far.allocate(Allocation::Malloc, 64)?,
    );
    let stream = near.stream()?;
    match stream.copy_words(&to, 0, &from, 0, 64) {
        Err(error @ Error::Peer { .. }) if error.kind() == Kind::Invalid => {}
        outcome => return Err(format!("it was not refused: {outcome:?}").into()),
    }
    // And the context is none the worse for it.
    stream.copy_words(&to, 0, &to, 32, 32)?;
    stream.synchronize()?;
    Ok(String::new())
}

fn held(near: &Gpu, far: &Gpu) -> Outcome {
    let bytes = 1 << 20;
    let (to, from) = (
        near.allocate(Allocation::Malloc, bytes)?,
        far.allocate(Allocation::Malloc, bytes)?,
    );
    let pattern = Pattern::new(77);
    let source = far.stream()?;
    source.fill_pattern(&from, 0, bytes, pattern, 0)?;
    source.synchronize()?;
    let (stream, gate) = (near.stream()?, near.pinned(4)?);
    let access = near.access(far)?;
    stream.hold(&gate, std::time::Duration::from_secs(5))?;
    stream.copy_words(&to, 0, &from, 0, bytes)?;
    drop(access);
    gate.store_u32(0, 1)?;
    stream.synchronize()?;
    let mut seen = vec![0; bytes];
    stream.read(&to, 0, &mut seen)?;
    let difference = pattern.first_difference(&seen, 0);
    ensure(
        difference.is_none(),
        format!("a wrong byte at {difference:?}"),
    )?;
    Ok(String::new())
}
