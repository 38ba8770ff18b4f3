//! gdr's workshop.
fn main() {}
