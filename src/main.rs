#![forbid(unsafe_code)]
//! gdr.
fn main() {}
