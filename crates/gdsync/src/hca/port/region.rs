//! Registers places with a verbs device.

use verbs::ProtectionDomain;

use super::error::{Error, failed};
use crate::hca::Access;
use crate::{MappedMemory, MemoryRef};

/// Registers a place and returns its offset in the region. A region of GPU memory covers the whole allocation, because a
/// dma-buf consists of whole pages.
pub(in crate::hca) fn register(
    domain: &ProtectionDomain,
    place: &MappedMemory,
    access: Access,
) -> Result<(verbs::MemoryRegion, usize), Error> {
    let rights = verbs::Access {
        // Verbs require local write for remote write and atomics.
        local_write: access.local_write || access.remote_write || access.remote_atomic,
        remote_write: access.remote_write,
        remote_read: access.remote_read,
        remote_atomic: access.remote_atomic,
        relaxed_ordering: false,
        on_demand: false,
    };
    let (memory, start) = place.whole();
    match memory {
        MemoryRef::Host(memory) => {
            let part = start..start + place.len();
            let region = domain.register_host_part(memory, part, rights);
            Ok((region.map_err(failed("register host memory"))?, 0))
        }
        MemoryRef::Device(memory) => {
            let chosen = domain
                .register_gpu(memory, rights)
                .map_err(|rejections| Error::NoMemoryPath { rejections })?;
            Ok((chosen.result, start))
        }
    }
}
