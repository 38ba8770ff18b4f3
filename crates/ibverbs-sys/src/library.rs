//! Opening `libibverbs.so.1` as the loader finds it, once.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix;

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
    #[error("no {NAME} on this machine: {0}")]
    Absent(String),
    /// The file is there and the loader refused it.
    #[error("{NAME} cannot be loaded: {0}")]
    Unusable(String),
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
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open(Path::new(NAME))?;
    Ok(LIBRARY.get_or_init(|| library))
}

impl Library {
    /// The library in this file, or of this name.
    ///
    /// # Errors
    ///
    /// [`OpenError`], with the loader's words.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        // SAFETY: opening runs the library's constructors; those of libibverbs have no condition on the caller.
        let opened = unsafe { unix::Library::open(Some(path), libc::RTLD_NOW) };
        let handle = opened.map_err(|error| {
            let words = words(&error);
            match is_absent(&path.to_string_lossy(), &words) {
                true => OpenError::Absent(words),
                false => OpenError::Unusable(words),
            }
        })?;
        // SAFETY: `symbol` returns what this library exports under the name asked for, the newest version of it. That a
        // file called libibverbs.so.1 means verbs by their names is beyond what a caller of dlopen can check. The handle is
        // forgotten below (or dropped with the functions unused), so the addresses stay callable.
        let functions = unsafe { Functions::resolve(|name| symbol(&handle, name)) };
        let path = file_of(&functions).unwrap_or_else(|| path.to_owned());
        if functions.ibv_get_device_list.is_none() {
            return Err(OpenError::NotVerbs(path));
        }
        std::mem::forget(handle);
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

/// Leaves in `errno` what C programs find there when a function is not implemented.
pub(crate) fn not_implemented() -> c_int {
    // SAFETY: the address is that of this thread's own errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    libc::ENOSYS
}

fn symbol(handle: &unix::Library, name: &str) -> Option<*mut c_void> {
    // SAFETY: only the address is taken; its type is `Functions::resolve`'s business.
    let found = unsafe { handle.get::<*mut c_void>(name.as_bytes()) }.ok()?;
    Some(found.as_raw_ptr()).filter(|address| !address.is_null())
}

/// The loader's words: libloading's own text is "dlopen failed" and no more.
fn words(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The loader says "No such file" of the library itself, or of another one it needs; only the first is an absence.
fn is_absent(name: &str, words: &str) -> bool {
    words.contains(&format!(
        "{name}: cannot open shared object file: No such file or directory"
    ))
}

/// The file that holds `ibv_get_device_list`.
fn file_of(functions: &Functions) -> Option<PathBuf> {
    let address = functions.ibv_get_device_list? as *const c_void;
    // SAFETY: an all-zero Dl_info is a value of it: pointers and nothing else.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid for the write; dladdr takes any address.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a NUL-terminated string that lives as long as the library, which the caller's handle keeps.
    let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_absent_in_the_loaders_words() {
        match Library::open(Path::new("/nowhere/libibverbs.so.1")) {
            Err(OpenError::Absent(words)) => assert!(words.contains("No such file or directory"), "{words}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_library_without_devices_is_not_verbs() {
        let outcome = Library::open(Path::new("libc.so.6"));
        assert!(matches!(outcome, Err(OpenError::NotVerbs(_))), "{outcome:?}");
    }

    #[test]
    fn absence_of_a_library_that_it_needs_is_not_its_own() {
        let words = "libnl-3.so.200: cannot open shared object file: No such file or directory";
        assert!(!is_absent(NAME, words));
    }
}
