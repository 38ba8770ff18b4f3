//! mlx5 NICs, whose doorbells the GPU rings itself: queues in the memory where the provider keeps them.

use std::ptr::NonNull;

use engine::Allocator;
use engine::hca::mlx5::{Queues, wrap};
use engine::hca::{Endpoint, QueuePair};
use engine::wire::AddressVector;
use verbs::raw::ibv_ah;
use verbs::{Context, ProtectionDomain};

use super::{Behind, Made, Wanted};
use crate::call_error::CallError;

/// The NIC looks by itself.
#[derive(Debug)]
struct Nic {
    context: Context,
}

impl Behind for Nic {
    fn serve(&self) {}

    fn wake(&self) {}

    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, CallError> {
        // SAFETY: this function's condition.
        if unsafe { (*handle.as_ptr()).context } != self.context.as_raw() {
            return Err(CallError::OtherDevice {
                what: "the address handle",
            });
        }
        // SAFETY: as above, and of this device, as was just seen.
        let vector = unsafe { self.context.address_vector(handle) };
        let vector = vector.map_err(CallError::verbs("read the address handle"))?;
        let decoded = AddressVector::decode(vector.bytes());
        decoded.map_err(|error| CallError::engine("understand the address handle")(error.into()))
    }
}

/// Ends the queue pair's work when it falls. The verbs objects go with the last place of it: where a stream may still ring, they stay, in
/// state ERROR, so that nothing is sent any more.
#[derive(Debug)]
struct Ended(verbs::QueuePair<verbs::Borrowed, verbs::Direct>);

impl Drop for Ended {
    fn drop(&mut self) {
        // One that cannot be changed is lost, and sends nothing either.
        let _ = self.0.give_up();
    }
}

/// # Safety
///
/// As [`super::create`].
pub(super) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    wanted: &Wanted,
) -> Result<Made, CallError> {
    let context = domain.context();
    // The provider makes one more of it, and a power of two of that.
    let queue = |entries: u32| {
        let made = context.direct_completions(entries.saturating_sub(1).max(1));
        made.map_err(CallError::verbs("make a completion queue"))
    };
    let request = &wanted.request;
    let (sent, received) = (
        queue(request.send_completions)?,
        queue(request.receive_completions)?,
    );
    // Without one its queue pairs share registers with others, which costs time and nothing else.
    let own = domain.of_one_thread().unwrap_or_else(|_| domain.clone());
    let pair = own.direct_queue_pair(wanted.options, &sent, &received);
    // SAFETY: the caller's promise.
    let pair = unsafe {
        pair.map_err(CallError::verbs("make a queue pair"))?
            .borrow()
    };
    let queues = [&sent, &received];
    let laid = wrap(
        allocator,
        &pair,
        queues,
        wanted.transport(),
        request.waiting,
    );
    let Queues {
        send,
        receive,
        send_completions,
        receive_completions,
    } = laid.map_err(CallError::engine("take over the NIC's queues"))?;
    let (raw, completions) = (pair.as_raw(), [sent.as_raw(), received.as_raw()]);
    Ok(Made {
        queues: QueuePair::new(
            send,
            receive,
            [send_completions, receive_completions],
            Endpoint::new(0, pair.number()),
            Box::new(Ended(pair)),
        ),
        behind: Box::new(Nic {
            context: context.clone(),
        }),
        raw,
        completions,
    })
}
