//! NV status codes (nvstatuscodes.h) as integers, so unknown codes stay numbers.

use std::fmt;

/// RM status. Zero is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Converts to a `Result`.
    ///
    /// # Errors
    /// Every nonzero code.
    pub const fn result(self) -> Result<(), Self> {
        if self.0 == 0 { Ok(()) } else { Err(self) }
    }
}

codes! { Status, "nvstatuscodes.h";
    OK = 0, "NV_OK";
    GPU_IS_LOST = 0x0F, "NV_ERR_GPU_IS_LOST";
    IN_USE = 0x17, "NV_ERR_IN_USE";
    INSUFFICIENT_RESOURCES = 0x1A, "NV_ERR_INSUFFICIENT_RESOURCES";
    INSUFFICIENT_PERMISSIONS = 0x1B, "NV_ERR_INSUFFICIENT_PERMISSIONS";
    INVALID_ARGUMENT = 0x1F, "NV_ERR_INVALID_ARGUMENT";
    INVALID_CLASS = 0x22, "NV_ERR_INVALID_CLASS";
    INVALID_CLIENT = 0x23, "NV_ERR_INVALID_CLIENT";
    INVALID_OBJECT = 0x31, "NV_ERR_INVALID_OBJECT";
    INVALID_OBJECT_HANDLE = 0x33, "NV_ERR_INVALID_OBJECT_HANDLE";
    INVALID_OBJECT_PARENT = 0x36, "NV_ERR_INVALID_OBJECT_PARENT";
    INVALID_PARAMETERS_SIZE = 0x3A, "NV_ERR_INVALID_PARAM_STRUCT";
    NO_MEMORY = 0x51, "NV_ERR_NO_MEMORY";
    NOT_SUPPORTED = 0x56, "NV_ERR_NOT_SUPPORTED";
    OBJECT_NOT_FOUND = 0x57, "NV_ERR_OBJECT_NOT_FOUND";
    STATE_IN_USE = 0x63, "NV_ERR_STATE_IN_USE";
    RESOURCE_LOST = 0x6E, "NV_ERR_RESOURCE_LOST";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => {
                let name = name.strip_prefix("NV_ERR_").unwrap_or(name);
                write!(f, "NV status {:#04x} {name}", self.0)
            }
            None => write!(f, "NV status {:#04x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_names() {
        assert_eq!(Status(0x1f).to_string(), "NV status 0x1f INVALID_ARGUMENT");
        assert_eq!(Status(0x99).to_string(), "NV status 0x99");
        assert_eq!(Status(0x0f).name(), Some("NV_ERR_GPU_IS_LOST"));
        assert_eq!(Status(0).result(), Ok(()));
        assert_eq!(Status(0x51).result(), Err(Status::NO_MEMORY));
    }
}
