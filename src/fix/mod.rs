//! Repairs: what a finding asks for becomes a plan (pure), is made true a step at a time under a journal, and taken back.
//!
//! A fix says what it wants ([`DesiredState`]); the survey compares that with what is there and leaves the steps that change
//! something ([`plan`]); [`apply()`] makes them, each recorded before it is done; [`undo()`] undoes them.

mod acs;
mod apply;
mod boot;
mod command;
mod desired;
mod driver_loads;
mod drop_in;
mod error;
mod gdrdrv_node;
mod initramfs;
mod iommu;
mod journal;
mod memlock;
mod modprobe;
mod modules;
mod mrrs;
mod nonprefetchable;
mod peer_mapping;
mod peermem;
mod persist;
mod persistence;
mod rdma_modules;
mod register;
mod reload;
mod reverse;
mod site;
mod step;
mod stream_memops;
mod survey;
mod undo;

pub use apply::{Moment, apply};
pub use desired::{DesiredState, Fix, FixRequest, Options, Persist, PortChoice};
pub use error::Error;
pub use journal::{Journals, is_interrupted};
pub use register::register;
pub use reverse::{Back, target};
pub use survey::plan;
pub use undo::{UndoOptions, Undone, find as find_repair, undo};

/// Takes a line about the progress of a repair, before what it is about begins.
pub type Report<'r> = &'r mut dyn FnMut(&str);

/// Every fix, in the order in which they are made.
pub const FIXES: &[Fix] = &[
    iommu::FIX,
    acs::FIX,
    mrrs::FIX,
    nonprefetchable::FIX,
    modprobe::FIX,
    peer_mapping::FIX,
    stream_memops::FIX,
    rdma_modules::FIX,
    peermem::FIX,
    gdrdrv_node::FIX,
    memlock::FIX,
    persistence::FIX,
    // Behind those that write files which an image has a copy of.
    initramfs::FIX,
];

pub fn find(id: &str) -> Option<&'static Fix> {
    FIXES.iter().find(|fix| fix.id == id)
}
