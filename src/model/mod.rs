//! Plain data: facts, findings, plans, results. It does no input or output and knows no other room.

mod bdf;
mod fact;

pub use bdf::{Bdf, BdfError};
pub use fact::{Fact, Why};
