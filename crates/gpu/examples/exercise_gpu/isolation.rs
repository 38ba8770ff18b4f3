//! The crate leaves a thread's context and a capture in progress alone, and nothing hangs.

use std::time::{Duration, Instant};

use gdr_sys::cuda as sys;
use gpu::{Allocation, Compare, DevicePtr, Error, Gpu, MemOp, Pattern, pointer};

use crate::{Outcome, Report, ensure};

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    report.trial("eight threads", || threads(gpu))?;
    report.trial("context of the thread is unchanged", || context(gpu))?;
    report.trial("capture is unchanged", || capture(gpu))?;
    report.trial("memory of another context", || other_context(gpu))?;
    report.trial("second open", || {
        let again = Gpu::open(gpu.device().ordinal)?;
        let memory = again.allocate(Allocation::Malloc, 64)?;
        // Both use the same primary context.
        gpu.stream()?.write(&memory, 0, &[1; 64])?;
        Ok(String::new())
    })?;
    report.trial("close of a waiting stream", || close_waiting_stream(gpu))?;
    Ok(())
}

fn threads(gpu: &Gpu) -> Outcome {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8_u64)
            .map(|seed| scope.spawn(move || worker(gpu, seed).map_err(|error| error.to_string())))
            .collect();
        let ends = workers.into_iter().map(|worker| worker.join());
        ends.filter_map(|end| match end {
            Ok(Ok(())) => None,
            Ok(Err(words)) => Some(words),
            Err(_) => Some("a panic".to_owned()),
        })
        .collect()
    });
    ensure(failures.is_empty(), failures.join("; "))?;
    Ok(String::new())
}

fn worker(gpu: &Gpu, seed: u64) -> Outcome<()> {
    let stream = gpu.stream()?;
    for round in 0..20 {
        let kind = crate::KINDS[(seed as usize + round) % 5];
        let bytes = 4096 << (round % 8);
        let memory = gpu.allocate(kind, bytes)?;
        let pattern = Pattern::new(seed * 1000 + round as u64);
        stream.fill_pattern(&memory, 0, bytes, pattern, 0)?;
        let mut seen = vec![0; bytes];
        stream.read(&memory, 0, &mut seen)?;
        ensure(pattern.first_difference(&seen, 0).is_none(), format!("{kind} {bytes}"))?;
        pointer::read(memory.address(), &mut seen[..64])?;
    }
    Ok(())
}

fn functions() -> Outcome<&'static sys::Functions> {
    Ok(sys::library()?.functions())
}

fn current() -> Outcome<sys::Context> {
    let function = functions()?.cuCtxGetCurrent.ok_or("no cuCtxGetCurrent")?;
    let mut context = sys::Context::NULL;
    // SAFETY: the out-parameter is a handle.
    let result = unsafe { function(&mut context) };
    ensure(result.is_ok(), result.to_string())?;
    Ok(context)
}

fn context(gpu: &Gpu) -> Outcome {
    ensure(current()?.is_null(), "this thread already has a context")?;
    let memory = gpu.allocate(Allocation::Malloc, 64)?;
    pointer::describe(memory.address())?;
    pointer::ipc_handle(memory.address())?;
    pointer::read(memory.address(), &mut [0; 4])?;
    drop(memory);
    ensure(current()?.is_null(), "this thread was left with a context")?;
    Ok(String::new())
}

/// Describes memory of a second context from a thread without a context.
fn other_context(gpu: &Gpu) -> Outcome {
    let functions = functions()?;
    let create = functions.cuCtxCreate_v2.ok_or("no cuCtxCreate_v2")?;
    let destroy = functions.cuCtxDestroy.ok_or("no cuCtxDestroy")?;
    let pop = functions.cuCtxPopCurrent.ok_or("no cuCtxPopCurrent")?;
    let allocate = functions.cuMemAlloc.ok_or("no cuMemAlloc")?;
    let device = sys::Device(i32::try_from(gpu.device().ordinal)?);
    let (mut context, mut popped, mut address) = (sys::Context::NULL, sys::Context::NULL, 0);
    // SAFETY: the out-parameters are handles and a number; the device is there.
    let results = unsafe {
        [create(&mut context, 0, device), allocate(&mut address, 4 << 20), pop(&mut popped)]
    };
    let checked = (|| -> Outcome<()> {
        ensure(results.iter().all(|result| result.is_ok()), format!("{results:?}"))?;
        let address = DevicePtr::new(address);
        let seen = pointer::describe(address)?;
        ensure(seen.size == 4 << 20 && seen.has_context, format!("{seen:?}"))?;
        pointer::ipc_handle(address)?;
        pointer::dmabuf(address, 4 << 20, pointer::DmaBufMapping::Default)?;
        pointer::read(address, &mut [0; 64])?;
        ensure(current()?.is_null(), "this thread was left with a context")
    })();
    // SAFETY: the context is ours and no longer used.
    let destroyed = unsafe { destroy(context) };
    checked?;
    ensure(destroyed.is_ok(), destroyed.to_string())?;
    Ok(String::new())
}

/// In the strictest capture mode, makes calls that would break a capture; it still ends with a graph.
fn capture(gpu: &Gpu) -> Outcome {
    let functions = functions()?;
    let begin = functions.cuStreamBeginCapture.ok_or("no cuStreamBeginCapture")?;
    let end = functions.cuStreamEndCapture.ok_or("no cuStreamEndCapture")?;
    let destroy = functions.cuGraphDestroy.ok_or("no cuGraphDestroy")?;
    let stream = gpu.stream()?;
    let captured = gpu.allocate(Allocation::Malloc, 64)?;
    let raw = sys::Stream(stream.raw() as usize as *mut _);
    // SAFETY: the stream is open, and idle.
    let started = unsafe { begin(raw, sys::STREAM_CAPTURE_MODE_GLOBAL) };
    ensure(started.is_ok(), started.to_string())?;
    let outcome = (|| -> Outcome<()> {
        stream.fill(&captured, 0, 64, 1)?;
        let memory = gpu.allocate(Allocation::Malloc, 4 << 20)?;
        pointer::describe(memory.address())?;
        pointer::ipc_handle(memory.address())?;
        pointer::read(memory.address(), &mut [0; 64])?;
        let created = gpu.allocate(Allocation::Create { exportable: true, rdma: true }, 4 << 20)?;
        pointer::export_fd(created.address())?;
        pointer::read(created.address(), &mut [0; 64])?;
        Ok(())
    })();
    let mut graph = sys::Graph::NULL;
    // SAFETY: the stream is open and capturing; the out-parameter is a handle.
    let ended = unsafe { end(raw, &mut graph) };
    if !graph.is_null() {
        // SAFETY: the graph is ours and unused.
        unsafe { destroy(graph) };
    }
    outcome?;
    ensure(ended.is_ok() && !graph.is_null(), format!("the capture failed: {ended}"))?;
    Ok(String::new())
}

fn close_waiting_stream(gpu: &Gpu) -> Outcome {
    let stream = gpu.stream()?;
    let word = gpu.pinned(4)?;
    stream.batch(&[MemOp::wait32(&word, 0, 1, Compare::Eq)?])?;
    let start = Instant::now();
    let end = stream.close();
    let took = start.elapsed();
    word.store_u32(0, 1)?;
    ensure(took < Duration::from_secs(4), format!("it took {took:?}"))?;
    match end {
        Err(Error::Timeout { .. }) => Ok(format!("abandoned after {took:?}")),
        other => Err(format!("{other:?}").into()),
    }
}
