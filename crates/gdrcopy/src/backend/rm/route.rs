//! Methods to find the memory objects of a CUDA allocation: IPC handle, exported file, CUDA's own
//! structures.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use gdr_sys::rm::{self, Status};
use gpu::DevicePtr;

use super::calls::RmError;
use super::client::Object;
use super::fault::{self, Step, memory_error};
use super::handle::{self, Position};
use super::owner::Retained;
use super::trust::{Trial, Walk};
use super::view::Extent;
use super::walk;
use crate::Error;
use crate::error::Kind;
use crate::pages::GPU_PAGE;

/// Objects that hold an allocation, in order, and their start.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    /// Device address of the first object.
    start: u64,
    /// Each with its size in bytes.
    objects: Vec<(Arc<Object>, u64)>,
}

impl Objects {
    /// Total size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.objects.iter().map(|(_, size)| size).sum()
    }

    /// Device address after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.size())
    }

    /// Parts that map `length` bytes at device address `from`; `None` if the objects do not hold
    /// all of it.
    pub(crate) fn extents(&self, from: u64, length: u64) -> Option<Vec<Extent>> {
        // RM and mmap both map whole pages.
        let mut skip = from.checked_sub(self.start).filter(|skip| skip.is_multiple_of(GPU_PAGE))?;
        let mut left = length;
        let mut extents = Vec::new();
        for (object, size) in &self.objects {
            if skip >= *size {
                skip -= size;
                continue;
            }
            let length = left.min(size - skip);
            extents.push(Extent { object: Arc::clone(object), offset: skip, length });
            skip = 0;
            left -= length;
            if left == 0 {
                return Some(extents);
            }
        }
        None
    }
}

/// Uses the IPC handle of `cuMemAlloc` memory that begins at `base`.
pub(crate) fn by_ipc(
    trial: Trial<'_>,
    base: DevicePtr,
    size: u64,
) -> Result<(Objects, Position), Error> {
    let handle = trial
        .owner
        .ipc_handle(base)
        .map_err(|source| Error::Cuda { operation: "get the IPC handle of the memory", source })?;
    let place = handle::parse(&handle)
        .filter(|place| place.size >= size && place.offset <= base.get())
        .ok_or_else(|| {
            memory_error(base, "this library does not know this CUDA's layout of IPC handles")
        })?;
    let located = by_place(trial, base, place)?;
    Ok((located, place))
}

/// Uses a parsed IPC handle.
pub(crate) fn by_place(
    trial: Trial<'_>,
    base: DevicePtr,
    place: Position,
) -> Result<Objects, Error> {
    let object = duplicate(trial, place.client, place.memory)?;
    let size = video_memory(trial, base, &object)?;
    if size < place.object_size {
        return Err(memory_error(
            base,
            "the memory object is smaller than CUDA's IPC handle states",
        ));
    }
    Ok(Objects { start: base.get() - place.offset, objects: vec![(Arc::new(object), size)] })
}

/// Uses a file that CUDA exports of the whole allocation, and returns the file too.
pub(crate) fn by_export(
    trial: Trial<'_>,
    base: DevicePtr,
    size: u64,
) -> Result<(Objects, OwnedFd), Error> {
    let (file, count) = exported(trial, base)?;
    let mut located = Objects { start: base.get(), objects: Vec::new() };
    // No more objects than hold the memory: on GPUs of an NVLink fabric an allocation of 512 MiB or
    // more has an object of the fabric behind them, which RM does not import into a device (driver
    // 580).
    for index in 0..count {
        if located.size() >= size {
            break;
        }
        let next = imported(trial, base, file.as_fd(), index, 1)?;
        located.objects.extend(next);
    }
    if located.size() < size {
        return Err(memory_error(base, "the exported memory is smaller than the allocation"));
    }
    Ok((located, file))
}

/// Size of a pool's memory objects in bytes.
const POOL_OBJECT: u64 = 32 << 20;

/// Uses a file that CUDA exports of the whole pool, and the allocation's position in it.
pub(crate) fn by_pool(trial: Trial<'_>, base: DevicePtr, size: u64) -> Result<Objects, Error> {
    // The file first: CUDA reports positions only in an exported pool.
    let (file, count) = exported(trial, base)?;
    let place = trial.owner.pool_place(base).map_err(|source| Error::Cuda {
        operation: "read the memory's position in its pool",
        source,
    })?;
    let place = handle::parse_pool(&place)
        .filter(|place| place.size >= size && place.offset <= base.get())
        .ok_or_else(|| {
            memory_error(base, "this library does not know this CUDA's layout of pool exports")
        })?;
    let first = place.offset / POOL_OBJECT;
    let after = (place.offset + place.size).div_ceil(POOL_OBJECT);
    let mut objects = Vec::new();
    let mut at = first;
    while at < after {
        let index = u16::try_from(at).ok().filter(|_| after <= u64::from(count));
        let index = index.ok_or_else(|| {
            memory_error(base, "the exported pool is smaller than its allocation's position")
        })?;
        let next = after.min(at + rm::IMPORTS as u64);
        objects.extend(imported(trial, base, file.as_fd(), index, (next - at) as usize)?);
        at = next;
    }
    if objects.iter().any(|&(_, size)| size != POOL_OBJECT) {
        return Err(memory_error(base, "its pool has memory objects of an unknown size"));
    }
    Ok(Objects { start: base.get() - (place.offset - first * POOL_OBJECT), objects })
}

/// Exports a file; returns it with its number of objects.
fn exported(trial: Trial<'_>, base: DevicePtr) -> Result<(OwnedFd, u16), Error> {
    let file = trial
        .owner
        .export(base)
        .map_err(|source| Error::Cuda { operation: "export the memory as a file", source })?;
    let client = trial.device.client();
    let export = client.calls().export_info(client.caller(), file.as_fd());
    let export = export.map_err(|error| fault::error(Step::Import, error))?;
    if export.gpu_instance.is_some() {
        return Err(memory_error(
            base,
            "its GPU is a MIG instance, whose memory this backend does not map",
        ));
    }
    // The same offset in another device's BAR1 would map another GPU's memory without an RM error.
    if export.device != trial.device.instance() {
        return Err(memory_error(
            base,
            "the exported memory belongs to another GPU than CUDA reports",
        ));
    }
    Ok((file, export.objects))
}

/// `count` objects of an exported file from index `first`, each with its size in bytes.
fn imported(
    trial: Trial<'_>,
    base: DevicePtr,
    file: BorrowedFd<'_>,
    first: u16,
    count: usize,
) -> Result<Vec<(Arc<Object>, u64)>, Error> {
    let device = trial.device.handle();
    let objects = trial.device.client().make_many(device, count, |calls, caller, handles| {
        calls.import(caller, device, file, first, handles)
    });
    let objects = objects.map_err(|error| fault::error(Step::Import, error))?;
    let sized = objects.into_iter().map(|object| {
        let size = video_memory(trial, base, &object)?;
        Ok((Arc::new(object), size))
    });
    sized.collect()
}

/// Follows proven paths from CUDA's handle of the allocation mapped at `base`.
pub(crate) fn by_walk(
    trial: Trial<'_>,
    walk: &Walk,
    base: DevicePtr,
    size: u64,
) -> Result<Objects, Error> {
    // Keeps CUDA's structures alive while the paths are followed.
    let retained = match trial.owner.retain(base) {
        Err(error) if error.kind() == gpu::Kind::Invalid => {
            return Err(memory_error(
                base,
                "it is neither cuMemAlloc's nor cuMemCreate's memory of this process: memory opened from another process is mapped \
                 only where it was allocated",
            ));
        }
        answer => answer.map_err(no_handle)?,
    };
    let mut found = None;
    for number in walk::candidates(&walk.paths, retained.address()) {
        let located = match by_number(trial, (walk.client, number), base, size) {
            Ok(located) => located,
            Err(error) if is_of_the_number(&error) => continue,
            Err(error) => return Err(error),
        };
        if found.replace(located).is_some() {
            return Err(memory_error(
                base,
                "two paths through CUDA's structures lead to different objects of its size",
            ));
        }
    }
    found.ok_or_else(|| {
        memory_error(
            base,
            "CUDA keeps this allocation otherwise than those of the trial, as it does with memory imported from another process, which \
             is mapped only where it was allocated",
        )
    })
}

/// True if the failure of [`by_number`] means that the number is wrong: no object, not video
/// memory, or another size. Exhausted files or memory prove nothing.
pub(crate) fn is_of_the_number(error: &Error) -> bool {
    matches!(error, Error::Rm { .. } | Error::Memory { .. } | Error::Verification { .. })
        && error.kind() != Kind::OutOfMemory
}

/// Uses client and number of an object that should be exactly the allocation.
pub(crate) fn by_number(
    trial: Trial<'_>,
    place: (u32, u32),
    base: DevicePtr,
    size: u64,
) -> Result<Objects, Error> {
    let object = duplicate(trial, place.0, place.1)?;
    let object_size = video_memory(trial, base, &object)?;
    if object_size != size {
        return Err(memory_error(
            base,
            "the memory object found has another size than the allocation",
        ));
    }
    Ok(Objects { start: base.get(), objects: vec![(Arc::new(object), object_size)] })
}

pub(crate) fn retain(trial: Trial<'_>, address: DevicePtr) -> Result<Box<dyn Retained>, Error> {
    trial.owner.retain(address).map_err(no_handle)
}

fn no_handle(source: gpu::Error) -> Error {
    Error::Cuda { operation: "get CUDA's handle of the allocation", source }
}

/// Our reference to CUDA's object, which keeps its pages.
fn duplicate(trial: Trial<'_>, client: u32, memory: u32) -> Result<Object, Error> {
    let device = trial.device.handle();
    let made = trial.device.client().make(device, |calls, caller, handle| {
        calls.duplicate(caller, device, handle, (client, memory))
    });
    made.map_err(|error| fault::error(Step::Duplicate, error))
}

/// Object size in bytes; the object must be GPU memory in whole pages.
fn video_memory(trial: Trial<'_>, base: DevicePtr, object: &Object) -> Result<u64, Error> {
    let surface = trial.device.surface(object)?;
    if surface.space != rm::VIDEO_MEMORY {
        return Err(memory_error(base, "it is not GPU memory"));
    }
    if surface.size == 0 || !surface.size.is_multiple_of(4096) {
        return Err(fault::error(Step::Surface, RmError::Status(Status::INVALID_OBJECT)));
    }
    Ok(surface.size)
}
