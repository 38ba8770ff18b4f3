//! Converts a verbs address handle to the address in a WQE.

use super::verbs_failed;
use crate::wire::{AddressVector, Datagram};

/// The destination for [`Wqe::to`](crate::wire::Wqe::to). It does not depend on the handle, which may be dropped.
///
/// # Errors
///
/// [`Error::Verbs`](super::Error::Verbs) if the device is not mlx5; [`crate::Error::Wire`] for reserved bits.
pub fn datagram(to: &verbs::Datagram) -> Result<Datagram, crate::Error> {
    let vector = to.direct().map_err(verbs_failed("read the address of a datagram"))?;
    Ok(Datagram {
        qpn: to.queue_pair(),
        key: to.qkey(),
        path: AddressVector::decode(vector.bytes())?,
    })
}
