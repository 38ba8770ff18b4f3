//! Completion queues and completion channels.

use std::ffi::{c_int, c_uint, c_void};

use ibverbs_sys::{ibv_comp_channel, ibv_context, ibv_cq, ibv_qp_type, ibv_wc, ibv_wc_status};

use crate::abi::{Completion, EVENT_CQ_ERR, Element};
use crate::answer::{count, infallible, minus_one, pointer_or_null, put, status};
use crate::device::attributes;
use crate::objects::{
    ACKNOWLEDGED, Armed, Channel, Entry, EventCounter, Objects, Queue, QueuePair, Shared, Side,
    objects, until_acknowledged,
};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer_or_null("ibv_create_comp_channel", || {
        let mut objects = objects();
        objects.context(context)?;
        let counter = EventCounter::new()?;
        let raw = Shared::new(ibv_comp_channel { context, fd: counter.number(), refcnt: 0 });
        let pointer = raw.pointer();
        let channel = Channel { raw, context: context.addr(), counter, events: Default::default() };
        objects.channels.insert(channel.raw.address(), channel);
        Ok(pointer)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status("ibv_destroy_comp_channel", || {
        let mut objects = objects();
        let address = channel.addr();
        if objects.queues.values().any(|queue| queue.channel == Some(address)) {
            return Err(libc::EBUSY);
        }
        objects.channels.remove(&address).map(drop).ok_or(libc::EINVAL)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    pointer_or_null("ibv_create_cq", || {
        let mut objects = objects();
        let device = objects.context(context)?.device;
        let limits = attributes(device);
        if entries < 1 || entries > limits.max_cqe || vector != 0 {
            return Err(libc::EINVAL);
        }
        let owner = context.addr();
        let channel_address = (!channel.is_null()).then(|| channel.addr());
        if let Some(address) = channel_address {
            let known = objects.channels.get(&address).filter(|channel| channel.context == owner);
            known.ok_or(libc::EINVAL)?;
        }
        let existing = objects.queues.values().filter(|queue| queue.context == owner).count();
        if existing >= usize::try_from(limits.max_cq).unwrap_or(0) {
            return Err(libc::ENOMEM);
        }
        let raw = Shared::new(ibv_cq {
            context,
            channel,
            cq_context,
            handle: objects.handle(),
            cqe: entries,
            ..ibv_cq::default()
        });
        let pointer = raw.pointer();
        let queue = Queue {
            raw,
            context: owner,
            channel: channel_address,
            room: usize::try_from(entries).unwrap_or(0),
            entries: Default::default(),
            armed: None,
            overrun: false,
            taken: 0,
            acknowledged: 0,
        };
        objects.queues.insert(queue.raw.address(), queue);
        Ok(pointer)
    })
}

/// Waits until the program has acknowledged every event that it read.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status("ibv_destroy_cq", || {
        let mut objects = objects();
        let address = cq.addr();
        loop {
            let queue = objects.queue(cq)?;
            let is_waited_for = queue.taken != queue.acknowledged;
            let is_used =
                |pair: &QueuePair| pair.send_queue == address || pair.receive_queue == address;
            if objects.pairs.values().any(is_used) {
                return Err(libc::EBUSY);
            }
            if !is_waited_for {
                break;
            }
            objects = until_acknowledged(objects);
        }
        let channel = objects.queues.remove(&address).and_then(|queue| queue.channel);
        if let Some(channel) = channel.and_then(|channel| objects.channels.get_mut(&channel)) {
            let before = channel.events.len();
            channel.events.retain(|queue| *queue != address);
            (channel.events.len()..before).for_each(|_| channel.counter.consume());
        }
        objects.forget_events(address);
        Ok(())
    })
}

/// # Safety
///
/// `cq` and `cq_context` are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    minus_one("ibv_get_cq_event", || {
        loop {
            let counter =
                objects().channels.get(&channel.addr()).map(|channel| channel.counter.clone());
            counter.ok_or(libc::EINVAL)?.wait()?;
            let mut objects = objects();
            let channel = objects.channels.get_mut(&channel.addr()).ok_or(libc::EINVAL)?;
            // The queue may be destroyed already, and its event with it.
            let Some(queue) = channel.events.pop_front() else {
                continue;
            };
            let Some(queue) = objects.queues.get_mut(&queue) else {
                continue;
            };
            queue.taken += 1;
            let pointer = queue.raw.pointer();
            // SAFETY: the queue is alive, and the caller's guarantee.
            return unsafe {
                put(cq_context, (*pointer).cq_context)?;
                put(cq, pointer)
            };
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    infallible("ibv_ack_cq_events", (), || {
        let mut objects = objects();
        let queue = objects.queue(cq)?;
        queue.acknowledged = queue.acknowledged.wrapping_add(events);
        ACKNOWLEDGED.notify_all();
        Ok(())
    });
}

/// `req_notify_cq` of a context: completions already in the queue cause no event.
pub extern "C" fn request_notification(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status("ibv_req_notify_cq", || {
        let mut objects = objects();
        let queue = objects.queue(cq)?;
        if queue.channel.is_none() {
            return Err(libc::EINVAL);
        }
        queue.armed = match (solicited_only, queue.armed) {
            (0, _) | (_, Some(Armed::Any)) => Some(Armed::Any),
            _ => Some(Armed::Solicited),
        };
        Ok(())
    })
}

/// `poll_cq` of a context.
///
/// # Safety
///
/// `out` is valid for writes of `most` completions.
pub unsafe extern "C" fn poll(cq: *mut ibv_cq, most: c_int, out: *mut ibv_wc) -> c_int {
    count("ibv_poll_cq", || {
        let mut objects = objects();
        let most = usize::try_from(most).map_err(|_| libc::EINVAL)?;
        let queue = objects.queue(cq)?;
        let some: Vec<Entry> = queue.entries.drain(..most.min(queue.entries.len())).collect();
        for (place, entry) in some.iter().enumerate() {
            // SAFETY: the caller's guarantee; both structures have the same layout.
            unsafe { put(out.cast::<Completion>().wrapping_add(place), entry.completion)? };
            objects.free(entry);
        }
        Ok(c_int::try_from(some.len()).unwrap_or(c_int::MAX))
    })
}

impl Objects {
    /// A completion was polled: frees its request's slot, and in a send queue the slots of all earlier requests.
    fn free(&mut self, entry: &Entry) {
        if let Some(pair) = self.pairs.get_mut(&entry.pair) {
            let counts = is_unordered(pair, entry);
            let freed = match entry.side {
                Side::Send => &mut pair.send_freed,
                Side::Receive => &mut pair.receive_freed,
            };
            *freed = if counts { *freed + 1 } else { entry.through.max(*freed) };
        }
    }

    /// Adds a completion to a queue, and raises an event if the queue is armed.
    pub fn complete(&mut self, queue: usize, entry: Entry, is_solicited: bool) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        if queue.entries.len() >= queue.room {
            if !std::mem::replace(&mut queue.overrun, true) {
                let (context, address) = (queue.context, queue.raw.address());
                let cq = queue.raw.pointer();
                self.raise_event(context, EVENT_CQ_ERR, Element { cq }, Some(address));
            }
            return;
        }
        let has_failed = entry.completion.status != ibv_wc_status::IBV_WC_SUCCESS;
        // A program that takes the last completion for that of all requests before must fail.
        match self.pairs.get(&entry.pair) {
            Some(pair) if is_unordered(pair, &entry) => queue.entries.push_front(entry),
            _ => queue.entries.push_back(entry),
        }
        let raises_event = match queue.armed {
            Some(Armed::Any) => true,
            Some(Armed::Solicited) => is_solicited || has_failed,
            None => false,
        };
        if !raises_event {
            return;
        }
        queue.armed = None;
        let address = queue.raw.address();
        if let Some(channel) = queue.channel.and_then(|channel| self.channels.get_mut(&channel)) {
            channel.events.push_back(address);
            channel.counter.signal();
        }
    }

    /// Drops the completions of a queue pair, as a reset does.
    pub fn forget_completions(&mut self, pair: usize) {
        for queue in self.queues.values_mut() {
            queue.entries.retain(|entry| entry.pair != pair);
        }
    }
}

/// True for sent requests of SRD, whose completions come in any order.
fn is_unordered(pair: &QueuePair, entry: &Entry) -> bool {
    pair.kind == ibv_qp_type::IBV_QPT_DRIVER && entry.side == Side::Send
}
