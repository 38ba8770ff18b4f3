//! Backend selection and pinning.

use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpu::{DeviceMemory, DevicePtr};

use crate::backend::Backend;
use crate::pin::{Pin, PinFlags};
use crate::{Error, choice};

/// An open backend. Clones share it. Opening uses no CUDA; the first pin does, in the memory's
/// context.
#[derive(Debug, Clone)]
pub struct Gdr(Arc<dyn Backend>);

/// Mechanism that maps GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// gdrcopy's kernel module.
    Gdrdrv,
    /// dma-buf files of CUDA memory, which the driver can map for the CPU from release 610.
    DmaBuf,
    /// NVIDIA's resource manager through `/dev/nvidiactl`, as CUDA uses it.
    Rm,
    /// Simulated GPUs of [`gpu::Gpu::sim`]; only used when requested.
    Sim,
}

impl BackendKind {
    /// Name for `GDR_BACKEND`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gdrdrv => "gdrdrv",
            Self::DmaBuf => "dmabuf",
            Self::Rm => "rm",
            Self::Sim => "sim",
        }
    }

    /// Backend by name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Gdrdrv, Self::DmaBuf, Self::Rm, Self::Sim]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Availability of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Backend.
    pub backend: BackendKind,
    /// Result.
    pub outcome: Outcome,
    /// Why it works, or what is missing and the fix.
    pub why: String,
    /// True if it exists but this process may not use it.
    pub denied: bool,
}

/// Result of probing a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// [`Gdr::open`] uses it.
    Chosen,
    /// Works, but another backend has priority.
    Usable,
    /// Does not work here.
    Refused,
}

/// Backend property, numbered like gdrcopy's `gdr_attr_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// 1 if pins outlive the free of their memory.
    PersistentMapping = 1,
    /// 1 if [`PinFlags::force_pcie`] is supported.
    ForcePcie = 2,
    /// 1 if the backend is not gdrdrv: programs check this before they read gdrdrv's structures.
    UsingDmaBuf = 3,
}

impl Gdr {
    /// Opens the `GDR_BACKEND` backend, else the first that works of gdrdrv, dma-buf and RM. Does
    /// not load CUDA, so a program may fork afterwards.
    ///
    /// # Errors
    /// [`Error::NoBackend`] with what each lacks; [`Error::BackendName`]; [`Error::Refused`] if the
    /// named one does not work.
    pub fn open() -> Result<Self, Error> {
        choice::open().map(Self)
    }

    /// Opens this backend only.
    ///
    /// # Errors
    /// [`Error::Refused`] with what it lacks; errors of opening it, such as [`Error::System`].
    pub fn open_with(kind: BackendKind) -> Result<Self, Error> {
        choice::open_with(kind).map(Self)
    }

    /// Availability of all backends, with [`Gdr::open`]'s choice marked. Opens and closes each,
    /// without CUDA.
    pub fn explain() -> Vec<Explanation> {
        choice::explain()
    }

    /// Like [`Gdr::explain`], and tests backends that need memory by pinning and mapping this
    /// memory.
    pub fn explain_with(memory: &DeviceMemory) -> Vec<Explanation> {
        choice::explain_with(memory)
    }

    /// The open backend.
    pub fn backend(&self) -> BackendKind {
        self.0.kind()
    }

    /// Major and minor driver version: gdrdrv's own; other backends report 2.6, the gdrdrv version
    /// they match, because callers compare it.
    pub fn driver_version(&self) -> (u16, u16) {
        self.0.version()
    }

    /// Backend property; 0 if an old gdrdrv does not know it.
    pub fn attribute(&self, attribute: Attribute) -> i32 {
        self.0.attribute(attribute)
    }

    /// The open `/dev/gdrdrv`; `None` for other backends.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    /// Pins part of device memory, which stays allocated until the pin and its mappings are
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Memory`] for a kind of memory that cannot be mapped;
    /// [`Error::Flag`]; [`Error::Address`]; [`Error::Forked`]; errors of CUDA, the driver and the
    /// system.
    pub fn pin(
        &self,
        memory: &DeviceMemory,
        range: Range<usize>,
        flags: PinFlags,
    ) -> Result<Pin, Error> {
        let length = range
            .end
            .checked_sub(range.start)
            .filter(|&length| length > 0 && range.end <= memory.len());
        let Some(length) = length else {
            return Err(Error::Range {
                offset: range.start,
                length: range.end.saturating_sub(range.start),
                available: memory.len(),
            });
        };
        let address = memory.address().offset(range.start as u64);
        let pinned = self.0.pin(address, length, flags)?;
        Ok(Pin::new(pinned, length, Some((memory.clone(), range.start)), Arc::clone(&self.0)))
    }

    /// Pins device memory by address.
    ///
    /// # Safety
    /// If the memory is freed while pinned or mapped, its pages stay but CUDA may reuse the
    /// addresses of a small allocation; the caller is responsible for what it then reads and writes
    /// there. The address may be any number: one that is not device memory of this process is an
    /// error.
    ///
    /// # Errors
    /// As [`Gdr::pin`].
    pub unsafe fn pin_raw(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Pin, Error> {
        let pinned = self.0.pin(address, length, flags)?;
        Ok(Pin::new(pinned, length, None, Arc::clone(&self.0)))
    }

    /// For a simulated CUDA whose GPU memory the CPU shares. For tests only.
    #[doc(hidden)]
    #[must_use]
    pub fn of_simulated_cuda() -> Self {
        Self(Arc::new(crate::backend::shared::Shared))
    }

    pub(crate) fn over(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }
}
