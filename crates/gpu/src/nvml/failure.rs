//! Failed NVML calls with NVML's code.

use std::fmt;

use nvml_wrapper::error::NvmlError;

use crate::Kind;

/// NVML's answer to one question.
pub type Answer<T> = Result<T, Failure>;

pub(super) const INVALID_ARGUMENT: u32 = 2;
pub(super) const NOT_SUPPORTED: u32 = 3;
const NO_PERMISSION: u32 = 4;
const LIBRARY_NOT_FOUND: u32 = 12;
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
pub struct Failure {
    function: &'static str,
    /// `None`: the library lacks the function.
    code: Option<u32>,
}

impl Failure {
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
    #[must_use]
    pub fn code(self) -> Option<u32> {
        self.code
    }

    /// NVML's name of the code, such as `NVML_ERROR_DRIVER_NOT_LOADED`.
    #[must_use]
    pub fn name(self) -> String {
        match self.code {
            None => "symbol_missing".to_owned(),
            Some(code) => known(code)
                .map_or_else(|| format!("NVML_ERROR_{code}"), |(name, _)| format!("NVML_{name}")),
        }
    }

    /// Class of this failure.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.code {
            None
            | Some(NOT_SUPPORTED | FUNCTION_NOT_FOUND | ARGUMENT_VERSION_MISMATCH | DEPRECATED) => {
                Kind::Unsupported
            }
            Some(NO_PERMISSION) => Kind::Denied,
            Some(LIBRARY_NOT_FOUND) => Kind::Absent,
            Some(INVALID_ARGUMENT) => Kind::Invalid,
            Some(_) => Kind::Broken,
        }
    }

    /// The failure of a call whose argument an older driver may not know: then "invalid argument"
    /// means "not supported".
    pub(super) fn of_newer_argument(self) -> Self {
        match self.code {
            Some(INVALID_ARGUMENT) => Self { code: Some(NOT_SUPPORTED), ..self },
            _ => self,
        }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes of `nvmlReturn_t` in nvml.h.
    #[test]
    fn kinds_of_codes() {
        let returned = |code| Failure::returned("nvmlDeviceGetX", code);
        for unsupported in [3, 13, 25, 26] {
            assert_eq!(returned(unsupported).kind(), Kind::Unsupported, "{unsupported}");
        }
        assert_eq!(Failure::missing("nvmlDeviceGetX").kind(), Kind::Unsupported);
        assert_eq!(returned(4).kind(), Kind::Denied);
        assert_eq!(returned(2).kind(), Kind::Invalid);
        assert_eq!(returned(2).of_newer_argument().kind(), Kind::Unsupported);
        assert_eq!(returned(15).of_newer_argument().kind(), Kind::Broken);
        for (code, text) in [
            (15, "nvmlDeviceGetX: the GPU has fallen off the bus (15)"),
            (4242, "nvmlDeviceGetX: an error this binding does not know (4242)"),
        ] {
            assert_eq!(returned(code).to_string(), text);
        }
    }
}
