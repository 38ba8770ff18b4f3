//! User input: opening files, error messages about them, and the environment.
//!
//! A sudo rule may let a user name a file that only root may read, so errors never quote a file's content.

mod environment;
mod open;
mod suggest;
mod syntax;

pub use environment::pass_environment;
pub use open::{Input, open};
pub use suggest::did_you_mean;
pub use syntax::{json_error, toml_error, zstd_error};
