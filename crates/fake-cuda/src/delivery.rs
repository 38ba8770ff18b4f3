//! What arrives of a copy: the bytes, or what the machine file has instead.

use serde_json::Value;

use crate::machine::{MACHINE, pair};
use crate::memory::{Block, Kind, pointer};

/// Copies to or from the host that are no longer arrive as they are: they are results.
const RESULT: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Bytes,
    Zeros,
    Nothing,
    /// All, but for a bit of the byte in the middle.
    Flipped,
}

impl Delivery {
    /// Of a copy between two blocks.
    pub fn of_copy(from: &Block, to: &Block, bytes: usize) -> Self {
        match (from.kind, to.kind) {
            (Kind::Device, Kind::Device) => Self::between(from, to, "copies"),
            (Kind::Device, _) => Self::of_download(from, bytes),
            (_, Kind::Device) => Self::of_upload(to, bytes),
            _ => Self::Bytes,
        }
    }

    /// Of a kernel's copy.
    pub fn of_kernel(from: &Block, to: &Block) -> Self {
        match (from.kind, to.kind) {
            (Kind::Device, Kind::Device) => Self::between(from, to, "kernel_copies"),
            _ => Self::Bytes,
        }
    }

    /// Of a copy from the host.
    pub fn of_upload(to: &Block, bytes: usize) -> Self {
        Self::named(MACHINE.gpu(to.gpu, "uploads").filter(|_| bytes > RESULT))
    }

    /// Of a copy to the host.
    pub fn of_download(from: &Block, bytes: usize) -> Self {
        Self::named(
            MACHINE
                .gpu(from.gpu, "downloads")
                .filter(|_| bytes > RESULT),
        )
    }

    /// A GPU's own memory is sound.
    fn between(from: &Block, to: &Block, key: &str) -> Self {
        let is_far = from.gpu != to.gpu;
        Self::named(is_far.then(|| pair(from.gpu, to.gpu, key)).flatten())
    }

    fn named(name: Option<&Value>) -> Self {
        match name.and_then(Value::as_str) {
            Some("zero") => Self::Zeros,
            Some("drop") => Self::Nothing,
            Some("flip") => Self::Flipped,
            _ => Self::Bytes,
        }
    }

    /// Delivers; the ranges may overlap.
    ///
    /// # Safety
    ///
    /// `bytes` bytes, at least one, can be read at `from` and written at `to`.
    pub unsafe fn carry(self, to: u64, from: u64, bytes: usize) {
        let (target, source) = (pointer::<u8>(to), pointer::<u8>(from));
        match self {
            // SAFETY: this function's own condition.
            Self::Bytes | Self::Flipped => unsafe { std::ptr::copy(source, target, bytes) },
            // SAFETY: as above.
            Self::Zeros => unsafe { target.write_bytes(0, bytes) },
            Self::Nothing => {}
        }
        if self == Self::Flipped {
            // SAFETY: as above; half of the bytes is less than all of them.
            unsafe {
                let middle = target.add(bytes / 2);
                middle.write(middle.read() ^ 0x10);
            }
        }
    }
}
