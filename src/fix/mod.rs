//! Repairs. A fix turns findings into a [`DesiredState`]; [`plan`] compares that with the machine and
//! keeps the steps that change something; [`apply()`] records each step in a journal, then runs it;
//! [`undo()`] reverses the journal.

mod acs;
mod apply;
mod boot;
mod chain;
mod command;
mod desired;
mod devices;
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
pub use desired::{DesiredState, Fix, FixRequest, Options, Persist, PortChoice, open};
pub use error::Error;
pub use journal::{Journals, is_interrupted};
pub use register::register;
pub use reverse::{Back, target};
pub use survey::plan;
pub use undo::{UndoOptions, UndoReport, find as find_repair, undo};

/// Receives progress lines; each comes before the operation that it describes.
pub type Report<'r> = &'r mut dyn FnMut(&str);

/// Every fix, in the order in which they run.
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
    // After the fixes that write files which the image contains.
    initramfs::FIX,
];

pub fn find(id: &str) -> Option<&'static Fix> {
    FIXES.iter().find(|fix| fix.id == id)
}
