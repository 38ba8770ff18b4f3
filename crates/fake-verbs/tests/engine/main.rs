//! The simulated verbs as programs meet them: through the C interface of the built library.

mod driver;
mod end;
mod failure;
mod gpu;
mod memory;
mod misbehaviour;
mod objects;
mod program;
mod state;
mod work;
