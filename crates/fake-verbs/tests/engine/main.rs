//! The fake libibverbs through its C interface.

mod driver;
mod end;
mod gpu;
mod memory;
mod misbehaviour;
mod objects;
mod program;
mod state;
mod work;
