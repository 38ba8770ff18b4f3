//! A recorded machine as a document: what names it can be masked, and two machines can be compared fact by fact.
//! Pure: it opens no file and prints nothing.

mod diff;
mod mask;

pub use diff::diff;
pub use mask::{Known, mask};
