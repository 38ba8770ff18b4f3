//! What the machine is: a guest, a container.

mod container;
mod guest;

pub use container::container;
pub use guest::guest;
