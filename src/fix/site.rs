//! Read-only view of the machine for planning; works on recorded machines too.

use std::path::{Path, PathBuf};

use super::desired::{NoChange, open};
use super::step::UNITS;
use crate::check::Judgement;
use crate::model::{Area, Bdf, Capability, Fact, Facts, Why};
use crate::pci::{ConfigSpace, ReadError, offset_of};
use crate::world::{FileError, Files, LARGEST};

pub struct Site<'a> {
    files: &'a dyn Files,
    facts: &'a Facts,
}

impl<'a> Site<'a> {
    pub fn new(files: &'a dyn Files, facts: &'a Facts) -> Self {
        Self { files, facts }
    }

    /// A file's content; `None` if it does not exist. Symbolic links are refused.
    pub fn file(&self, path: &str) -> Result<Option<String>, NoChange> {
        let target = Path::new(path);
        let refused = |why: &str| Err(NoChange::Refused(format!("{path} {why}")));
        if let Ok(link) = self.files.read_link(target) {
            return refused(&format!(
                "is a symbolic link to {}: gdr does not write through links",
                link.display()
            ));
        }
        match self.files.read(target) {
            Ok(bytes) if u64::try_from(bytes.len()).is_ok_and(|size| size > LARGEST) => refused(
                &format!("has {} bytes, but gdr changes files of at most {LARGEST}", bytes.len()),
            ),
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => refused("is not UTF-8 text"),
            },
            Err(error) if error.is_absent() => Ok(None),
            // The snapshot lists the directory without this file.
            Err(error) if error.why() == Why::NotCovered && self.is_left_out(target) => Ok(None),
            Err(error) => Err(unread(&error)),
        }
    }

    /// True if the listing of the parent directory shows that the path does not exist.
    fn is_left_out(&self, target: &Path) -> bool {
        let (Some(above), Some(name)) =
            (target.parent(), target.file_name().and_then(|name| name.to_str()))
        else {
            return false;
        };
        match self.files.list(above) {
            Ok(names) => !names.iter().any(|there| there == name),
            Err(error) => error.is_absent(),
        }
    }

    pub fn attribute(&self, path: &str) -> Result<String, NoChange> {
        self.files.text(Path::new(path)).map_err(|error| unread(&error))
    }

    /// A register's value; `None` if the function lacks the capability.
    pub fn register(
        &self,
        bdf: Bdf,
        capability: Capability,
        offset: u16,
        width: u8,
    ) -> Result<Option<u32>, NoChange> {
        let space = Space {
            files: self.files,
            path: PathBuf::from(format!("/sys/bus/pci/devices/{bdf}/config")),
        };
        let unread = |why: &str| {
            NoChange::Unknown(format!(
                "cannot read the configuration space of {bdf}: {why}; needs root, and a device that answers."
            ))
        };
        let at = offset_of(&space, capability).map_err(|why| unread(why.phrase()))?;
        let Some(at) = at else {
            return Ok(None);
        };
        let mut bytes = [0; 4];
        let width = usize::from(width.min(4));
        match space.read(at + offset, &mut bytes[..width]) {
            Ok(count) if count == width => Ok(Some(u32::from_le_bytes(bytes))),
            Ok(_) => Err(unread("it ends there")),
            Err(error) => Err(unread(&error.to_string())),
        }
    }

    pub fn is_loaded(&self, module: &str) -> Result<bool, NoChange> {
        let name = module.replace('-', "_");
        match &self.facts.kernel.modules {
            Fact::Known(modules) => Ok(modules.iter().any(|module| module.name == name)),
            Fact::Unknown(why) => Err(NoChange::unread("/proc/modules", *why)),
        }
    }

    /// True if a target wants the unit at boot.
    pub fn is_enabled(&self, unit: &str) -> Result<bool, NoChange> {
        let is_link_directory =
            |name: &str| name.ends_with(".wants") || name.ends_with(".requires");
        let names = match self.files.list_kept(Path::new(UNITS), &is_link_directory) {
            Ok(names) => names,
            Err(error) if error.is_absent() => return Ok(false),
            Err(error) => return Err(unread(&error)),
        };
        let link =
            |name: &String| self.files.read_link(&Path::new(UNITS).join(name).join(unit)).is_ok();
        Ok(names.iter().any(link))
    }
}

fn unread(error: &FileError) -> NoChange {
    let unknown = Judgement::unknown("", error.why(), Area::Files, "");
    // The error of a path that a snapshot lacks says what to do.
    let needs = unknown.needs.filter(|_| error.why() != Why::NotCovered);
    NoChange::Unknown(open(&error.sentence(), needs.as_deref()))
}

struct Space<'a> {
    files: &'a dyn Files,
    path: PathBuf,
}

impl ConfigSpace for Space<'_> {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        match self.files.read_range(&self.path, offset.into(), out.len()) {
            Ok(bytes) => {
                out[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Err(error) if error.why() == crate::model::Why::Denied => Err(ReadError::Denied),
            Err(_) => Err(ReadError::Failed),
        }
    }
}
