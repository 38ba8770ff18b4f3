//! The initramfs of the running kernel: where distributions put it, and what it carries.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::collect::read::{self, broken};
use crate::kmod::initramfs::{self, Reading};
use crate::model::{Fact, FileKind, Initramfs, Note};
use crate::world::Files;

/// How long reading it may take. The largest images, packed with xz, take half of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The image of a release; none where `/boot` has none.
pub fn initramfs(files: &dyn Files, release: &Fact<String>, notes: &mut Vec<Note>) -> Fact<Option<Initramfs>> {
    let release = match release {
        Fact::Known(release) if is_name(release) => release,
        Fact::Known(_) => return broken(notes, "/proc/sys/kernel/osrelease", "it is no name of a release"),
        Fact::Unknown(why) => return Fact::Unknown(*why),
    };
    let debian = format!("/boot/initrd.img-{release}");
    let mut candidates = vec![
        debian.clone(),
        // Fedora, RHEL; SUSE; an image-based system.
        format!("/boot/initramfs-{release}.img"),
        format!("/boot/initrd-{release}"),
        format!("/usr/lib/modules/{release}/initramfs.img"),
    ];
    // Arch names the package.
    let package = files.text(Path::new(&format!("/usr/lib/modules/{release}/pkgbase")));
    if let Ok(package) = package
        && is_name(&package)
    {
        candidates.push(format!("/boot/initramfs-{package}.img"));
    }
    for path in candidates {
        match files.state(Path::new(&path)) {
            Ok(state) if state.kind == FileKind::Regular => return image(files, &path, notes).map(Some),
            Ok(_) => {}
            Err(error) if error.is_absent() => {}
            Err(error) => return Fact::Unknown(error.why()),
        }
    }
    read::absent(files, &debian)
}

/// A name that leads nowhere else.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() < 128 && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+~-".contains(c))
}

fn image(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Initramfs> {
    let begun = Instant::now();
    let reading = Reading {
        path,
        enough: &|| begun.elapsed() > PATIENCE,
    };
    // What the image holds is other people's; a record has what is below, and nothing else.
    let text = files.streamed(Path::new(path), &|stream| {
        let found = initramfs::read(stream, &reading);
        serde_json::to_string(&found).map_err(std::io::Error::from)
    });
    match text.as_deref().map(serde_json::from_str) {
        Ok(Ok(found)) => Fact::Known(found),
        Ok(Err(error)) => broken(notes, path, format!("its record is none: {error}")),
        Err(error) => read::unread(notes, error),
    }
}
