//! Sources of configuration space, and reading with reasons for failure.

use crate::model::Why;

/// A function's configuration space.
pub trait ConfigSpace {
    /// Fills `out` from `offset` on and returns the number of bytes; fewer mean that the space ends there.
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("permission denied; reading configuration space beyond 64 bytes takes root")]
    Denied,
    #[error("reading configuration space failed")]
    Failed,
}

impl ConfigSpace for &[u8] {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        let rest = self.get(usize::from(offset)..).unwrap_or_default();
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// Reads structures and collects remarks about malformed ones.
pub(super) struct Reader<'a> {
    space: &'a dyn ConfigSpace,
    failure: Vec<String>,
    /// From the header: Linux shows everyone 128 bytes of a CardBus bridge, 64 of other devices.
    pub(super) cardbus: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(space: &'a dyn ConfigSpace) -> Self {
        Self { space, failure: Vec::new(), cardbus: false }
    }

    pub(super) fn into_remarks(self) -> Vec<String> {
        self.failure
    }

    /// Reads up to the end of the space.
    pub(super) fn some(&mut self, at: u16, out: &mut [u8], what: &str) -> Result<usize, Why> {
        match self.space.read(at, out) {
            Ok(got) => Ok(got.min(out.len())),
            Err(ReadError::Denied) => Err(Why::Denied),
            Err(ReadError::Failed) => Err(self.malformed("could not read", what, at)),
        }
    }

    /// Reads exactly `out`.
    pub(super) fn fill(&mut self, at: u16, out: &mut [u8], what: &str) -> Result<(), Why> {
        let got = self.some(at, out, what)?;
        if got == out.len() {
            return Ok(());
        }
        if got == 0 && self.ends_unprivileged() {
            return Err(Why::Denied);
        }
        Err(self.malformed("the space ends inside or before", what, at))
    }

    /// Reads `N` bytes of a structure that is never all ones: those come from a device that is gone.
    pub(super) fn structure<const N: usize>(
        &mut self,
        at: u16,
        what: &str,
    ) -> Result<[u8; N], Why> {
        let mut out = [0; N];
        self.fill(at, &mut out, what)?;
        if out.iter().all(|byte| *byte == 0xff) {
            return Err(self.malformed("all ones, as from a device that is gone, in", what, at));
        }
        Ok(out)
    }

    /// Notes a malformed structure.
    pub(super) fn malformed(&mut self, wrong: &str, what: &str, at: u16) -> Why {
        self.note(format!("{wrong} {what} at {at:#x}"));
        Why::Broken
    }

    pub(super) fn note(&mut self, failure: String) {
        self.failure.push(failure);
    }

    /// True if the space ends where Linux ends it for unprivileged readers.
    pub(super) fn ends_unprivileged(&self) -> bool {
        self.ends_at(64) || (self.cardbus && self.ends_at(128))
    }

    pub(super) fn ends_at(&self, end: u16) -> bool {
        self.space.read(end, &mut [0]) == Ok(0) && self.space.read(end - 1, &mut [0]) == Ok(1)
    }
}

/// Little-endian 16 bits at `at`, which must be in range.
pub(super) fn le16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn le32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}
