#![forbid(unsafe_code)]
//! Development tasks of gdr, as a library so that tests can use them.

pub mod compile;
pub mod dist;
pub mod documents;
pub mod families;
pub mod generate;
pub mod gpus;
pub mod install;
pub mod libraries;
pub mod pictures;
pub mod vm;
