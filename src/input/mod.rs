//! User input: opening files, decompressing them, error messages about them, and the environment.
//!
//! A sudo rule may let a user name a file that only root may read, so errors never quote a file's content.

mod environment;
mod lookahead;
mod open;
mod suggest;
mod syntax;
mod unpack;

pub use environment::pass_environment;
pub use lookahead::{Lookahead, fill, invalid, truncated};
pub use open::{Input, open};
pub use suggest::did_you_mean;
pub use syntax::{json_error, toml_error, zstd_error};
pub use unpack::{Compression, unpacked};
