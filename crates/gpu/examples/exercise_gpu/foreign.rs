//! What CUDA says of addresses: of every kind of memory, and of none.

use std::os::fd::AsRawFd as _;
use std::time::Instant;

use gpu::pointer::{self, DmaBufMapping};
use gpu::{DevicePtr, Gpu, Pattern};

use crate::{KINDS, Outcome, Report, ensure};

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    let stream = gpu.stream()?;
    for kind in KINDS {
        for bytes in [4096, 4 << 20] {
            let name = |what: &str| format!("{what}: {kind}, {bytes} bytes");
            let memory = gpu.allocate(kind, bytes)?;
            let pattern = Pattern::new(77);
            stream.fill_pattern(&memory, 0, bytes, pattern, 0)?;
            stream.synchronize()?;
            let inside = memory.address().offset(bytes as u64 / 2);
            report.trial(name("describe"), || {
                let start = Instant::now();
                let seen = pointer::describe(inside)?;
                let took = start.elapsed();
                ensure(
                    seen.ordinal == gpu.device().ordinal && seen.pci == gpu.device().pci,
                    "another GPU",
                )?;
                ensure(
                    seen.base == memory.address(),
                    format!("it starts at {}", seen.base),
                )?;
                Ok(format!("in {took:?}\n      {seen:?}"))
            })?;
            report.trial(name("read"), || {
                let mut seen = [0; 1000];
                pointer::read(inside, &mut seen)?;
                let difference = pattern.first_difference(&seen, bytes as u64 / 8);
                ensure(
                    difference.is_none(),
                    format!("a wrong byte at {difference:?}"),
                )?;
                let reader = pointer::Reader::open(inside)?;
                let start = Instant::now();
                for _ in 0..100 {
                    reader.read(inside, &mut seen[..64])?;
                }
                Ok(format!("64 bytes in {:?}", start.elapsed() / 100))
            })?;
            report.maybe(name("IPC handle"), || {
                let start = Instant::now();
                let handle = pointer::ipc_handle(memory.address())?;
                let word = |at: usize| u32::from_le_bytes([handle[at], handle[at + 1], handle[at + 2], handle[at + 3]]);
                let took = start.elapsed();
                Ok(format!(
                    "in {took:?}: size {:#x}, object {:#x} pages, offset {:#x}, client {:#x}, memory {:#x}",
                    word(16),
                    word(24),
                    word(28),
                    word(48),
                    word(52)
                ))
            })?;
            report.maybe(name("allocation handle"), || {
                Ok(format!("{:#x}", pointer::retain_handle(inside)?.raw()))
            })?;
            report.maybe(name("file descriptor"), || {
                Ok(target(pointer::export_fd(inside)?.as_raw_fd()))
            })?;
            for mapping in [DmaBufMapping::Default, DmaBufMapping::Pcie] {
                report.maybe(name(&format!("dma-buf {mapping:?}")), || {
                    let start = memory.address();
                    Ok(target(pointer::dmabuf(start, bytes, mapping)?.as_raw_fd()))
                })?;
            }
            report.maybe(name("sync memops"), || {
                pointer::set_sync_memops(memory.address())?;
                ensure(pointer::describe(memory.address())?.sync_memops, "not set")?;
                Ok(String::new())
            })?;
        }
    }
    let host = gpu.pinned(8192)?;
    report.trial("describe: pinned host memory", || {
        Ok(format!(
            "\n      {:?}",
            pointer::describe(host.device_address().offset(100))?
        ))
    })?;
    let registered = gpu.registered(8192)?;
    report.trial("describe: registered host memory", || {
        Ok(format!(
            "\n      {:?}",
            pointer::describe(registered.device_address().offset(100))?
        ))
    })?;
    let unknown = [0_u8; 100];
    for (name, address) in [
        ("the CPU's heap", unknown.as_ptr() as u64),
        ("null", 0),
        ("nowhere", 0xdead_beef_0000),
    ] {
        report.trial(
            format_args!("describe: {name}"),
            || match pointer::describe(DevicePtr::new(address)) {
                Err(error) if pointer::is_unknown(&error) => Ok(gpu::sentence(&error)),
                other => Err(format!("{other:?}").into()),
            },
        )?;
    }
    let freed = gpu.allocate(gpu::Allocation::Malloc, 4 << 20)?;
    let address = freed.address();
    freed.free()?;
    report.maybe("describe: freed memory", || {
        Ok(format!("{:?}", pointer::describe(address)?))
    })?;
    Ok(())
}

fn target(descriptor: i32) -> String {
    let link = format!("/proc/self/fd/{descriptor}");
    std::fs::read_link(link)
        .map_or_else(|error| error.to_string(), |path| path.display().to_string())
}
