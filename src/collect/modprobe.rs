//! modprobe.d as this machine's kmod reads it, the kernel command line, and the initramfs if an option is set
//! that it may contain.

mod initramfs;

use std::collections::BTreeMap;
use std::path::Path;

use super::read::{self, malformed};
use crate::kmod::{self, nvidia};
use crate::model::{
    Command, Directive, Driver, Fact, FileKind, HiddenFile, Kernel, Modprobe, Note,
};
use crate::world::{Files, MOST};

/// Where distributions install libkmod, whose file name gives its version.
const LIBRARIES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
];

/// Far above real machines.
const MAX_FILES: usize = 1024;
/// Limit of relevant directives in all files.
const MAX_DIRECTIVES: usize = 4_096;

/// The relevant modules' configuration. `always` reads the initramfs even if no option is set.
pub fn modprobe(
    files: &dyn Files,
    driver: &Driver,
    kernel: &Kernel,
    always: bool,
    notes: &mut Vec<Note>,
) -> Modprobe {
    let directories = directories(files);
    let mut hidden = Vec::new();
    let directives = directives(files, &directories, &mut hidden, notes);
    let command_line = kernel.command_line.as_ref().map(|text| kmod::command_line(text));
    let is_set = [&directives, &command_line]
        .into_iter()
        .filter_map(Fact::known)
        .flatten()
        .any(is_option_of_nvidia);
    let initramfs = (always || is_set || !has_defaults(driver))
        .then(|| initramfs::initramfs(files, &kernel.release, notes));
    Modprobe { directories, directives, hidden, command_line, initramfs }
}

fn is_option_of_nvidia(directive: &Directive) -> bool {
    matches!(&directive.command, Command::Options { module, .. } if module.starts_with(nvidia::MODULE))
}

/// True if the loaded driver is known to have the default values that GPUDirect needs, or no driver is loaded.
fn has_defaults(driver: &Driver) -> bool {
    let Fact::Known(params) = &driver.params else {
        return false;
    };
    let params = params.as_ref();
    nvidia::DEFAULTS.iter().all(|(name, default)| {
        params.and_then(|params| params.get(*name)).is_none_or(|value| value == default)
    })
}

/// The directories that this machine's kmod reads; the newest known set if its version is unknown.
fn directories(files: &dyn Files) -> Vec<String> {
    let release = LIBRARIES.iter().find_map(|directory| {
        let target = files.read_link(Path::new(&format!("{directory}/libkmod.so.2"))).ok()?;
        kmod::version_of_library(target.file_name()?.to_str()?)
    });
    let mut directories: Vec<String> = kmod::directories(release.unwrap_or(kmod::NEWEST))
        .iter()
        .map(|directory| (*directory).to_owned())
        .collect();
    // With a merged /usr both are the same directory.
    let merged = files.read_link(Path::new("/lib")).is_ok_and(|target| target.ends_with("usr/lib"));
    if merged && directories.iter().any(|directory| directory.starts_with("/usr/lib/")) {
        directories.retain(|directory| !directory.starts_with("/lib/"));
    }
    directories
}

/// The directives of all files, in the order of their names.
fn directives(
    files: &dyn Files,
    directories: &[String],
    hidden: &mut Vec<HiddenFile>,
    notes: &mut Vec<Note>,
) -> Fact<Vec<Directive>> {
    let mut by_name: BTreeMap<String, (String, String)> = BTreeMap::new();
    for (nth, directory) in directories.iter().enumerate() {
        let names = match names(files, directory, nth == 0, notes) {
            Fact::Known(names) => names,
            Fact::Unknown(why) => return Fact::Unknown(why),
        };
        for name in names {
            let path = format!("{directory}/{name}");
            let text = match text(files, &path, notes) {
                Fact::Known(Some(text)) => text,
                Fact::Known(None) => continue,
                Fact::Unknown(why) => return Fact::Unknown(why),
            };
            match by_name.get(&name) {
                Some((by, instead)) if !text.is_empty() && *instead != text => {
                    hidden.push(HiddenFile { path, by: by.clone() })
                }
                Some(_) => {}
                None => drop(by_name.insert(name, (path, text))),
            }
        }
        if by_name.len() > MAX_FILES {
            return malformed(notes, directory, format!("more than {MAX_FILES} files"));
        }
    }
    let mut all = Vec::new();
    for (path, text) in by_name.into_values() {
        match kmod::directives(&path, &text) {
            Ok(found) if all.len() + found.len() > MAX_DIRECTIVES => {
                return malformed(
                    notes,
                    path,
                    format!("modprobe.d has more than {MAX_DIRECTIVES} directives"),
                );
            }
            Ok(found) => all.extend(found),
            Err(words) => return malformed(notes, path, words),
        }
    }
    Fact::Known(all)
}

/// The configuration files of a directory; none if it does not exist. `/etc` must exist.
fn names(
    files: &dyn Files,
    directory: &str,
    first: bool,
    notes: &mut Vec<Note>,
) -> Fact<Vec<String>> {
    let is_configuration = |name: &str| {
        name.len() > ".conf".len() && !name.starts_with('.') && name.ends_with(".conf")
    };
    match files.list_kept(Path::new(directory), &is_configuration) {
        Ok(names) => Fact::Known(names),
        Err(error) if error.is_absent() && first => {
            read::absent::<()>(files, directory).map(|_| Vec::new())
        }
        Err(error) if error.is_absent() => Fact::Known(Vec::new()),
        // kmod ignores it.
        Err(error) if error.is_link_cycle() => {
            let _: Fact<()> = read::unread(notes, &error);
            Fact::Known(Vec::new())
        }
        Err(error) => read::unread(notes, &error),
    }
}

/// A file's relevant lines; `None` if kmod ignores the name: a directory, a dangling link.
fn text(files: &dyn Files, path: &str, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    let at = Path::new(path);
    let state = match files.state(at) {
        Ok(state) => state,
        Err(error) if error.is_absent() => {
            // The usual way to disable a file; a recorded root lacks this device.
            let off = files.read_link(at).is_ok_and(|target| target == Path::new("/dev/null"));
            return Fact::Known(off.then(String::new));
        }
        Err(error) if error.is_link_cycle() => {
            let _: Fact<()> = read::unread(notes, &error);
            return Fact::Known(None);
        }
        Err(error) => return read::unread(notes, &error),
    };
    match state.kind {
        FileKind::Directory => Fact::Known(None),
        FileKind::Character | FileKind::Other => Fact::Known(Some(String::new())),
        FileKind::Regular => {
            let keep = |bytes: Vec<u8>| kmod::kept(&String::from_utf8_lossy(&bytes)).into_bytes();
            match files.reduced(at, MOST, &keep) {
                Ok(bytes) => Fact::Known(Some(String::from_utf8_lossy(&bytes).into_owned())),
                Err(error) => read::unread(notes, &error),
            }
        }
    }
}

#[cfg(test)]
mod tests;
