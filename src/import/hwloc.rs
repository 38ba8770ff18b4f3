//! TODO-HELPER

use super::ImportError;
use crate::model::Facts;

pub fn is_one(_bytes: &[u8]) -> bool {
    false
}

pub fn facts(_bytes: &[u8]) -> Result<Facts, ImportError> {
    Err(ImportError::Unrecognised)
}
