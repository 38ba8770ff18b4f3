//! Kernel modules other than the driver, and their device nodes.

mod boot;
mod buildable;
mod gdrdrv;
mod legacy;
mod mapping;
mod peermem;

use super::Check;
pub use boot::loads_module;
pub use buildable::buildable;
pub use peermem::remedy as peermem_remedy;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] =
    &[peermem::CHECK, buildable::CHECK, legacy::CHECK, boot::CHECK, gdrdrv::CHECK, mapping::CHECK];
