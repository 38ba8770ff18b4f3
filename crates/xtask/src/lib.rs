#![forbid(unsafe_code)]
//! The tasks of gdr's workshop, so that one task may use another.

pub mod documents;
pub mod generate;
pub mod install;
pub mod vm;
