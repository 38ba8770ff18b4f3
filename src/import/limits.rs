//! How much a dump may hold. A machine has fewer of everything; a text can claim anything.

use super::ImportError;

/// PCI functions. A node with every virtual function switched on lists a few thousand.
pub const FUNCTIONS: usize = 16_384;

/// Refuses what is more than any machine has.
pub fn at_most(most: usize, number: usize, what: &str) -> Result<(), ImportError> {
    if number <= most {
        return Ok(());
    }
    Err(ImportError::Malformed(format!(
        "it lists more than {most} {what}: no machine has so many"
    )))
}
