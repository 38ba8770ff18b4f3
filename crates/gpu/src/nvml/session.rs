//! Opening NVML, and keeping it open.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::NvmlLib;

use super::failure::Failure;
use super::mapped;

/// What the loader looks for; the file without a number belongs to development packages.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// NVML, opened and initialised.
pub struct Nvml {
    /// Never dropped, so `nvmlShutdown` (3.5 to 7 ms on a H200) is never called: the process is
    /// about to exit.
    nvml: ManuallyDrop<nvml_wrapper::Nvml>,
    /// The file that was asked for; the loader's own search if `None`.
    requested: Option<PathBuf>,
}

/// Why NVML could not be opened. The text begins with NVML's name of the code
/// (`NVML_ERROR_LIB_RM_VERSION_MISMATCH`) or a name like it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No such library: no NVIDIA user-space driver is installed, or not in this container. The
    /// text is the loader's.
    #[error("{0}")]
    Absent(String),
    /// The loader rejected the file.
    #[error("library_unusable: {0}")]
    Unusable(String),
    /// The file is not NVML.
    #[error("symbol_missing: nvmlInit_v2: {0}")]
    NotNvml(String),
    /// `nvmlInit_v2` failed: code 18 if library and kernel module have different versions, 9 if the
    /// module is not loaded.
    #[error("{name}: {0}", name = .0.name())]
    Initialise(Failure),
}

impl Nvml {
    /// Opens and initialises the loader's `libnvidia-ml.so.1`.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open() -> Result<Self, OpenError> {
        Self::load(None)
    }

    /// Opens and initialises this file.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open_file(library: &Path) -> Result<Self, OpenError> {
        Self::load(Some(library))
    }

    fn load(requested: Option<&Path>) -> Result<Self, OpenError> {
        let path = requested.map_or(OsStr::new(LIBRARY), Path::as_os_str);
        match nvml_wrapper::Nvml::builder().lib_path(path).init() {
            Ok(nvml) => Ok(Self {
                nvml: ManuallyDrop::new(nvml),
                requested: requested.map(Path::to_path_buf),
            }),
            Err(NvmlError::LibloadingError(cause)) => Err(unloadable(path, cause.to_string())),
            Err(NvmlError::FailedToLoadSymbol(cause)) => Err(OpenError::NotNvml(cause)),
            Err(error) => Err(OpenError::Initialise(Failure::wrapped("nvmlInit_v2", error))),
        }
    }

    /// The library's file, from `/proc/self/maps`; `None` if it is not listed there.
    #[must_use]
    pub fn library(&self) -> Option<PathBuf> {
        mapped::library(self.requested.as_deref())
    }

    pub(super) fn wrapper(&self) -> &nvml_wrapper::Nvml {
        &self.nvml
    }

    /// The functions, each present or not.
    pub(super) fn lib(&self) -> &NvmlLib {
        self.nvml.lib()
    }
}

/// The loader reports "No such file" for the library or for one of its dependencies; only the first
/// means that it is absent.
fn unloadable(path: &OsStr, cause: String) -> OpenError {
    let name = path.to_string_lossy();
    if cause.starts_with(name.as_ref()) && cause.contains("No such file or directory") {
        OpenError::Absent(cause)
    } else {
        OpenError::Unusable(cause)
    }
}
