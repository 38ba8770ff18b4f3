//! What the resource manager is asked, one method a call, so that a fake can answer in its place.

use std::fmt::Debug;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use gdr_sys::rm::Status;

use crate::vma::Vma;

/// Why a call failed: the system refused it, or RM answered with a status.
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

/// One GPU of the machine, as RM lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) domain: u32,
    pub(crate) bus: u8,
    pub(crate) slot: u8,
    pub(crate) gpu_id: u32,
    pub(crate) minor: u32,
    /// Bytes.
    pub(crate) bar1: u64,
}

/// What an exported file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) device: u32,
    /// The MIG instance, where the driver says so.
    pub(crate) gpu_instance: Option<u32>,
    pub(crate) objects: u16,
}

/// What a memory object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Surface {
    /// In the numbers of [`gdr_sys::rm::VIDEO_MEMORY`].
    pub(crate) space: u32,
    /// Bytes.
    pub(crate) size: u64,
}

/// The client a call is made for: its handle and the control file it was made through, without
/// which RM refuses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) client: u32,
}

/// The calls. Handles of new objects are the caller's choice.
pub(crate) trait Calls: Debug + Send + Sync {
    fn open_control(&self) -> io::Result<OwnedFd>;
    /// The driver's release, such as `580.159.04`; empty before 530.
    fn release(&self, control: BorrowedFd<'_>) -> io::Result<String>;
    fn cards(&self, control: BorrowedFd<'_>) -> io::Result<Vec<Card>>;
    /// A fresh file of the GPU's node: each takes one mapping in its life.
    fn open_device(&self, minor: u32) -> io::Result<OwnedFd>;
    /// Lets the client live as long as `device` or a mapping of it does.
    fn register(&self, device: BorrowedFd<'_>, control: BorrowedFd<'_>) -> io::Result<()>;

    fn new_client(&self, control: BorrowedFd<'_>) -> Answer<u32>;
    fn new_device(&self, caller: Caller<'_>, object: u32, instance: u32) -> Answer<()>;
    fn new_subdevice(&self, caller: Caller<'_>, device: u32, object: u32) -> Answer<()>;
    fn free(&self, caller: Caller<'_>, parent: u32, object: u32) -> Answer<()>;
    fn device_instance(&self, caller: Caller<'_>, gpu_id: u32) -> Answer<u32>;
    /// Whether all of the GPU's memory stands in BAR1, so that a mapping takes nothing of it.
    fn static_bar1(&self, caller: Caller<'_>, subdevice: u32) -> Answer<bool>;

    fn duplicate(
        &self,
        caller: Caller<'_>,
        parent: u32,
        object: u32,
        source: (u32, u32),
    ) -> Answer<()>;
    fn export_info(&self, caller: Caller<'_>, file: BorrowedFd<'_>) -> Answer<Export>;
    /// Imports the objects of `file` from `first` on under these handles.
    fn import(
        &self,
        caller: Caller<'_>,
        device: u32,
        file: BorrowedFd<'_>,
        first: u16,
        objects: &[u32],
    ) -> Answer<()>;
    fn surface(&self, caller: Caller<'_>, memory: u32) -> Answer<Surface>;

    /// Prepares `file` to show a part of the memory; the answer is what [`Calls::unmap`] wants.
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
    /// Shows what `file` was prepared for in the range; `None` for an address that is none.
    fn place(
        &self,
        vma: &mut Vma,
        at: usize,
        length: usize,
        file: BorrowedFd<'_>,
    ) -> io::Result<Option<()>>;
}
