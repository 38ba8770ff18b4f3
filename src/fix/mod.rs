//! Repairs: what a finding asks for becomes a plan (pure), is made true a step at a time under a journal, and taken back.
//!
//! A fix says what it wants ([`Draft`]); the survey holds that against what is there and leaves the steps that change
//! something ([`plan`]); [`apply()`] makes them, each written down before it is done; [`undo()`] takes them back.

mod acs;
mod apply;
mod draft;
mod drop_in;
mod error;
mod initramfs;
mod journal;
mod modprobe;
mod peer_mapping;
mod reload;
mod roads;
mod site;
mod step;
mod stream_memops;
mod survey;
mod undo;

pub use apply::{Moment, apply};
pub use draft::{Draft, Fix, Need, Options, Persist, PortChoice};
pub use error::Error;
pub use journal::{Journals, is_cut_short};
pub use step::{Back, register};
pub use survey::plan;
pub use undo::{Undone, undo};

/// Every fix, in the order in which they are made.
pub const FIXES: &[Fix] = &[
    acs::FIX,
    modprobe::FIX,
    peer_mapping::FIX,
    stream_memops::FIX,
    // Behind those that write files which an image has a copy of.
    initramfs::FIX,
];

/// A fix by its id.
pub fn find(id: &str) -> Option<&'static Fix> {
    FIXES.iter().find(|fix| fix.id == id)
}
