//! CUDA queries about memory, behind a trait so that tests can use a fake.

use std::fmt::Debug;
use std::os::fd::OwnedFd;

use gpu::pointer::{self, MemoryKind, Pointer, Reader, Scratch, ScratchKind};
use gpu::{DevicePtr, PciAddress};

/// Allocation as CUDA describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) base: DevicePtr,
    /// Size in bytes.
    pub(crate) size: u64,
    pub(crate) kind: AllocationKind,
    pub(crate) ordinal: u32,
    pub(crate) pci: Option<PciAddress>,
    /// Unique within the process; 0 if the driver does not report it.
    pub(crate) buffer_id: u64,
}

/// How the memory was allocated, which determines how to find its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocationKind {
    /// `cuMemAlloc`.
    Malloc,
    /// `cuMemCreate`, and if it is exportable.
    Create { exportable: bool },
    /// Stream-ordered pool, and if it is exportable.
    Pool { exportable: bool },
    /// Not device memory; its name.
    Other(&'static str),
}

/// Our own memory, never freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    pub(crate) address: DevicePtr,
    pub(crate) bytes: usize,
    /// CUDA's resource; none in tests.
    pub(crate) scratch: Option<Scratch>,
}

impl From<Scratch> for Own {
    fn from(scratch: Scratch) -> Self {
        Self { address: scratch.address(), bytes: scratch.bytes(), scratch: Some(scratch) }
    }
}

/// Stream of ours in the memory's context.
pub(crate) trait Bench: Debug + Send {
    fn scratch(&self, kind: ScratchKind, bytes: usize) -> Result<Own, gpu::Error>;
    /// `cuMemCreate` allocation of ours that has no address, while held, and its size in bytes.
    fn unmapped(&self, bytes: usize) -> Result<(Box<dyn Retained>, usize), gpu::Error>;
    /// Allocations in one exportable pool of ours.
    fn scratch_pool(&self, sizes: &[usize]) -> Result<Vec<Own>, gpu::Error>;
    fn write(&self, own: &Own, bytes: &[u8]) -> Result<(), gpu::Error>;
    fn read_each(&self, parts: &mut [(DevicePtr, &mut [u8])]) -> Result<(), gpu::Error>;
}

/// CUDA's handle of an allocation, held: points to a structure of CUDA in this process.
pub(crate) trait Retained: Debug {
    fn address(&self) -> u64;
}

pub(crate) trait Owner: Debug + Send + Sync {
    /// `None` for an address that CUDA does not know.
    fn describe(&self, address: DevicePtr) -> Result<Option<Allocation>, gpu::Error>;
    /// Why no memory of this GPU can be mapped, if so.
    fn objection(&self, ordinal: u32) -> Result<Option<&'static str>, gpu::Error>;
    fn ipc_handle(&self, address: DevicePtr) -> Result<[u8; 64], gpu::Error>;
    fn export(&self, address: DevicePtr) -> Result<OwnedFd, gpu::Error>;
    /// Position of the memory in its pool; requires an export of the pool first.
    fn pool_place(&self, address: DevicePtr) -> Result<[u8; 64], gpu::Error>;
    fn retain(&self, address: DevicePtr) -> Result<Box<dyn Retained>, gpu::Error>;
    fn bench(&self, near: DevicePtr) -> Result<Box<dyn Bench>, gpu::Error>;
}

#[derive(Debug)]
pub(crate) struct Cuda;

impl Owner for Cuda {
    fn describe(&self, address: DevicePtr) -> Result<Option<Allocation>, gpu::Error> {
        match pointer::describe(address) {
            Ok(pointer) => Ok(Some(allocation(&pointer))),
            Err(error) if pointer::is_unknown(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn objection(&self, ordinal: u32) -> Result<Option<&'static str>, gpu::Error> {
        let devices = gpu::devices()?;
        let Some(device) = devices.into_iter().find(|device| device.ordinal == ordinal) else {
            return Ok(Some("CUDA does not list its GPU"));
        };
        // CUDA appends the profile to a MIG instance's name: "NVIDIA H200 MIG 1g.18gb".
        if device.name.contains(" MIG ") {
            return Ok(Some("its GPU is a MIG instance, whose memory this backend does not map"));
        }
        if coherent(&device)? {
            return Ok(Some(
                "on this coherent machine the CPU reads GPU memory at its own address",
            ));
        }
        Ok(None)
    }

    fn ipc_handle(&self, address: DevicePtr) -> Result<[u8; 64], gpu::Error> {
        pointer::ipc_handle(address)
    }

    fn export(&self, address: DevicePtr) -> Result<OwnedFd, gpu::Error> {
        pointer::export_fd(address)
    }

    fn pool_place(&self, address: DevicePtr) -> Result<[u8; 64], gpu::Error> {
        pointer::pool_place(address)
    }

    fn retain(&self, address: DevicePtr) -> Result<Box<dyn Retained>, gpu::Error> {
        Ok(Box::new(pointer::retain_handle(address)?))
    }

    fn bench(&self, near: DevicePtr) -> Result<Box<dyn Bench>, gpu::Error> {
        Ok(Box::new(Reader::open(near)?))
    }
}

/// True if GPU and CPU share page tables, as on Grace Hopper; false if CUDA does not report it.
pub(crate) fn is_coherent(ordinal: u32) -> bool {
    let device = gpu::devices()
        .ok()
        .and_then(|devices| devices.into_iter().find(|device| device.ordinal == ordinal));
    device.is_some_and(|device| coherent(&device).unwrap_or(false))
}

fn coherent(device: &gpu::Device) -> Result<bool, gpu::Error> {
    let answer = device.attribute(gpu::Attribute::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)?;
    Ok(answer == Some(1))
}

impl Retained for pointer::AllocationHandle {
    fn address(&self) -> u64 {
        self.raw()
    }
}

impl Bench for Reader {
    fn scratch(&self, kind: ScratchKind, bytes: usize) -> Result<Own, gpu::Error> {
        Self::scratch(self, kind, bytes).map(Own::from)
    }

    fn unmapped(&self, bytes: usize) -> Result<(Box<dyn Retained>, usize), gpu::Error> {
        let (handle, bytes) = Self::unmapped(self, bytes)?;
        Ok((Box::new(handle), bytes))
    }

    fn scratch_pool(&self, sizes: &[usize]) -> Result<Vec<Own>, gpu::Error> {
        Ok(Self::scratch_pool(self, sizes)?.into_iter().map(Own::from).collect())
    }

    fn write(&self, own: &Own, bytes: &[u8]) -> Result<(), gpu::Error> {
        own.scratch.as_ref().map_or(Ok(()), |scratch| Self::write(self, scratch, bytes))
    }

    fn read_each(&self, parts: &mut [(DevicePtr, &mut [u8])]) -> Result<(), gpu::Error> {
        Self::read_each(self, parts)
    }
}

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, in the handle types of an allocation.
const FILE_DESCRIPTOR: u64 = 1;

fn allocation(pointer: &Pointer) -> Allocation {
    let exportable = pointer.handle_types & FILE_DESCRIPTOR != 0;
    Allocation {
        base: pointer.base,
        size: pointer.size,
        kind: match pointer.kind {
            MemoryKind::Device if pointer.mempool => AllocationKind::Pool { exportable },
            MemoryKind::Device if pointer.ipc_capable => AllocationKind::Malloc,
            MemoryKind::Device => AllocationKind::Create { exportable },
            MemoryKind::Managed => {
                AllocationKind::Other("managed memory, which moves between GPU and host")
            }
            MemoryKind::Host => AllocationKind::Other("host memory, which needs no mapping"),
            _ => AllocationKind::Other("an unknown kind of memory"),
        },
        ordinal: pointer.ordinal,
        pci: pointer.pci,
        buffer_id: pointer.buffer_id,
    }
}
