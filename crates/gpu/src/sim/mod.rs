//! A simulated GPU.

use crate::Attribute;

/// What the simulated GPU answers; it has no other attributes.
pub(crate) fn attribute(_attribute: Attribute) -> Option<i32> {
    None
}
