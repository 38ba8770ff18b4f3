//! What CUDA reports about addresses of each kind of memory and of none.

use std::os::fd::AsRawFd as _;

use gpu::pointer::{self, DmaBufMapping};
use gpu::{Allocation, DevicePtr, Gpu, Pattern};

use crate::{KINDS, Outcome, Report, ensure};

pub fn run(report: &mut Report, gpu: &Gpu) -> Outcome<()> {
    for kind in KINDS {
        for bytes in [4096, 4 << 20] {
            device_memory(report, gpu, kind, bytes)?;
        }
    }
    let host = gpu.pinned(8192)?;
    let registered = gpu.registered(8192)?;
    for (name, address) in
        [("pinned", host.device_address()), ("registered", registered.device_address())]
    {
        report.trial(format_args!("describe: {name} host memory"), || {
            Ok(format!("\n      {:?}", pointer::describe(address.offset(100))?))
        })?;
    }
    let unknown = [0_u8; 100];
    for (name, address) in [
        ("host heap", unknown.as_ptr() as u64),
        ("null", 0),
        ("unmapped address", 0xdead_beef_0000),
    ] {
        report.trial(format_args!("describe: {name}"), || {
            match pointer::describe(DevicePtr::new(address)) {
                Err(error) if pointer::is_unknown(&error) => Ok(gpu::sentence(&error)),
                other => Err(format!("{other:?}").into()),
            }
        })?;
    }
    let freed = gpu.allocate(Allocation::Malloc, 4 << 20)?;
    let address = freed.address();
    freed.free()?;
    report
        .maybe("describe: freed memory", || Ok(format!("{:?}", pointer::describe(address)?)))
        .map_err(Into::into)
}

fn device_memory(report: &mut Report, gpu: &Gpu, kind: Allocation, bytes: usize) -> Outcome<()> {
    let name = |what: &str| format!("{what}: {kind}, {bytes} bytes");
    let memory = gpu.allocate(kind, bytes)?;
    let stream = gpu.stream()?;
    let pattern = Pattern::new(77);
    stream.fill_pattern(&memory, 0, bytes, pattern, 0)?;
    stream.synchronize()?;
    let inside = memory.address().offset(bytes as u64 / 2);
    report.trial(name("describe"), || {
        let found = pointer::describe(inside)?;
        ensure(
            found.ordinal == gpu.device().ordinal && found.pci == gpu.device().pci,
            "wrong GPU",
        )?;
        ensure(found.base == memory.address(), format!("wrong base {}", found.base))?;
        Ok(format!("\n      {found:?}"))
    })?;
    report.trial(name("read"), || {
        let mut data = [0; 1000];
        pointer::read(inside, &mut data)?;
        let difference = pattern.first_difference(&data, bytes as u64 / 8);
        ensure(difference.is_none(), format!("wrong byte at {difference:?}"))?;
        Ok(String::new())
    })?;
    report.maybe(name("IPC handle"), || {
        pointer::ipc_handle(memory.address())?;
        Ok(String::new())
    })?;
    report.maybe(name("allocation handle"), || {
        Ok(format!("{:#x}", pointer::retain_handle(inside)?.raw()))
    })?;
    report
        .maybe(name("file descriptor"), || Ok(target(pointer::export_fd(inside)?.as_raw_fd())))?;
    for mapping in [DmaBufMapping::Default, DmaBufMapping::Pcie] {
        report.maybe(name(&format!("dma-buf {mapping:?}")), || {
            let start = memory.address();
            Ok(target(pointer::dmabuf(start, bytes, mapping)?.as_raw_fd()))
        })?;
    }
    report
        .maybe(name("sync memops"), || {
            pointer::set_sync_memops(memory.address())?;
            ensure(pointer::describe(memory.address())?.sync_memops, "not set")?;
            Ok(String::new())
        })
        .map_err(Into::into)
}

fn target(descriptor: i32) -> String {
    let link = format!("/proc/self/fd/{descriptor}");
    std::fs::read_link(link)
        .map_or_else(|error| error.to_string(), |path| path.display().to_string())
}
