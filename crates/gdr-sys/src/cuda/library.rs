//! Opening `libcuda.so.1`: the one the process already has, else the loader's, else the few places it hides in.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix;

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
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open()?;
    Ok(LIBRARY.get_or_init(|| library))
}

impl Library {
    /// The library the process already has loaded, else `libcuda.so.1` as the loader finds it, else in the places where it
    /// is known to hide.
    ///
    /// # Errors
    ///
    /// [`OpenError`] of the loader's own search, or of the first file that is there and does not work.
    pub fn open() -> Result<Self, OpenError> {
        if let Ok(handle) = dlopen(Path::new(NAME), libc::RTLD_NOW | libc::RTLD_NOLOAD) {
            return Self::from_handle(handle, Path::new(NAME));
        }
        let refused = match dlopen(Path::new(NAME), libc::RTLD_NOW) {
            Ok(handle) => return Self::from_handle(handle, Path::new(NAME)),
            Err(words) => words,
        };
        if !absent(NAME, &refused) {
            return Err(OpenError::Unusable(refused));
        }
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
        let handle = dlopen(path, libc::RTLD_NOW).map_err(|words| {
            if absent(&path.to_string_lossy(), &words) {
                OpenError::Absent(words)
            } else {
                OpenError::Unusable(words)
            }
        })?;
        Self::from_handle(handle, path)
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

    fn from_handle(handle: unix::Library, asked: &Path) -> Result<Self, OpenError> {
        // SAFETY: `symbol` returns what this library exports under the CUDA name asked for. That a file called libcuda.so.1
        // means CUDA's functions by CUDA's names is beyond what any caller of dlopen can check. The handle is leaked below
        // (or dropped with the functions unused), so the addresses stay callable.
        let functions = unsafe { Functions::resolve(|name| symbol(&handle, name)) };
        let path = file_of(&functions).unwrap_or_else(|| asked.to_owned());
        if functions.cuInit.is_none() {
            return Err(OpenError::NotCuda(path));
        }
        std::mem::forget(handle);
        Ok(Self { functions, path })
    }
}

/// Opens a library, or gives the loader's words.
fn dlopen(path: &Path, flags: i32) -> Result<unix::Library, String> {
    // SAFETY: opening runs the library's constructors; libcuda's have no condition on the caller, and with RTLD_NOLOAD
    // nothing runs at all.
    unsafe { unix::Library::open(Some(path), flags) }.map_err(|error| words(&error))
}

fn symbol(handle: &unix::Library, name: &str) -> Option<*mut c_void> {
    // SAFETY: only the address is taken; its type is `Functions::resolve`'s business.
    let found = unsafe { handle.get::<*mut c_void>(name.as_bytes()) }.ok()?;
    Some(found.as_raw_ptr()).filter(|address| !address.is_null())
}

/// The whole chain of causes: libloading's own text is "dlopen failed" and no more.
fn words(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The loader says "No such file" of the library itself, or of another one it needs; only the first is an absence.
fn absent(name: &str, words: &str) -> bool {
    words.contains(&format!(
        "{name}: cannot open shared object file: No such file or directory"
    ))
}

/// The file that holds `cuInit`.
fn file_of(functions: &Functions) -> Option<PathBuf> {
    let address = functions.cuInit? as *const c_void;
    // SAFETY: an all-zero Dl_info is a value of it: pointers and nothing else.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for the write; dladdr takes any address.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a NUL-terminated string that lives as long as the library, which stays loaded.
    let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_absent_in_the_loaders_words() {
        match Library::open_at(Path::new("/nowhere/libcuda.so.1")) {
            Err(OpenError::Absent(words)) => assert!(words.contains("No such file or directory"), "{words}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_the_loader_refuses_is_unusable() {
        let path = std::env::temp_dir().join(format!("gdr-sys-no-elf-{}.so", std::process::id()));
        std::fs::write(
            &path,
            "this is no ELF file, and long enough to be read as one header of one, were it any",
        )
        .unwrap();
        let outcome = Library::open_at(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(outcome, Err(OpenError::Unusable(_))), "{outcome:?}");
    }

    #[test]
    fn a_library_without_cu_init_is_not_cuda() {
        let outcome = Library::open_at(Path::new("libc.so.6"));
        assert!(matches!(outcome, Err(OpenError::NotCuda(_))), "{outcome:?}");
    }

    #[test]
    fn absence_of_another_library_is_not_absence_of_this_one() {
        let words = "libnvidia-x.so.1: cannot open shared object file: No such file or directory";
        assert!(!absent("libcuda.so.1", words));
    }
}
