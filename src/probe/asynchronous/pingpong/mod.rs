//! `async.pingpong`: messages between two processes that have one GPU each to themselves, or the same, there and back in the order of their
//! streams. Each is another child; the near one measures, and has what there is to tell.
//!
//! [`between`] is the parent's side, [`run`] a child's. The children speak over a socket that the parent gave them: [`way`].

mod child;
mod end;
mod local;
mod memory;
mod pair;
mod remote;
mod trial;
mod way;

pub use child::{describe, run};
pub use pair::between;
pub use way::PART;
