//! Opens vendor libraries at run time by the loader's search, and reports its error messages and
//! the file path. The calling crates declare the libraries and functions.

use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix;

/// Open library, closed on drop unless [`Opened::keep`] is called.
#[derive(Debug)]
pub struct Opened(unix::Library);

/// Error of opening a library.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// File not found.
    #[error("{0}")]
    Absent(String),
    /// The loader rejected the file, or one of its dependencies is missing.
    #[error("{0}")]
    Unusable(String),
}

impl Opened {
    /// Opens the library with this path or name; `flags` are dlopen's, such as `libc::RTLD_NOW`.
    ///
    /// # Errors
    ///
    /// [`LoadError`], with the loader's message.
    ///
    /// # Safety
    ///
    /// Opening runs the library's constructors, and drop its destructors: the caller must meet
    /// their preconditions.
    pub unsafe fn open(path: &Path, flags: c_int) -> Result<Self, LoadError> {
        // SAFETY: guaranteed by the caller.
        let opened = unsafe { unix::Library::open(Some(path), flags) };
        opened.map(Self).map_err(|error| {
            let words = words(&error);
            if is_absent(&path.to_string_lossy(), &words) {
                LoadError::Absent(words)
            } else {
                LoadError::Unusable(words)
            }
        })
    }

    /// Address of the default version of an exported symbol, callable while the library is open.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        // SAFETY: only the address is read; using it is the caller's responsibility.
        let found = unsafe { self.0.get::<*mut c_void>(name.as_bytes()) }.ok()?;
        Some(found.as_raw_ptr()).filter(|address| !address.is_null())
    }

    /// File that exports this symbol, as the loader resolved it.
    #[must_use]
    pub fn file_of(&self, name: &str) -> Option<PathBuf> {
        let address = self.symbol(name)?;
        // SAFETY: Dl_info contains only pointers, so all zero is a valid value.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for the write; dladdr takes any address.
        if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: dladdr returned a NUL-terminated string that lives while the library is open.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(PathBuf::from(name.to_string_lossy().into_owned()))
    }

    /// Keeps the library open until the process ends: a library that loaded others or started
    /// threads does not survive dlclose. Returns the loader's handle, for `dlsym`.
    pub fn keep(self) -> *mut c_void {
        self.0.into_raw()
    }
}

/// The loader's message, because libloading's text is only "dlopen failed".
fn words(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The loader reports "No such file" for the library or for a dependency; only the former means
/// absent.
fn is_absent(name: &str, words: &str) -> bool {
    words.contains(&format!("{name}: cannot open shared object file: No such file or directory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &str) -> Result<Opened, LoadError> {
        // SAFETY: libc's constructors have run, and the other files are not libraries.
        unsafe { Opened::open(Path::new(path), libc::RTLD_NOW) }
    }

    #[test]
    fn missing_file() {
        match open("/nowhere/libnothing.so.1") {
            Err(LoadError::Absent(words)) => {
                assert!(words.contains("No such file or directory"), "{words}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rejected_file() {
        let path = std::env::temp_dir().join(format!("loader-no-elf-{}.so", std::process::id()));
        let text = "this is not an ELF file, but long enough to be read as the header of one";
        std::fs::write(&path, text).unwrap();
        let outcome = open(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(outcome, Err(LoadError::Unusable(_))), "{outcome:?}");
    }

    #[test]
    fn missing_dependency() {
        let words = "libnvidia-x.so.1: cannot open shared object file: No such file or directory";
        assert!(!is_absent("libcuda.so.1", words));
        assert!(is_absent("libnvidia-x.so.1", words));
    }

    #[test]
    fn symbol_address_and_file() {
        let libc = open("libc.so.6").unwrap();
        assert!(libc.symbol("strlen").is_some());
        assert!(libc.symbol("no_such_function").is_none());
        assert!(libc.file_of("strlen").unwrap().ends_with("libc.so.6"));
        assert_eq!(libc.file_of("no_such_function"), None);
    }
}
