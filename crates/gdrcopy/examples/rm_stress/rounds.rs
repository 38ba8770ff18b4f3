//! Rounds on memory that stays allocated: copies, forks, witnesses, load.

use std::time::{Duration, Instant};

use gdrcopy::{BackendKind, Crossover, Error, Gdr, MapRequest, Mapping, Pin, PinFlags};
use gpu::{Allocation, DeviceMemory, Gpu, Pattern, Stream};

use crate::{Outcome, Random, Setup, Worker};

/// Timeout of a child.
const CHILD_SECONDS: u32 = 30;

/// Allocate, pin a part, map, copy both ways by CPU and copy engine, verify, unmap, free.
pub fn copy(setup: &Setup, worker: &Worker, random: &mut Random, stream: &Stream) -> Outcome {
    let kind = random.allocation();
    let most =
        [4096, 64 << 10, 1 << 20, 4 << 20, 4 << 20, 64 << 20][random.below(6).min(random.below(8))];
    let bytes = 1 + random.below(most);
    worker.step("allocate");
    let memory = setup.gpu.allocate(kind, bytes)?;
    let start = random.below(bytes);
    let length = 1 + random.below((bytes - start).min(8 << 20));
    worker.step("pin");
    let gdr = match random.below(16) {
        0 => Gdr::open_with(setup.gdr.backend())?,
        _ => setup.gdr.clone(),
    };
    let pin = gdr.pin(&memory, start..start + length, PinFlags::default())?;
    worker.step("map");
    let mut mapping = pin.map(MapRequest::Default)?;
    let (by_cpu, by_gpu) = (random.pattern(), random.pattern());
    let mut bytes = vec![0; length];
    let crossover = match random.below(4) {
        0 => Crossover { write: 0, read: 0 },
        _ => Crossover { write: usize::MAX, read: usize::MAX },
    };
    worker.step("write");
    by_cpu.fill(&mut bytes, 0);
    mapping.write_best(stream, crossover, 0, &bytes)?;
    worker.step("GPU reads");
    stream.read(&memory, start, &mut bytes)?;
    same(by_cpu, &bytes, kind, "the GPU reads what the CPU wrote")?;
    worker.step("GPU writes");
    by_gpu.fill(&mut bytes, 0);
    stream.write(&memory, start, &bytes)?;
    bytes.fill(0);
    worker.step("read");
    mapping.read_best(stream, crossover, 0, &mut bytes)?;
    same(by_gpu, &bytes, kind, "the CPU reads what the GPU wrote")?;
    if random.below(4) == 0 {
        worker.step("map again");
        drop(mapping);
        mapping = pin.map(MapRequest::Default)?;
        let mut end = [0];
        mapping.read(length - 1, &mut end)?;
        if bytes.last() != Some(&end[0]) {
            return Err(format!("{kind}: the last byte differs in the second mapping").into());
        }
    }
    worker.step("unmap and free");
    drop(mapping);
    drop(pin);
    memory.free()?;
    setup.watch.count("copy: cycles, all bytes right");
    Ok(())
}

pub fn same(pattern: Pattern, bytes: &[u8], kind: Allocation, what: &str) -> Outcome {
    match pattern.first_difference(bytes, 0) {
        None => Ok(()),
        Some(at) => {
            Err(format!("{kind}, {} bytes: byte {at} is {:#x}: {what}", bytes.len(), bytes[at])
                .into())
        }
    }
}

/// Forks while pins and mappings exist in all threads. No child can use or release its parent's,
/// none hangs, and the parent's keep their contents.
pub fn fork(setup: &Setup, worker: &Worker, random: &mut Random, stream: &Stream) -> Outcome {
    let (kind, bytes) = (random.allocation(), 4096 + random.below(1 << 20));
    worker.step("allocate, pin, map");
    let memory = setup.gpu.allocate(kind, bytes)?;
    let pin = setup.gdr.pin(&memory, 0..bytes, PinFlags::default())?;
    let mut mapping = pin.map(MapRequest::Default)?;
    let pattern = random.pattern();
    let mut expected = vec![0; bytes];
    pattern.fill(&mut expected, 0);
    mapping.write(0, &expected)?;
    let linger = Duration::from_millis(random.below(200) as u64);
    worker.step("child's calls");
    child(setup, "calls", Ended::Code(0), || refused_calls(&pin))?;
    worker.step("child's access");
    child(setup, "access", Ended::Signal(libc::SIGSEGV), || {
        // SAFETY: the child has no such mapping, which is what this shows: the read faults.
        i32::from(unsafe { mapping.as_ptr().read_volatile() })
    })?;
    worker.step("child's drop");
    child(setup, "drop", Ended::Code(0), || drops(&mapping, &pin, linger))?;
    // A simulated GPU's memory is the child's too, and its locks may be locked.
    if setup.gdr.backend() == BackendKind::Rm {
        worker.step("child's pin");
        child(setup, "pin", Ended::Code(0), || pins(&memory, bytes))?;
    }
    worker.step("parent after its children");
    let mut seen = vec![0; bytes];
    mapping.read(0, &mut seen)?;
    same(pattern, &seen, kind, "the parent's mapping after its children")?;
    pin.info()?;
    drop(mapping);
    let mut mapping = pin.map(MapRequest::Default)?;
    let pattern = random.pattern();
    pattern.fill(&mut expected, 0);
    mapping.write(0, &expected)?;
    stream.read(&memory, 0, &mut seen)?;
    same(pattern, &seen, kind, "the GPU reads the parent's second mapping")?;
    setup.watch.count("fork: rounds, parent unharmed");
    Ok(())
}

fn child(setup: &Setup, what: &str, expected: Ended, work: impl FnOnce() -> i32) -> Outcome {
    let ended = in_child(|| {
        // SAFETY: a number. The signal ends this child and no other process.
        unsafe { libc::alarm(CHILD_SECONDS) };
        work()
    })?;
    setup.watch.count("fork: children");
    match ended {
        Ended::Signal(libc::SIGALRM) => {
            Err(format!("child's {what}: hung for {CHILD_SECONDS} s").into())
        }
        Ended::Signal(libc::SIGBUS) if expected == Ended::Signal(libc::SIGSEGV) => Ok(()),
        ended if ended == expected => {
            setup.watch.count(&format!("fork: child's {what} as documented"));
            Ok(())
        }
        ended => Err(format!("child's {what}: ended with {ended:?}, expected {expected:?}").into()),
    }
}

/// 1-based index of the first call that did not fail with [`Error::Forked`], or 0.
fn refused_calls(pin: &Pin) -> i32 {
    let answers =
        [pin.info().map(drop), pin.map(MapRequest::Default).map(drop), pin.revoked().map(drop)];
    let allowed = answers.iter().position(|answer| !matches!(answer, Err(Error::Forked)));
    allowed.map_or(0, |call| call as i32 + 1)
}

fn drops(mapping: &Mapping, pin: &Pin, linger: Duration) -> i32 {
    // SAFETY: bitwise copies whose originals live on in the parent: what the child undoes must not
    // reach it. The child ends at once.
    let (mapping, pin) = unsafe { (std::ptr::read(mapping), std::ptr::read(pin)) };
    drop(mapping);
    std::thread::sleep(linger);
    drop(pin);
    0
}

/// A child cannot pin the parent's memory: CUDA does not work in a child, and returns an error.
fn pins(memory: &DeviceMemory, bytes: usize) -> i32 {
    let Ok(gdr) = Gdr::open_with(BackendKind::Rm) else {
        return 0;
    };
    // SAFETY: nothing is read or written.
    i32::from(unsafe { gdr.pin_raw(memory.address(), bytes, PinFlags::default()) }.is_ok())
}

/// Memory that nothing writes after the start: a write through a wrong mapping may hit it.
pub struct Witness {
    memory: DeviceMemory,
    mapping: Mapping,
    pattern: Pattern,
}

pub fn witnesses(
    gdr: &Gdr,
    gpu: &Gpu,
    seed: u64,
) -> Result<Vec<Witness>, Box<dyn std::error::Error>> {
    let mut random = Random(seed);
    let stream = gpu.stream()?;
    let mut witnesses = Vec::new();
    for round in 0..24 {
        let (kind, bytes) =
            (crate::ALLOCATIONS[round % 4], [64 << 10, 1 << 20, 2 << 20, 8 << 20][random.below(4)]);
        let memory = gpu.allocate(kind, bytes)?;
        let pattern = random.pattern();
        stream.fill_pattern(&memory, 0, bytes, pattern, 0)?;
        stream.synchronize()?;
        let mapping = gdr.pin(&memory, 0..bytes, PinFlags::default())?.map(MapRequest::Default)?;
        witnesses.push(Witness { memory, mapping, pattern });
    }
    Ok(witnesses)
}

/// Checks every byte of the witnesses by GPU, and 64 KiB of each by CPU.
pub fn witness(setup: &Setup, worker: &Worker, random: &mut Random, stream: &Stream) -> Outcome {
    for Witness { memory, mapping, pattern } in &setup.witnesses {
        worker.step("check by the GPU");
        let mismatches = stream.check_pattern(memory, 0, memory.len(), *pattern, 0)?;
        if mismatches.words != 0 {
            return Err(
                format!("a witness of {} bytes was changed: {mismatches:?}", memory.len()).into()
            );
        }
        worker.step("check by the CPU");
        let at = random.below(memory.len() / 65536) * 65536;
        let mut seen = vec![0; 65536];
        mapping.read(at, &mut seen)?;
        if let Some(byte) = pattern.first_difference(&seen, at as u64 / 4) {
            return Err(format!("byte {} of a witness differs for the CPU", at + byte).into());
        }
        setup.watch.count("witness: memories unchanged");
    }
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

/// Keeps the copy engines and the memory of the GPU busy.
pub fn engine(setup: &Setup, worker: &Worker, random: &mut Random, stream: &Stream) -> Outcome {
    worker.step("copies of the GPU");
    let bytes = if setup.gpu.is_sim() { 1 << 20 } else { 256 << 20 };
    let memory = setup.gpu.allocate(Allocation::Malloc, bytes)?;
    let pattern = random.pattern();
    stream.fill_pattern(&memory, 0, bytes / 2, pattern, 0)?;
    for _ in 0..8 {
        stream.copy(&memory, bytes / 2, &memory, 0, bytes / 2)?;
        stream.copy(&memory, 0, &memory, bytes / 2, bytes / 2)?;
    }
    stream.synchronize()?;
    let mismatches = stream.check_pattern(&memory, bytes / 2, bytes / 2, pattern, 0)?;
    if mismatches.words != 0 {
        return Err(format!("copied by the GPU alone: {mismatches:?}").into());
    }
    setup.watch.count("engine: copies of the GPU alone, all bytes right");
    Ok(())
}

/// Keeps a processor busy.
pub fn spin(setup: &Setup, worker: &Worker, _: &mut Random, _: &Stream) -> Outcome {
    worker.step("spin");
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    setup.watch.count("spin: tenths of a second");
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Code(i32),
    Signal(i32),
}

fn in_child(work: impl FnOnce() -> i32) -> Result<Ended, Box<dyn std::error::Error>> {
    // SAFETY: the child calls `work`, which takes no lock that another thread may hold, then _exit.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    if child == 0 {
        let code = work();
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Code(libc::WEXITSTATUS(status))
    })
}
