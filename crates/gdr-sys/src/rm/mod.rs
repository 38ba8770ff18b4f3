//! ioctl ABI of NVIDIA's resource manager (RM) for memory mappings: numbers, layouts, status codes.
//!
//! Source: the headers of NVIDIA/open-gpu-kernel-modules, releases 515 to 595; equal on `x86_64`
//! and aarch64 and across releases except where a field says otherwise. Sizes and offsets are
//! asserted at compile time.

mod control;
mod escape;
mod status;

pub use control::*;
pub use escape::*;
pub use status::Status;

/// `NV01_ROOT_CLIENT`: client, the root of all other objects.
pub const CLASS_CLIENT: u32 = 0x41;
/// `NV01_DEVICE_0`.
pub const CLASS_DEVICE: u32 = 0x80;
/// `NV20_SUBDEVICE_0`.
pub const CLASS_SUBDEVICE: u32 = 0x2080;
/// Client handles are this base plus a running number in the low 20 bits (`RS_CLIENT_HANDLE_BASE`).
pub const CLIENT_HANDLE_BASE: u32 = 0xC1D0_0000;
/// Bits of a client handle that always equal [`CLIENT_HANDLE_BASE`].
pub const CLIENT_HANDLE_MASK: u32 = 0xFFF0_0000;
/// Major number of `/dev/nvidiactl` and `/dev/nvidiaN` (`NV_MAJOR_DEVICE_NUMBER`).
pub const CHARACTER_MAJOR: u32 = 195;
/// Minor number of `/dev/nvidiactl`; GPU nodes have smaller minors.
pub const CONTROL_MINOR: u32 = 255;
