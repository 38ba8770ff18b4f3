//! GPU-initiated networking: what the libraries whose kernels drive NICs need beyond a doorbell, a NIC and registered memory, which other
//! families judge. [`STACKS`] has all that each of them needs.

mod architecture;
mod doca;
mod nccl;
mod nvshmem;
mod stacks;
mod ucx;

use super::Check;
use crate::model::Library;
pub use stacks::{STACKS, Stack};

/// Where libraries are looked for.
const LIBRARIES: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH, Python packages";

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] =
    &[architecture::CHECK, nvshmem::CHECK, nccl::CHECK, doca::CHECK, ucx::CHECK];

/// The three numbers of a library's version.
fn version(library: &Library) -> Option<[u32; 3]> {
    let mut parts = library.version.as_deref()?.split('.');
    let mut next = || parts.next().map(str::parse::<u32>);
    let first = next()?.ok()?;
    let rest = [next(), next()].map(|part| part.and_then(Result::ok).unwrap_or(0));
    Some([first, rest[0], rest[1]])
}
