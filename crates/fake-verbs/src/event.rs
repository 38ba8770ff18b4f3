//! Asynchronous events.

use std::ffi::{c_int, c_uint};

use ibverbs_sys::ibv_context;

use crate::abi::{
    AsyncEvent, EVENT_CQ_ERR, EVENT_PORT_ERR, EVENT_QP_ACCESS_ERR, EVENT_QP_REQ_ERR, Element,
};
use crate::answer::{infallible, minus_one, put};
use crate::objects::{ACKNOWLEDGED, Objects, QueuedEvent, objects};

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    out: *mut AsyncEvent,
) -> c_int {
    minus_one("ibv_get_async_event", || {
        loop {
            let counter = objects().context(context)?.counter.clone();
            counter.wait()?;
            let mut objects = objects();
            let context = objects.contexts.get_mut(&context.addr()).ok_or(libc::EINVAL)?;
            // Its subject may be destroyed already, and the event with it.
            let Some(queued) = context.events.pop_front() else {
                continue;
            };
            if let Some(about) = queued.about {
                match queued.event.event_type {
                    EVENT_CQ_ERR => objects.queues.get_mut(&about).map(|queue| queue.taken += 1),
                    _ => objects.pairs.get_mut(&about).map(|pair| pair.unacknowledged += 1),
                };
            }
            // SAFETY: the caller's guarantee.
            return unsafe { put(out, queued.event) };
        }
    })
}

/// # Safety
///
/// `event` is null or points to an event from [`ibv_get_async_event`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut AsyncEvent) {
    infallible("ibv_ack_async_event", (), || {
        if event.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null, and the caller's guarantee.
        let event = unsafe { event.read() };
        let mut objects = objects();
        match event.event_type {
            EVENT_CQ_ERR => {
                // SAFETY: the subject of such an event is a completion queue.
                let queue = objects.queue(unsafe { event.element.cq })?;
                queue.acknowledged = queue.acknowledged.wrapping_add(1);
            }
            EVENT_QP_REQ_ERR | EVENT_QP_ACCESS_ERR => {
                // SAFETY: the subject of such an event is a queue pair.
                let pair = objects.pair(unsafe { event.element.qp })?;
                pair.unacknowledged = pair.unacknowledged.saturating_sub(1);
            }
            _ => {}
        }
        ACKNOWLEDGED.notify_all();
        Ok(())
    });
}

impl Objects {
    /// Queues an event for a context.
    pub fn raise_event(
        &mut self,
        context: usize,
        event_type: c_uint,
        element: Element,
        about: Option<usize>,
    ) {
        if let Some(context) = self.contexts.get_mut(&context) {
            let event = AsyncEvent { element, event_type };
            context.events.push_back(QueuedEvent { event, about });
            context.counter.signal();
        }
    }

    /// Reports to every open context of a device that its port went down.
    pub fn raise_port_event(&mut self, device: usize, port: u8) {
        let open = self.contexts.values().filter(|context| context.device == device);
        let open: Vec<usize> = open.map(|context| context.pointer().addr()).collect();
        for context in open {
            let port_num = port.into();
            self.raise_event(context, EVENT_PORT_ERR, Element { port_num }, None);
        }
    }

    /// Drops queued events about an object that is being destroyed.
    pub fn forget_events(&mut self, about: usize) {
        for context in self.contexts.values_mut() {
            let before = context.events.len();
            context.events.retain(|queued| queued.about != Some(about));
            (context.events.len()..before).for_each(|_| context.counter.consume());
        }
    }
}
