//! Opening `libcuda.so.1`: the one the process already has, else the loader's, else the few places it hides in.

use std::path::{Path, PathBuf};

use loader::{LoadError, Opened};
use process::SetOnce;

use super::Functions;

/// Never `libcuda.so`: that file belongs to development packages and may be a stub.
const NAME: &str = "libcuda.so.1";

/// Where drivers are that the loader does not know: WSL, container mounts, the GPU operator's driver container.
const PLACES: [&str; 4] = [
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/nvidia/driver/usr/lib64",
    "/run/nvidia/driver/usr/lib",
];

/// The driver's library, open until the process ends: libcuda does not survive being closed.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    path: PathBuf,
}

/// Why there is no driver library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such file: no NVIDIA user-space driver is installed, or not in this container.
    #[error("no {NAME} on this machine: {0}")]
    Absent(String),
    /// The file is there and the loader refused it.
    #[error("{NAME} cannot be loaded: {0}")]
    Unusable(String),
    /// The file loads and is not CUDA's: it has no `cuInit`.
    #[error("{0} is not the CUDA driver: it has no cuInit")]
    NotCuda(PathBuf),
}

/// The process's driver library, opened at the first call that finds one. A failure is not remembered: the program may yet
/// load its own.
///
/// # Errors
///
/// [`OpenError`], with the loader's words.
pub fn library() -> Result<&'static Library, OpenError> {
    static LIBRARY: SetOnce<Library> = SetOnce::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open()?;
    Ok(LIBRARY.set(library).unwrap_or_else(|first| first))
}

impl Library {
    /// The library the process already has loaded, else `libcuda.so.1` as the loader finds it, else in the places where it
    /// is known to hide.
    ///
    /// # Errors
    ///
    /// [`OpenError`] of the loader's own search, or of the first file that is there and does not work.
    pub fn open() -> Result<Self, OpenError> {
        if let Ok(opened) = dlopen(Path::new(NAME), libc::RTLD_NOW | libc::RTLD_NOLOAD) {
            return Self::from_opened(opened, Path::new(NAME));
        }
        let refused = match dlopen(Path::new(NAME), libc::RTLD_NOW) {
            Ok(opened) => return Self::from_opened(opened, Path::new(NAME)),
            Err(LoadError::Absent(words)) => words,
            Err(refusal) => return Err(refusal.into()),
        };
        for path in PLACES.iter().map(|place| Path::new(place).join(NAME)) {
            if path.exists() {
                return Self::open_at(&path);
            }
        }
        Err(OpenError::Absent(refused))
    }

    /// The library in this file.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with the loader's words.
    pub fn open_at(path: &Path) -> Result<Self, OpenError> {
        Self::from_opened(dlopen(path, libc::RTLD_NOW)?, path)
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

    fn from_opened(opened: Opened, asked: &Path) -> Result<Self, OpenError> {
        // SAFETY: `symbol` returns what this library exports under the CUDA name asked for. That a file called libcuda.so.1
        // means CUDA's functions by CUDA's names is beyond what any caller of dlopen can check. The library is kept open
        // below (or dropped with the functions unused), so the addresses stay callable.
        let functions = unsafe { Functions::resolve(|name| opened.symbol(name)) };
        let path = opened.file_of("cuInit").unwrap_or_else(|| asked.to_owned());
        if functions.cuInit.is_none() {
            return Err(OpenError::NotCuda(path));
        }
        opened.keep();
        Ok(Self { functions, path })
    }
}

impl From<LoadError> for OpenError {
    fn from(refusal: LoadError) -> Self {
        match refusal {
            LoadError::Absent(words) => Self::Absent(words),
            LoadError::Unusable(words) => Self::Unusable(words),
        }
    }
}

fn dlopen(path: &Path, flags: i32) -> Result<Opened, LoadError> {
    // SAFETY: libcuda's constructors have no condition on the caller, and with RTLD_NOLOAD nothing runs at all.
    unsafe { Opened::open(path, flags) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn a_missing_file_is_absent_in_the_loaders_words() {
        match Library::open_at(Path::new("/nowhere/libcuda.so.1")) {
            Err(OpenError::Absent(words)) => {
                assert!(words.contains("No such file or directory"), "{words}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn a_library_without_cu_init_is_not_cuda() {
        let outcome = Library::open_at(Path::new("libc.so.6"));
        assert!(matches!(outcome, Err(OpenError::NotCuda(_))), "{outcome:?}");
    }
}
