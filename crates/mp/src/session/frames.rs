//! The frames that follow the handshake: payloads of at most 64 KiB, each with an authentication code over its number and its bytes. A
//! frame that was changed, lost, repeated or forged is an error. This module uses no sockets.
//!
//! A frame is the length of its payload (four bytes, big endian), the payload, and 32 bytes: HMAC-SHA256, by the key of this
//! direction, over the frame's number (eight bytes, from 0), the length and the payload.

use ::hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Most bytes of a payload.
pub const LONGEST: usize = 64 << 10;
const LENGTH: usize = 4;
const CODE: usize = 32;
/// Bytes of a block of SHA-256, which a key of HMAC is padded to.
const BLOCK: usize = 64;

/// Makes the frames of one direction.
pub struct FrameWriter {
    key: Hmac<Sha256>,
    number: u64,
}

/// Takes the frames of one direction from the bytes that arrive.
pub struct FrameReader {
    key: Hmac<Sha256>,
    number: u64,
    bytes: Vec<u8>,
    /// Where the next frame begins.
    start: usize,
}

/// Why the bytes are not the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The frame is longer than [`LONGEST`].
    TooLong,
    /// The other end did not make it, or not as its next one.
    Forged,
}

fn code(key: &Hmac<Sha256>, number: u64, length: [u8; LENGTH], payload: &[u8]) -> Hmac<Sha256> {
    key.clone().chain_update(number.to_be_bytes()).chain_update(length).chain_update(payload)
}

impl FrameWriter {
    /// With the key of a direction.
    #[must_use]
    pub fn new(key: &[u8; CODE]) -> Self {
        Self { key: hmac(key), number: 0 }
    }

    /// The next frame; none if the payload is too long.
    #[must_use]
    pub fn frame(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= LONGEST)?;
        let length = length.to_be_bytes();
        let code = code(&self.key, self.number, length, payload).finalize().into_bytes();
        self.number += 1;
        Some([&length, payload, code.as_slice()].concat())
    }
}

impl FrameReader {
    /// With the key of a direction.
    #[must_use]
    pub fn new(key: &[u8; CODE]) -> Self {
        Self { key: hmac(key), number: 0, bytes: Vec::new(), start: 0 }
    }

    /// Adds bytes that arrived. A caller that takes all frames before it adds more keeps at most one frame and those bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The payload of the next whole frame.
    ///
    /// # Errors
    ///
    /// If the bytes are not the next frame.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let Some((length, rest)) = self.bytes[self.start..].split_first_chunk::<LENGTH>() else {
            return Ok(None);
        };
        let bytes = u32::from_be_bytes(*length) as usize;
        if bytes > LONGEST {
            return Err(FrameError::TooLong);
        }
        let Some(whole) = rest.get(..bytes + CODE) else {
            return Ok(None);
        };
        let (payload, received) = whole.split_at(bytes);
        // Compares in constant time.
        code(&self.key, self.number, *length, payload)
            .verify_slice(received)
            .map_err(|_| FrameError::Forged)?;
        let payload = payload.to_vec();
        self.number += 1;
        self.start += LENGTH + bytes + CODE;
        Ok(Some(payload))
    }

    /// Bytes that no frame was made of yet.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.bytes.len() - self.start
    }
}

/// HMAC-SHA256 with a key of any length.
pub(super) fn hmac(key: &[u8]) -> Hmac<Sha256> {
    // As HMAC shortens and pads keys.
    let mut block = [0; BLOCK];
    match block.get_mut(..key.len()) {
        Some(start) => start.copy_from_slice(key),
        None => block[..CODE].copy_from_slice(&Sha256::digest(key)),
    }
    Hmac::new(&block.into())
}
