//! A queue pair of a NIC is made, of at least the sizes that were asked for: verbs' own, or with parts in GPU memory one of the
//! firmware's.

use std::sync::Arc;

use verbs::{CompletionQueue, Direct, QueuePair as Verbs, QueuePairOptions, Reset};

use super::lay::{self, Laid, lay_out};
use super::{Link, Shared, own, verbs_failed};
use crate::hca::{QueuePair, Request};
use crate::wire::{Depth, Transport};
use crate::{Allocator, MemoryLocation};

pub(super) fn create(
    shared: &Arc<Shared>,
    allocator: &Allocator,
    request: &Request,
) -> Result<QueuePair, crate::Error> {
    // Depths are checked before anything of their size is asked for.
    for depth in [
        request.send_blocks,
        request.receives,
        request.receive_segments,
    ] {
        Depth::work(depth)?;
    }
    for depth in [request.send_completions, request.receive_completions] {
        Depth::completions(depth)?;
    }
    if [request.queues, request.records, request.completions].contains(&MemoryLocation::Gpu) {
        let (laid, pair) = own::create(shared, allocator, request)?;
        let number = pair.number();
        return Ok(whole(shared, number, laid, Link::Own(pair)));
    }
    let context = shared.port.domain.context();
    // The provider makes one more of it, and a power of two of that.
    let completions = |entries: u32| {
        let made = context.direct_completions((entries - 1).max(1));
        made.map_err(verbs_failed("make a completion queue"))
    };
    let (sent, received) = (
        completions(request.send_completions)?,
        completions(request.receive_completions)?,
    );
    let pair = pair(shared, request, [&sent, &received])?;
    let laid = lay_out(
        allocator,
        &pair,
        [&sent, &received],
        Transport::Connected,
        request.waiting,
    )?;
    let pair = shared.port.init(pair)?;
    let number = pair.number();
    Ok(whole(shared, number, laid, Link::Init(pair)))
}

/// A queue pair whose two sides are made.
fn whole(shared: &Arc<Shared>, number: u32, laid: Laid, link: Link) -> QueuePair {
    let endpoint = shared.port.endpoint(number);
    shared.links().insert(endpoint.qpn, link);
    let created = Created {
        shared: Arc::clone(shared),
        qpn: endpoint.qpn,
    };
    let Laid {
        send,
        receive,
        send_completions,
        receive_completions,
    } = laid;
    QueuePair::new(
        send,
        receive,
        [send_completions, receive_completions],
        endpoint,
        Box::new(created),
    )
}

/// A queue pair whose send queue has as many blocks at least. How many requests the provider puts into how many blocks is its own
/// affair, and so is how many it has at most: fewer requests are asked for until it makes one.
fn pair(
    shared: &Shared,
    request: &Request,
    [sent, received]: [&CompletionQueue<Direct>; 2],
) -> Result<Verbs<Reset, Direct>, crate::Error> {
    let mut requests = request.send_blocks;
    loop {
        let options = QueuePairOptions {
            transport: verbs::Transport::Rc,
            send_depth: requests,
            receive_depth: request.receives,
            send_pieces: 1,
            receive_pieces: request.receive_segments,
            inline_bytes: 0,
        };
        match shared.domain.direct_queue_pair(options, sent, received) {
            Ok(pair) => {
                let told = pair.layout();
                let told = told.map_err(verbs_failed("learn where a queue pair lies"))?;
                if told.send.entries < request.send_blocks {
                    let need = format!("{} were asked for", request.send_blocks);
                    let device = shared.port.domain.context().name();
                    return Err(lay::shape(device, "a send queue", &told.send, need));
                }
                return Ok(pair);
            }
            Err(_) if requests > 1 => requests /= 2,
            Err(source) => return Err(verbs_failed("make a queue pair")(source)),
        }
    }
}

/// Destroys the queue pair when it falls, and its memory is nobody's.
#[derive(Debug)]
struct Created {
    shared: Arc<Shared>,
    qpn: u32,
}

impl Drop for Created {
    fn drop(&mut self) {
        let link = self.shared.links().remove(&self.qpn);
        // Without the lock: a NIC is asked.
        drop(link);
    }
}
