//! Proves of the mapping of GPU memory what `gdr probe copy` does not: `exercise_gdrcopy [part]...
//! [cycles=N] [nobody]`. That command verifies every byte, all offsets, and measures.
//!
//! Parts: `busy`, `crossover`, `cycles`, `fork`, `freed`, `shared`, `killed`; all of them without a
//! word. `nobody` gives up root first, for user
//! 65534. `GDR_BACKEND` forces a backend. Exit code 1 where anything is wrong.

mod machine;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use gdrcopy::{BackendKind, Copied, Crossover, Gdr, MapRequest, PinFlags};
use gpu::{Allocation, Gpu, Pattern, Stream, sentence};

use machine::{ALLOCATIONS, Ended, become_nobody, footprint, in_child};

type Outcome = Result<(), Box<dyn Error>>;

/// A part of an exercise: its name and what does it.
type Part = (&'static str, fn(&World) -> Outcome);

const PARTS: [Part; 7] = [
    ("busy", busy),
    ("crossover", crossover),
    ("cycles", cycles),
    ("fork", fork),
    ("freed", freed),
    ("shared", shared),
    ("killed", killed),
];

struct World {
    gdr: Gdr,
    gpu: Gpu,
    stream: Stream,
    cycles: usize,
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "nobody") {
        become_nobody()?;
    }
    for found in Gdr::explain() {
        say(&format!(
            "{:8} {:?}: {}",
            found.backend.name(),
            found.outcome,
            found.why
        ))?;
    }
    let gdr = Gdr::open()?;
    let gpu = if gdr.backend() == BackendKind::Sim {
        Gpu::sim()
    } else {
        Gpu::open(0)?
    };
    let number = |word: &String| {
        word.strip_prefix("cycles=")
            .and_then(|number| number.parse().ok())
    };
    let world = World {
        stream: gpu.stream()?,
        cycles: words.iter().find_map(number).unwrap_or(10_000),
        gdr,
        gpu,
    };
    if words.iter().any(|word| word == "hold") {
        return hold(&world);
    }
    say(&format!(
        "backend {}, {}",
        world.gdr.backend(),
        world.gpu.device().name
    ))?;
    let chosen = |name: &str| words.iter().any(|word| word == name);
    let any = PARTS.iter().any(|(name, _)| chosen(name));
    let mut wrong = 0;
    for (name, part) in PARTS.iter().filter(|(name, _)| !any || chosen(name)) {
        let begun = Instant::now();
        let verdict = part(&world);
        let took = begun.elapsed();
        match verdict {
            Ok(()) => say(&format!("{name}: well, {took:.2?}"))?,
            Err(error) => {
                wrong += 1;
                say(&format!("{name}: WRONG, {took:.2?}: {}", sentence(&*error)))?;
            }
        }
    }
    std::process::exit(i32::from(wrong > 0));
}

/// Pins and maps while a kernel runs that waits for this program: nothing that is done meanwhile
/// may wait for the kernel. Run alone, it has the trials of the driver done under the kernel too.
fn busy(world: &World) -> Outcome {
    // Freed in the end only: freeing waits for the kernel (seen on an H200 with 580.159.04).
    let memories = ALLOCATIONS.map(|kind| world.gpu.allocate(kind, 65536));
    let flag = world.gpu.allocate(Allocation::Malloc, 4096)?;
    let reply = world.gpu.pinned(4096)?;
    let releasing = world.gpu.stream()?;
    // Once with the flag up: what the first launch of a kernel does then lies behind us.
    releasing.write(&flag, 0, &1_u32.to_le_bytes())?;
    world.stream.ping_pong(&flag, &reply, 1)?;
    world.stream.synchronize()?;
    reply.store_u32(0, 0)?;
    releasing.write(&flag, 0, &[0; 4])?;
    let begun = Instant::now();
    world.stream.ping_pong(&flag, &reply, 1)?;
    let launched = begun.elapsed();
    let mut took = Vec::new();
    for memory in &memories {
        let memory = memory.as_ref().map_err(|error| sentence(error))?;
        let begun = Instant::now();
        drop(
            world
                .gdr
                .pin(memory, 0..65536, PinFlags::default())?
                .map(MapRequest::Default)?,
        );
        took.push(begun.elapsed());
    }
    if world.stream.is_idle()? {
        return Err(format!(
            "launching took {launched:.2?}; the kernel ended while pinning took {took:.2?}"
        )
        .into());
    }
    releasing.write(&flag, 0, &1_u32.to_le_bytes())?;
    world.stream.synchronize()?;
    say(&format!(
        "  while a kernel waited: {took:.2?}, and it answered {}",
        reply.load_u32(0)?
    ))?;
    if reply.load_u32(0)? == 1 {
        Ok(())
    } else {
        Err("the kernel gave up waiting".into())
    }
}

/// From where on the copy engine is faster, and that both copy the same.
fn crossover(world: &World) -> Outcome {
    let begun = Instant::now();
    let crossover = Crossover::measure(&world.gdr, &world.gpu)?;
    say(&format!("  {crossover:?} in {:.2?}", begun.elapsed()))?;
    let memory = world.gpu.allocate(Allocation::Malloc, 1 << 20)?;
    let mut mapping = world
        .gdr
        .pin(&memory, 1000..1 << 20, PinFlags::default())?
        .map(MapRequest::Default)?;
    for (write, read, wanted) in [
        (0, usize::MAX, Copied::ByEngine),
        (usize::MAX, 0, Copied::ByCpu),
    ] {
        let mut bytes = vec![0; 500_000];
        Pattern::new(write as u64).fill(&mut bytes, 0);
        let forced = Crossover { write, read };
        let copied = mapping.write_best(&world.stream, forced, 77, &bytes)?;
        let mut seen = vec![0; bytes.len()];
        mapping.read_best(&world.stream, forced, 77, &mut seen)?;
        if seen != bytes || copied != wanted {
            return Err(format!("{copied:?} wrote, the other one reads otherwise").into());
        }
    }
    Ok(())
}

/// Eight threads, random sizes, no leak: of files, of mappings, of GPU memory, of BAR1.
fn cycles(world: &World) -> Outcome {
    let one = |seed: u64| -> Outcome {
        let kind = ALLOCATIONS[(seed % 4) as usize];
        let bytes = 1 + (Pattern::new(seed).word(1) as usize) % (4 << 20);
        let memory = world.gpu.allocate(kind, bytes)?;
        let mut mapping = world
            .gdr
            .pin(&memory, 0..bytes, PinFlags::default())?
            .map(MapRequest::Default)?;
        let last = bytes - 1;
        mapping.write(last, &[seed as u8])?;
        let mut seen = [0];
        mapping.read(last, &mut seen)?;
        if seen[0] == seed as u8 {
            Ok(())
        } else {
            Err("a byte written is not read".into())
        }
    };
    // Every way is proven in these, and CUDA's own stores are filled: what both keep is kept.
    threads(1000.min(world.cycles), &one)?;
    let before = footprint(world)?;
    let begun = Instant::now();
    threads(world.cycles, &one)?;
    let after = footprint(world)?;
    say(&format!(
        "  {} cycles in {:.2?}; before {before:?}, after {after:?}",
        world.cycles,
        begun.elapsed()
    ))?;
    // The CUDA driver keeps a file or a block now and then; a leak of ours would be one a cycle.
    let grown = after.files > before.files + 8
        || after.mappings > before.mappings + 200
        || after.bar1 > before.bar1.map(|used| used + 64)
        || after.memory > before.memory + (64 << 20);
    if grown {
        Err("something was not given back".into())
    } else {
        Ok(())
    }
}

/// So many calls from eight threads, each with another seed.
fn threads(calls: usize, one: &(dyn Fn(u64) -> Outcome + Sync)) -> Outcome {
    let done = AtomicUsize::new(0);
    let work = |thread: u64| {
        let mut seed = thread << 32;
        while done.fetch_add(1, Ordering::Relaxed) < calls {
            seed += 1;
            one(seed).map_err(|error| sentence(&*error))?;
        }
        Ok(())
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8_u64)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        let ends = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        });
        ends.filter_map(Result::err).collect()
    });
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("; ").into())
    }
}

/// A forked child's access to its parent's mapping faults, and the child's exit takes nothing from
/// the parent.
fn fork(world: &World) -> Outcome {
    let memory = world.gpu.allocate(Allocation::Malloc, 65536)?;
    world.stream.write(&memory, 0, &[0xA5; 64])?;
    let pin = world.gdr.pin(&memory, 0..65536, PinFlags::default())?;
    let mapping = pin.map(MapRequest::Default)?;
    let touches = in_child(|| {
        // SAFETY: the child has no such mapping, which is what this shows: the read faults.
        i32::from(unsafe { mapping.as_ptr().read_volatile() })
    })?;
    let refused = in_child(|| match pin.info() {
        Err(error) => error.errno(),
        Ok(_) => 0,
    })?;
    let child_drops = in_child(|| {
        // SAFETY: bitwise copies whose originals live on in the parent: what the child undoes must
        // not reach it. The child ends at once.
        let (mapping, pin) = unsafe {
            (
                std::ptr::read(&raw const mapping),
                std::ptr::read(&raw const pin),
            )
        };
        drop(mapping);
        drop(pin);
        0
    })?;
    say(&format!(
        "  child's read ended with {touches:?}, its info with {refused:?}, its drop with {child_drops:?}"
    ))?;
    let mut seen = [0; 64];
    mapping.read(0, &mut seen)?;
    let faults = matches!(touches, Ended::Signal(libc::SIGSEGV | libc::SIGBUS));
    if faults
        && refused == Ended::Code(libc::EACCES)
        && child_drops == Ended::Code(0)
        && seen == [0xA5; 64]
    {
        return Ok(());
    }
    Err("the child reached its parent's mapping, or hurt it".into())
}

/// Memory that is freed while mapped stays as it was, and is given to nobody else before it is
/// unpinned.
fn freed(world: &World) -> Outcome {
    // A pool gives what was freed to whoever asks it next.
    for kind in ALLOCATIONS
        .into_iter()
        .filter(|kind| !matches!(kind, Allocation::Pool { .. }))
    {
        for bytes in [64 << 10, 64 << 20] {
            let memory = world.gpu.allocate(kind, bytes)?;
            let address = memory.address();
            world.stream.fill(&memory, 0, bytes, 0x5A)?;
            world.stream.synchronize()?;
            // SAFETY: what is read after the free is our own memory still, or for a suballocation
            // of CUDA's block at worst a later allocation of this program; both are read only.
            let pin = unsafe { world.gdr.pin_raw(address, bytes, PinFlags::default()) }?;
            let mapping = pin.map(MapRequest::Default)?;
            memory.free()?;
            let others: Vec<_> = (0..4)
                .map(|_| world.gpu.allocate(kind, 2 << 20))
                .collect::<Result<_, _>>()?;
            for other in &others {
                world.stream.fill(other, 0, 2 << 20, 0xC3)?;
            }
            world.stream.synchronize()?;
            let mut seen = vec![0; bytes];
            mapping.read(0, &mut seen)?;
            if let Some(at) = seen.iter().position(|&byte| byte != 0x5A) {
                return Err(format!(
                    "{kind}, {bytes} bytes: byte {at} is {:#x} after the free",
                    seen[at]
                )
                .into());
            }
            if pin.revoked()? {
                return Err(format!("{kind}: revoked").into());
            }
        }
    }
    // SAFETY: nothing is done with the pin; the address is of memory that is gone.
    match unsafe {
        world
            .gdr
            .pin_raw(gpu::DevicePtr::new(0x1000), 64, PinFlags::default())
    } {
        Err(error) if error.errno() == libc::EINVAL => Ok(()),
        other => Err(format!("an address that is nobody's: {other:?}").into()),
    }
}

/// Several pins and mappings of one buffer, by several threads, and by the C library's way of two
/// pins in one page.
fn shared(world: &World) -> Outcome {
    let memory = world.gpu.allocate(Allocation::Malloc, 128 << 10)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8_usize)
            .map(|thread| {
                let (memory, gdr) = (&memory, &world.gdr);
                scope.spawn(move || -> Result<(), String> {
                    for round in 0..20_u8 {
                        let range = thread * 16384..(thread + 1) * 16384;
                        let pin = gdr
                            .pin(memory, range, PinFlags::default())
                            .map_err(|error| sentence(&error))?;
                        let mut mapping = pin
                            .map(MapRequest::Default)
                            .map_err(|error| sentence(&error))?;
                        let bytes = [round ^ thread as u8; 16384];
                        mapping.write(0, &bytes).map_err(|error| sentence(&error))?;
                        let mut seen = [0; 16384];
                        mapping
                            .read(0, &mut seen)
                            .map_err(|error| sentence(&error))?;
                        if seen != bytes {
                            return Err(format!("thread {thread} reads another's bytes"));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(())
}

/// A process killed while it has mappings leaves nothing behind.
fn killed(world: &World) -> Outcome {
    if world.gpu.is_sim() {
        return Ok(());
    }
    let before = footprint(world)?;
    let mut child = std::process::Command::new(std::env::current_exe()?)
        .arg("hold")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no pipe")?;
    let lines = BufReader::new(output).lines();
    for next in lines {
        line = next?;
        if line.starts_with("holding") {
            break;
        }
    }
    let during = footprint(world)?;
    child.kill()?;
    child.wait()?;
    let after = footprint(world)?;
    say(&format!(
        "  {line}; memory before {}, meanwhile {}, after {}",
        before.memory, during.memory, after.memory
    ))?;
    if during.memory < before.memory + (1 << 30) || after.memory > before.memory + (64 << 20) {
        return Err("the memory of the killed process was not given back".into());
    }
    Ok(())
}

/// What [`killed`] kills.
fn hold(world: &World) -> Outcome {
    let mut held = Vec::new();
    for kind in ALLOCATIONS {
        let memory = world.gpu.allocate(kind, 512 << 20)?;
        held.push(
            world
                .gdr
                .pin(&memory, 0..512 << 20, PinFlags::default())?
                .map(MapRequest::Default)?,
        );
    }
    say(&format!("holding {} mappings of 512 MiB", held.len()))?;
    std::thread::sleep(std::time::Duration::from_secs(60));
    Ok(())
}

fn say(line: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
