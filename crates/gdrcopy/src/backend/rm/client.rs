//! This process's RM client and its objects, each freed on drop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gdr_sys::process::Process;
use gdr_sys::rm::Status;

use super::calls::{Answer, Caller, Calls, RmError};
use super::fault::{self, Step};
use crate::Error;

/// RM client. RM serves it only through the file that created it, and only in the process that
/// created it.
#[derive(Debug)]
pub(crate) struct Client {
    calls: Arc<dyn Calls>,
    control: OwnedFd,
    handle: u32,
    next: AtomicU32,
    owner: Process,
}

/// First handle of our objects: easy to recognise in a kernel log, and below all handles of RM.
const FIRST_HANDLE: u32 = 0x6D00_0000;

/// `NV_ERR_INSERT_DUPLICATE_NAME`: the handle is in use.
const TAKEN: Status = Status(0x19);

impl Client {
    pub(crate) fn open(calls: Arc<dyn Calls>) -> Result<Self, Error> {
        let control = calls.open_control().map_err(|source| Error::System {
            operation: "open /dev/nvidiactl".to_owned(),
            source,
        })?;
        let handle =
            calls.new_client(control.as_fd()).map_err(|error| fault::error(Step::Client, error))?;
        Ok(Self {
            calls,
            control,
            handle,
            next: AtomicU32::new(FIRST_HANDLE),
            owner: Process::current(),
        })
    }

    pub(crate) fn calls(&self) -> &dyn Calls {
        &*self.calls
    }

    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller { control: self.control(), client: self.handle }
    }

    /// A forked child shares the control file: freeing there would free the parent's objects.
    pub(crate) fn is_ours(&self) -> bool {
        self.owner == Process::current()
    }

    /// Creates an object under a new handle.
    pub(crate) fn make(
        self: &Arc<Self>,
        parent: u32,
        make: impl Fn(&dyn Calls, Caller<'_>, u32) -> Answer<()>,
    ) -> Answer<Object> {
        loop {
            // Handles wrap after four thousand million objects; those in use are skipped.
            let handle = self.next.fetch_add(1, Ordering::Relaxed);
            if handle == 0 || handle == self.handle {
                continue;
            }
            match make(self.calls(), self.caller(), handle) {
                Err(RmError::Status(TAKEN)) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    return Ok(Object { client: Arc::clone(self), parent, handle });
                }
            }
        }
    }

    /// Creates `count` objects in one call.
    pub(crate) fn make_many(
        self: &Arc<Self>,
        parent: u32,
        count: usize,
        make: impl Fn(&dyn Calls, Caller<'_>, &[u32]) -> Answer<()>,
    ) -> Answer<Vec<Object>> {
        let handles: Vec<u32> =
            (0..count).map(|_| self.next.fetch_add(1, Ordering::Relaxed)).collect();
        make(self.calls(), self.caller(), &handles)?;
        let object = |handle| Object { client: Arc::clone(self), parent, handle };
        Ok(handles.into_iter().map(object).collect())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.is_ours() {
            // Freeing the client frees its objects. Errors are ignored: closing the file frees it
            // too.
            let _ = self.calls.free(self.caller(), self.handle, self.handle);
        }
    }
}

/// Object of ours: a device, or a reference to memory. Freed on drop.
#[derive(Debug)]
pub(crate) struct Object {
    client: Arc<Client>,
    parent: u32,
    handle: u32,
}

impl Object {
    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.client.is_ours() {
            // Fails only for an unknown handle, which needs no free.
            let _ = self.client.calls.free(self.client.caller(), self.parent, self.handle);
        }
    }
}
