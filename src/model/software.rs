//! The programs and libraries around GPUDirect, as the loader finds them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// What is installed, by files alone: nothing is started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Software {
    /// Libraries, of each name the one first that the loader picks.
    pub libraries: Fact<Vec<Library>>,
    /// `ib_write_bw` of perftest; none where it is not installed.
    pub perftest: Fact<Option<Program>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Library {
    /// The name that programs ask for, as in `libnccl.so.2`.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// The version that the name of its file ends in, as in `2.18.3`; none where it has none.
    pub version: Option<String>,
    /// How it was found.
    pub found: Found,
    /// Plug-ins of it that have to do with CUDA; none where it has no directory for them.
    pub plugins: Option<Vec<String>>,
    /// Of the words that tell how it was built, those that are in it.
    pub words: Fact<Vec<String>>,
}

/// How a library was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// In a directory of `LD_LIBRARY_PATH`.
    LibraryPath,
    /// In the loader's cache.
    Cache,
    /// In one of the loader's own directories, where there is no cache.
    Directory,
    /// Inside a Python package, which loads it by its path.
    PythonPackage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Where it is.
    pub path: String,
    /// Of the words that tell how it was built, those that are in it.
    pub words: Fact<Vec<String>>,
}

impl Software {
    /// The libraries of one name, the loader's pick first.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Library> {
        let libraries = self.libraries.known().into_iter().flatten();
        libraries.filter(move |library| library.name == name)
    }

    /// Those that a program may use: the loader's pick, and what Python packages load by its path.
    pub fn usable<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Library> {
        let packaged = self
            .all(name)
            .filter(|library| library.found == Found::PythonPackage);
        self.picked(name).into_iter().chain(packaged)
    }

    /// The one that the loader picks; what lies inside a Python package it does not pick.
    pub fn picked<'a>(&'a self, name: &'a str) -> Option<&'a Library> {
        self.all(name)
            .find(|library| library.found != Found::PythonPackage)
    }
}
