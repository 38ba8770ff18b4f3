//! The backend of gdrdrv, gdrcopy's kernel module, versions 2.0 to those that still serve a library
//! of 2.6. No CUDA is touched.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gdr_sys::gdrdrv as sys;
use gpu::DevicePtr;
use process::Process;

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
/// The library version we are to the module.
const LIBRARY: Version = Version(2, 6);
/// The oldest module we speak to.
const OLDEST: Version = Version(2, 0);
/// From here on: information with the mapping's type.
const TYPED_INFORMATION: Version = Version(2, 4);
/// From here on: pins with flags, attributes, and mappings of a wanted type.
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

/// Whether the module is there, answers, and speaks to us.
pub(crate) fn open() -> Result<Found, Error> {
    // The standard library adds O_CLOEXEC.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(NODE)
        .map_err(unopened)?;
    let mut argument = sys::Version::default();
    // SAFETY: `VERSION` takes a `Version`.
    unsafe { sys::ioctl(file.as_fd(), sys::VERSION, &mut argument) }.map_err(|error| {
        refuse(
            format!(
                "{NODE} does not answer like gdrdrv 2: {}",
                gpu::sentence(&error)
            ),
            Kind::Unsupported,
        )
    })?;
    let version = judge(
        Version::of(argument.driver),
        Version::of(argument.minimum_library),
    )?;
    Ok(Found {
        backend: Arc::new(Gdrdrv {
            module: Arc::new(Module { file, version }),
        }),
        why: format!("gdrdrv {version} answers"),
    })
}

fn judge(version: Version, minimum_library: Version) -> Result<Version, Error> {
    if version < OLDEST {
        let why = format!("gdrdrv {version} is too old, {OLDEST} is the least: update the module");
        return Err(refuse(why, Kind::Unsupported));
    }
    if minimum_library > LIBRARY {
        let why = format!(
            "gdrdrv {version} wants a library of {minimum_library}, this one speaks as {LIBRARY}"
        );
        return Err(refuse(why, Kind::Unsupported));
    }
    Ok(version)
}

fn unopened(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => refuse(
            format!(
                "there is no {NODE}: the module is not loaded, or its node was not made or not given to this container"
            ),
            Kind::Absent,
        ),
        Some(libc::ENXIO | libc::ENODEV) => refuse(
            format!(
                "{NODE} is there and no module behind it: not loaded, or the node has an old major number"
            ),
            Kind::Absent,
        ),
        Some(libc::EACCES | libc::EPERM) => refuse(
            format!(
                "{NODE} may not be opened: its mode is not 0666, or the container's device rules forbid it"
            ),
            Kind::Denied,
        ),
        _ => Error::System {
            operation: format!("open {NODE}"),
            source: error,
        },
    }
}

fn refuse(why: String, kind: Kind) -> Error {
    Error::Refused {
        backend: BackendKind::Gdrdrv,
        why,
        kind,
    }
}

#[derive(Debug)]
struct Gdrdrv {
    module: Arc<Module>,
}

/// An open file of the module. It serves the process that opened it alone.
#[derive(Debug)]
struct Module {
    file: File,
    version: Version,
}

impl Module {
    fn call<T: Argument>(&self, mut argument: T, operation: &str) -> Result<T, Error> {
        // SAFETY: an `Argument` has the number that takes it.
        unsafe { sys::ioctl(self.file.as_fd(), T::NUMBER, &mut argument) }.map_err(|source| {
            Error::System {
                operation: format!("{operation} (gdrdrv {})", self.version),
                source,
            }
        })?;
        Ok(argument)
    }
}

/// The structure of one of the module's requests.
///
/// # Safety
///
/// The number takes this structure.
unsafe trait Argument {
    const NUMBER: u32;
}

macro_rules! arguments {
    ($($structure:ident: $number:ident,)*) => {$(
        // SAFETY: as gdrdrv.h pairs them.
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
        let question = sys::Attribute {
            attribute: number,
            value: 0,
        };
        let answer = self.module.call(question, "ask an attribute");
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
        // Whole pages: the module maps nothing that begins within one.
        let pages = pages::around(address, length as u64, sys::GPU_PAGE)
            .ok_or(Error::Address { address })?;
        let operation = "pin the memory";
        let (start, size) = (pages.start.get(), pages.length);
        let handle = if self.module.version >= FLAGS {
            let pin = sys::PinBufferV2 {
                address: start,
                size,
                flags: if flags.force_pcie {
                    sys::PIN_FORCE_PCIE
                } else {
                    0
                },
                ..Default::default()
            };
            self.module.call(pin, operation)?.handle
        } else {
            super::refuse_force_pcie(flags, BackendKind::Gdrdrv)?;
            let pin = sys::PinBuffer {
                address: start,
                size,
                ..Default::default()
            };
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

/// What the module says of a pin, whichever way it was asked.
struct State {
    pages: PinnedPages,
    mapping_type: MappingType,
}

impl ModulePin {
    fn state(&self) -> Result<State, Error> {
        let (handle, operation) = (self.handle, "ask about the pin");
        if self.module.version >= TYPED_INFORMATION {
            let question = sys::InformationV2 {
                handle,
                ..Default::default()
            };
            match self.module.call(question, operation) {
                // A module that claims more than it has; the older question says as much.
                Err(Error::System { source, .. })
                    if source.raw_os_error() == Some(libc::ENOTTY) => {}
                answer => return answer.map(typed),
            }
        }
        let question = sys::Information {
            handle,
            ..Default::default()
        };
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
            // The type is looked at when it is mapped.
            return Ok(());
        }
        let question = sys::RequestMappingType {
            handle: self.handle,
            mapping_type: wanted as u32,
            padding: 0,
        };
        match self.module.call(question, "ask for a mapping type") {
            // Nothing in particular is wanted, and a module that cannot be asked gives just that.
            Err(Error::System { source, .. })
                if request == MapRequest::Default
                    && source.raw_os_error() == Some(libc::ENOTTY) =>
            {
                Ok(())
            }
            asked => asked.map(drop),
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
        let (file, sign) = (self.module.file.as_fd(), "mapping gave no address");
        // The module keeps it from children too; older ones did not.
        super::map_file(file, offset, self.pages.length, failed, sign)
    }
}

fn typed(answer: sys::InformationV2) -> State {
    State {
        pages: pinned(
            answer.va,
            answer.mapped_size,
            answer.page_size,
            (answer.cycles, answer.khz),
        ),
        mapping_type: MappingType::of(answer.mapping_type),
    }
}

fn untyped(answer: sys::Information) -> State {
    State {
        pages: pinned(
            answer.va,
            answer.mapped_size,
            answer.page_size,
            (answer.cycles, answer.khz),
        ),
        mapping_type: match (answer.mapped, answer.write_combining) {
            (0, _) => MappingType::None,
            (_, 0) => MappingType::Caching,
            _ => MappingType::WriteCombining,
        },
    }
}

fn pinned(va: u64, length: u64, page: u32, cycles: (u64, u32)) -> PinnedPages {
    PinnedPages {
        start: DevicePtr::new(va),
        length,
        page,
        cycles,
    }
}

/// Bytes of a page of the CPU, in which mmap counts.
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
            // Taken away between the two calls, as gdrcopy's own library answers it.
            return Err(Error::System {
                operation: "map the pinned memory: the module took it away again".to_owned(),
                source: io::Error::from_raw_os_error(libc::EAGAIN),
            });
        }
        request.accepts(mapping_type)?;
        Ok(Area::new(vma, &self.pages, self.length, mapping_type))
    }

    fn revoked(&self) -> Result<bool, Error> {
        let question = sys::CallbackFlag {
            handle: self.handle,
            ..Default::default()
        };
        let answer = self
            .module
            .call(question, "ask whether the pin was revoked")?;
        Ok(answer.flag != 0)
    }
}

impl Drop for ModulePin {
    fn drop(&mut self) {
        if self.owner == Process::current() {
            // Refused only for a handle the module does not know, and then there is nothing to unpin.
            let handle = self.handle;
            let _ = self.module.call(sys::Unpin { handle }, "unpin the memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_taken_from_2_0_on_as_long_as_they_take_a_library_of_2_6() {
        assert_eq!(
            judge(Version::of(0x2_0006), Version::of(0x2_0000)).unwrap(),
            Version(2, 6)
        );
        assert_eq!(judge(Version(2, 0), Version(2, 0)).unwrap(), Version(2, 0));
        assert_eq!(judge(Version(3, 1), Version(2, 6)).unwrap(), Version(3, 1));
        let old = judge(Version(1, 3), Version(1, 0)).unwrap_err().to_string();
        assert!(old.contains("gdrdrv 1.3 is too old"), "{old}");
        let new = judge(Version(3, 0), Version(2, 7)).unwrap_err();
        assert!(new.to_string().contains("wants a library of 2.7"), "{new}");
        assert_eq!(new.kind(), Kind::Unsupported);
    }

    #[test]
    fn a_missing_node_a_dead_one_and_a_forbidden_one_are_told_apart() {
        let of = |errno| unopened(io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::ENOENT).kind(), Kind::Absent);
        assert!(of(libc::ENXIO).to_string().contains("old major number"));
        assert_eq!(of(libc::EPERM).kind(), Kind::Denied);
        assert_eq!(of(libc::EPERM).errno(), libc::EACCES);
    }

    #[test]
    fn the_older_information_says_write_combined_or_cached() {
        let of = |mapped, write_combining| {
            untyped(sys::Information {
                mapped,
                write_combining,
                ..Default::default()
            })
            .mapping_type
        };
        assert_eq!(of(0, 0), MappingType::None);
        assert_eq!(of(1, 1), MappingType::WriteCombining);
        assert_eq!(of(1, 0), MappingType::Caching);
    }
}
