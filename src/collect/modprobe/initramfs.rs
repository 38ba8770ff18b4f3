//! The initramfs of the running kernel: where distributions put it, and what it carries.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::collect::read::{self, broken};
use crate::input::json_error;
use crate::kmod::initramfs::{self, Reading};
use crate::model::{Fact, FileKind, Initramfs, Note};
use crate::world::Files;

/// How long reading it may take. The largest images, packed with xz, take half of it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where kernel-install puts images (its manual: `$BOOT`), on a partition that the firmware reads.
const PARTITIONS: [&str; 3] = ["/efi", "/boot/efi", "/boot"];

/// The image of a release; none where neither `/boot` nor such a partition has one.
pub fn initramfs(
    files: &dyn Files,
    release: &Fact<String>,
    notes: &mut Vec<Note>,
) -> Fact<Option<Initramfs>> {
    let release = match release {
        Fact::Known(release) if is_name(release) => release,
        Fact::Known(_) => {
            return broken(
                notes,
                "/proc/sys/kernel/osrelease",
                "it is no name of a release",
            );
        }
        Fact::Unknown(why) => return Fact::Unknown(*why),
    };
    let debian = format!("/boot/initrd.img-{release}");
    let mut candidates = vec![
        debian.clone(),
        // Fedora, RHEL; SUSE; an image-based system.
        format!("/boot/initramfs-{release}.img"),
        format!("/boot/initrd-{release}"),
        format!("/usr/lib/modules/{release}/initramfs.img"),
        format!("/usr/lib/modules/{release}/initrd"),
    ];
    // Arch names the package.
    let package = files.text(Path::new(&format!("/usr/lib/modules/{release}/pkgbase")));
    let package = package.ok().filter(|package| is_name(package));
    candidates.extend(
        package
            .iter()
            .map(|package| format!("/boot/initramfs-{package}.img")),
    );
    for path in candidates {
        match at(files, &path, notes) {
            Fact::Known(None) => {}
            found => return found,
        }
    }
    // A partition that this user may not look into does not hide an image on the next.
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

/// The image at a path; none where no file is there, or one that has no initramfs.
fn at(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<Initramfs>> {
    match files.state(Path::new(path)) {
        Ok(state) if state.kind == FileKind::Regular => image(files, path, notes),
        Ok(_) => Fact::Known(None),
        Err(error) if error.is_absent() => Fact::Known(None),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// The image that kernel-install, dracut or mkinitcpio put there: `MACHINE-ID/RELEASE/initrd`, or a unified kernel image.
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
        for path in paths.iter().take(MOST_ENTRIES) {
            match at(files, path, notes) {
                Fact::Known(None) => {}
                found => return found,
            }
        }
    }
    Fact::Known(None)
}

/// The most entries of a partition that are looked at: one for each system on the machine.
const MOST_ENTRIES: usize = 32;

/// The directory of a system's images, by its machine-id(5); dracut's where it has none.
fn is_entry(name: &str) -> bool {
    is_machine_id(name) || name == "Default"
}

fn is_machine_id(name: &str) -> bool {
    name.len() == 32
        && name
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// `TOKEN-RELEASE.efi` or `TOKEN-RELEASE+3.efi` of kernel-install, `linux-RELEASE-MACHINE-ID.efi` of dracut, and
/// `arch-PACKAGE.efi` of mkinitcpio.
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

/// A name that leads nowhere else.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 128
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+~-".contains(c))
}

fn image(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<Initramfs>> {
    let begun = Instant::now();
    let reading = Reading {
        path,
        enough: &|| begun.elapsed() > TIMEOUT,
    };
    // What the image holds is other people's; a record has what is below, and nothing else.
    let text = files.streamed(Path::new(path), &|stream| {
        let found = match path.ends_with(".efi") {
            true => initramfs::read_unified(stream, &reading),
            false => Some(initramfs::read(stream, &reading)),
        };
        serde_json::to_string(&found).map_err(std::io::Error::from)
    });
    match text.as_deref().map(serde_json::from_str) {
        Ok(Ok(found)) => Fact::Known(found),
        Ok(Err(error)) => broken(
            notes,
            path,
            format!("its record is none: {}", json_error(&error)),
        ),
        Err(error) => read::unread(notes, error),
    }
}
