//! Finds and reads the initramfs of the running kernel.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::collect::read::{self, malformed};
use crate::input::json_error;
use crate::kmod::initramfs::{self, Reading};
use crate::model::{Fact, FileKind, Initramfs, Note};
use crate::world::Files;

/// Twice what the largest xz-compressed images take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where kernel-install puts images (`$BOOT` in its manual).
const PARTITIONS: [&str; 3] = ["/efi", "/boot/efi", "/boot"];

/// The image of a release, in `/boot` or on such a partition.
pub fn initramfs(
    files: &dyn Files,
    release: &Fact<String>,
    notes: &mut Vec<Note>,
) -> Fact<Option<Initramfs>> {
    let release = match release {
        Fact::Known(release) if is_name(release) => release,
        Fact::Known(_) => {
            return malformed(notes, "/proc/sys/kernel/osrelease", "invalid kernel release");
        }
        Fact::Unknown(why) => return Fact::Unknown(*why),
    };
    let debian = format!("/boot/initrd.img-{release}");
    let mut candidates = vec![
        debian.clone(),
        // Fedora and RHEL, SUSE, image-based systems.
        format!("/boot/initramfs-{release}.img"),
        format!("/boot/initrd-{release}"),
        format!("/usr/lib/modules/{release}/initramfs.img"),
        format!("/usr/lib/modules/{release}/initrd"),
    ];
    // Arch uses the package's name.
    let package = files.text(Path::new(&format!("/usr/lib/modules/{release}/pkgbase")));
    let package = package.ok().filter(|package| is_name(package));
    candidates.extend(package.iter().map(|package| format!("/boot/initramfs-{package}.img")));
    for path in candidates {
        match at(files, &path, notes) {
            Fact::Known(None) => {}
            found => return found,
        }
    }
    // An unreadable partition does not hide an image on the next.
    let mut unknown = None;
    for partition in PARTITIONS {
        match on_partition(files, partition, release, package.as_deref(), notes) {
            Fact::Known(None) => {}
            Fact::Unknown(why) => unknown = unknown.or(Some(why)),
            found => return found,
        }
    }
    match unknown {
        Some(why) => Fact::Unknown(why),
        None => read::absent(files, &debian),
    }
}

/// The image at a path; `None` if there is no file or it has no initramfs.
fn at(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<Initramfs>> {
    match files.state(Path::new(path)) {
        Ok(state) if state.kind == FileKind::Regular => image(files, path, notes),
        Ok(_) => Fact::Known(None),
        Err(error) if error.is_absent() => Fact::Known(None),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// The image of kernel-install, dracut or mkinitcpio: `MACHINE-ID/RELEASE/initrd`, or a unified kernel image.
fn on_partition(
    files: &dyn Files,
    partition: &str,
    release: &str,
    package: Option<&str>,
    notes: &mut Vec<Note>,
) -> Fact<Option<Initramfs>> {
    let list = |directory: &str, keep: &dyn Fn(&str) -> bool| match files
        .list_kept(Path::new(directory), keep)
    {
        Ok(names) => Fact::Known(names),
        Err(error) if error.is_absent() => Fact::Known(Vec::new()),
        Err(error) => Fact::Unknown(error.why()),
    };
    let entries = list(partition, &is_entry).map(|names| {
        let path = |name: String| format!("{partition}/{name}/{release}/initrd");
        names.into_iter().map(path).collect::<Vec<_>>()
    });
    let directory = format!("{partition}/EFI/Linux");
    let unified = list(&directory, &|name| is_unified(name, release, package)).map(|names| {
        let path = |name: String| format!("{directory}/{name}");
        names.into_iter().map(path).collect::<Vec<_>>()
    });
    for paths in [entries, unified] {
        let paths = match paths {
            Fact::Known(paths) => paths,
            Fact::Unknown(why) => return Fact::Unknown(why),
        };
        for path in paths.iter().take(MAX_ENTRIES) {
            match at(files, path, notes) {
                Fact::Known(None) => {}
                found => return found,
            }
        }
    }
    Fact::Known(None)
}

/// Limit of directories on a partition, one per installed system.
const MAX_ENTRIES: usize = 32;

/// A system's directory: its machine-id(5), or dracut's default.
fn is_entry(name: &str) -> bool {
    is_machine_id(name) || name == "Default"
}

fn is_machine_id(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// `TOKEN-RELEASE.efi` or `TOKEN-RELEASE+3.efi` (kernel-install), `linux-RELEASE-MACHINE-ID.efi` (dracut),
/// `arch-PACKAGE.efi` (mkinitcpio).
pub(super) fn is_unified(name: &str, release: &str, package: Option<&str>) -> bool {
    let Some(name) = name.strip_suffix(".efi") else {
        return false;
    };
    if package.is_some_and(|package| name.strip_prefix("arch-") == Some(package)) {
        return true;
    }
    let ends = |rest: &str| {
        rest.is_empty()
            || rest.starts_with('+')
            || rest.strip_prefix('-').is_some_and(is_machine_id)
    };
    name.match_indices(release).any(|(start, _)| {
        let before = &name[..start];
        (before.is_empty() || before.ends_with('-')) && ends(&name[start + release.len()..])
    })
}

/// True if a name is safe as a path component.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+~-".contains(c))
}

fn image(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<Initramfs>> {
    let started = Instant::now();
    let reading = Reading { path, enough: &|| started.elapsed() > TIMEOUT };
    // The image may contain private files: only the reduced result is recorded.
    let text = files.streamed(Path::new(path), &|stream| {
        let found = if path.ends_with(".efi") {
            initramfs::read_unified(stream, &reading)
        } else {
            Some(initramfs::read(stream, &reading))
        };
        crate::model::to_json(&found).map_err(std::io::Error::from)
    });
    match text.as_deref().map(|text| serde_json::from_slice(text.as_bytes())) {
        Ok(Ok(found)) => Fact::Known(found),
        Ok(Err(error)) => malformed(notes, path, format!("invalid record: {}", json_error(&error))),
        Err(error) => read::unread(notes, error),
    }
}
