//! NV status codes (nvstatuscodes.h) as integers, so unknown codes stay numbers.

use std::fmt;

/// RM status. Zero is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// `NV_OK`.
    pub const OK: Self = Self(0);
    /// `NV_ERR_GPU_IS_LOST`.
    pub const GPU_IS_LOST: Self = Self(0x0F);
    /// `NV_ERR_IN_USE`.
    pub const IN_USE: Self = Self(0x17);
    /// `NV_ERR_INSUFFICIENT_RESOURCES`.
    pub const INSUFFICIENT_RESOURCES: Self = Self(0x1A);
    /// `NV_ERR_INSUFFICIENT_PERMISSIONS`.
    pub const INSUFFICIENT_PERMISSIONS: Self = Self(0x1B);
    /// `NV_ERR_INVALID_ARGUMENT`.
    pub const INVALID_ARGUMENT: Self = Self(0x1F);
    /// `NV_ERR_INVALID_CLASS`.
    pub const INVALID_CLASS: Self = Self(0x22);
    /// `NV_ERR_INVALID_CLIENT`.
    pub const INVALID_CLIENT: Self = Self(0x23);
    /// `NV_ERR_INVALID_OBJECT`.
    pub const INVALID_OBJECT: Self = Self(0x31);
    /// `NV_ERR_INVALID_OBJECT_HANDLE`.
    pub const INVALID_OBJECT_HANDLE: Self = Self(0x33);
    /// `NV_ERR_INVALID_OBJECT_PARENT`.
    pub const INVALID_OBJECT_PARENT: Self = Self(0x36);
    /// `NV_ERR_INVALID_PARAM_STRUCT`.
    pub const INVALID_PARAMETERS_SIZE: Self = Self(0x3A);
    /// `NV_ERR_NO_MEMORY`.
    pub const NO_MEMORY: Self = Self(0x51);
    /// `NV_ERR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: Self = Self(0x56);
    /// `NV_ERR_OBJECT_NOT_FOUND`.
    pub const OBJECT_NOT_FOUND: Self = Self(0x57);
    /// `NV_ERR_STATE_IN_USE`.
    pub const STATE_IN_USE: Self = Self(0x63);
    /// `NV_ERR_RESOURCE_LOST`.
    pub const RESOURCE_LOST: Self = Self(0x6E);

    /// Converts to a `Result`.
    ///
    /// # Errors
    /// Every nonzero code.
    pub const fn result(self) -> Result<(), Self> {
        if self.0 == 0 { Ok(()) } else { Err(self) }
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::OK => "OK",
            Self::GPU_IS_LOST => "GPU_IS_LOST",
            Self::IN_USE => "IN_USE",
            Self::INSUFFICIENT_RESOURCES => "INSUFFICIENT_RESOURCES",
            Self::INSUFFICIENT_PERMISSIONS => "INSUFFICIENT_PERMISSIONS",
            Self::INVALID_ARGUMENT => "INVALID_ARGUMENT",
            Self::INVALID_CLASS => "INVALID_CLASS",
            Self::INVALID_CLIENT => "INVALID_CLIENT",
            Self::INVALID_OBJECT => "INVALID_OBJECT",
            Self::INVALID_OBJECT_HANDLE => "INVALID_OBJECT_HANDLE",
            Self::INVALID_OBJECT_PARENT => "INVALID_OBJECT_PARENT",
            Self::INVALID_PARAMETERS_SIZE => "INVALID_PARAM_STRUCT",
            Self::NO_MEMORY => "NO_MEMORY",
            Self::NOT_SUPPORTED => "NOT_SUPPORTED",
            Self::OBJECT_NOT_FOUND => "OBJECT_NOT_FOUND",
            Self::STATE_IN_USE => "STATE_IN_USE",
            Self::RESOURCE_LOST => "RESOURCE_LOST",
            _ => return None,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "NV status {:#04x} {name}", self.0),
            None => write!(f, "NV status {:#04x}", self.0),
        }
    }
}
