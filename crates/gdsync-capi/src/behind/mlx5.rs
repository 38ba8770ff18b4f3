//! mlx5 cards, whose doorbells the GPU rings itself: queues in the memory where the provider keeps them.

use std::ptr::NonNull;

use engine::Supply;
use engine::hca::mlx5::{Laid, lay_out};
use engine::hca::{Endpoint, QueuePair};
use engine::wire::AddressVector;
use verbs::raw::ibv_ah;
use verbs::{Context, Domain};

use super::{Behind, Made, Wanted};
use crate::refusal::Refusal;

/// The card looks by itself.
#[derive(Debug)]
struct Card {
    /// The program's device.
    context: Context,
}

impl Behind for Card {
    fn serve(&self) {}

    fn wake(&self) {}

    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, Refusal> {
        // SAFETY: this function's condition.
        if unsafe { (*handle.as_ptr()).context } != self.context.as_raw() {
            return Err(Refusal::OtherDevice {
                what: "the address handle",
            });
        }
        // SAFETY: as above, and of this device, as was just seen.
        let vector = unsafe { self.context.address_vector(handle) };
        let vector = vector.map_err(Refusal::verbs("read the address handle"))?;
        let decoded = AddressVector::decode(vector.bytes());
        decoded.map_err(|error| Refusal::engine("understand the address handle")(error.into()))
    }
}

/// Ends the queue pair's work when it falls. The verbs objects go with the last place of it: where a stream may still ring, they stay, in
/// state ERROR, so that nothing is sent any more.
#[derive(Debug)]
struct Ended(verbs::QueuePair<verbs::Lent, verbs::Direct>);

impl Drop for Ended {
    fn drop(&mut self) {
        // One that cannot be changed is lost, and sends nothing either.
        let _ = self.0.give_up();
    }
}

/// # Safety
///
/// As [`super::create`].
pub(super) unsafe fn create(domain: &Domain, supply: &Supply, wanted: &Wanted) -> Result<Made, Refusal> {
    let context = domain.context();
    // The provider makes one more of it, and a power of two of that.
    let queue = |entries: u32| {
        let made = context.direct_completions(entries.saturating_sub(1).max(1));
        made.map_err(Refusal::verbs("make a completion queue"))
    };
    let request = &wanted.request;
    let (sent, received) = (queue(request.send_completions)?, queue(request.receive_completions)?);
    // Without one its queue pairs share registers with others, which costs time and nothing else.
    let own = domain.of_one_thread().unwrap_or_else(|_| domain.clone());
    let pair = own.direct_queue_pair(wanted.options, &sent, &received);
    // SAFETY: the caller's promise.
    let pair = unsafe { pair.map_err(Refusal::verbs("make a queue pair"))?.lend() };
    let queues = [&sent, &received];
    let laid = lay_out(supply, &pair, queues, wanted.transport(), request.waiting);
    let Laid {
        send,
        receive,
        send_completions,
        receive_completions,
    } = laid.map_err(Refusal::engine("take over the card's queues"))?;
    let (raw, completions) = (pair.as_raw(), [sent.as_raw(), received.as_raw()]);
    Ok(Made {
        queues: QueuePair::new(
            send,
            receive,
            [send_completions, receive_completions],
            Endpoint::new(0, pair.number()),
            Box::new(Ended(pair)),
        ),
        behind: Box::new(Card {
            context: context.clone(),
        }),
        raw,
        completions,
    })
}
