//! Kernel modules beside the driver, and their nodes.

mod gdrdrv;
mod peermem;
mod road;

pub use gdrdrv::gdrdrv;
pub use peermem::peermem;
