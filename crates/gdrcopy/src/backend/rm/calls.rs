//! Calls to the resource manager, one method each, so that tests can use a fake.

use std::fmt::Debug;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use gdr_sys::rm::Status;

use crate::vma::Vma;

/// Why a call failed: a system error or an RM status.
#[derive(Debug)]
pub(crate) enum RmError {
    System(io::Error),
    Status(Status),
}

impl From<io::Error> for RmError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Status> for RmError {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

pub(crate) type Answer<T> = Result<T, RmError>;

/// A GPU as RM lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) domain: u32,
    pub(crate) bus: u8,
    pub(crate) slot: u8,
    pub(crate) gpu_id: u32,
    pub(crate) minor: u32,
    /// Size in bytes.
    pub(crate) bar1: u64,
}

/// Contents of an exported file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) device: u32,
    /// MIG instance, if the driver reports it.
    pub(crate) gpu_instance: Option<u32>,
    pub(crate) objects: u16,
}

/// Properties of a memory object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surface {
    /// Value as in [`gdr_sys::rm::VIDEO_MEMORY`].
    pub(crate) space: u32,
    /// Size in bytes.
    pub(crate) size: u64,
}

/// Client handle and the control file that created it, which RM requires in every call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) client: u32,
}

/// RM calls. The caller chooses handles of new objects.
pub(crate) trait Calls: Debug + Send + Sync {
    fn open_control(&self) -> io::Result<OwnedFd>;
    /// Driver release such as `580.159.04`; empty before 530.
    fn release(&self, control: BorrowedFd<'_>) -> io::Result<String>;
    fn cards(&self, control: BorrowedFd<'_>) -> io::Result<Vec<Card>>;
    /// Opens the GPU's node; each file can take one mapping only.
    fn open_device(&self, minor: u32) -> io::Result<OwnedFd>;
    /// Keeps the client alive as long as `device` or a mapping of it.
    fn register(&self, device: BorrowedFd<'_>, control: BorrowedFd<'_>) -> io::Result<()>;

    fn new_client(&self, control: BorrowedFd<'_>) -> Answer<u32>;
    fn new_device(&self, caller: Caller<'_>, object: u32, instance: u32) -> Answer<()>;
    fn new_subdevice(&self, caller: Caller<'_>, device: u32, object: u32) -> Answer<()>;
    fn free(&self, caller: Caller<'_>, parent: u32, object: u32) -> Answer<()>;
    fn device_instance(&self, caller: Caller<'_>, gpu_id: u32) -> Answer<u32>;
    /// True if BAR1 maps all GPU memory statically, so that a mapping needs no further BAR1.
    fn static_bar1(&self, caller: Caller<'_>, subdevice: u32) -> Answer<bool>;

    fn duplicate(
        &self,
        caller: Caller<'_>,
        parent: u32,
        object: u32,
        source: (u32, u32),
    ) -> Answer<()>;
    fn export_info(&self, caller: Caller<'_>, file: BorrowedFd<'_>) -> Answer<Export>;
    /// Imports the objects of `file` from index `first` under these handles.
    fn import(
        &self,
        caller: Caller<'_>,
        device: u32,
        file: BorrowedFd<'_>,
        first: u16,
        objects: &[u32],
    ) -> Answer<()>;
    fn surface(&self, caller: Caller<'_>, memory: u32) -> Answer<Surface>;

    /// Prepares `file` to map a part of the memory; the result is the argument of [`Calls::unmap`].
    fn map(
        &self,
        caller: Caller<'_>,
        device: u32,
        memory: u32,
        offset: u64,
        length: u64,
        file: BorrowedFd<'_>,
    ) -> Answer<u64>;
    fn unmap(&self, caller: Caller<'_>, device: u32, memory: u32, linear: u64) -> Answer<()>;
    /// Maps the prepared `file` in the range; `None` if the driver returned an invalid address.
    fn place(
        &self,
        vma: &mut Vma,
        at: usize,
        length: usize,
        file: BorrowedFd<'_>,
    ) -> io::Result<Option<()>>;
}
