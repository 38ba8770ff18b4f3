//! Access to a second GPU: kernels are refused without it, work in a stream keeps it, and its last
//! holder turns it off.

use gpu::{Allocation, Error, Gpu, Kind, Pattern};

use crate::{Outcome, Report, ensure};

/// The other GPU of the machine to try this one with, or a second simulated one; `None` where there
/// is none.
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
    report.trial(format_args!("GPUs {names}: kernels without access"), || {
        refused(near, far)
    })?;
    if !(near.can_access(far)? && far.can_access(near)?) {
        report.say(format_args!("no    GPUs {names} cannot access each other"))?;
        return Ok(());
    }
    let both = (near.access(far)?, far.access(near)?);
    report.trial("a stream holds the access its work needs", || {
        held(near, far)
    })?;
    drop(both);
    report.trial("kernels after access", || refused(near, far))?;
    report.trial("access, on and off", || {
        let start = std::time::Instant::now();
        let access = near.access(far)?;
        let on = start.elapsed();
        drop(access);
        Ok(format!("on in {on:?}, off in {:?}", start.elapsed() - on))
    })?;
    Ok(())
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
