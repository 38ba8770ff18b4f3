//! Tests of GPU memory mappings that `gdr probe copy` and the example `rm_stress` do not make:
//! `exercise_gdrcopy [PART]... [nobody]`.
//!
//! Parts: `busy`, `crossover`, `killed`; all by default. `nobody` drops root for user 65534 first.
//! `GDR_BACKEND` selects the backend. Exit code 1 if a part fails.

mod machine;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Instant;

use gdrcopy::{BackendKind, Copied, Crossover, Gdr, MapRequest, PinFlags};
use gpu::{Allocation, Gpu, Pattern, Stream, sentence};

use machine::{ALLOCATIONS, become_nobody};

type Outcome = Result<(), Box<dyn Error>>;

type Part = (&'static str, fn(&Setup) -> Outcome);

const PARTS: [Part; 3] = [("busy", busy), ("crossover", crossover), ("killed", killed)];

struct Setup {
    gdr: Gdr,
    gpu: Gpu,
    stream: Stream,
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "nobody") {
        become_nobody()?;
    }
    for found in Gdr::explain() {
        print_line(&format!("{:8} {:?}: {}", found.backend.name(), found.outcome, found.why))?;
    }
    let gdr = Gdr::open()?;
    let gpu = if gdr.backend() == BackendKind::Sim { Gpu::sim() } else { Gpu::open(0)? };
    let setup = Setup { stream: gpu.stream()?, gdr, gpu };
    if words.iter().any(|word| word == "hold") {
        return hold(&setup);
    }
    print_line(&format!("backend {}, {}", setup.gdr.backend(), setup.gpu.device().name))?;
    let chosen = |name: &str| words.iter().any(|word| word == name);
    let any = PARTS.iter().any(|(name, _)| chosen(name));
    let mut wrong = 0;
    for (name, part) in PARTS.iter().filter(|(name, _)| !any || chosen(name)) {
        let start = Instant::now();
        let verdict = part(&setup);
        let took = start.elapsed();
        match verdict {
            Ok(()) => print_line(&format!("{name}: passed, {took:.2?}"))?,
            Err(error) => {
                wrong += 1;
                print_line(&format!("{name}: FAILED, {took:.2?}: {}", sentence(&*error)))?;
            }
        }
    }
    std::process::exit(i32::from(wrong > 0));
}

/// Pins and maps while a kernel waits for this program: neither may wait for the kernel. Run alone,
/// this includes the first use of the driver.
fn busy(setup: &Setup) -> Outcome {
    // Freed at the end: cuMemFree waits for the kernel (H200, driver 580.159.04).
    let memories = ALLOCATIONS.map(|kind| setup.gpu.allocate(kind, 65536));
    let flag = setup.gpu.allocate(Allocation::Malloc, 4096)?;
    let reply = setup.gpu.pinned(4096)?;
    let releasing = setup.gpu.stream()?;
    // A first launch with the flag set, which loads the kernel.
    releasing.write(&flag, 0, &1_u32.to_le_bytes())?;
    setup.stream.ping_pong(&flag, &reply, 1)?;
    setup.stream.synchronize()?;
    reply.store_u32(0, 0)?;
    releasing.write(&flag, 0, &[0; 4])?;
    let start = Instant::now();
    setup.stream.ping_pong(&flag, &reply, 1)?;
    let launched = start.elapsed();
    let mut took = Vec::new();
    for memory in &memories {
        let memory = memory.as_ref().map_err(|error| sentence(error))?;
        let start = Instant::now();
        drop(setup.gdr.pin(memory, 0..65536, PinFlags::default())?.map(MapRequest::Default)?);
        took.push(start.elapsed());
    }
    if setup.stream.is_idle()? {
        return Err(format!(
            "launching took {launched:.2?}; the kernel ended while pinning took {took:.2?}"
        )
        .into());
    }
    releasing.write(&flag, 0, &1_u32.to_le_bytes())?;
    setup.stream.synchronize()?;
    print_line(&format!(
        "  pinned while a kernel waited: {took:.2?}; its reply: {}",
        reply.load_u32(0)?
    ))?;
    if reply.load_u32(0)? == 1 { Ok(()) } else { Err("the kernel timed out".into()) }
}

/// Measures the crossover and checks that CPU and copy engine copy the same bytes.
fn crossover(setup: &Setup) -> Outcome {
    let start = Instant::now();
    let crossover = Crossover::measure(&setup.gdr, &setup.gpu)?;
    print_line(&format!("  {crossover:?} in {:.2?}", start.elapsed()))?;
    let memory = setup.gpu.allocate(Allocation::Malloc, 1 << 20)?;
    let mut mapping =
        setup.gdr.pin(&memory, 1000..1 << 20, PinFlags::default())?.map(MapRequest::Default)?;
    for (write, read, wanted) in [(0, usize::MAX, Copied::ByEngine), (usize::MAX, 0, Copied::ByCpu)]
    {
        let mut bytes = vec![0; 500_000];
        Pattern::new(write as u64).fill(&mut bytes, 0);
        let forced = Crossover { write, read };
        let copied = mapping.write_best(&setup.stream, forced, 77, &bytes)?;
        let mut seen = vec![0; bytes.len()];
        mapping.read_best(&setup.stream, forced, 77, &mut seen)?;
        if seen != bytes || copied != wanted {
            return Err(format!("copied {copied:?}, read different bytes").into());
        }
    }
    Ok(())
}

/// A killed process with mappings leaks no GPU memory.
fn killed(setup: &Setup) -> Outcome {
    if setup.gpu.is_sim() {
        return Ok(());
    }
    let before = used_memory(setup)?;
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
    let during = used_memory(setup)?;
    child.kill()?;
    child.wait()?;
    if !line.starts_with("holding") {
        return Err("the process that is killed could not map the memory".into());
    }
    let after = used_memory(setup)?;
    print_line(&format!("  {line}; memory before {}, during {}, after {}", before, during, after))?;
    if during < before + (1 << 30) || after > before + (64 << 20) {
        return Err("the memory of the killed process was not freed".into());
    }
    Ok(())
}

/// Bytes of GPU memory in use.
fn used_memory(setup: &Setup) -> Result<u64, Box<dyn Error>> {
    setup.stream.synchronize()?;
    let (free, total) = setup.gpu.memory_info()?;
    Ok(total - free)
}

/// The process that [`killed`] kills.
fn hold(setup: &Setup) -> Outcome {
    let mut held = Vec::new();
    for kind in ALLOCATIONS {
        let memory = setup.gpu.allocate(kind, 512 << 20)?;
        held.push(
            setup.gdr.pin(&memory, 0..512 << 20, PinFlags::default())?.map(MapRequest::Default)?,
        );
    }
    print_line(&format!("holding {} mappings of 512 MiB", held.len()))?;
    std::thread::sleep(std::time::Duration::from_secs(60));
    Ok(())
}

fn print_line(line: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
