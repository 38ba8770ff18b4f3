//! Limits for dumps, above what machines have; a text can claim anything.

use super::ImportError;

/// A node with all virtual functions enabled has a few thousand.
pub const FUNCTIONS: usize = 16_384;

/// Fails above the limit.
pub fn at_most(most: usize, number: usize, what: &str) -> Result<(), ImportError> {
    if number <= most {
        return Ok(());
    }
    Err(ImportError::Malformed(format!("more than {most} {what}")))
}
