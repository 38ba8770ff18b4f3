//! Opening `libibverbs.so.1` as the loader finds it, once.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

use loader::{LoadError, Opened};
use process::SetOnce;

use crate::Functions;

/// Never `libibverbs.so`: that name belongs to development packages.
const NAME: &str = "libibverbs.so.1";

/// The library, open until the process ends: providers that it has loaded do not survive being closed.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    path: PathBuf,
}

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such file: rdma-core is not installed, or not in this container.
    #[error("no {name} on this machine: {words}")]
    Absent {
        /// Which library.
        name: &'static str,
        /// The loader's words.
        words: String,
    },
    /// The file is there and the loader refused it.
    #[error("{name} cannot be loaded: {words}")]
    Unusable {
        /// Which library.
        name: &'static str,
        /// The loader's words.
        words: String,
    },
    /// The file loads and lists no devices.
    #[error("{0} is not the library of verbs: it has no ibv_get_device_list")]
    NotVerbs(PathBuf),
}

/// The process's library of verbs, opened at the first call that finds one. A failure is not remembered: the program may
/// yet load its own.
///
/// # Errors
///
/// [`OpenError`], with the loader's words.
pub fn library() -> Result<&'static Library, OpenError> {
    static LIBRARY: SetOnce<Library> = SetOnce::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open(Path::new(NAME))?;
    Ok(LIBRARY.set(library).unwrap_or_else(|first| first))
}

impl Library {
    /// The library in this file, or of this name.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with the loader's words.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        // SAFETY: the constructors of libibverbs have no condition on the caller.
        let opened = unsafe { Opened::open(path, libc::RTLD_NOW) }
            .map_err(|refusal| OpenError::of(NAME, refusal))?;
        // SAFETY: `symbol` returns what this library exports under the name asked for. That a file called libibverbs.so.1
        // means verbs by their names is beyond what a caller of dlopen can check. The library is kept open below (or
        // dropped with the functions unused), so the addresses stay callable.
        let functions = unsafe { Functions::resolve(|name| opened.symbol(name)) };
        let path = opened
            .file_of("ibv_get_device_list")
            .unwrap_or_else(|| path.to_owned());
        if functions.ibv_get_device_list.is_none() {
            return Err(OpenError::NotVerbs(path));
        }
        opened.keep();
        Ok(Self { functions, path })
    }

    /// The functions, each present or not.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The file, as the loader resolved it where that can be told.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl OpenError {
    /// Of the library of this name.
    pub(crate) fn of(name: &'static str, refusal: LoadError) -> Self {
        match refusal {
            LoadError::Absent(words) => Self::Absent { name, words },
            LoadError::Unusable(words) => Self::Unusable { name, words },
        }
    }
}

/// Leaves in `errno` what C programs find there when a function is not implemented.
pub(crate) fn not_implemented() -> c_int {
    // SAFETY: the address is that of this thread's own errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    libc::ENOSYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn a_missing_file_is_absent_in_the_loaders_words() {
        match Library::open(Path::new("/nowhere/libibverbs.so.1")) {
            Err(OpenError::Absent { words, .. }) => {
                assert!(words.contains("No such file or directory"), "{words}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn a_library_without_devices_is_not_verbs() {
        let outcome = Library::open(Path::new("libc.so.6"));
        assert!(
            matches!(outcome, Err(OpenError::NotVerbs(_))),
            "{outcome:?}"
        );
    }
}
