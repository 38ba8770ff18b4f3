//! The ioctl ABI of NVIDIA's resource manager (RM) as far as mapping memory needs it: numbers, layouts, status codes.
//!
//! Source of every number and layout: the headers of NVIDIA/open-gpu-kernel-modules, releases 515 to 595, in which they
//! are the same on `x86_64` and aarch64 except where a field says otherwise. Sizes and offsets are asserted at compile time.

mod control;
mod escape;
mod status;

pub use control::*;
pub use escape::*;
pub use status::Status;

/// `NV01_ROOT_CLIENT`: a client, the root of every other object.
pub const CLASS_CLIENT: u32 = 0x41;
/// `NV01_DEVICE_0`.
pub const CLASS_DEVICE: u32 = 0x80;
/// `NV20_SUBDEVICE_0`.
pub const CLASS_SUBDEVICE: u32 = 0x2080;
/// Client handles are this with a running number in the low 20 bits (`RS_CLIENT_HANDLE_BASE`).
pub const CLIENT_HANDLE_BASE: u32 = 0xC1D0_0000;
/// The bits of a client handle that are always [`CLIENT_HANDLE_BASE`].
pub const CLIENT_HANDLE_MASK: u32 = 0xFFF0_0000;
/// Major number of `/dev/nvidiactl` and `/dev/nvidiaN` (`NV_MAJOR_DEVICE_NUMBER`).
pub const CHARACTER_MAJOR: u32 = 195;
/// Minor number of `/dev/nvidiactl`; a GPU's node has its own minor, below this one.
pub const CONTROL_MINOR: u32 = 255;
