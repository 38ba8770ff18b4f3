//! What a person hands in: files by name, how they are opened and what an error may say of them; and the environment.
//!
//! A sudo rule may let a user name a file that only root may read. An error says which file, where and what kind of error, and nothing
//! that stands in the file.

mod environment;
mod open;
mod suggest;
mod syntax;

pub use environment::pass_environment;
pub use open::{Input, open};
pub use suggest::did_you_mean;
pub use syntax::{json_error, toml_error, zstd_error};
