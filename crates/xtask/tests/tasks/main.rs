//! Tasks of xtask through the built binary.

mod dist;
mod install;
