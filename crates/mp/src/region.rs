//! Registered memory, and staged GPU memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gdsync::MappedMemory;
use gdsync::hca::MemoryRegion;
use gdsync::wire::DataSegment;
use gpu::{DeviceMemory, HostMemory, Stream};

use crate::Error;
use crate::error::gpu_failed;

/// Registered memory. Clones share it. It stays registered until the last clone is dropped and the requests that use it have ended, or
/// until it is [revoked](Self::revoke).
#[derive(Debug, Clone)]
pub struct Region(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Number of its communicator.
    owner: u64,
    place: MappedMemory,
    lkey: u32,
    rkey: u32,
    /// `None` once revoked.
    registered: Mutex<Option<MemoryRegion>>,
    is_revoked: AtomicBool,
    staged: Option<Staged>,
}

/// GPU memory that the HCA cannot access, and its copy in host memory.
#[derive(Debug)]
pub(crate) struct Staged {
    pub host: HostMemory,
    pub device: DeviceMemory,
    /// Offset of the region in `device`.
    pub start: usize,
}

impl Region {
    pub(crate) fn new(
        owner: u64,
        place: MappedMemory,
        registered: MemoryRegion,
        staged: Option<Staged>,
    ) -> Self {
        Self(Arc::new(Inner {
            owner,
            place,
            lkey: registered.lkey,
            rkey: registered.rkey,
            registered: Mutex::new(Some(registered)),
            is_revoked: AtomicBool::new(false),
            staged,
        }))
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.place.len()
    }

    /// True if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the HCA accesses: of staged GPU memory its copy in host memory.
    #[must_use]
    pub fn place(&self) -> &MappedMemory {
        &self.0.place
    }

    /// True if messages go through a copy in host memory.
    #[must_use]
    pub fn is_staged(&self) -> bool {
        self.0.staged.is_some()
    }

    /// Deregisters the memory now: later requests are rejected, and those in progress fail.
    pub fn revoke(&self) {
        self.0.is_revoked.store(true, Ordering::Relaxed);
        let registered = self.registered().take();
        drop(registered);
    }

    pub(crate) fn staged(&self) -> Option<&Staged> {
        self.0.staged.as_ref()
    }

    /// Checks that it can be used with a communicator.
    pub(crate) fn check(&self, owner: u64) -> Result<(), Error> {
        if self.0.owner == owner && !self.0.is_revoked.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(Error::NotRegistered)
        }
    }

    /// Address and rkey for windows.
    pub(crate) fn remote(&self) -> (u64, u32) {
        (self.0.place.address(), self.0.rkey)
    }

    pub(crate) fn segment(&self, range: &Range<usize>) -> Result<DataSegment, Error> {
        let bytes = range.len();
        self.inside(range)?;
        Ok(DataSegment {
            // The caller has checked the sum of all lengths.
            length: bytes as u32,
            key: self.0.lkey,
            address: self.0.place.address() + range.start as u64,
        })
    }

    pub(crate) fn inside(&self, range: &Range<usize>) -> Result<(), Error> {
        if range.start <= range.end && range.end <= self.len() {
            Ok(())
        } else {
            Err(Error::Range { offset: range.start, bytes: range.len(), available: self.len() })
        }
    }

    fn registered(&self) -> MutexGuard<'_, Option<MemoryRegion>> {
        self.0.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies staged memory by the CPU: one stream, made at first use.
#[derive(Debug, Default)]
pub(crate) struct Copier(Mutex<Option<Stream>>);

impl Copier {
    /// Copies a range to host memory, and waits.
    pub fn download(&self, staged: &Staged, range: &Range<usize>) -> Result<(), Error> {
        self.with(staged, |stream| {
            let from = staged.start + range.start;
            stream.download(&staged.host, range.start, &staged.device, from, range.len())
        })
    }

    /// Copies a range to GPU memory, and waits.
    pub fn upload(&self, staged: &Staged, range: &Range<usize>) -> Result<(), Error> {
        self.with(staged, |stream| {
            let to = staged.start + range.start;
            stream.upload(&staged.device, to, &staged.host, range.start, range.len())
        })
    }

    fn with(
        &self,
        staged: &Staged,
        copy: impl FnOnce(&Stream) -> Result<(), gpu::Error>,
    ) -> Result<(), Error> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let copied = || {
            let stream = match made.take() {
                Some(stream) => stream,
                None => staged.device.gpu().stream()?,
            };
            let stream = made.insert(stream);
            copy(stream).and_then(|()| stream.synchronize())
        };
        copied().map_err(gpu_failed("copy staged memory"))
    }
}
