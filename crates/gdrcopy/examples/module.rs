//! Exercises the backend of gdrdrv on device addresses given as numbers, without CUDA: `module
//! ADDRESS WHAT`, where 1 MiB from ADDRESS on can be pinned.
//!
//! WHAT is `basic`, `revoked` or `eagain`, made for the double of the module in
//! `tests/vm/gdrdrv-fake`, whose own view of its memory each is compared with; or `refused`,
//! which says why the backend does not open. Exit code 1 where a claim fails.

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
        say(&format!(
            "{} {:?}: {}",
            found.backend, found.outcome, found.why
        ))?;
    }
    match what.as_str() {
        "basic" => basic(address),
        "revoked" => revoked(address),
        "eagain" => eagain(address),
        "refused" => refused(),
        other => Err(format!("nothing is called {other}").into()),
    }
}

/// The first byte pinned lies this far into the memory: within a page, and not a multiple of
/// anything.
const LEAD: u64 = 0x1_1235;
const LENGTH: usize = 70_001;

fn basic(address: u64) -> Outcome {
    let gdr = Gdr::open()?;
    claim("gdrdrv comes first", gdr.backend() == BackendKind::Gdrdrv)?;
    let (major, minor) = gdr.driver_version();
    let attributes = [
        Attribute::PersistentMapping,
        Attribute::ForcePcie,
        Attribute::UsingDmaBuf,
    ]
    .map(|which| gdr.attribute(which));
    say(&format!(
        "version {major}.{minor} attributes {attributes:?}"
    ))?;
    let pin = pin(&gdr, address + LEAD, LENGTH)?;
    let info = pin.info()?;
    claim(
        "whole pages are pinned",
        (info.va, info.mapped_size, info.page_size) == (address + 0x1_0000, 0x2_0000, 65536),
    )?;
    claim(
        "not mapped before",
        !info.mapped && info.mapping_type == MappingType::None,
    )?;
    let mut mapping = pin.map(MapRequest::Default)?;
    say(&format!("mapped as {}", mapping.mapping_type()))?;
    let info = pin.info()?;
    claim(
        "mapped after",
        info.mapped && info.mapping_type == mapping.mapping_type(),
    )?;
    both_ways(&mut mapping, address)?;
    claim(
        "one mapping at a time",
        pin.map(MapRequest::Default)
            .is_err_and(|error| error.errno() == libc::EAGAIN),
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
    claim(
        "no device mapping here",
        uncommon.is_err_and(|error| error.errno() != 0),
    )?;
    drop(pin.map(MapRequest::Default)?);
    drop(pin);
    drop(second);
    claim("address 0 is refused", self::pin(&gdr, 0, 1).is_err())?;
    claim(
        "what is no memory is refused",
        self::pin(&gdr, address - 65536, 1).is_err_and(|error| error.errno() == libc::EINVAL),
    )?;
    // SAFETY: the double's memory; nothing is accessed.
    let forced = unsafe { gdr.pin_raw(DevicePtr::new(address), 1, PinFlags { force_pcie: true }) };
    claim(
        "force_pcie as the attribute says",
        forced.is_ok() == (attributes[1] != 0),
    )?;
    drop(forced);
    for round in 0..200 {
        let pin = self::pin(&gdr, address + round * 100, 65536)?;
        drop(pin.map(MapRequest::Default)?);
    }
    say("well")
}

/// The memory of the double, past every mapping.
fn memory() -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/gdrdrv-fake/memory")
}

fn both_ways(mapping: &mut Mapping, address: u64) -> Outcome {
    let pattern = gpu::Pattern::new(address);
    let mut expected = vec![0; LENGTH];
    pattern.fill(&mut expected, 0);
    mapping.write(0, &expected)?;
    let mut seen = vec![0; LENGTH];
    memory()?.read_exact_at(&mut seen, LEAD)?;
    claim("what the CPU writes is in the memory", seen == expected)?;
    expected.reverse();
    memory()?.write_all_at(&expected, LEAD)?;
    mapping.read(0, &mut seen)?;
    claim("what is in the memory the CPU reads", seen == expected)
}

fn words(mapping: &mut Mapping) -> Outcome {
    // LEAD is 3 short of a multiple of 8.
    mapping.store(3, 0x0123_4567_89AB_CDEF_u64)?;
    mapping.fence();
    let mut seen = [0; 8];
    memory()?.read_exact_at(&mut seen, LEAD + 3)?;
    claim(
        "a word is stored whole",
        seen == 0x0123_4567_89AB_CDEF_u64.to_le_bytes(),
    )?;
    claim(
        "and loaded whole",
        mapping.load::<u64>(3)? == 0x0123_4567_89AB_CDEF,
    )?;
    claim(
        "an unaligned one is refused",
        mapping.load::<u64>(4).is_err(),
    )?;
    claim(
        "and one beyond the end",
        mapping.load::<u8>(LENGTH).is_err(),
    )
}

fn child(mapping: &Mapping, pin: &Pin) -> Outcome {
    let faults = fork(|| {
        // SAFETY: the child has no such mapping, which is what this shows: the read faults.
        i32::from(unsafe { mapping.as_ptr().read_volatile() })
    })?;
    claim("a child's access faults", libc::WIFSIGNALED(faults))?;
    let refused = fork(|| pin.info().map_or_else(|error| error.errno(), |_| 0))?;
    claim(
        "a child's question is refused",
        libc::WIFEXITED(refused) && libc::WEXITSTATUS(refused) == libc::EACCES,
    )
}

fn fork(work: impl FnOnce() -> i32) -> Result<i32, Box<dyn Error>> {
    // SAFETY: one thread runs; the child calls `work` and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = work();
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is written by the call and lives through it.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(status)
}

/// The memory is freed under the pin; the double is not persistent.
fn revoked(address: u64) -> Outcome {
    let gdr = Gdr::open_with(BackendKind::Gdrdrv)?;
    claim(
        "not persistent",
        gdr.attribute(Attribute::PersistentMapping) == 0,
    )?;
    let pin = pin(&gdr, address, 65536)?;
    let other = self::pin(&gdr, address + 0x2_0000, 65536)?;
    let mapping = pin.map(MapRequest::Default)?;
    let mut theirs = other.map(MapRequest::Default)?;
    claim("not revoked at first", !pin.revoked()?)?;
    std::fs::write(
        "/proc/gdrdrv-fake/revoke",
        format!("address {address:#x}"),
    )?;
    claim("revoked", pin.revoked()?)?;
    claim("the other one is not", !other.revoked()?)?;
    theirs.write(0, b"still here")?;
    let faults = fork_free_fault(&mapping)?;
    claim("an access faults", faults)?;
    drop(mapping);
    let again = pin.map(MapRequest::Default);
    claim(
        "it maps no more, and says why",
        matches!(again, Err(gdrcopy::Error::Revoked)),
    )?;
    drop((again, pin, theirs, other));
    say("well")
}

/// Whether reading the mapping's first byte faults, seen by the kernel's eyes: it answers EFAULT
/// where the CPU would get a signal.
fn fork_free_fault(mapping: &Mapping) -> Result<bool, Box<dyn Error>> {
    let (reader, writer) = std::io::pipe()?;
    use std::os::fd::AsRawFd;
    // SAFETY: the kernel reads one byte of a mapping that is ours, or finds that it cannot.
    let wrote = unsafe { libc::write(writer.as_raw_fd(), mapping.as_ptr().as_ptr().cast(), 1) };
    drop(reader);
    Ok(wrote < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT))
}

/// The double once calls a mapped pin not mapped, as a module under a race does.
fn eagain(address: u64) -> Outcome {
    let gdr = Gdr::open_with(BackendKind::Gdrdrv)?;
    let pin = pin(&gdr, address, 65536)?;
    std::fs::write("/sys/module/gdrdrv_fake/parameters/eagain", "1")?;
    let first = pin.map(MapRequest::Default);
    claim(
        "EAGAIN",
        first.is_err_and(|error| error.errno() == libc::EAGAIN),
    )?;
    drop(pin.map(MapRequest::Default)?);
    say("well")
}

fn refused() -> Outcome {
    match Gdr::open_with(BackendKind::Gdrdrv) {
        Ok(_) => Err("it opens".into()),
        Err(error) => say(&format!("errno {}: {error}", error.errno())),
    }
}

fn pin(gdr: &Gdr, address: u64, length: usize) -> Result<Pin, gdrcopy::Error> {
    // SAFETY: made-up memory of the double, which nobody else uses.
    unsafe { gdr.pin_raw(DevicePtr::new(address), length, PinFlags::default()) }
}

fn claim(what: &str, holds: bool) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(format!("it does not hold that: {what}").into())
    }
}

fn say(line: &str) -> Outcome {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}
