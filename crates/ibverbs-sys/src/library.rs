//! Opens `libibverbs.so.1` through the loader, once.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

use gdr_sys::loader::{LoadError, Opened};
use gdr_sys::process::SetOnce;

use crate::Functions;

/// A function of an opened provider, of the type of the field that it is assigned to; `None` if the library lacks it. The library is kept
/// open.
macro_rules! symbol {
    ($opened:ident, $name:ident) => {
        $opened.symbol(stringify!($name)).map(|address| {
            // SAFETY: the address is not null and that of the function with this name, whose signature in the provider's header is the
            // field's; the library is kept open.
            unsafe { std::mem::transmute::<*mut c_void, _>(address) }
        })
    };
}

/// Not `libibverbs.so`, which belongs to development packages.
const NAME: &str = "libibverbs.so.1";

/// The library, open until the process ends: its providers do not survive closing it.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    path: PathBuf,
}

/// Why the library cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// File not found: rdma-core is not installed, or not in this container.
    #[error("no {name} on this machine: {words}")]
    Absent {
        /// The library.
        name: &'static str,
        /// The loader's message.
        words: String,
    },
    /// The loader rejected the file.
    #[error("{name} cannot be loaded: {words}")]
    Unusable {
        /// The library.
        name: &'static str,
        /// The loader's message.
        words: String,
    },
    /// The file loads, but exports no device list.
    #[error("{0} is not the library of verbs: it has no ibv_get_device_list")]
    NotVerbs(PathBuf),
}

/// The process's libibverbs, opened on first use. A failure is not cached: the program may load its own copy later.
///
/// # Errors
///
/// [`OpenError`], with the loader's message.
pub fn library() -> Result<&'static Library, OpenError> {
    static LIBRARY: SetOnce<Library> = SetOnce::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open(Path::new(NAME))?;
    Ok(LIBRARY.set(library).unwrap_or_else(|first| first))
}

impl Library {
    /// Opens the library with this path or name.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with the loader's message.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        // SAFETY: the constructors of libibverbs have no preconditions.
        let opened = unsafe { Opened::open(path, libc::RTLD_NOW) }
            .map_err(|error| OpenError::of(NAME, error))?;
        // SAFETY: `symbol` returns exports of this library under the requested names. That libibverbs.so.1 exports verbs under these names
        // cannot be checked by a caller of dlopen. The library stays open (or the functions are dropped unused), so the addresses stay valid.
        let functions = unsafe { Functions::resolve(|name| opened.symbol(name)) };
        let path = opened.file_of("ibv_get_device_list").unwrap_or_else(|| path.to_owned());
        if functions.ibv_get_device_list.is_none() {
            return Err(OpenError::NotVerbs(path));
        }
        opened.keep();
        Ok(Self { functions, path })
    }

    /// The functions; `None` if the library lacks one.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The file, as the loader resolved it if known.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl OpenError {
    /// The error for a library of this name.
    pub(crate) fn of(name: &'static str, error: LoadError) -> Self {
        match error {
            LoadError::Absent(words) => Self::Absent { name, words },
            LoadError::Unusable(words) => Self::Unusable { name, words },
        }
    }
}

/// Sets `errno` as C functions that are not implemented do.
pub(crate) fn not_implemented() -> c_int {
    // SAFETY: the address of this thread's errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    libc::ENOSYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn missing_file() {
        match Library::open(Path::new("/nowhere/libibverbs.so.1")) {
            Err(OpenError::Absent { words, .. }) => {
                assert!(words.contains("No such file or directory"), "{words}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn library_without_device_list() {
        let outcome = Library::open(Path::new("libc.so.6"));
        assert!(matches!(outcome, Err(OpenError::NotVerbs(_))), "{outcome:?}");
    }
}
