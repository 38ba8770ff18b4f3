//! `GDS_ENABLE_WAIT_CHECKER`: logs whether a stream has reached and passed each of its waits by NOR.
//!
//! The stream writes a mark before and after such a wait. A thread reads the marks and the word, and logs changes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gdr_sys::process::PerProcess;
use gpu::{Compare, DevicePtr, MemOp, Registration, bytes};

use crate::call_error::CallError;
use crate::log::{self, Level};
use crate::mapped;
use crate::registry::Lookup;

/// Waits checked at a time. Further ones are not checked.
const MAX: usize = 1024;
const INTERVAL: Duration = Duration::from_millis(1);

/// Marks of a stream.
const REACHED: u32 = 1;
const PASSED: u32 = 2;

#[derive(Default)]
struct Checker {
    /// CPU address of the marks; allocated for the first wait.
    marks: Option<usize>,
    /// Marks that no wait uses. A stream writes a mark until it has passed the wait.
    free: Vec<usize>,
    open: Vec<Check>,
    next: u64,
    has_thread: bool,
}

/// A wait that is checked.
pub(crate) struct Check {
    number: u64,
    slot: usize,
    at: DevicePtr,
    value: u32,
    /// What was logged last: the mark and the word.
    logged: Option<(u32, Option<u32>)>,
}

/// Per process: neither threads nor CUDA survive a fork.
static CHECKER: PerProcess<Mutex<Checker>> = PerProcess::new(Mutex::default);

/// Adds marks to the waits by NOR of a batch. Call [`watch`] when it is posted. A batch that CUDA rejects may have been executed in part:
/// its marks are not used again.
pub(crate) fn add(ops: &mut Vec<MemOp<DevicePtr>>) -> Vec<Check> {
    let is_checked =
        |op: &MemOp<DevicePtr>| matches!(op, MemOp::Wait32 { compare: Compare::Nor, .. });
    let mut checks = Vec::new();
    if !ops.iter().any(is_checked) {
        return checks;
    }
    let mut checker = checker();
    let marks = match checker.marks() {
        Ok(marks) => marks,
        Err(error) => {
            warn(format_args!("waits are not checked: {error}"));
            return checks;
        }
    };
    let mut marked = Vec::with_capacity(ops.len());
    for op in ops.drain(..) {
        let check = match op {
            MemOp::Wait32 { at, value, compare: Compare::Nor, .. } => checker.check(at, value),
            _ => None,
        };
        let Some(check) = check else {
            marked.push(op);
            continue;
        };
        let mark = |value| MemOp::Write32 { at: marks.offset(4 * check.slot as u64), value };
        marked.extend([mark(REACHED), op, mark(PASSED)]);
        checks.push(check);
    }
    *ops = marked;
    checks
}

/// Logs the progress of these waits, until the stream has passed them.
pub(crate) fn watch(checks: Vec<Check>) {
    if checks.is_empty() {
        return;
    }
    let mut checker = checker();
    checker.open.extend(checks);
    if checker.has_thread {
        return;
    }
    let named = std::thread::Builder::new().name("gds-checker".to_owned());
    match named.spawn(run) {
        Ok(_) => checker.has_thread = true,
        Err(error) => warn(format_args!("waits are not checked: no thread to read them: {error}")),
    }
}

/// Ends when no wait is open.
fn run() {
    loop {
        let mut checker = checker();
        checker.look();
        if checker.open.is_empty() {
            checker.has_thread = false;
            return;
        }
        drop(checker);
        std::thread::sleep(INTERVAL);
    }
}

impl Checker {
    /// GPU address of the marks, in the current context.
    fn marks(&mut self) -> Result<DevicePtr, CallError> {
        const BYTES: usize = 4 * MAX;
        let start = match self.marks {
            Some(start) => start,
            None => {
                let memory = mapped::allocate_host(BYTES, crate::abi::MEMORY_HOST)?;
                self.free = (0..MAX).rev().collect();
                *self.marks.insert(memory.h_ptr.expose_provenance())
            }
        };
        // SAFETY: the memory is never freed.
        unsafe { Lookup::default().device_address(start, BYTES, Registration::Memory) }
    }

    fn check(&mut self, at: DevicePtr, value: u32) -> Option<Check> {
        let slot = self.free.pop();
        if slot.is_none() {
            warn(format_args!("a wait at {at} is not checked: {MAX} waits are open"));
        }
        let slot = slot?;
        // SAFETY: `slot` is a mark that no stream writes any more, in memory that is never freed.
        unsafe { bytes::store32(self.mark(slot), 0) };
        self.next += 1;
        Some(Check { number: self.next, slot, at, value, logged: None })
    }

    fn mark(&self, slot: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.marks.unwrap_or_default() + 4 * slot)
    }

    /// Logs what has changed.
    fn look(&mut self) {
        for mut check in std::mem::take(&mut self.open) {
            // SAFETY: a mark, in memory that is never freed.
            let mark = unsafe { bytes::load32(self.mark(check.slot)) };
            let word = word(check.at);
            if check.logged != Some((mark, word)) {
                check.log(mark, word);
                check.logged = Some((mark, word));
            }
            if mark == PASSED {
                self.free.push(check.slot);
            } else {
                self.open.push(check);
            }
        }
    }
}

impl Check {
    fn log(&self, mark: u32, word: Option<u32>) {
        let Self { number, at, value, .. } = self;
        let word_text = match word {
            Some(word) => format!("the word is {word:#010x}"),
            None => "the CPU cannot read the word".to_owned(),
        };
        let holds = word.is_none_or(|word| Compare::Nor.holds32(word, *value));
        let (level, text) = match (mark, holds) {
            (PASSED, true) => (Level::Info, "passed"),
            (PASSED, false) => (
                Level::Warning,
                "passed, but the word does not satisfy it: it has changed since, or the stream passed too early",
            ),
            (REACHED, false) => (Level::Info, "the stream waits"),
            (REACHED, true) => (Level::Info, "the stream waits, the word satisfies it"),
            _ => (Level::Info, "not yet reached"),
        };
        log::write(
            level,
            "wait_checker",
            format_args!("{number}: NOR {at} value {value:#010x}: {text}; {word_text}"),
        );
    }
}

/// The word at a GPU address, if the CPU can read it. The program may have freed the memory.
fn word(at: DevicePtr) -> Option<u32> {
    if let Some(word) = mapped::load(at) {
        return Some(word);
    }
    let mut to = [0_u8; 4];
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // Host memory has the same address on the GPU.
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(at.get() as usize),
        iov_len: to.len(),
    };
    // SAFETY: the kernel writes at most four bytes into `to`; it fails for addresses that are not mapped.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    (read == 4).then(|| u32::from_ne_bytes(to))
}

fn warn(message: std::fmt::Arguments<'_>) {
    log::write(Level::Warning, "wait_checker", message);
}

/// Ignores poisoning: the log may then lack lines.
fn checker() -> MutexGuard<'static, Checker> {
    CHECKER.get().lock().unwrap_or_else(PoisonError::into_inner)
}
