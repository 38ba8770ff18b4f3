//! Backend of gdrdrv, gdrcopy's kernel module, from version 2.0 on while it accepts a library of
//! version 2.6. Does not use CUDA.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gdr_sys::gdrdrv as sys;
use gdr_sys::process::Process;
use gpu::DevicePtr;

use super::{Area, Backend, Pinned, PinnedPages};
use crate::Error;
use crate::choice::Found;
use crate::error::Kind;
use crate::gdr::{Attribute, BackendKind};
use crate::mapping::{MapRequest, MappingType};
use crate::pages::{self, Pages};
use crate::pin::PinFlags;
use crate::vma::Vma;

const NODE: &str = "/dev/gdrdrv";
/// Library version that we report to the module.
const LIBRARY: Version = Version(2, 6);
/// Oldest supported module.
const OLDEST: Version = Version(2, 0);
/// First version that reports the mapping type.
const TYPED_INFORMATION: Version = Version(2, 4);
/// First version with pin flags, attributes and mapping type requests.
const FLAGS: Version = Version(2, 5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u16, u16);

impl Version {
    fn of(word: u32) -> Self {
        Self((word >> 16) as u16, word as u16)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Checks that the module is loaded and compatible.
pub(crate) fn open() -> Result<Found, Error> {
    // std sets O_CLOEXEC.
    let file = OpenOptions::new().read(true).write(true).open(NODE).map_err(unopened)?;
    let mut argument = sys::Version::default();
    // SAFETY: `VERSION` takes a `Version`.
    unsafe { sys::ioctl(file.as_fd(), sys::VERSION, &mut argument) }.map_err(|error| {
        super::unavailable(
            BackendKind::Gdrdrv,
            format!("{NODE} does not answer like gdrdrv 2: {}", gpu::sentence(&error)),
            Kind::Unsupported,
        )
    })?;
    let version =
        check_version(Version::of(argument.driver), Version::of(argument.minimum_library))?;
    Ok(Found {
        backend: Arc::new(Gdrdrv { module: Arc::new(Module { file, version }) }),
        why: format!("gdrdrv {version} answers"),
    })
}

fn check_version(version: Version, minimum_library: Version) -> Result<Version, Error> {
    if version < OLDEST {
        let why = format!("gdrdrv {version} is too old: update the module to {OLDEST} or newer");
        return Err(super::unavailable(BackendKind::Gdrdrv, why, Kind::Unsupported));
    }
    if minimum_library > LIBRARY {
        let why =
            format!("gdrdrv {version} needs library version {minimum_library}, this is {LIBRARY}");
        return Err(super::unavailable(BackendKind::Gdrdrv, why, Kind::Unsupported));
    }
    Ok(version)
}

fn unopened(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => super::unavailable(
            BackendKind::Gdrdrv,
            format!(
                "there is no {NODE}: the module is not loaded, or its node was not created or not passed to this container"
            ),
            Kind::Absent,
        ),
        Some(libc::ENXIO | libc::ENODEV) => super::unavailable(
            BackendKind::Gdrdrv,
            format!(
                "{NODE} exists, but no module serves it: not loaded, or the node has an old major number"
            ),
            Kind::Absent,
        ),
        Some(libc::EACCES | libc::EPERM) => super::unavailable(
            BackendKind::Gdrdrv,
            format!(
                "cannot open {NODE}: its mode is not 0666, or the container's device rules forbid it"
            ),
            Kind::Denied,
        ),
        _ => Error::System { operation: format!("open {NODE}"), source: error },
    }
}

#[derive(Debug)]
struct Gdrdrv {
    module: Arc<Module>,
}

/// Open file of the module, usable only by the process that opened it.
#[derive(Debug)]
struct Module {
    file: File,
    version: Version,
}

impl Module {
    fn call<T: Argument>(&self, mut argument: T, operation: &str) -> Result<T, Error> {
        // SAFETY: an `Argument` matches its request number.
        unsafe { sys::ioctl(self.file.as_fd(), T::NUMBER, &mut argument) }.map_err(|source| {
            Error::System { operation: format!("{operation} (gdrdrv {})", self.version), source }
        })?;
        Ok(argument)
    }
}

/// Structure of a module request.
///
/// # Safety
///
/// The request number takes this structure.
unsafe trait Argument {
    const NUMBER: u32;
}

macro_rules! arguments {
    ($($structure:ident: $number:ident,)*) => {$(
        // SAFETY: pairs from gdrdrv.h.
        unsafe impl Argument for sys::$structure {
            const NUMBER: u32 = sys::$number;
        }
    )*};
}

arguments! {
    PinBuffer: PIN_BUFFER,
    PinBufferV2: PIN_BUFFER_V2,
    Unpin: UNPIN_BUFFER,
    CallbackFlag: CALLBACK_FLAG,
    Information: INFORMATION,
    InformationV2: INFORMATION_V2,
    Attribute: ATTRIBUTE,
    RequestMappingType: REQUEST_MAPPING_TYPE,
}

impl Backend for Gdrdrv {
    fn kind(&self) -> BackendKind {
        BackendKind::Gdrdrv
    }

    fn version(&self) -> (u16, u16) {
        (self.module.version.0, self.module.version.1)
    }

    fn attribute(&self, attribute: Attribute) -> i32 {
        let number = match attribute {
            Attribute::PersistentMapping => sys::ATTRIBUTE_PERSISTENT,
            Attribute::ForcePcie => sys::ATTRIBUTE_FORCE_PCIE,
            Attribute::UsingDmaBuf => return 0,
        };
        if self.module.version < FLAGS {
            return 0;
        }
        // A module that does not know the attribute does not have the property.
        let question = sys::Attribute { attribute: number, value: 0 };
        let answer = self.module.call(question, "read an attribute");
        answer.map_or(0, |answer| i32::try_from(answer.value).unwrap_or(i32::MAX))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.module.file.as_fd())
    }

    fn pin(
        &self,
        address: DevicePtr,
        length: usize,
        flags: PinFlags,
    ) -> Result<Box<dyn Pinned>, Error> {
        // Whole pages: the module maps only from page boundaries.
        let pages = pages::around(address, length as u64, sys::GPU_PAGE)
            .ok_or(Error::Address { address })?;
        let operation = "pin the memory";
        let (start, size) = (pages.start.get(), pages.length);
        let handle = if self.module.version >= FLAGS {
            let pin = sys::PinBufferV2 {
                address: start,
                size,
                flags: if flags.force_pcie { sys::PIN_FORCE_PCIE } else { 0 },
                ..Default::default()
            };
            self.module.call(pin, operation)?.handle
        } else {
            super::reject_force_pcie(flags, BackendKind::Gdrdrv)?;
            let pin = sys::PinBuffer { address: start, size, ..Default::default() };
            self.module.call(pin, operation)?.handle
        };
        Ok(Box::new(ModulePin {
            module: Arc::clone(&self.module),
            handle,
            pages,
            length,
            owner: Process::current(),
        }))
    }
}

#[derive(Debug)]
struct ModulePin {
    module: Arc<Module>,
    handle: u64,
    pages: Pages,
    length: usize,
    owner: Process,
}

/// Pin state, from either version of the request.
struct PinState {
    pages: PinnedPages,
    mapping_type: MappingType,
}

impl ModulePin {
    fn state(&self) -> Result<PinState, Error> {
        let (handle, operation) = (self.handle, "read the pin's state");
        if self.module.version >= TYPED_INFORMATION {
            let question = sys::InformationV2 { handle, ..Default::default() };
            match self.module.call(question, operation) {
                // A module of this version without the request: fall back to the older one.
                Err(Error::System { source, .. })
                    if source.raw_os_error() == Some(libc::ENOTTY) => {}
                answer => return answer.map(typed),
            }
        }
        let question = sys::Information { handle, ..Default::default() };
        self.module.call(question, operation).map(untyped)
    }

    fn request(&self, request: MapRequest) -> Result<(), Error> {
        let wanted = match request {
            MapRequest::Default => MappingType::None,
            MapRequest::WriteCombining => MappingType::WriteCombining,
            MapRequest::Cached => MappingType::Caching,
            MapRequest::Device => MappingType::Device,
        };
        if self.module.version < FLAGS {
            // The type is checked after mapping.
            return Ok(());
        }
        let question = sys::RequestMappingType {
            handle: self.handle,
            mapping_type: wanted as u32,
            padding: 0,
        };
        match self.module.call(question, "request a mapping type") {
            // A module without the request maps with the default type.
            Err(Error::System { source, .. })
                if request == MapRequest::Default
                    && source.raw_os_error() == Some(libc::ENOTTY) =>
            {
                Ok(())
            }
            requested => requested.map(drop),
        }
    }

    fn show(&self) -> Result<Vma, Error> {
        let failed = |source| Error::System {
            operation: format!("map the pinned memory (gdrdrv {})", self.module.version),
            source,
        };
        let offset = self
            .handle
            .checked_mul(host_page())
            .ok_or_else(|| failed(io::Error::from_raw_os_error(libc::EOVERFLOW)))?;
        let (file, sign) = (self.module.file.as_fd(), "mmap returned no address");
        // Newer modules exclude the mapping from children themselves.
        super::map_file(file, offset, self.pages.length, failed, sign)
    }
}

fn typed(answer: sys::InformationV2) -> PinState {
    PinState {
        pages: pinned(answer.va, answer.mapped_size, answer.page_size, (answer.cycles, answer.khz)),
        mapping_type: MappingType::of(answer.mapping_type),
    }
}

fn untyped(answer: sys::Information) -> PinState {
    PinState {
        pages: pinned(answer.va, answer.mapped_size, answer.page_size, (answer.cycles, answer.khz)),
        mapping_type: match (answer.mapped, answer.write_combining) {
            (0, _) => MappingType::None,
            (_, 0) => MappingType::Caching,
            _ => MappingType::WriteCombining,
        },
    }
}

fn pinned(va: u64, length: u64, page: u32, cycles: (u64, u32)) -> PinnedPages {
    PinnedPages { start: DevicePtr::new(va), length, page, cycles }
}

/// Page size of the CPU in bytes.
pub(super) fn host_page() -> u64 {
    // SAFETY: `sysconf` takes a number and no address.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

impl Pinned for ModulePin {
    fn handle(&self) -> u64 {
        self.handle
    }

    fn pages(&self) -> Result<PinnedPages, Error> {
        self.state().map(|state| state.pages)
    }

    fn map(&self, request: MapRequest) -> Result<Area, Error> {
        self.request(request)?;
        let vma = match self.show() {
            Err(_) if self.revoked().unwrap_or(false) => return Err(Error::Revoked),
            shown => shown?,
        };
        let mapping_type = self.state()?.mapping_type;
        if mapping_type == MappingType::None {
            // The memory was freed in between; gdrcopy's library also returns EAGAIN.
            return Err(Error::System {
                operation: "map the pinned memory: the module revoked it meanwhile".to_owned(),
                source: io::Error::from_raw_os_error(libc::EAGAIN),
            });
        }
        request.accepts(mapping_type)?;
        Ok(Area::new(vma, &self.pages, self.length, mapping_type))
    }

    fn revoked(&self) -> Result<bool, Error> {
        let question = sys::CallbackFlag { handle: self.handle, ..Default::default() };
        let answer = self.module.call(question, "check if the pin was revoked")?;
        Ok(answer.flag != 0)
    }
}

impl Drop for ModulePin {
    fn drop(&mut self) {
        if self.owner == Process::current() {
            // Fails only for an unknown handle, which needs no unpin.
            let handle = self.handle;
            let _ = self.module.call(sys::Unpin { handle }, "unpin the memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_module_version() {
        assert_eq!(
            check_version(Version::of(0x2_0006), Version::of(0x2_0000)).unwrap(),
            Version(2, 6)
        );
        assert_eq!(check_version(Version(2, 0), Version(2, 0)).unwrap(), Version(2, 0));
        assert_eq!(check_version(Version(3, 1), Version(2, 6)).unwrap(), Version(3, 1));
        let old = check_version(Version(1, 3), Version(1, 0)).unwrap_err().to_string();
        assert!(old.contains("gdrdrv 1.3 is too old"), "{old}");
        let new = check_version(Version(3, 0), Version(2, 7)).unwrap_err();
        assert!(new.to_string().contains("needs library version 2.7"), "{new}");
        assert_eq!(new.kind(), Kind::Unsupported);
    }

    #[test]
    fn open_errors_are_distinct() {
        let of = |errno| unopened(io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::ENOENT).kind(), Kind::Absent);
        assert!(of(libc::ENXIO).to_string().contains("old major number"));
        assert_eq!(of(libc::EPERM).kind(), Kind::Denied);
        assert_eq!(of(libc::EPERM).errno(), libc::EACCES);
    }

    #[test]
    fn old_information_has_mapping_type() {
        let of = |mapped, write_combining| {
            untyped(sys::Information { mapped, write_combining, ..Default::default() }).mapping_type
        };
        assert_eq!(of(0, 0), MappingType::None);
        assert_eq!(of(1, 1), MappingType::WriteCombining);
        assert_eq!(of(1, 0), MappingType::Caching);
    }
}
