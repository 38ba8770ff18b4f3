//! Tests the gdrdrv backend on device addresses given as numbers, without CUDA: `module ADDRESS
//! WHAT`, with 1 MiB from ADDRESS that can be pinned.
//!
//! WHAT is `basic`, `revoked` or `eagain`, for the fake module in `tests/vm/gdrdrv-double`, whose
//! view of its memory is compared; or `refused`, which prints why the backend does not open. Exit
//! code 1 if a check fails.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use gdrcopy::{Attribute, BackendKind, Gdr, MapRequest, Mapping, MappingType, Pin, PinFlags};
use gpu::DevicePtr;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, what] = words.as_slice() else {
        return Err("usage: module ADDRESS basic|revoked|eagain|refused".into());
    };
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
    for found in Gdr::explain() {
        print_line(&format!("{} {:?}: {}", found.backend, found.outcome, found.why))?;
    }
    match what.as_str() {
        "basic" => basic(address),
        "revoked" => revoked(address),
        "eagain" => eagain(address),
        "refused" => refused(),
        other => Err(format!("unknown test {other}").into()),
    }
}

/// Offset of the first pinned byte: inside a page and unaligned.
const LEAD: u64 = 0x1_1235;
const LENGTH: usize = 70_001;

fn basic(address: u64) -> Outcome {
    let gdr = Gdr::open()?;
    claim("gdrdrv comes first", gdr.backend() == BackendKind::Gdrdrv)?;
    let (major, minor) = gdr.driver_version();
    let attributes = [Attribute::PersistentMapping, Attribute::ForcePcie, Attribute::UsingDmaBuf]
        .map(|which| gdr.attribute(which));
    print_line(&format!("version {major}.{minor} attributes {attributes:?}"))?;
    let pin = pin(&gdr, address + LEAD, LENGTH)?;
    let info = pin.info()?;
    claim(
        "whole pages are pinned",
        (info.va, info.mapped_size, info.page_size) == (address + 0x1_0000, 0x2_0000, 65536),
    )?;
    claim("not mapped before", !info.mapped && info.mapping_type == MappingType::None)?;
    let mut mapping = pin.map(MapRequest::Default)?;
    print_line(&format!("mapped as {}", mapping.mapping_type()))?;
    let info = pin.info()?;
    claim("mapped after", info.mapped && info.mapping_type == mapping.mapping_type())?;
    both_ways(&mut mapping, address)?;
    claim(
        "one mapping at a time",
        pin.map(MapRequest::Default).is_err_and(|error| error.errno() == libc::EAGAIN),
    )?;
    words(&mut mapping)?;
    child(&mapping, &pin)?;
    let second = self::pin(&gdr, address + LEAD + 1, 1)?;
    let mut other = second.map(MapRequest::Default)?;
    claim("handles differ", second.handle() != pin.handle())?;
    other.write(0, &[0xE7])?;
    let mut seen = [0; 2];
    mapping.read(0, &mut seen)?;
    claim("two pins show the same page", seen[1] == 0xE7)?;
    drop((mapping, other));
    claim("unmapped", !pin.info()?.mapped)?;
    drop(pin.map(MapRequest::Default)?);
    let uncommon = pin.map(MapRequest::Device);
    claim("no device mapping here", uncommon.is_err_and(|error| error.errno() != 0))?;
    drop(pin.map(MapRequest::Default)?);
    drop(pin);
    drop(second);
    claim("address 0 is refused", self::pin(&gdr, 0, 1).is_err())?;
    claim(
        "an address without memory is an error",
        self::pin(&gdr, address - 65536, 1).is_err_and(|error| error.errno() == libc::EINVAL),
    )?;
    // SAFETY: memory of the fake module; nothing is accessed.
    let forced = unsafe { gdr.pin_raw(DevicePtr::new(address), 1, PinFlags { force_pcie: true }) };
    claim("force_pcie as in the attribute", forced.is_ok() == (attributes[1] != 0))?;
    drop(forced);
    for round in 0..200 {
        let pin = self::pin(&gdr, address + round * 100, 65536)?;
        drop(pin.map(MapRequest::Default)?);
    }
    print_line("passed")
}

/// Memory of the fake module, bypassing every mapping.
fn memory() -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/proc/gdrdrv-fake/memory")
}

fn both_ways(mapping: &mut Mapping, address: u64) -> Outcome {
    let pattern = gpu::Pattern::new(address);
    let mut expected = vec![0; LENGTH];
    pattern.fill(&mut expected, 0);
    mapping.write(0, &expected)?;
    let mut seen = vec![0; LENGTH];
    memory()?.read_exact_at(&mut seen, LEAD)?;
    claim("CPU writes reach the memory", seen == expected)?;
    expected.reverse();
    memory()?.write_all_at(&expected, LEAD)?;
    mapping.read(0, &mut seen)?;
    claim("the CPU reads the memory", seen == expected)
}

fn words(mapping: &mut Mapping) -> Outcome {
    // LEAD is 3 less than a multiple of 8.
    mapping.store(3, 0x0123_4567_89AB_CDEF_u64)?;
    mapping.fence();
    let mut seen = [0; 8];
    memory()?.read_exact_at(&mut seen, LEAD + 3)?;
    claim("store of a word", seen == 0x0123_4567_89AB_CDEF_u64.to_le_bytes())?;
    claim("load of a word", mapping.load::<u64>(3)? == 0x0123_4567_89AB_CDEF)?;
    claim("an unaligned load is an error", mapping.load::<u64>(4).is_err())?;
    claim("a load beyond the end is an error", mapping.load::<u8>(LENGTH).is_err())
}

fn child(mapping: &Mapping, pin: &Pin) -> Outcome {
    let faults = fork(|| {
        // SAFETY: the child does not have the mapping, so the read faults, which this tests.
        i32::from(unsafe { mapping.as_ptr().read_volatile() })
    })?;
    claim("a child's access faults", libc::WIFSIGNALED(faults))?;
    let refused = fork(|| pin.info().map_or_else(|error| error.errno(), |_| 0))?;
    claim(
        "a child's query is an error",
        libc::WIFEXITED(refused) && libc::WEXITSTATUS(refused) == libc::EACCES,
    )
}

fn fork(work: impl FnOnce() -> i32) -> Result<i32, Box<dyn Error>> {
    // SAFETY: one thread runs; the child calls `work` and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = work();
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(status)
}

/// The memory is freed while pinned; the fake module is not persistent.
fn revoked(address: u64) -> Outcome {
    let gdr = Gdr::open_with(BackendKind::Gdrdrv)?;
    claim("not persistent", gdr.attribute(Attribute::PersistentMapping) == 0)?;
    let pin = pin(&gdr, address, 65536)?;
    let other = self::pin(&gdr, address + 0x2_0000, 65536)?;
    let mapping = pin.map(MapRequest::Default)?;
    let mut theirs = other.map(MapRequest::Default)?;
    claim("not revoked initially", !pin.revoked()?)?;
    std::fs::write("/proc/gdrdrv-fake/revoke", format!("address {address:#x}"))?;
    claim("revoked", pin.revoked()?)?;
    claim("the other pin is not revoked", !other.revoked()?)?;
    theirs.write(0, b"still here")?;
    let faults = fork_free_fault(&mapping)?;
    claim("an access faults", faults)?;
    drop(mapping);
    let again = pin.map(MapRequest::Default);
    claim("a revoked pin cannot be mapped", matches!(again, Err(gdrcopy::Error::Revoked)))?;
    drop((again, pin, theirs, other));
    print_line("passed")
}

/// True if an access to the mapping's first byte faults: the kernel returns EFAULT where the CPU
/// would get a signal.
fn fork_free_fault(mapping: &Mapping) -> Result<bool, Box<dyn Error>> {
    let (reader, writer) = std::io::pipe()?;
    use std::os::fd::AsRawFd;
    // SAFETY: the kernel reads one byte of our mapping, or fails.
    let wrote = unsafe { libc::write(writer.as_raw_fd(), mapping.as_ptr().as_ptr().cast(), 1) };
    drop(reader);
    Ok(wrote < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT))
}

/// The fake module once reports a mapped pin as not mapped, as after a race.
fn eagain(address: u64) -> Outcome {
    let gdr = Gdr::open_with(BackendKind::Gdrdrv)?;
    let pin = pin(&gdr, address, 65536)?;
    std::fs::write("/sys/module/gdrdrv_fake/parameters/eagain", "1")?;
    let first = pin.map(MapRequest::Default);
    claim("EAGAIN", first.is_err_and(|error| error.errno() == libc::EAGAIN))?;
    drop(pin.map(MapRequest::Default)?);
    print_line("passed")
}

fn refused() -> Outcome {
    match Gdr::open_with(BackendKind::Gdrdrv) {
        Ok(_) => Err("it opens".into()),
        Err(error) => print_line(&format!("errno {}: {error}", error.errno())),
    }
}

fn pin(gdr: &Gdr, address: u64, length: usize) -> Result<Pin, gdrcopy::Error> {
    // SAFETY: memory of the fake module, used only here.
    unsafe { gdr.pin_raw(DevicePtr::new(address), length, PinFlags::default()) }
}

fn claim(what: &str, holds: bool) -> Outcome {
    if holds { Ok(()) } else { Err(format!("check failed: {what}").into()) }
}

fn print_line(line: &str) -> Outcome {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}
