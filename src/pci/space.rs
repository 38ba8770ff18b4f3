//! Where configuration space bytes come from, and reading them with a reason for every refusal.

use crate::model::Why;

/// The configuration space of one function, read by ranges.
pub trait ConfigSpace {
    /// Fills `out` from `offset` on and returns how many bytes there were. Fewer than asked means that the space
    /// ends there; none, that it ended before.
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError>;
}

/// Why a range could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("permission denied; reading configuration space beyond 64 bytes takes root")]
    Denied,
    /// The read failed otherwise.
    #[error("reading configuration space failed")]
    Failed,
}

/// The bytes of a `config` file.
impl ConfigSpace for &[u8] {
    fn read(&self, offset: u16, out: &mut [u8]) -> Result<usize, ReadError> {
        let rest = self.get(usize::from(offset)..).unwrap_or_default();
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// Reads whole structures and keeps account of what was malformed.
pub(super) struct Reader<'a> {
    space: &'a dyn ConfigSpace,
    failure: Vec<String>,
    /// Set from the header: Linux shows 128 bytes of a CardBus bridge to everybody, 64 of all others.
    pub(super) cardbus: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(space: &'a dyn ConfigSpace) -> Self {
        Self {
            space,
            failure: Vec::new(),
            cardbus: false,
        }
    }

    pub(super) fn into_trouble(self) -> Vec<String> {
        self.failure
    }

    /// As many bytes as there are, up to `out`.
    pub(super) fn some(&mut self, at: u16, out: &mut [u8], what: &str) -> Result<usize, Why> {
        match self.space.read(at, out) {
            Ok(got) => Ok(got.min(out.len())),
            Err(ReadError::Denied) => Err(Why::Denied),
            Err(ReadError::Failed) => Err(self.broken("could not read", what, at)),
        }
    }

    /// Exactly `out`, whatever it holds.
    pub(super) fn fill(&mut self, at: u16, out: &mut [u8], what: &str) -> Result<(), Why> {
        let got = self.some(at, out, what)?;
        if got == out.len() {
            return Ok(());
        }
        if got == 0 && self.ends_unprivileged() {
            return Err(Why::Denied);
        }
        Err(self.broken("the space ends inside or before", what, at))
    }

    /// Exactly `N` bytes of a structure that never is all ones.
    ///
    /// A device that went away between two reads answers ones to the second.
    pub(super) fn structure<const N: usize>(
        &mut self,
        at: u16,
        what: &str,
    ) -> Result<[u8; N], Why> {
        let mut out = [0; N];
        self.fill(at, &mut out, what)?;
        if out.iter().all(|byte| *byte == 0xff) {
            return Err(self.broken("all ones, as from a device that is gone, in", what, at));
        }
        Ok(out)
    }

    /// Notes what is malformed, and where.
    pub(super) fn broken(&mut self, wrong: &str, what: &str, at: u16) -> Why {
        self.note(format!("{wrong} {what} at {at:#x}"));
        Why::Broken
    }

    pub(super) fn note(&mut self, failure: String) {
        self.failure.push(failure);
    }

    /// Whether the space ends just where Linux ends it for a reader who is not root.
    pub(super) fn ends_unprivileged(&self) -> bool {
        self.ends_at(64) || (self.cardbus && self.ends_at(128))
    }

    pub(super) fn ends_at(&self, end: u16) -> bool {
        self.space.read(end, &mut [0]) == Ok(0) && self.space.read(end - 1, &mut [0]) == Ok(1)
    }
}

/// Little-endian 16 bits at `at`; the callers' arrays are always long enough.
pub(super) fn le16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Little-endian 32 bits at `at`.
pub(super) fn le32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}
