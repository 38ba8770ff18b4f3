//! Plain data: facts, findings, plans, results. It does no input or output and knows no other room.

mod bdf;
pub mod config;
mod fact;

pub use bdf::{Bdf, BdfError};
pub use config::Config;
pub use fact::{Fact, Why};
