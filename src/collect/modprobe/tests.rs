//! Live and recorded roots with overriding, cyclic and huge files.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::model::{Failure, Question, Why};
use crate::world::World;

fn root(entries: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, text) in entries {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory above")).expect("directories");
        fs::write(path, text).expect("a file");
    }
    dir
}

fn read_at(dir: &tempfile::TempDir) -> (Modprobe, Vec<Note>) {
    let world = World::directory(dir.path()).expect("a root");
    let mut notes = Vec::new();
    let kernel = Kernel {
        command_line: Fact::Known("quiet nvidia.NVreg_X=9".to_owned()),
        release: Fact::Known("6.8.0".to_owned()),
        ..Kernel::default()
    };
    let found = modprobe(world.files.as_ref(), &Driver::default(), &kernel, false, &mut notes);
    // The recording gives the same result.
    let (world, record) = world.recording();
    modprobe(world.files.as_ref(), &Driver::default(), &kernel, false, &mut Vec::new());
    let again = World::snapshot(record.finish(String::new()));
    let mut replayed_notes = Vec::new();
    assert_eq!(
        modprobe(again.files.as_ref(), &Driver::default(), &kernel, false, &mut replayed_notes),
        found
    );
    assert_eq!(replayed_notes, notes);
    (found, notes)
}

fn options(found: &Fact<Vec<Directive>>) -> Vec<String> {
    let known = found.known().expect("known");
    known
        .iter()
        .filter_map(|found| match &found.command {
            Command::Options { options, .. } => Some(options.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn first_directory_wins_and_names_order_files() {
    let dir = root(&[
        ("etc/modprobe.d/b.conf", "options nvidia B=etc\n"),
        ("etc/modprobe.d/note.txt", "options nvidia T=1\n"),
        ("etc/modprobe.d/.hidden.conf", "options nvidia H=1\n"),
        ("run/modprobe.d/c.conf", "options nvidia C=run\n"),
        ("usr/lib/modprobe.d/a.conf", "options nvidia A=lib\n"),
        ("usr/lib/modprobe.d/b.conf", "options nvidia B=lib\n"),
        ("usr/lib/modprobe.d/off.conf", "options nvidia O=1\n"),
        ("usr/lib/modprobe.d/same.conf", "# nothing of ours\n"),
        ("etc/modprobe.d/same.conf", "# nothing either\n"),
    ]);
    symlink("/dev/null", dir.path().join("etc/modprobe.d/off.conf")).expect("a link");
    symlink("nowhere", dir.path().join("etc/modprobe.d/c.conf")).expect("a link");
    symlink("loop.conf", dir.path().join("etc/modprobe.d/loop.conf")).expect("a link");
    fs::create_dir(dir.path().join("etc/modprobe.d/a.conf")).expect("a directory");
    symlink("usr/lib", dir.path().join("lib")).expect("a link");
    let (found, notes) = read_at(&dir);
    assert_eq!(options(&found.directives), ["A=lib", "B=etc", "C=run"]);
    assert_eq!(options(&found.command_line), ["NVreg_X=9"]);
    let hidden: Vec<(&str, &str)> =
        found.hidden.iter().map(|h| (h.path.as_str(), h.by.as_str())).collect();
    assert_eq!(
        hidden,
        [
            ("/usr/lib/modprobe.d/b.conf", "/etc/modprobe.d/b.conf"),
            ("/usr/lib/modprobe.d/off.conf", "/etc/modprobe.d/off.conf"),
        ]
    );
    assert_eq!(notes.len(), 1, "the cycle: {notes:?}");
    assert!(notes[0].source.ends_with("loop.conf"));
    assert!(!found.directories.contains(&"/lib/modprobe.d".to_owned()));
}

#[test]
fn kmod_version_selects_directories() {
    let dir = root(&[
        ("etc/modprobe.d/z.conf", ""),
        ("usr/local/lib/modprobe.d/a.conf", "options nvidia A=local\n"),
        ("usr/lib/modprobe.d/b.conf", "options nvidia B=usr\n"),
        ("lib/modprobe.d/c.conf", "options nvidia C=lib\n"),
        ("usr/lib64/x", ""),
    ]);
    let library = dir.path().join("usr/lib64/libkmod.so.2");
    for (file, expected) in [
        ("libkmod.so.2.3.6", &["C=lib"][..]),
        ("libkmod.so.2.4.0", &["A=local", "C=lib"]),
        ("libkmod.so.2.5.1", &["A=local", "B=usr", "C=lib"]),
    ] {
        let _ = fs::remove_file(&library);
        symlink(file, &library).expect("a link");
        assert_eq!(options(&read_at(&dir).0.directives), expected, "{file}");
    }
}

#[test]
fn missing_and_huge_files() {
    let nothing = root(&[("proc/x", "")]);
    assert_eq!(read_at(&nothing).0.directives, Fact::Unknown(Why::NotCovered));
    let bare = root(&[("etc/os-release", "")]);
    assert_eq!(read_at(&bare).0.directives, Fact::Known(Vec::new()));
    let others = format!("# {}\n", "x".repeat(98)).repeat(100_000);
    let large = root(&[
        ("etc/modprobe.d/a.conf", &others),
        ("etc/modprobe.d/b.conf", "options nvidia B=1\n"),
    ]);
    assert_eq!(options(&read_at(&large).0.directives), ["B=1"]);
    let ours = root(&[("etc/modprobe.d/a.conf", &"options nvidia A=1\n".repeat(100_000))]);
    let (found, notes) = read_at(&ours);
    assert_eq!(found.directives, Fact::Unknown(Why::Broken));
    assert!(notes[0].message.contains("more than 4096 directives"), "{notes:?}");
}

/// A newc archive with one file, as text (buffer-format.rst).
fn archive(name: &str, text: &str) -> String {
    let entry = |name: &str, mode: u32, text: &str| {
        let zeros = |count: usize| "0".repeat(8 * count);
        let (size, length) = (text.len(), name.len() + 1);
        let head = format!(
            "070701{:08X}{mode:08X}{}{size:08X}{}{length:08X}{}",
            1,
            zeros(4),
            zeros(4),
            zeros(1)
        );
        let filled = |text: String| {
            let fill = text.len().next_multiple_of(4) - text.len();
            text + &"\0".repeat(fill)
        };
        filled(format!("{head}{name}\0")) + &filled(text.to_owned())
    };
    entry(name, 0o100_644, text) + &entry("TRAILER!!!", 0, "")
}

/// The path of the image chosen among these files.
fn image_among(entries: &[(&str, &str)]) -> Option<String> {
    let all = [&[("etc/os-release", ""), ("boot/grub/x", "")], entries].concat();
    let (found, _) = read_at(&root(&all));
    let image = found.initramfs.expect("an option is set");
    let image = image.known().expect("it could be read").as_ref()?;
    assert_eq!(image.failure, None, "{}", image.path);
    assert_eq!(image.directives.len(), 1, "{}", image.path);
    Some(image.path.clone())
}

#[test]
fn finds_initramfs_of_each_builder() {
    const ID: &str = "8f2c1a449d3e11eeb9620242ac12ffff";
    let text = archive("etc/modprobe.d/a.conf", "options nvidia A=1\n");
    for path in [
        "boot/initrd.img-6.8.0".to_owned(),
        "boot/initramfs-6.8.0.img".to_owned(),
        "usr/lib/modules/6.8.0/initrd".to_owned(),
        format!("efi/{ID}/6.8.0/initrd"),
        format!("boot/efi/{ID}/6.8.0/initrd"),
        format!("boot/{ID}/6.8.0/initrd"),
        "boot/Default/6.8.0/initrd".to_owned(),
    ] {
        assert_eq!(image_among(&[(&path, &text)]), Some(format!("/{path}")));
    }
    // Debian's image takes precedence over those on the EFI partition.
    let other = format!("boot/efi/{ID}/6.8.0/initrd");
    let both = [("boot/initrd.img-6.8.0", text.as_str()), (&other, &text)];
    assert_eq!(image_among(&both).as_deref(), Some("/boot/initrd.img-6.8.0"));
    // Another kernel's, no system's, and none.
    let another = format!("efi/{ID}/6.8.1/initrd");
    for path in [another.as_str(), "efi/other/6.8.0/initrd", "efi/EFI/Linux/x-6.8.0.conf"] {
        assert_eq!(image_among(&[(path, &text)]), None, "{path}");
    }
}

#[test]
fn recognises_unified_kernel_images_by_name() {
    const ID: &str = "8f2c1a449d3e11eeb9620242ac12ffff";
    let is = |name: &str| initramfs::is_unified(name, "6.8.0-1", Some("linux-lts"));
    for name in [
        "6.8.0-1.efi".to_owned(),
        format!("{ID}-6.8.0-1.efi"),
        "fedora-6.8.0-1+3-0.efi".to_owned(),
        format!("linux-6.8.0-1-{ID}.efi"),
        "arch-linux-lts.efi".to_owned(),
    ] {
        assert!(is(&name), "{name}");
    }
    for name in [
        "fedora-6.8.0-10.efi",
        "fedora-16.8.0-1.efi",
        "fedora-6.8.0-1-rt.efi",
        "fedora-6.8.0-1",
        "arch-linux.efi",
        "BOOTX64.EFI",
    ] {
        assert!(!is(name), "{name}");
    }
    // An invalid one is reported.
    let path = format!("efi/EFI/Linux/{ID}-6.8.0.efi");
    let (found, _) = read_at(&root(&[("etc/os-release", ""), (&path, "MZ")]));
    let image = found.initramfs.expect("an option is set");
    let image = image.known().expect("its record").as_ref().expect("an image");
    assert_eq!(image.path, format!("/{path}"));
    assert!(image.failure.is_some());
}

/// kmod ignores a link that leads in a circle. A file that only root may read can say anything.
#[test]
fn denied_file_makes_directives_unknown() {
    let dir = root(&[("etc/modprobe.d/a.conf", "options nvidia A=1\n")]);
    let read = |files: &dyn Files| {
        let (driver, kernel) = (Driver::default(), Kernel::default());
        modprobe(files, &driver, &kernel, false, &mut Vec::new()).directives
    };
    let world = World::directory(dir.path()).expect("a root");
    let (world, record) = world.recording();
    assert_eq!(options(&read(world.files.as_ref())), ["A=1"]);
    let recorded = record.finish(String::new());
    for (errno, expected) in [
        (rustix::io::Errno::ACCESS, Fact::Unknown(Why::Denied)),
        (rustix::io::Errno::LOOP, Fact::Known(Vec::new())),
    ] {
        let mut snapshot = recorded.clone();
        let file = snapshot.files.get_mut("/etc/modprobe.d/a.conf");
        let file = file.expect("it was read");
        file.state = None;
        let failure = Failure::Errno(errno.raw_os_error());
        file.errors.insert(Question::State, failure);
        assert_eq!(read(World::snapshot(snapshot).files.as_ref()), expected);
    }
}
