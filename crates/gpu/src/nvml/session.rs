//! Opening NVML, and keeping it open.

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::path::Path;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::NvmlLib;

use super::fault::Fault;

/// What the loader looks for; the file without a number belongs to development packages.
const LIBRARY: &str = "libnvidia-ml.so.1";

pub(super) struct Session {
    /// Never dropped, so `nvmlShutdown` (3.5 to 7 ms on a H200) is never called: the process is
    /// about to exit.
    nvml: ManuallyDrop<nvml_wrapper::Nvml>,
}

/// Why there is no session.
pub(super) enum Closed {
    /// No such library.
    Absent(String),
    /// The loader refused the file, or it is not NVML.
    Unusable { name: &'static str, reason: String },
    /// `nvmlInit_v2` refused.
    Refused(Fault),
}

impl Session {
    /// Opens and initialises NVML.
    pub(super) fn open(library: Option<&Path>) -> Result<Self, Closed> {
        let path = library.map_or(OsStr::new(LIBRARY), Path::as_os_str);
        match nvml_wrapper::Nvml::builder().lib_path(path).init() {
            Ok(nvml) => Ok(Self { nvml: ManuallyDrop::new(nvml) }),
            Err(NvmlError::LibloadingError(cause)) => Err(unloadable(path, &cause.to_string())),
            Err(NvmlError::FailedToLoadSymbol(cause)) => Err(Closed::Unusable {
                name: "symbol_missing",
                reason: format!("nvmlInit_v2: {cause}"),
            }),
            Err(error) => Err(Closed::Refused(Fault::wrapped("nvmlInit_v2", error))),
        }
    }

    pub(super) fn nvml(&self) -> &nvml_wrapper::Nvml {
        &self.nvml
    }

    /// The functions, each present or not.
    pub(super) fn lib(&self) -> &NvmlLib {
        self.nvml.lib()
    }
}

/// The loader reports "No such file" for the library or for one of its dependencies; only the first
/// means that it is absent.
fn unloadable(path: &OsStr, cause: &str) -> Closed {
    let name = path.to_string_lossy();
    if cause.starts_with(name.as_ref()) && cause.contains("No such file or directory") {
        Closed::Absent(cause.to_owned())
    } else {
        Closed::Unusable { name: "library_unusable", reason: cause.to_owned() }
    }
}
