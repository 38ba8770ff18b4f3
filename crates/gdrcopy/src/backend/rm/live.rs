//! The machine's resource manager: ioctls on `/dev/nvidiactl` and the GPU nodes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gdr_sys::rm::{self, Status};

use super::calls::{Answer, Caller, Calls, Card, Export, RmError, Surface};
use crate::vma::Vma;

#[derive(Debug)]
pub(crate) struct Live;

const CONTROL: &str = "/dev/nvidiactl";

impl Calls for Live {
    fn open_control(&self) -> io::Result<OwnedFd> {
        open(Path::new(CONTROL)).map(OwnedFd::from)
    }

    fn release(&self, control: BorrowedFd<'_>) -> io::Result<String> {
        let mut version = rm::Version { command: rm::VERSION_QUERY, reply: 0, text: [0; 64] };
        // SAFETY: `CHECK_VERSION` takes a `Version` and no address.
        unsafe { rm::escape(control, rm::CHECK_VERSION, &mut version) }?;
        let text: Vec<u8> = version.text.into_iter().take_while(|&byte| byte != 0).collect();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn cards(&self, control: BorrowedFd<'_>) -> io::Result<Vec<Card>> {
        let mut table = [rm::CardInfo::default(); rm::CARDS];
        // SAFETY: `CARD_INFO` takes a table of `CARDS` entries and no address.
        unsafe { rm::escape(control, rm::CARD_INFO, &mut table) }?;
        Ok(table.iter().filter(|entry| entry.valid != 0).map(card).collect())
    }

    fn open_device(&self, minor: u32) -> io::Result<OwnedFd> {
        let path = PathBuf::from(format!("/dev/nvidia{minor}"));
        match open(&path) {
            Ok(file) if is_node(&file, minor) => Ok(file.into()),
            // A container runtime may have renamed it.
            found => match renamed(minor) {
                Some(path) => open(&path).map(OwnedFd::from),
                None => {
                    Err(found.err().unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENXIO)))
                }
            },
        }
    }

    fn register(&self, device: BorrowedFd<'_>, control: BorrowedFd<'_>) -> io::Result<()> {
        let mut argument = rm::RegisterFd { control: control.as_raw_fd() };
        // SAFETY: `REGISTER_FD` takes a `RegisterFd`, and the file in it is open.
        unsafe { rm::escape(device, rm::REGISTER_FD, &mut argument) }
    }

    fn new_client(&self, control: BorrowedFd<'_>) -> Answer<u32> {
        let mut argument = rm::Allocate { class: rm::CLASS_CLIENT, ..Default::default() };
        allocate(control, &mut argument)?;
        Ok(argument.object)
    }

    fn new_device(&self, caller: Caller<'_>, object: u32, instance: u32) -> Answer<()> {
        let parameters = rm::DeviceParameters {
            device: instance,
            client_share: caller.client,
            ..Default::default()
        };
        let mut argument = rm::Allocate {
            client: caller.client,
            parent: caller.client,
            object,
            class: rm::CLASS_DEVICE,
            parameters: address_of(&parameters),
            ..Default::default()
        };
        allocate(caller.control, &mut argument)
    }

    fn new_subdevice(&self, caller: Caller<'_>, device: u32, object: u32) -> Answer<()> {
        let parameters = rm::SubdeviceParameters::default();
        let mut argument = rm::Allocate {
            client: caller.client,
            parent: device,
            object,
            class: rm::CLASS_SUBDEVICE,
            parameters: address_of(&parameters),
            ..Default::default()
        };
        allocate(caller.control, &mut argument)
    }

    fn free(&self, caller: Caller<'_>, parent: u32, object: u32) -> Answer<()> {
        let mut argument = rm::Free { client: caller.client, parent, object, status: 0 };
        // SAFETY: `FREE` takes a `Free` and no address.
        unsafe { rm::escape(caller.control, rm::FREE, &mut argument) }?;
        Ok(Status(argument.status).result()?)
    }

    fn device_instance(&self, caller: Caller<'_>, gpu_id: u32) -> Answer<u32> {
        let mut info = rm::GpuIdInfo { gpu_id, ..Default::default() };
        // SAFETY: the command takes a `GpuIdInfo`, which holds no address.
        unsafe { control(caller, caller.client, rm::GPU_ID_INFO, &mut info) }?;
        Ok(info.device)
    }

    fn static_bar1(&self, caller: Caller<'_>, subdevice: u32) -> Answer<bool> {
        let mut info = rm::StaticBar1::default();
        // SAFETY: the command takes a `StaticBar1`, which holds no address.
        unsafe { control(caller, subdevice, rm::STATIC_BAR1, &mut info) }?;
        Ok(info.enabled != 0)
    }

    fn duplicate(
        &self,
        caller: Caller<'_>,
        parent: u32,
        object: u32,
        source: (u32, u32),
    ) -> Answer<()> {
        let mut argument = rm::Duplicate {
            client: caller.client,
            parent,
            object,
            source_client: source.0,
            source_object: source.1,
            ..Default::default()
        };
        // SAFETY: `DUPLICATE` takes a `Duplicate` and no address.
        unsafe { rm::escape(caller.control, rm::DUPLICATE, &mut argument) }?;
        Ok(Status(argument.status).result()?)
    }

    fn export_info(&self, caller: Caller<'_>, file: BorrowedFd<'_>) -> Answer<Export> {
        let mut info = rm::ExportInfo::of(file.as_raw_fd());
        // SAFETY: the command takes an `ExportInfo` from 545 on; older drivers check and reject the
        // size.
        match unsafe { control(caller, caller.client, rm::EXPORT_INFO, &mut info) } {
            Err(error) if unknown_size(&error) => {}
            answer => {
                return answer.map(|()| Export {
                    device: info.device,
                    gpu_instance: (info.gpu_instance != rm::NO_GPU_INSTANCE)
                        .then_some(info.gpu_instance),
                    objects: info.objects,
                });
            }
        }
        let mut info = rm::ExportInfoBefore545::of(file.as_raw_fd());
        // SAFETY: as above, with the structure of drivers before 545.
        unsafe { control(caller, caller.client, rm::EXPORT_INFO, &mut info) }?;
        Ok(Export { device: info.device, gpu_instance: None, objects: info.objects })
    }

    fn import(
        &self,
        caller: Caller<'_>,
        device: u32,
        file: BorrowedFd<'_>,
        first: u16,
        objects: &[u32],
    ) -> Answer<()> {
        let mut argument = rm::ImportObjects {
            fd: file.as_raw_fd(),
            parent: device,
            objects: [0; rm::IMPORTS],
            types: [0; rm::IMPORTS],
            count: objects.len() as u16,
            index: first,
        };
        let Some(handles) = argument.objects.get_mut(..objects.len()) else {
            return Err(Status::INVALID_ARGUMENT.into());
        };
        handles.copy_from_slice(objects);
        // SAFETY: the command takes an `ImportObjects`, whose count is within its table, and the
        // file is open.
        match unsafe { control(caller, caller.client, rm::IMPORT_OBJECTS, &mut argument) } {
            Err(error) if unknown_command(&error) && first == 0 && objects.len() == 1 => {}
            answer => {
                answer?;
                // If RM reports the kind, it must be GPU memory.
                let types = argument.types.iter().take(objects.len());
                if types.into_iter().all(|&kind| kind == rm::IMPORTED_VIDEO_MEMORY) {
                    return Ok(());
                }
                // Already imported: freed here, because they hold their pages.
                for &object in objects {
                    let _ = self.free(caller, device, object);
                }
                return Err(Status::NOT_SUPPORTED.into());
            }
        }
        let mut argument = rm::ImportObject {
            fd: file.as_raw_fd(),
            kind: rm::IMPORT_RM,
            device,
            parent: device,
            object: objects.first().copied().unwrap_or_default(),
        };
        // SAFETY: the command takes an `ImportObject`, and the file is open.
        unsafe { control(caller, caller.client, rm::IMPORT_OBJECT, &mut argument) }
    }

    fn surface(&self, caller: Caller<'_>, memory: u32) -> Answer<Surface> {
        let mut entries = [rm::SURFACE_SIZE_LOW, rm::SURFACE_SIZE_HIGH, rm::SURFACE_ADDRESS_SPACE]
            .map(|index| rm::SurfaceEntry { index, data: 0 });
        let mut info = rm::SurfaceInfo {
            count: entries.len() as u32,
            padding: 0,
            list: std::ptr::from_mut(&mut entries).expose_provenance() as u64,
        };
        // SAFETY: the command takes a `SurfaceInfo`; its list is `count` entries that live until
        // the call is over.
        unsafe { control(caller, memory, rm::SURFACE_INFO, &mut info) }?;
        let [low, high, space] = entries.map(|entry| entry.data);
        Ok(Surface { space, size: (u64::from(high) << 32) | u64::from(low) })
    }

    fn map(
        &self,
        caller: Caller<'_>,
        device: u32,
        memory: u32,
        offset: u64,
        length: u64,
        file: BorrowedFd<'_>,
    ) -> Answer<u64> {
        let mut argument = rm::MapMemory {
            client: caller.client,
            device,
            memory,
            offset,
            length,
            fd: file.as_raw_fd(),
            ..Default::default()
        };
        // SAFETY: `MAP_MEMORY` takes a `MapMemory`, and the file in it is open.
        unsafe { rm::escape(caller.control, rm::MAP_MEMORY, &mut argument) }?;
        Status(argument.status).result()?;
        Ok(argument.linear_address)
    }

    fn unmap(&self, caller: Caller<'_>, device: u32, memory: u32, linear: u64) -> Answer<()> {
        let mut argument = rm::UnmapMemory {
            client: caller.client,
            device,
            memory,
            linear_address: linear,
            ..Default::default()
        };
        // SAFETY: `UNMAP_MEMORY` takes an `UnmapMemory`; its address is RM's own number, not one of
        // this process's memory.
        unsafe { rm::escape(caller.control, rm::UNMAP_MEMORY, &mut argument) }?;
        Ok(Status(argument.status).result()?)
    }

    fn place(
        &self,
        vma: &mut Vma,
        at: usize,
        length: usize,
        file: BorrowedFd<'_>,
    ) -> io::Result<Option<()>> {
        // A prepared file shows its one mapping at offset 0.
        vma.place(at, length, file, 0)
    }
}

fn open(path: &Path) -> io::Result<File> {
    // std sets O_CLOEXEC.
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}

fn is_node(file: &File, minor: u32) -> bool {
    file.metadata().is_ok_and(|metadata| {
        metadata.file_type().is_char_device()
            && libc::minor(metadata.rdev()) == minor
            && is_nvidia(metadata.rdev())
    })
}

fn is_nvidia(device: u64) -> bool {
    libc::major(device) == rm::CHARACTER_MAJOR
}

/// Node of this minor number under another name of the form `/dev/nvidiaN`.
fn renamed(minor: u32) -> Option<PathBuf> {
    std::fs::read_dir("/dev").ok()?.flatten().map(|entry| entry.path()).find(|path| {
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("nvidia"));
        let is_gpu = number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        is_gpu
            && path.metadata().is_ok_and(|metadata| {
                metadata.file_type().is_char_device()
                    && is_nvidia(metadata.rdev())
                    && libc::minor(metadata.rdev()) == minor
            })
    })
}

/// True if any GPU node exists, to choose RM without CUDA.
pub(crate) fn any_node() -> bool {
    std::fs::read_dir("/dev").is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            entry.path().metadata().is_ok_and(|metadata| {
                metadata.file_type().is_char_device()
                    && is_nvidia(metadata.rdev())
                    && libc::minor(metadata.rdev()) < rm::CONTROL_MINOR - 1
            })
        })
    })
}

fn card(entry: &rm::CardInfo) -> Card {
    Card {
        domain: entry.domain,
        bus: entry.bus,
        slot: entry.slot,
        gpu_id: entry.gpu_id,
        minor: entry.minor,
        bar1: entry.bar1_size,
    }
}

fn allocate(control: BorrowedFd<'_>, argument: &mut rm::Allocate) -> Answer<()> {
    // SAFETY: `ALLOCATE` takes an `Allocate`; its parameters are zero or the live structure of its
    // class.
    unsafe { rm::escape(control, rm::ALLOCATE, argument) }?;
    Ok(Status(argument.status()).result()?)
}

/// # Safety
/// `T` is the structure of `command`, with every address in it valid as `command` requires.
unsafe fn control<T>(
    caller: Caller<'_>,
    object: u32,
    command: u32,
    parameters: &mut T,
) -> Answer<()> {
    let mut argument = rm::Control {
        client: caller.client,
        object,
        command,
        flags: 0,
        parameters: std::ptr::from_mut(parameters).expose_provenance() as u64,
        parameters_size: size_of::<T>() as u32,
        status: 0,
    };
    // SAFETY: `CONTROL` takes a `Control`, which names a live structure of exactly its size; the
    // caller guarantees the rest.
    unsafe { rm::escape(caller.control, rm::CONTROL, &mut argument) }?;
    Ok(Status(argument.status).result()?)
}

/// For a structure size that this driver does not know: error of RM, or of gVisor, which checks
/// first.
fn unknown_size(error: &RmError) -> bool {
    match error {
        RmError::Status(status) => *status == Status::INVALID_PARAMETERS_SIZE,
        RmError::System(error) => error.raw_os_error() == Some(libc::EINVAL),
    }
}

fn unknown_command(error: &RmError) -> bool {
    match error {
        RmError::Status(status) => *status == Status::NOT_SUPPORTED,
        RmError::System(error) => error.raw_os_error() == Some(libc::EINVAL),
    }
}

fn address_of<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).expose_provenance() as u64
}
