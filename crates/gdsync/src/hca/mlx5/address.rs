//! A datagram's address as verbs know it, made into what an entry of a NIC's queue has.

use super::verbs_failed;
use crate::wire::{AddressVector, Datagram};

/// Whom a datagram is for, for [`Wqe::to`](crate::wire::Wqe::to): the way that the provider found, the queue pair and its key. The
/// NIC keeps nothing of it, so the handle may go once this is made.
///
/// # Errors
///
/// [`Error::Verbs`](super::Error::Verbs) for an address of a device that is no mlx5; [`crate::Error::Wire`] for a queue pair's number of
/// more than 24 bits, once an entry is made of it.
pub fn datagram(to: &verbs::Datagram) -> Result<Datagram, crate::Error> {
    let vector = to
        .direct()
        .map_err(verbs_failed("read the address of a datagram"))?;
    Ok(Datagram {
        qpn: to.queue_pair(),
        key: to.qkey(),
        path: AddressVector::decode(vector.bytes())?,
    })
}
