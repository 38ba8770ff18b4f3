//! Programs and libraries related to GPUDirect, as the loader finds them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fact, Why};

/// Installed software, determined from files: no program is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Software {
    /// Libraries; for each name, the loader's choice comes first.
    pub libraries: Fact<Vec<Library>>,
    /// Libraries that may also be where gdr could not look, and why it could not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, Why>,
    /// `ib_write_bw` of perftest; none if not installed.
    pub perftest: Fact<Option<Program>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Library {
    /// Name that programs load, as in `libnccl.so.2`.
    pub name: String,
    pub path: String,
    /// Version at the end of its file name, as in `2.18.3`; none if the name has no version.
    pub version: Option<String>,
    /// How gdr found it.
    pub found: Found,
    /// Its plug-ins for CUDA; none if it has no plug-in directory.
    pub plugins: Option<Vec<String>>,
    /// Strings in it that show how it was built.
    pub words: Fact<Vec<String>>,
}

/// How gdr found a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// In a directory of `LD_LIBRARY_PATH`.
    LibraryPath,
    /// In the loader's cache.
    Cache,
    /// In a default directory of the loader, without a cache.
    Directory,
    /// In a Python package, which loads it by path.
    PythonPackage,
    /// In the directory of its package, where the loader does not look.
    Unlisted,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    pub path: String,
    /// Strings in it that show how it was built.
    pub words: Fact<Vec<String>>,
}

impl Software {
    /// All libraries of one name, the loader's choice first.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Library> {
        let libraries = self.libraries.known().into_iter().flatten();
        libraries.filter(move |library| library.name == name)
    }

    /// Libraries that a program may use: the loader's choice, and those that Python packages load by path.
    pub fn usable<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Library> {
        let packaged = self.all(name).filter(|library| library.found == Found::PythonPackage);
        self.picked(name).into_iter().chain(packaged)
    }

    /// The loader's choice; it does not search packages.
    pub fn picked<'a>(&'a self, name: &'a str) -> Option<&'a Library> {
        self.all(name)
            .find(|library| !matches!(library.found, Found::PythonPackage | Found::Unlisted))
    }
}
