//! The secret that the two processes of a run share: who proves it is the peer. It comes from a file or from the environment, never
//! from an argument, because every user of the machine sees arguments.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use mp::session::{Key, random};
use rustix::fs::CWD;

use super::private::{self, Links, Privacy};
use super::wire::PROTOCOL;
pub use crate::probe::children::SECRET_VARIABLE;

/// Bytes of a secret: as many as SHA-256 gives.
const BYTES: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read, or others may read or write it.
    #[error("the secret file {} is not used: {source}", .path.display())]
    File {
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The text is not a secret.
    #[error(
        "{source_name} has no valid secret: a secret is {} hexadecimal digits, as gdr probe rdma --listen or openssl rand -hex {BYTES} prints it",
        BYTES * 2
    )]
    Format {
        /// The file or the variable.
        source_name: String,
    },
}

impl Secret {
    /// Makes a random one.
    pub fn generate() -> io::Result<Self> {
        random().map(Self)
    }

    /// The value without a secret.
    pub fn none() -> Self {
        Self([0; BYTES])
    }

    /// True if there is no secret.
    pub fn is_none(&self) -> bool {
        self.0 == [0; BYTES]
    }

    /// Reads one as it is printed.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != BYTES * 2 {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
        }
        Some(Self(bytes)).filter(|secret| !secret.is_none())
    }

    /// Reads one from a file that only its owner may read.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let text = private::read(CWD, path, Links::Follow, Privacy::Required)
            .map_err(|source| SecretError::File { path: path.to_owned(), source })?;
        Self::parse(text.trim()).ok_or_else(|| SecretError::Format {
            source_name: format!("the file {}", path.display()),
        })
    }

    /// Reads [`SECRET_VARIABLE`], if it is set.
    pub fn from_environment() -> Result<Option<Self>, SecretError> {
        let Some(value) = std::env::var_os(SECRET_VARIABLE).filter(|value| !value.is_empty())
        else {
            return Ok(None);
        };
        let secret = value.to_str().and_then(|text| Self::parse(text.trim()));
        secret.map(Some).ok_or_else(|| SecretError::Format {
            source_name: format!("the environment variable {SECRET_VARIABLE}"),
        })
    }

    /// As it is written to a file, and printed once.
    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What the two ends prove to have.
    pub fn key(&self) -> Key {
        Key::new(&self.0, PROTOCOL)
    }
}

/// Debug output does not contain the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.is_none() { "Secret(none)" } else { "Secret(…)" })
    }
}
