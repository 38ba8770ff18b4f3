//! mlx5 NICs: queues in the provider's memory, with doorbells rung by the GPU.

use std::ptr::NonNull;

use engine::Allocator;
use engine::hca::mlx5::{Queues, wrap};
use engine::hca::{Endpoint, QueuePair};
use engine::wire::AddressVector;
use verbs::raw::ibv_ah;
use verbs::{Context, ProtectionDomain};

use super::{Backend, BackendPair, PairOptions};
use crate::call_error::CallError;

/// The NIC needs no service.
#[derive(Debug)]
struct Nic {
    context: Context,
}

impl Backend for Nic {
    fn serve(&self) {}

    fn wake(&self) {}

    unsafe fn address(&self, handle: NonNull<ibv_ah>) -> Result<AddressVector, CallError> {
        // SAFETY: the caller's promise.
        unsafe { address(&self.context, handle) }
    }
}

/// The address vector of an address handle, which must belong to the device.
///
/// # Safety
///
/// The handle is live during the call.
pub(super) unsafe fn address(
    context: &Context,
    handle: NonNull<ibv_ah>,
) -> Result<AddressVector, CallError> {
    // SAFETY: the caller's promise.
    if unsafe { (*handle.as_ptr()).context } != context.as_raw() {
        return Err(CallError::OtherDevice { what: "the address handle" });
    }
    // SAFETY: the handle is live and belongs to this device, as checked above.
    let vector = unsafe { context.address_vector(handle) };
    let vector = vector.map_err(CallError::verbs("read the address handle"))?;
    let decoded = AddressVector::decode(vector.bytes());
    decoded.map_err(|error| CallError::engine("decode the address handle")(error.into()))
}

/// Moves the queue pair to ERROR on drop, so that later doorbells send nothing. The verbs objects live as long as their memory, which a
/// stream may still write.
#[derive(Debug)]
struct StopGuard(verbs::QueuePair<verbs::Borrowed, verbs::Direct>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        // Ignored: a queue pair that cannot be changed is lost and sends nothing.
        let _ = self.0.give_up();
    }
}

/// # Safety
///
/// As [`super::create`].
pub(super) unsafe fn create(
    domain: &ProtectionDomain,
    allocator: &Allocator,
    options: &PairOptions,
) -> Result<BackendPair, CallError> {
    let context = domain.context();
    // The provider adds one and rounds up to a power of two.
    let queue = |entries: u32| {
        let queue = context.direct_completions(entries.saturating_sub(1).max(1));
        queue.map_err(CallError::verbs("create a completion queue"))
    };
    let request = &options.request;
    let (sent, received) = (queue(request.send_completions)?, queue(request.receive_completions)?);
    // Without a thread domain, queue pairs share registers with others, which is only slower.
    let domain = domain.of_one_thread().unwrap_or_else(|_| domain.clone());
    let pair = domain.direct_queue_pair(options.verbs, &sent, &received);
    // SAFETY: the caller's promise.
    let pair = unsafe { pair.map_err(CallError::verbs("create a queue pair"))?.borrow() };
    let queues = [&sent, &received];
    let wrapped = wrap(allocator, &pair, queues, request);
    let Queues { send, receive, send_completions, receive_completions } =
        wrapped.map_err(CallError::engine("take over the NIC's queues"))?;
    let (raw, completions) = (pair.as_raw(), [sent.as_raw(), received.as_raw()]);
    Ok(BackendPair {
        queues: QueuePair::new(
            send,
            receive,
            [send_completions, receive_completions],
            Endpoint::new(0, pair.number()),
            Box::new(StopGuard(pair)),
        ),
        backend: Box::new(Nic { context: context.clone() }),
        raw,
        completions,
    })
}
