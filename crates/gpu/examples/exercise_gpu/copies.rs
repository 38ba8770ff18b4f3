//! Memory of every kind: written, read, filled and compared, by the CPU and by the GPU.

use std::time::Instant;

use gpu::{Allocation, Gpu, HostMemory, Pattern, PinnedOptions, Stream};

use crate::{Outcome, Report, ensure};

pub const KINDS: [Allocation; 6] = [
    Allocation::Malloc,
    Allocation::Create {
        exportable: false,
        rdma: false,
    },
    Allocation::Create {
        exportable: true,
        rdma: true,
    },
    Allocation::Pool { exportable: false },
    Allocation::Pool { exportable: true },
    Allocation::Managed,
];
const SIZES: [usize; 6] = [512, 4096, 64 << 10, 1 << 20, (2 << 20) + 4096, 64 << 20];

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    let stream = gpu.stream()?;
    for kind in KINDS {
        for bytes in SIZES {
            report.trial(format_args!("{kind}, {bytes} bytes"), || {
                verify(gpu, &stream, kind, bytes)
            })?;
        }
    }
    if !gpu.is_sim() {
        report.trial("cuMemAlloc, 6 GiB, by the GPU", || large(gpu, &stream))?;
    }
    report.trial("fills", || fills(gpu, &stream))?;
    let write_combined = PinnedOptions {
        write_combined: true,
    };
    let hosts = [
        ("pinned", gpu.pinned(64 << 20)),
        (
            "pinned, write-combined",
            gpu.pinned_with(64 << 20, write_combined),
        ),
        ("registered", gpu.registered(64 << 20)),
    ];
    for (name, host) in hosts {
        report.trial(format_args!("copies, {name} host memory"), || {
            bandwidth(gpu, &stream, &host?)
        })?;
    }
    Ok(())
}

/// CPU to GPU, seen by the GPU; GPU's own writing, seen by the CPU; and the first and last bytes by an odd copy.
fn verify(gpu: &Gpu, stream: &Stream, kind: Allocation, bytes: usize) -> Outcome {
    let start = Instant::now();
    let memory = gpu.allocate(kind, bytes)?;
    let allocated = start.elapsed();
    let (one, two) = (Pattern::new(bytes as u64), Pattern::new(!0));
    let mut seen = vec![0; bytes];
    one.fill(&mut seen, 0);
    stream.write(&memory, 0, &seen)?;
    let found = stream.check_pattern(&memory, 0, bytes, one, 0)?;
    ensure(found.words == 0, format!("the GPU sees {found:?}"))?;
    let wrong = stream.check_pattern(&memory, 0, bytes, two, 0)?;
    ensure(
        wrong.words >= bytes as u64 / 4 - 1,
        format!("another pattern differs in {wrong:?} only"),
    )?;
    stream.fill_pattern(&memory, 0, bytes, two, 5)?;
    stream.read(&memory, 0, &mut seen)?;
    let difference = two.first_difference(&seen, 5);
    ensure(
        difference.is_none(),
        format!("the CPU sees a wrong byte at {difference:?}"),
    )?;
    stream.write(&memory, bytes - 3, b"end")?;
    stream.read(&memory, bytes - 5, &mut seen[..5])?;
    ensure(&seen[2..5] == b"end", "an odd copy")?;
    let start = Instant::now();
    memory.free()?;
    Ok(format!(
        "allocated in {allocated:?}, freed in {:?}",
        start.elapsed()
    ))
}

fn large(gpu: &Gpu, stream: &Stream) -> Outcome {
    let bytes = 6 << 30;
    let memory = gpu.allocate(Allocation::Malloc, bytes)?;
    let pattern = Pattern::new(6);
    stream.fill_pattern(&memory, 0, bytes, pattern, 0)?;
    stream.write(&memory, bytes - 7, &[0; 1])?;
    let found = stream.check_pattern(&memory, 0, bytes, pattern, 0)?;
    ensure(
        found.words <= 1 && found.first.is_none_or(|word| word == bytes as u64 / 4 - 2),
        format!("{found:?}"),
    )?;
    Ok(format!("{found:?}"))
}

fn fills(gpu: &Gpu, stream: &Stream) -> Outcome {
    let memory = gpu.allocate(Allocation::Malloc, 64)?;
    stream.fill(&memory, 0, 64, 0)?;
    stream.fill(&memory, 1, 3, 0xab)?;
    stream.fill_words(&memory, 8, 2, 0x0403_0201)?;
    let mut seen = [0; 20];
    stream.read(&memory, 0, &mut seen)?;
    let expected = [
        0, 0xab, 0xab, 0xab, 0, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0,
    ];
    ensure(seen == expected, format!("{seen:x?}"))?;
    Ok(String::new())
}

fn bandwidth(gpu: &Gpu, stream: &Stream, host: &HostMemory) -> Outcome {
    let bytes = host.len();
    let memory = gpu.allocate(Allocation::Malloc, bytes)?;
    let pattern = Pattern::new(99);
    let mut text = vec![0; 4096];
    pattern.fill(&mut text, 0);
    for offset in (0..bytes).step_by(4096) {
        host.write(offset, &text)?;
    }
    let mut best = [0.0_f64; 2];
    let (start, end) = (gpu.event()?, gpu.event()?);
    for _ in 0..3 {
        for (direction, best) in best.iter_mut().enumerate() {
            stream.record(&start)?;
            match direction {
                0 => stream.upload(&memory, 0, host, 0, bytes)?,
                _ => stream.download(host, 0, &memory, 0, bytes)?,
            }
            stream.record(&end)?;
            end.synchronize()?;
            *best =
                best.max(bytes as f64 / end.elapsed_since(&start)?.as_secs_f64().max(1e-9) / 1e9);
        }
    }
    stream.synchronize()?;
    for offset in (0..bytes).step_by(4096) {
        let found = stream.check_pattern(&memory, offset, 4096, pattern, 0)?;
        ensure(found.words == 0, format!("{found:?} at {offset}"))?;
        if offset > 16 << 10 {
            break;
        }
    }
    let mut seen = vec![0; 4096];
    host.read(bytes - 4096, &mut seen)?;
    ensure(seen == text, "the last page did not come back")?;
    Ok(format!(
        "to the GPU {:.1} GB/s, from it {:.1} GB/s",
        best[0], best[1]
    ))
}
