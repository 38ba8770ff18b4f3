//! Virtual machines that have what the machine under one's hands lacks: a translating IOMMU, PCIe switches with access
//! control, two NUMA nodes, an RDMA device, a second host, the gdrdrv driver.
//!
//! A run takes a [`Machine`] from the table, an [`Image`] (built once out of Debian packages, then cached), and a
//! [`Job`]: a script and the binaries it needs. Nothing here knows gdr: it is one of the binaries carried in.

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
