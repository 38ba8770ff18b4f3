//! The boot loader: the firmware's variable, and the files of GRUB and kernel-install.
//!
//! Most machines lack most of these files, and older snapshots have none: absence adds no note.

use std::collections::BTreeMap;
use std::path::Path;

use super::read;
use crate::model::{Boot, Fact, Why};
use crate::world::{FileError, Files};

/// The fixes with a file in `/etc/default/grub.d`.
const FIXES: [&str; 2] = ["acs", "iommu"];

/// Programs that generate GRUB's configuration.
const MKCONFIG: [&str; 4] = [
    "/usr/sbin/grub-mkconfig",
    "/usr/bin/grub-mkconfig",
    "/usr/sbin/grub2-mkconfig",
    "/usr/bin/grub2-mkconfig",
];
const GRUB_DEFAULT: &str = "/etc/default/grub";
const GRUB_CFG: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
const LOADER_CONF: [&str; 3] =
    ["/boot/loader/loader.conf", "/efi/loader/loader.conf", "/boot/efi/loader/loader.conf"];
/// In kernel-install's search order.
const KERNEL_INSTALL: [&str; 2] = ["/etc/kernel/cmdline", "/usr/lib/kernel/cmdline"];
const ENTRIES: &str = "/boot/loader/entries";
/// Far above real machines.
const MOST: usize = 256;

pub fn boot(files: &dyn Files) -> Boot {
    let mut drop_ins = reads_drop_ins(files);
    // Fixes use drop-ins if GRUB reads them, so this file is read only without.
    let grub_default = match drop_ins {
        Fact::Known(true) => Fact::Unknown(Why::NotCovered),
        _ => text(files, GRUB_DEFAULT),
    };
    // In some distributions it sources the drop-ins itself.
    if grub_default.present().is_some_and(|text| !sourcing(text).is_empty()) {
        drop_ins = Fact::Known(true);
    }
    let loader = loader(files);
    let loader_conf = first_existing(files, &LOADER_CONF).map(|path| path.is_some());
    let systemd_boot = match &loader {
        Fact::Known(loader) => {
            loader.as_ref().is_some_and(|loader| loader.starts_with("systemd-boot"))
        }
        Fact::Unknown(_) => loader_conf == Fact::Known(true),
    };
    Boot {
        ostree: read::is_there(files, "/run/ostree-booted"),
        grub_default,
        grub_cfg: first_existing(files, &GRUB_CFG),
        drop_ins: FIXES
            .iter()
            .filter_map(|fix| {
                let path = Boot::drop_in(fix);
                let text = text(files, &path).present()?.clone();
                Some((path, text))
            })
            .collect(),
        kernel_install: kernel_install(files),
        entries: entries(files),
        unit: unit(files),
        kernels: if systemd_boot { kernels(files) } else { Fact::Unknown(Why::NotCovered) },
        grub_drop_ins: drop_ins,
        loader_conf,
        loader,
    }
}

/// The firmware's variable: four bytes of attributes, then UTF-16 up to a zero.
fn loader(files: &dyn Files) -> Fact<Option<String>> {
    const VARIABLE: &str =
        "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    const LONGEST: usize = 260;
    match files.read_range(Path::new(VARIABLE), 0, LONGEST) {
        Ok(bytes) => {
            let units = bytes.get(4..).unwrap_or_default().chunks_exact(2);
            let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            let text: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
            Fact::Known(Some(String::from_utf16_lossy(&text)))
        }
        Err(error) => lacking(files, VARIABLE, &error),
    }
}

/// True if the script that generates GRUB's configuration reads drop-ins.
fn reads_drop_ins(files: &dyn Files) -> Fact<bool> {
    let keep = |bytes: Vec<u8>| sourcing(&String::from_utf8_lossy(&bytes)).into_bytes();
    let mut known = Fact::Unknown(Why::NotCovered);
    for path in MKCONFIG {
        match files.reduced(Path::new(path), crate::world::MOST, &keep) {
            Ok(lines) if !lines.is_empty() => return Fact::Known(true),
            Ok(_) => known = Fact::Known(false),
            _ => {}
        }
    }
    known
}

fn sourcing(script: &str) -> String {
    let names =
        |line: &&str| !line.trim_start().starts_with('#') && line.contains("default/grub.d/");
    script.lines().filter(names).map(|line| format!("{line}\n")).collect()
}

fn kernel_install(files: &dyn Files) -> Fact<Option<(String, String)>> {
    for path in KERNEL_INSTALL {
        match text(files, path) {
            Fact::Known(Some(text)) => return Fact::Known(Some((path.to_owned(), text))),
            Fact::Known(None) => {}
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    Fact::Known(None)
}

fn entries(files: &dyn Files) -> Fact<BTreeMap<String, String>> {
    let is_entry = |name: &str| name.ends_with(".conf");
    let names = match files.list_kept(Path::new(ENTRIES), &is_entry) {
        Ok(names) => names,
        Err(error) => return lacking(files, ENTRIES, &error).map(|_: Option<()>| BTreeMap::new()),
    };
    let mut entries = BTreeMap::new();
    for name in names.into_iter().take(MOST) {
        let path = format!("{ENTRIES}/{name}");
        match read::kept(files, &path, options, &mut Vec::new()) {
            Fact::Known(options) => drop(entries.insert(path, options)),
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    Fact::Known(entries)
}

/// An entry's options for PCI and IOMMU; the others name disks.
fn options(entry: &str) -> String {
    let lines = entry.lines().filter_map(|line| line.strip_prefix("options"));
    let words = lines.flat_map(str::split_ascii_whitespace);
    let is_relevant =
        |word: &&str| ["pci=", "iommu=", "iommu."].iter().any(|start| word.starts_with(start));
    let words: Vec<&str> = words.filter(is_relevant).collect();
    if words.is_empty() { String::new() } else { format!("options {}\n", words.join(" ")) }
}

/// True if the unit is enabled; `None` if it does not exist.
fn unit(files: &dyn Files) -> Fact<Option<bool>> {
    let present = text(files, &format!("{}/{}", Boot::UNITS, Boot::UNIT));
    let is_link_directory = |name: &str| name.ends_with(".wants") || name.ends_with(".requires");
    let names = match files.list_kept(Path::new(Boot::UNITS), &is_link_directory) {
        Ok(names) => names,
        Err(error) if error.is_absent() => Vec::new(),
        Err(error) => return Fact::Unknown(error.why()),
    };
    let link = |name: &String| Path::new(Boot::UNITS).join(name).join(Boot::UNIT);
    let enabled = names.iter().any(|name| files.read_link(&link(name)).is_ok());
    present.map(|present| present.map(|_| enabled))
}

fn kernels(files: &dyn Files) -> Fact<BTreeMap<String, String>> {
    const MODULES: &str = "/lib/modules";
    let names = match files.list(Path::new(MODULES)) {
        Ok(names) => names,
        Err(error) => return Fact::Unknown(error.why()),
    };
    let image = |release: String| {
        let places = [format!("/boot/vmlinuz-{release}"), format!("{MODULES}/{release}/vmlinuz")];
        let image =
            places.into_iter().find(|path| files.exists(Path::new(path)).unwrap_or(false))?;
        Some((release, image))
    };
    // Kernel releases begin with a digit.
    let is_release = |name: &String| name.starts_with(|c: char| c.is_ascii_digit());
    Fact::Known(names.into_iter().filter(is_release).take(MOST).filter_map(image).collect())
}

fn first_existing(files: &dyn Files, paths: &[&str]) -> Fact<Option<String>> {
    let mut answer = Fact::Known(None);
    for path in paths {
        match read::is_there(files, path) {
            Fact::Known(true) => return Fact::Known(Some((*path).to_owned())),
            Fact::Known(false) => {}
            Fact::Unknown(why) => answer = Fact::Unknown(why),
        }
    }
    answer
}

fn text(files: &dyn Files, path: &str) -> Fact<Option<String>> {
    match files.read(Path::new(path)) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Fact::Known(Some(text)),
            Err(_) => Fact::Unknown(Why::Broken),
        },
        Err(error) => lacking(files, path, &error),
    }
}

fn lacking<T>(files: &dyn Files, path: &str, error: &FileError) -> Fact<Option<T>> {
    if error.is_absent() { read::absent(files, path) } else { Fact::Unknown(error.why()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_script_that_reads_drop_ins() {
        // Debian's grub-mkconfig 2.06.
        let debian = "if test -f ${sysconfdir}/default/grub ; then\n  . ${sysconfdir}/default/grub\nfi\n\
                      for x in ${sysconfdir}/default/grub.d/*.cfg ; do\n  if [ -e \"${x}\" ]; then\n";
        let kept = sourcing(debian);
        assert_eq!(kept, "for x in ${sysconfdir}/default/grub.d/*.cfg ; do\n");
        assert_eq!(sourcing(&kept), kept);
        assert_eq!(sourcing("# see /etc/default/grub.d/\n. ${sysconfdir}/default/grub\n"), "");
    }

    #[test]
    fn keeps_pci_options_of_entry() {
        let entry = "title Linux\noptions root=UUID=1 ro iommu=pt pci=realloc quiet\n";
        let kept = options(entry);
        assert_eq!(kept, "options iommu=pt pci=realloc\n");
        assert_eq!(options(&kept), kept);
        assert_eq!(options("title Linux\noptions quiet\n"), "");
    }
}
