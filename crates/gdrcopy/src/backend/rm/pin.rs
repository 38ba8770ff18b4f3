//! Pin of the RM backend: references to the memory objects of a range, and their mappings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu::DevicePtr;

use super::Shared;
use super::device::Device;
use super::fault;
use super::owner::{Allocation, AllocationKind, Bench, Owner};
use super::route::{self, Objects};
use super::trust::Trial;
use super::verify::{self, Span};
use super::view::{self, Extent, Mapped};
use crate::Error;
use crate::backend::{Area, Pinned, PinnedPages, next_handle};
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, GPU_PAGE, Pages};

/// Alignment of CUDA's small allocations.
const GRAIN: u64 = 512;

#[derive(Debug)]
pub(super) struct RmPin {
    shared: Arc<Shared>,
    device: Arc<Device>,
    handle: u64,
    pages: Pages,
    length: usize,
    extents: Vec<Extent>,
    /// Allocated parts of the range.
    parts: Vec<Part>,
    /// Set by the first verified mapping: the objects do not change.
    verified: AtomicBool,
}

/// Part of the range in one allocation.
#[derive(Debug)]
struct Part {
    span: Span,
    /// CUDA's id of the allocation.
    buffer_id: u64,
}

/// Finds and references the objects of `length` bytes at `address`.
pub(super) fn pin(shared: &Arc<Shared>, address: DevicePtr, length: usize) -> Result<RmPin, Error> {
    let pages =
        pages::around(address, length as u64, GPU_PAGE).ok_or(Error::Address { address })?;
    let owner = &*shared.owner;
    let wanted = address.get() + length as u64;
    let end = pages.start.get() + pages.length;
    let mut found = first(owner, address, length as u64)?;
    let device = shared.device(&found)?;
    let mut bench = None;
    let mut at = pages.start.get();
    let (mut extents, mut parts) = (Vec::new(), Vec::new());
    loop {
        let located = locate(owner, &device, &found, &mut bench)?;
        parts.extend(part(&found, address.get().max(at), wanted, pages.start.get()));
        let until = end.min(located.end());
        let more = until.checked_sub(at).and_then(|length| located.extents(at, length));
        extents.extend(more.ok_or_else(|| Error::Memory {
            address: found.base,
            why: "its memory object does not contain the page of its first byte".to_owned(),
        })?);
        at = until;
        // The rest of the last page may be unallocated.
        if at >= wanted {
            break;
        }
        let next = DevicePtr::new(at);
        found = describe(owner, next)?.ok_or(Error::Address { address: next })?;
        if found.pci != device.pci() {
            return Err(Error::Memory {
                address: next,
                why: "the range continues in another GPU's memory".to_owned(),
            });
        }
    }
    Ok(RmPin {
        shared: Arc::clone(shared),
        device,
        handle: next_handle(),
        pages,
        length,
        extents,
        parts,
        verified: AtomicBool::new(false),
    })
}

fn describe(owner: &dyn Owner, address: DevicePtr) -> Result<Option<Allocation>, Error> {
    owner
        .describe(address)
        .map_err(|source| Error::Cuda { operation: "describe the memory at this address", source })
}

/// Allocation at `address`. If nothing is allocated there because the address was rounded down to a
/// page, the first allocation of the range in that page.
fn first(owner: &dyn Owner, address: DevicePtr, length: u64) -> Result<Allocation, Error> {
    if let Some(found) = describe(owner, address)? {
        return Ok(found);
    }
    if address.get().is_multiple_of(GPU_PAGE) {
        let end = address.get() + length.min(GPU_PAGE);
        for at in (address.get()..end).step_by(GRAIN as usize).skip(1) {
            if let Some(found) = describe(owner, DevicePtr::new(at))? {
                return Ok(found);
            }
        }
    }
    Err(Error::Address { address })
}

/// Part of the range in this allocation.
fn part(found: &Allocation, from: u64, until: u64, start: u64) -> Option<Part> {
    let from = from.max(found.base.get());
    let until = until.min(found.base.get().saturating_add(found.size));
    (from < until).then(|| Part {
        span: Span {
            address: DevicePtr::new(from),
            at: (from - start) as usize,
            length: until - from,
        },
        buffer_id: found.buffer_id,
    })
}

/// Memory objects of an allocation, found by the method for its kind.
fn locate(
    owner: &dyn Owner,
    device: &Arc<Device>,
    found: &Allocation,
    bench: &mut Option<Box<dyn Bench>>,
) -> Result<Objects, Error> {
    let unmappable = |why: &str| fault::memory_error(found.base, why);
    let bench = match bench {
        Some(bench) => bench,
        None => bench.insert(open_bench(owner, found.base)?),
    };
    let trial = Trial { device, owner, bench: &**bench, near: found.base };
    match found.kind {
        AllocationKind::Malloc => {
            device.trust.ipc(trial)?;
            route::by_ipc(trial, found.base, found.size).map(|(located, _)| located)
        }
        AllocationKind::Create { exportable: true } => {
            device.trust.export(trial)?;
            route::by_export(trial, found.base, found.size).map(|(located, _)| located)
        }
        AllocationKind::Create { exportable: false } => {
            let walk = device.trust.walk(trial)?;
            route::by_walk(trial, &walk, found.base, found.size)
        }
        AllocationKind::Pool { exportable: true } => {
            device.trust.pool(trial)?;
            route::by_pool(trial, found.base, found.size)
        }
        AllocationKind::Pool { exportable: false } => Err(unmappable(
            "memory of a pool that cannot be exported, such as cudaMallocAsync's default one, is not mapped by this backend: use \
             cudaMalloc, cuMemCreate, or a pool made for export as a file",
        )),
        AllocationKind::Other(what) => Err(unmappable(what)),
    }
}

fn open_bench(owner: &dyn Owner, near: DevicePtr) -> Result<Box<dyn Bench>, Error> {
    owner.bench(near).map_err(|source| Error::Cuda {
        operation: "create a stream in the memory's context",
        source,
    })
}

impl RmPin {
    fn verify(&self, base: std::ptr::NonNull<u8>, spans: &[Span]) -> Result<(), Error> {
        let Some(first) = spans.first() else {
            return Ok(());
        };
        let bench = open_bench(&*self.shared.owner, first.address)?;
        let borders = self.extents.iter().scan(0, |at, extent| {
            *at += extent.length;
            Some(*at)
        });
        verify::check(&*bench, base, spans, &borders.collect::<Vec<u64>>())
    }

    /// Spans that still belong to the pinned allocations. Freed memory cannot be compared: our
    /// reference keeps its pages, and the method is proven. New memory at its address may be freed
    /// by its owner while the GPU reads it, which would break the context.
    fn living(&self) -> Result<Vec<Span>, Error> {
        let mut living = Vec::with_capacity(self.parts.len());
        for Part { span, buffer_id } in &self.parts {
            let found = describe(&*self.shared.owner, span.address)?;
            if found.is_some_and(|found| found.buffer_id == *buffer_id) {
                living.push(*span);
            }
        }
        Ok(living)
    }

    fn mapping_type(&self) -> MappingType {
        match self.shared.expected {
            MappingType::WriteCombining if !self.device.trust.combines() => MappingType::Device,
            expected => expected,
        }
    }
}

impl Pinned for RmPin {
    fn handle(&self) -> u64 {
        self.handle
    }

    fn pages(&self) -> Result<PinnedPages, Error> {
        Ok(PinnedPages::of(&self.pages, GPU_PAGE))
    }

    fn map(&self, request: MapRequest) -> Result<Area, Error> {
        let mapping_type = self.mapping_type();
        request.accepts(mapping_type)?;
        let client = self.device.client();
        if !client.is_ours() {
            return Err(Error::Forked);
        }
        let Mapped { vma, views } = view::show(&self.device, &self.extents)?;
        let area = Area {
            near: self.device.near(),
            _held: Box::new(views),
            ..Area::new(vma, &self.pages, self.length, mapping_type)
        };
        if !self.verified.load(Ordering::Acquire) {
            let living = self.living()?;
            self.verify(area.vma.base(), &living)?;
            self.verified.store(living.len() == self.parts.len(), Ordering::Release);
        }
        Ok(area)
    }
}
