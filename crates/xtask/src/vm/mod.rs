//! Virtual machines with hardware that the host may lack: a translating IOMMU, PCIe switches with ACS, two NUMA nodes, an RDMA device, a
//! second host, the gdrdrv driver.
//!
//! A run combines a [`Machine`], an [`Image`] (built from Debian packages, then cached), and a [`Job`]: a script and its binaries. This
//! module does not depend on gdr, which is one of the binaries.

mod archive;
mod command;
mod fakes;
mod guest;
mod hardware;
mod image;
mod job;
mod machine;
mod modules;
mod outcome;
mod overlay;
mod packages;
mod qemu;
mod systemd;
mod tool;

pub use command::{Args, command};
pub use image::Image;
pub use job::{Job, cut_off, run};
pub use machine::{MACHINES, Machine, named};
pub use outcome::{GuestOutcome, Outcome};
pub use systemd::disk as systemd_disk;
