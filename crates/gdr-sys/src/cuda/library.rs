//! Opens `libcuda.so.1`: the copy already loaded, else the loader's, else one in known directories.

use std::path::{Path, PathBuf};

use crate::loader::{LoadError, Opened};
use crate::process::SetOnce;

use super::Functions;

/// Not `libcuda.so`, which belongs to development packages and may be a stub.
const NAME: &str = "libcuda.so.1";

/// Driver directories outside the loader's search path: WSL, container mounts, the GPU operator's
/// driver container.
const PLACES: [&str; 4] = [
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/nvidia/driver/usr/lib64",
    "/run/nvidia/driver/usr/lib",
];

/// The driver library. Stays open until the process ends, because libcuda does not survive dlclose.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    path: PathBuf,
}

/// The driver library cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Not found: no NVIDIA user-space driver is installed, or not in this container.
    #[error("no {NAME} on this machine: {0}")]
    Absent(String),
    /// The loader rejected the file.
    #[error("{NAME} cannot be loaded: {0}")]
    Unusable(String),
    /// The file is not the CUDA driver: it has no `cuInit`.
    #[error("{0} is not the CUDA driver: it has no cuInit")]
    NotCuda(PathBuf),
}

/// The process's driver library, opened on first success. Failures are not cached: the program may
/// load its own copy later.
///
/// # Errors
/// [`OpenError`], with the loader's message.
pub fn library() -> Result<&'static Library, OpenError> {
    static LIBRARY: SetOnce<Library> = SetOnce::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open()?;
    Ok(LIBRARY.set(library).unwrap_or_else(|first| first))
}

impl Library {
    /// Opens the library already loaded, else `libcuda.so.1` by the loader's search, else from
    /// known directories.
    ///
    /// # Errors
    /// [`OpenError`] of the loader's search, or of the first file that exists but does not load.
    pub fn open() -> Result<Self, OpenError> {
        if let Ok(opened) = dlopen(Path::new(NAME), libc::RTLD_NOW | libc::RTLD_NOLOAD) {
            return Self::from_opened(opened, Path::new(NAME));
        }
        let absent = match dlopen(Path::new(NAME), libc::RTLD_NOW) {
            Ok(opened) => return Self::from_opened(opened, Path::new(NAME)),
            Err(LoadError::Absent(message)) => message,
            Err(error) => return Err(error.into()),
        };
        for path in PLACES.iter().map(|place| Path::new(place).join(NAME)) {
            if path.exists() {
                return Self::open_at(&path);
            }
        }
        Err(OpenError::Absent(absent))
    }

    /// Opens this library file.
    ///
    /// # Errors
    /// [`OpenError`], with the loader's message.
    pub fn open_at(path: &Path) -> Result<Self, OpenError> {
        Self::from_opened(dlopen(path, libc::RTLD_NOW)?, path)
    }

    /// The resolved functions.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// File path, as resolved by the loader if known.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn from_opened(opened: Opened, path: &Path) -> Result<Self, OpenError> {
        // SAFETY: `symbol` returns what this library exports under the requested CUDA name. No
        // caller of dlopen can check further that libcuda.so.1 is CUDA's. The library is kept open
        // below (or dropped with the functions unused), so the addresses stay callable.
        let functions = unsafe { Functions::resolve(|name| opened.symbol(name)) };
        let path = opened.file_of("cuInit").unwrap_or_else(|| path.to_owned());
        if functions.cuInit.is_none() {
            return Err(OpenError::NotCuda(path));
        }
        opened.keep();
        Ok(Self { functions, path })
    }
}

impl From<LoadError> for OpenError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Absent(words) => Self::Absent(words),
            LoadError::Unusable(words) => Self::Unusable(words),
        }
    }
}

fn dlopen(path: &Path, flags: i32) -> Result<Opened, LoadError> {
    // SAFETY: libcuda's constructors have no preconditions, and RTLD_NOLOAD runs none.
    unsafe { Opened::open(path, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn missing_file_is_absent() {
        match Library::open_at(Path::new("/nowhere/libcuda.so.1")) {
            Err(OpenError::Absent(words)) => {
                assert!(words.contains("No such file or directory"), "{words}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn library_without_cu_init_is_not_cuda() {
        let outcome = Library::open_at(Path::new("libc.so.6"));
        assert!(matches!(outcome, Err(OpenError::NotCuda(_))), "{outcome:?}");
    }
}
