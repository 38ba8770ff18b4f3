//! The way in: which backend this process maps GPU memory with, and pinning through it.

use std::fmt;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpu::{DeviceMemory, DevicePtr};

use crate::backend::Backend;
use crate::pin::{Pin, PinFlags};
use crate::{Error, choice};

/// A backend, opened. Clones share it. Opening touches no CUDA; the first pin does, in whatever context the memory has.
#[derive(Debug, Clone)]
pub struct Gdr(Arc<dyn Backend>);

/// A way to map GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// gdrcopy's kernel module.
    Gdrdrv,
    /// dma-buf files of CUDA memory, which drivers map for the CPU from release 610 on.
    DmaBuf,
    /// NVIDIA's resource manager, asked through `/dev/nvidiactl` as CUDA itself does.
    Rm,
    /// Simulated GPUs of [`gpu::Gpu::sim`]; never chosen by itself.
    Sim,
}

impl BackendKind {
    /// The name `GDR_BACKEND` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gdrdrv => "gdrdrv",
            Self::DmaBuf => "dmabuf",
            Self::Rm => "rm",
            Self::Sim => "sim",
        }
    }

    /// The backend of that name.
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

/// What was found of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The backend.
    pub backend: BackendKind,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, in words: what works, or what is lacking and what to do.
    pub why: String,
    /// Whether it is there but forbidden to this process.
    pub denied: bool,
}

/// What came of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// [`Gdr::open`] takes it.
    Chosen,
    /// It works, and another one comes before it.
    Usable,
    /// It does not work here.
    Refused,
}

/// A property of a backend, in the numbers of gdrcopy's `gdr_attr_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// Whether pins outlive the free of their memory.
    PersistentMapping = 1,
    /// Whether [`PinFlags::force_pcie`] is taken.
    ForcePcie = 2,
    /// Whether there is no gdrdrv under it: programs that look into gdrdrv's structures ask this first.
    UsingDmaBuf = 3,
}

impl Gdr {
    /// The backend `GDR_BACKEND` names, else the first that works: gdrdrv, dma-buf, RM. Touches no CUDA library, so a program
    /// may fork afterwards.
    ///
    /// # Errors
    /// [`Error::NoBackend`] with what each lacks; [`Error::BackendName`]; [`Error::Refused`] where the named one does not work.
    pub fn open() -> Result<Self, Error> {
        choice::open().map(Self)
    }

    /// This backend and no other.
    ///
    /// # Errors
    /// [`Error::Refused`] with what it lacks; what opening it met, such as [`Error::System`].
    pub fn open_with(kind: BackendKind) -> Result<Self, Error> {
        choice::open_with(kind).map(Self)
    }

    /// What was found of each backend, the one that [`Gdr::open`] takes marked. Opens and closes each; touches no CUDA.
    pub fn explain() -> Vec<Explanation> {
        choice::explain()
    }

    /// The same, with backends that only show themselves on memory tried on this memory: pinned, mapped, and let go.
    pub fn explain_with(memory: &DeviceMemory) -> Vec<Explanation> {
        choice::explain_with(memory)
    }

    /// Which backend this is.
    pub fn backend(&self) -> BackendKind {
        self.0.kind()
    }

    /// Major and minor version of what serves the backend: gdrdrv's own; for the others the gdrdrv version they are equal to,
    /// 2.6, because that is what callers compare with.
    pub fn driver_version(&self) -> (u16, u16) {
        self.0.version()
    }

    /// A property of the backend; 0 where an old gdrdrv does not know it.
    pub fn attribute(&self, attribute: Attribute) -> i32 {
        self.0.attribute(attribute)
    }

    /// The open `/dev/gdrdrv`; `None` with any other backend.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    /// Pins a part of device memory, which stays allocated until the pin and all its mappings are gone.
    ///
    /// # Errors
    /// [`Error::Range`]; [`Error::Memory`] for a sort of memory that cannot be mapped; [`Error::Flag`]; [`Error::Address`];
    /// [`Error::Forked`]; and what CUDA, the driver and the system answer.
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
        Ok(Pin::new(
            pinned,
            length,
            Some((memory.clone(), range.start)),
            Arc::clone(&self.0),
        ))
    }

    /// Pins device memory by its address alone.
    ///
    /// # Safety
    /// Where the memory is freed while pinned or mapped, the pages stay but CUDA may give a small allocation's addresses to the
    /// program again; the caller answers for what it then reads and writes there. The address may be any number: one that is
    /// not device memory of this process is an error.
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

    pub(crate) fn over(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }
}
