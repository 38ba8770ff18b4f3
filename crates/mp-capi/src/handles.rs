//! Handles: numbers that are never used twice, and what they stand for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::Handle;
use crate::call_error::CallError;

/// Bits of a handle that tell its kind.
const KIND_BITS: u32 = 4;

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    what: &'static str,
    kind: usize,
    table: Mutex<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    objects: HashMap<usize, Arc<T>>,
    last: usize,
}

impl<T> Handles<T> {
    /// `kind` is 1 to 15, different for each kind.
    pub fn new(what: &'static str, kind: usize) -> Self {
        let objects = HashMap::new();
        Self { what, kind, table: Mutex::new(Table { objects, last: 0 }) }
    }

    pub fn add(&self, object: T) -> Handle {
        let mut table = self.table();
        table.last += 1;
        let number = table.last << KIND_BITS | self.kind;
        table.objects.insert(number, Arc::new(object));
        std::ptr::without_provenance_mut(number)
    }

    pub fn get(&self, handle: Handle) -> Result<Arc<T>, CallError> {
        let found = self.table().objects.get(&handle.addr()).cloned();
        found.ok_or(CallError::Unknown { what: self.what })
    }

    pub fn remove(&self, handle: Handle) -> Result<Arc<T>, CallError> {
        let found = self.table().objects.remove(&handle.addr());
        found.ok_or(CallError::Unknown { what: self.what })
    }

    /// True if it existed once.
    pub fn was_issued(&self, handle: Handle) -> bool {
        let number = handle.addr();
        let last = self.table().last;
        number & ((1 << KIND_BITS) - 1) == self.kind && (1..=last).contains(&(number >> KIND_BITS))
    }

    /// Ignores poisoning: every change is one step.
    fn table(&self) -> MutexGuard<'_, Table<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle at a pointer to one.
///
/// # Safety
///
/// `pointer` is NULL, misaligned or readable.
pub(crate) unsafe fn at(what: &'static str, pointer: *const Handle) -> Result<Handle, CallError> {
    check(what, pointer.cast_mut())?;
    // SAFETY: not NULL and aligned; the caller promises that it is readable.
    Ok(unsafe { pointer.read() })
}

/// Writes a handle.
///
/// # Safety
///
/// `pointer` was [checked](check), and is writable.
pub(crate) unsafe fn put(pointer: *mut Handle, handle: Handle) {
    // SAFETY: the caller's promise.
    unsafe { pointer.write(handle) };
}

/// Checks a pointer for NULL and alignment.
pub(crate) fn check<P>(what: &'static str, pointer: *mut P) -> Result<(), CallError> {
    if pointer.is_null() {
        return Err(CallError::Null { what });
    }
    if pointer.is_aligned() {
        Ok(())
    } else {
        Err(CallError::Misaligned { what, address: pointer.addr(), alignment: align_of::<P>() })
    }
}

/// The handles of an array.
///
/// # Safety
///
/// `pointer` is NULL, misaligned, or has `count` handles.
pub(crate) unsafe fn all(
    what: &'static str,
    pointer: *const Handle,
    count: usize,
) -> Result<Vec<Handle>, CallError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check(what, pointer.cast_mut())?;
    // SAFETY: not NULL and aligned; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec())
}
