//! Failed NVML calls with NVML's code.

use std::fmt;

use nvml_wrapper::error::NvmlError;

/// Result of a call.
pub(super) type Answer<T> = Result<T, Fault>;

pub(super) const INVALID_ARGUMENT: u32 = 2;
pub(super) const NOT_SUPPORTED: u32 = 3;
pub(super) const NO_PERMISSION: u32 = 4;
pub(super) const LIBRARY_NOT_FOUND: u32 = 12;
const FUNCTION_NOT_FOUND: u32 = 13;
pub(super) const ARGUMENT_VERSION_MISMATCH: u32 = 25;
const DEPRECATED: u32 = 26;

/// `nvmlReturn_t` of nvml.h 13: code, name without `NVML_`, meaning.
const CODES: [(u32, &str, &str); 31] = [
    (1, "ERROR_UNINITIALIZED", "NVML was not initialised"),
    (2, "ERROR_INVALID_ARGUMENT", "an argument is invalid"),
    (3, "ERROR_NOT_SUPPORTED", "not supported on this GPU"),
    (4, "ERROR_NO_PERMISSION", "no permission"),
    (5, "ERROR_ALREADY_INITIALIZED", "NVML was initialised already"),
    (6, "ERROR_NOT_FOUND", "not found"),
    (7, "ERROR_INSUFFICIENT_SIZE", "the buffer is too small"),
    (8, "ERROR_INSUFFICIENT_POWER", "external power cables are not attached"),
    (9, "ERROR_DRIVER_NOT_LOADED", "the NVIDIA kernel module is not loaded"),
    (10, "ERROR_TIMEOUT", "the time ran out"),
    (11, "ERROR_IRQ_ISSUE", "the kernel found a problem with the GPU's interrupts"),
    (12, "ERROR_LIBRARY_NOT_FOUND", "a library NVML needs was not found"),
    (13, "ERROR_FUNCTION_NOT_FOUND", "the driver does not have this function"),
    (14, "ERROR_CORRUPTED_INFOROM", "the GPU's infoROM is corrupted"),
    (15, "ERROR_GPU_IS_LOST", "the GPU has fallen off the bus"),
    (16, "ERROR_RESET_REQUIRED", "the GPU needs a reset"),
    (17, "ERROR_OPERATING_SYSTEM", "the operating system or a cgroup blocks the GPU"),
    (
        18,
        "ERROR_LIB_RM_VERSION_MISMATCH",
        "this library and the loaded kernel module are of different versions",
    ),
    (19, "ERROR_IN_USE", "the GPU is in use"),
    (20, "ERROR_MEMORY", "not enough memory"),
    (21, "ERROR_NO_DATA", "no data"),
    (22, "ERROR_VGPU_ECC_NOT_SUPPORTED", "not available for a vGPU while ECC is on"),
    (23, "ERROR_INSUFFICIENT_RESOURCES", "not enough resources"),
    (24, "ERROR_FREQ_NOT_SUPPORTED", "the frequency is not supported"),
    (
        25,
        "ERROR_ARGUMENT_VERSION_MISMATCH",
        "the driver does not know this version of the structure",
    ),
    (26, "ERROR_DEPRECATED", "the function is no longer supported"),
    (27, "ERROR_NOT_READY", "not ready"),
    (28, "ERROR_GPU_NOT_FOUND", "no GPU was found"),
    (29, "ERROR_INVALID_STATE", "the GPU or the driver is in the wrong state"),
    (30, "ERROR_RESET_TYPE_NOT_SUPPORTED", "this kind of reset is not supported"),
    (999, "ERROR_UNKNOWN", "an internal driver error"),
];

/// Failed call: function and error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    function: &'static str,
    /// `None`: the library lacks the function.
    code: Option<u32>,
}

impl Fault {
    /// The library lacks the function.
    pub(super) fn missing(function: &'static str) -> Self {
        Self { function, code: None }
    }

    /// The function returned an error.
    pub(super) fn returned(function: &'static str, code: u32) -> Self {
        Self { function, code: Some(code) }
    }

    /// An error of nvml-wrapper.
    pub(super) fn wrapped(function: &'static str, error: NvmlError) -> Self {
        match error {
            NvmlError::FailedToLoadSymbol(_) => Self::missing(function),
            error => Self::returned(function, error.into()),
        }
    }

    /// NVML's return code; `None` if the library lacks the function.
    pub(super) fn code(self) -> Option<u32> {
        self.code
    }

    /// NVML's name of the code.
    pub(super) fn name(self) -> String {
        match self.code {
            None => "symbol_missing".to_owned(),
            Some(code) => known(code)
                .map_or_else(|| format!("NVML_ERROR_{code}"), |(name, _)| format!("NVML_{name}")),
        }
    }

    /// True if this driver, library or GPU does not support it.
    pub(super) fn is_uncovered(self) -> bool {
        matches!(
            self.code,
            None | Some(
                NOT_SUPPORTED | FUNCTION_NOT_FOUND | ARGUMENT_VERSION_MISMATCH | DEPRECATED
            )
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => write!(f, "{}: the library has no such function", self.function),
            Some(code) => {
                let meaning = known(code)
                    .map_or("an error this binding does not know", |(_, meaning)| meaning);
                write!(f, "{}: {meaning} ({code})", self.function)
            }
        }
    }
}

fn known(code: u32) -> Option<(&'static str, &'static str)> {
    CODES.iter().find(|(known, ..)| *known == code).map(|&(_, name, meaning)| (name, meaning))
}
