//! `async.pingpong`: messages between two processes on one GPU, sent and returned by their streams. Both are children; the local one
//! measures and reports.
//!
//! [`between`] is the parent's side, [`run`] a child's. The children synchronise over a socket from the parent ([`peer`]).

mod child;
mod end;
mod local;
mod pair;
mod peer;
mod remote;
mod trial;

pub use child::run;
pub use pair::between;
pub use peer::PART;
