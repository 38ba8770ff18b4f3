//! Creates a queue pair of at least the requested depths: by verbs, or by DEVX if a part is in GPU memory or there is no doorbell record.
//! One of datagrams is made ready to send.

use std::sync::Arc;

use verbs::{CompletionQueue, Direct, QueuePair as Verbs, QueuePairOptions, Reset};

use super::queues::{self, Queues, wrap};
use super::{Link, Shared, no_recordless_queues, own, verbs_failed};
use crate::hca::port::transport;
use crate::hca::{Driver, QueuePair, Request};
use crate::wire::{Depth, Transport};
use crate::{Allocator, MemoryLocation};

pub(super) fn create(
    shared: &Arc<Shared>,
    allocator: &Allocator,
    request: &Request,
) -> Result<QueuePair, crate::Error> {
    // Check depths before allocating.
    for depth in [request.send_blocks, request.receives, request.receive_segments] {
        Depth::work(depth)?;
    }
    for depth in [request.send_completions, request.receive_completions] {
        Depth::completions(depth)?;
    }
    let [sent, received] = request.completions;
    let has_record = request.driver != Driver::KernelsWithoutRecord;
    let locations = [request.queues, request.records, sent, received];
    if locations.contains(&MemoryLocation::Gpu) || !has_record {
        let devx = match shared.devx() {
            Err(error) if !has_record => {
                let why = format!("they need DEVX commands: {}", gpu::sentence(&error));
                return Err(no_recordless_queues(shared.port.domain.context(), why));
            }
            devx => devx?,
        };
        let firmware = own::Firmware {
            devx,
            domain: shared.port.domain.clone(),
            transport: transport(request),
            user_index: shared.next_index(),
        };
        let (queues, pair) = own::create(&firmware, allocator, request)?;
        let number = pair.number();
        let link = match request.transport {
            Transport::Connected => Link::Devx(shared.port.init_devx(pair)?),
            Transport::Datagram => {
                Link::DevxReady { link: shared.port.ready_devx(pair, request.key)? }
            }
        };
        return Ok(finish(shared, number, queues, link));
    }
    let context = shared.port.domain.context();
    // The provider adds one and rounds up to a power of two.
    let completions = |entries: u32| {
        let queue = context.direct_completions((entries - 1).max(1));
        queue.map_err(verbs_failed("create a completion queue"))
    };
    let (sent, received) =
        (completions(request.send_completions)?, completions(request.receive_completions)?);
    let pair = pair(shared, request, [&sent, &received])?;
    let queues = wrap(allocator, &pair, [&sent, &received], request)?;
    let number = pair.number();
    let link = match request.transport {
        Transport::Connected => Link::Init(shared.port.init(pair)?),
        Transport::Datagram => Link::Ready { link: shared.port.ready(pair, request.key)? },
    };
    Ok(finish(shared, number, queues, link))
}

fn finish(shared: &Arc<Shared>, number: u32, queues: Queues, link: Link) -> QueuePair {
    let endpoint = shared.port.endpoint(number);
    shared.links().insert(endpoint.qpn, link);
    let guard = DestroyGuard { shared: Arc::clone(shared), qpn: endpoint.qpn };
    QueuePair::new(
        queues.send,
        queues.receive,
        [queues.send_completions, queues.receive_completions],
        endpoint,
        Box::new(guard),
    )
}

/// A queue pair with at least the requested blocks in its send queue. The provider limits the number of work requests by their
/// size in blocks, so this halves the number until the provider accepts it.
fn pair(
    shared: &Shared,
    request: &Request,
    [sent, received]: [&CompletionQueue<Direct>; 2],
) -> Result<Verbs<Reset, Direct>, crate::Error> {
    let mut requests = request.send_blocks;
    loop {
        let options = QueuePairOptions {
            transport: transport(request),
            send_depth: requests,
            receive_depth: request.receives,
            send_sges: 1,
            receive_sges: request.receive_segments,
            inline_bytes: 0,
        };
        match shared.domain.direct_queue_pair(options, sent, received) {
            Ok(pair) => {
                let layout = pair.layout();
                let layout = layout.map_err(verbs_failed("read the layout of a queue pair"))?;
                if layout.send.entries < request.send_blocks {
                    let need = format!("{} were requested", request.send_blocks);
                    let device = shared.port.domain.context().name();
                    return Err(queues::shape(device, "a send queue", &layout.send, need));
                }
                return Ok(pair);
            }
            Err(_) if requests > 1 => requests /= 2,
            Err(source) => return Err(verbs_failed("create a queue pair")(source)),
        }
    }
}

/// Destroys the queue pair on drop.
#[derive(Debug)]
struct DestroyGuard {
    shared: Arc<Shared>,
    qpn: u32,
}

impl Drop for DestroyGuard {
    fn drop(&mut self) {
        let link = self.shared.links().remove(&self.qpn);
        // Destroy it without the lock: this calls the driver.
        drop(link);
    }
}
