//! Backend of dma-buf files: CUDA exports the memory, and drivers from release 610 map that file
//! for the CPU.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu::DevicePtr;
use gpu::pointer::{self, DmaBufMapping, MemoryKind, Pointer, Reader};

use super::gdrdrv::host_page;
use super::rm::{self, Span};
use super::{Area, Backend, Pinned, PinnedPages};
use crate::Error;
use crate::choice::Found;
use crate::error::Kind;
use crate::gdr::{Attribute, BackendKind};
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, Pages};
use crate::pin::PinFlags;

/// First driver that maps the dma-buf of a discrete GPU (release notes of 610.43.02).
const FIRST: u32 = 610;

/// Checks the driver release. Older drivers are not tried, because each failed mmap logs a kernel
/// error.
pub(crate) fn open() -> Result<Found, Error> {
    let release = rm::release().map_err(|error| match error {
        Error::Refused { why, kind, .. } => super::unavailable(BackendKind::DmaBuf, why, kind),
        other => other,
    })?;
    check_release(&release)?;
    Ok(Found { backend: Arc::new(DmaBuf), why: format!("driver {release} maps dma-buf files") })
}

fn check_release(release: &str) -> Result<(), Error> {
    match rm::major(release) {
        Some(major) if major >= FIRST => Ok(()),
        Some(major) => Err(super::unavailable(
            BackendKind::DmaBuf,
            format!(
                "driver {major} refuses mmap of dma-buf on discrete GPUs (errno 524); {FIRST} is the first that grants it"
            ),
            Kind::Unsupported,
        )),
        None => Err(super::unavailable(
            BackendKind::DmaBuf,
            format!(
                "the driver does not report its release, so it is older than 530; {FIRST} is needed"
            ),
            Kind::Unsupported,
        )),
    }
}

#[derive(Debug)]
struct DmaBuf;

impl Backend for DmaBuf {
    fn kind(&self) -> BackendKind {
        BackendKind::DmaBuf
    }

    /// Like gdrcopy's own dma-buf backend: all three are supported.
    fn attribute(&self, _attribute: Attribute) -> i32 {
        1
    }

    fn pin(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Box<dyn Pinned>, Error> {
        let page = host_page();
        let pages =
            pages::around(address, length as u64, page).ok_or(Error::Address { address })?;
        let cuda = |operation| move |source| Error::Cuda { operation, source };
        let described = describe(address)?.ok_or(Error::Address { address })?;
        if described.kind != MemoryKind::Device {
            return Err(Error::Memory { address, why: "it is not memory of a GPU".to_owned() });
        }
        let mapping = if flags.force_pcie { DmaBufMapping::Pcie } else { DmaBufMapping::Default };
        let file = pointer::dmabuf(pages.start, pages.length as usize, mapping)
            .map_err(cuda("export the memory as a dma-buf"))?;
        let live = described.base.get() + described.size;
        let span = Span {
            address,
            at: pages.lead as usize,
            length: (length as u64).min(live.saturating_sub(address.get())),
        };
        Ok(Box::new(DmaBufPin {
            handle: super::next_handle(),
            file,
            pages,
            page,
            length,
            span,
            buffer_id: described.buffer_id,
            mapping_type: mapping_type(described.ordinal, flags),
            verified: AtomicBool::new(false),
        }))
    }
}

/// Mapping type of the driver (nv-dmabuf.c of 610): write-combined on `x86_64`; on aarch64 cached
/// if GPU and CPU are coherent and PCIe was not requested, else Device memory, whatever gdrcopy
/// calls it.
fn mapping_type(ordinal: u32, flags: PinFlags) -> MappingType {
    if cfg!(target_arch = "x86_64") {
        return MappingType::WriteCombining;
    }
    if !flags.force_pcie && rm::is_coherent(ordinal) {
        MappingType::Caching
    } else {
        MappingType::Device
    }
}

/// CUDA's description of the memory at this address; `None` if CUDA does not know it.
fn describe(address: DevicePtr) -> Result<Option<Pointer>, Error> {
    match pointer::describe(address) {
        Ok(found) => Ok(Some(found)),
        Err(error) if pointer::is_unknown(&error) => Ok(None),
        Err(source) => {
            Err(Error::Cuda { operation: "describe the memory at this address", source })
        }
    }
}

#[derive(Debug)]
struct DmaBufPin {
    handle: u64,
    file: OwnedFd,
    pages: Pages,
    page: u64,
    length: usize,
    span: Span,
    /// CUDA's id of the allocation.
    buffer_id: u64,
    mapping_type: MappingType,
    verified: AtomicBool,
}

impl DmaBufPin {
    /// Compares the mapping with the GPU's view, because drivers before 610 mapped the wrong part
    /// of memory made of several objects. Skipped if the memory was freed since it was pinned: the
    /// dma-buf keeps it, but the GPU cannot read it for comparison.
    fn verify(&self, base: std::ptr::NonNull<u8>) -> Result<(), Error> {
        if self.verified.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = describe(self.span.address)?;
        if found.is_none_or(|found| found.buffer_id != self.buffer_id) {
            return Ok(());
        }
        let reader = Reader::open(self.span.address).map_err(|source| Error::Cuda {
            operation: "create a stream in the memory's context",
            source,
        })?;
        rm::check(&reader, base, &[self.span], &[])?;
        self.verified.store(true, Ordering::Release);
        Ok(())
    }
}

impl Pinned for DmaBufPin {
    fn handle(&self) -> u64 {
        self.handle
    }

    fn pages(&self) -> Result<PinnedPages, Error> {
        Ok(PinnedPages::of(&self.pages, self.page))
    }

    fn map(&self, request: MapRequest) -> Result<Area, Error> {
        request.accepts(self.mapping_type)?;
        let failed = |source| Error::System {
            operation: "map the dma-buf of the memory".to_owned(),
            source,
        };
        let sign = "mmap of a dma-buf returned no address";
        let vma = super::map_file(self.file.as_fd(), 0, self.pages.length, failed, sign)?;
        self.verify(vma.base())?;
        Ok(Area::new(vma, &self.pages, self.length, self.mapping_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_driver_610() {
        check_release("610.43.02").unwrap();
        check_release("620.06").unwrap();
        let error = check_release("580.159.04").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("driver 580 refuses mmap of dma-buf on discrete GPUs (errno 524)"),
            "{error}"
        );
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(check_release("").is_err());
    }
}
