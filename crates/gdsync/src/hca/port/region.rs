//! Places registered with a verbs device.

use verbs::{MemoryPath, ProtectionDomain};

use super::error::{Error, failed};
use crate::hca::Access;
use crate::{Place, Whole};

/// Registers a place, and says where in the region it starts. Of host memory the remote side reaches the place, of GPU memory all that
/// it is a part of: a dma-buf is of whole pages.
pub(in crate::hca) fn register(
    domain: &ProtectionDomain,
    place: &Place,
    access: Access,
) -> Result<(verbs::MemoryRegion, usize), Error> {
    let wanted = verbs::Access {
        // Verbs give no right to write from afar without this one.
        local_write: access.local_write || access.remote_write || access.remote_atomic,
        remote_write: access.remote_write,
        remote_read: access.remote_read,
        remote_atomic: access.remote_atomic,
        relaxed_ordering: false,
    };
    let (memory, start) = place.whole();
    match memory {
        Whole::Host(memory) => {
            let part = start..start + place.len();
            let region = domain.register_host_part(memory, part, wanted);
            Ok((region.map_err(failed("register host memory"))?, 0))
        }
        Whole::Device(memory) => {
            let region = match domain.register_by(MemoryPath::Dmabuf, memory, wanted) {
                Ok(region) => region,
                Err(dmabuf) => match domain.register_by(MemoryPath::Peermem, memory, wanted) {
                    Ok(region) => region,
                    Err(peermem) => return Err(Error::NoMemoryPath { dmabuf, peermem }),
                },
            };
            Ok((region, start))
        }
    }
}
