//! mlx5 cards, whose doorbells the GPU rings itself: not in this library yet.

use engine::Supply;
use verbs::Domain;

use super::{Made, Wanted};
use crate::refusal::Refusal;

/// The place for queues in the provider's own memory. What makes them has the queue pair of this domain laid out by `mlx5dv_init_obj`, its
/// register mapped for the GPU, and a [`super::Behind`] that does nothing: a card looks by itself.
pub(super) fn create(domain: &Domain, _supply: &Supply, _wanted: &Wanted) -> Result<Made, Refusal> {
    let device = domain.context().name().to_owned();
    Err(Refusal::NoDirectQueues { device })
}
