//! A vendor's library, opened at run time: by the loader's own search, with its words where that fails, and with the place
//! of the file. It knows no library and no function; the crates that declare one say what it must have.

#![deny(clippy::undocumented_unsafe_blocks)]

use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix;

/// A library, open until it is dropped; for good after [`Opened::keep`].
#[derive(Debug)]
pub struct Opened(unix::Library);

/// Why a library did not open.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such file.
    #[error("{0}")]
    Absent(String),
    /// The file is there and the loader refused it, or a library that it needs is not there.
    #[error("{0}")]
    Unusable(String),
}

impl Opened {
    /// Opens the library in this file, or of this name; `flags` are dlopen's, as in `libc::RTLD_NOW`.
    ///
    /// # Errors
    ///
    /// [`LoadError`], with the loader's words.
    ///
    /// # Safety
    ///
    /// Opening runs the library's constructors, and dropping the result its destructors: they must have no condition that
    /// the caller does not hold.
    pub unsafe fn open(path: &Path, flags: c_int) -> Result<Self, LoadError> {
        // SAFETY: this function's own condition.
        let opened = unsafe { unix::Library::open(Some(path), flags) };
        opened.map(Self).map_err(|error| {
            let words = words(&error);
            match is_absent(&path.to_string_lossy(), &words) {
                true => LoadError::Absent(words),
                false => LoadError::Unusable(words),
            }
        })
    }

    /// The address that the library exports under this name, in its default version. It is callable while the library is
    /// open.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<*mut c_void> {
        // SAFETY: only the address is taken; what is behind it is the caller's business.
        let found = unsafe { self.0.get::<*mut c_void>(name.as_bytes()) }.ok()?;
        Some(found.as_raw_ptr()).filter(|address| !address.is_null())
    }

    /// The file that holds what is exported under this name, as the loader resolved it.
    #[must_use]
    pub fn file_of(&self, name: &str) -> Option<PathBuf> {
        let address = self.symbol(name)?;
        // SAFETY: an all-zero Dl_info is a value of it: pointers and nothing else.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for the write; dladdr takes any address.
        if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: dladdr gave a NUL-terminated string that lives as long as the library, which this value keeps open.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(PathBuf::from(name.to_string_lossy().into_owned()))
    }

    /// Leaves the library open until the process ends: what has loaded libraries of its own, or started threads, does not
    /// survive being closed.
    pub fn keep(self) {
        std::mem::forget(self.0);
    }
}

/// The loader's words: libloading's own text is "dlopen failed" and no more.
fn words(error: &dyn std::error::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// The loader says "No such file" of the library itself, or of another one it needs; only the first is an absence.
fn is_absent(name: &str, words: &str) -> bool {
    words.contains(&format!(
        "{name}: cannot open shared object file: No such file or directory"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &str) -> Result<Opened, LoadError> {
        // SAFETY: libc's constructors have run, and the other files are no libraries.
        unsafe { Opened::open(Path::new(path), libc::RTLD_NOW) }
    }

    #[test]
    fn a_missing_file_is_absent_in_the_loaders_words() {
        match open("/nowhere/libnothing.so.1") {
            Err(LoadError::Absent(words)) => {
                assert!(words.contains("No such file or directory"), "{words}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_that_the_loader_refuses_is_unusable() {
        let path = std::env::temp_dir().join(format!("loader-no-elf-{}.so", std::process::id()));
        let text =
            "this is no ELF file, and long enough to be read as one header of one, were it any";
        std::fs::write(&path, text).unwrap();
        let outcome = open(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(
            matches!(outcome, Err(LoadError::Unusable(_))),
            "{outcome:?}"
        );
    }

    #[test]
    fn absence_of_another_library_is_not_absence_of_this_one() {
        let words = "libnvidia-x.so.1: cannot open shared object file: No such file or directory";
        assert!(!is_absent("libcuda.so.1", words));
        assert!(is_absent("libnvidia-x.so.1", words));
    }

    #[test]
    fn what_is_exported_has_an_address_and_a_file() {
        let libc = open("libc.so.6").unwrap();
        assert!(libc.symbol("strlen").is_some());
        assert!(libc.symbol("no_such_function").is_none());
        assert!(libc.file_of("strlen").unwrap().ends_with("libc.so.6"));
        assert_eq!(libc.file_of("no_such_function"), None);
    }
}
