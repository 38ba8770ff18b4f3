//! Asynchronous events.

use std::ffi::{c_int, c_uint};

use ibverbs_sys::ibv_context;

use crate::abi::{
    AsyncEvent, EVENT_CQ_ERR, EVENT_PORT_ERR, EVENT_QP_ACCESS_ERR, EVENT_QP_REQ_ERR, Element,
};
use crate::answer::{minus_one, put, told};
use crate::world::{ACKNOWLEDGED, Told, World, world};

/// verbs.h's function.
///
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
            let bell = world().context(context)?.bell.clone();
            bell.wait()?;
            let mut world = world();
            let context = world
                .contexts
                .get_mut(&context.addr())
                .ok_or(libc::EINVAL)?;
            // What it was about may have gone meanwhile, and the event with it.
            let Some(told) = context.events.pop_front() else {
                continue;
            };
            if let Some(about) = told.about {
                match told.event.event_type {
                    EVENT_CQ_ERR => world.queues.get_mut(&about).map(|queue| queue.taken += 1),
                    _ => world
                        .pairs
                        .get_mut(&about)
                        .map(|pair| pair.unacknowledged += 1),
                };
            }
            // SAFETY: this function's own condition.
            return unsafe { put(out, told.event) };
        }
    })
}

/// verbs.h's function.
///
/// # Safety
///
/// `event` is null or leads to one that [`ibv_get_async_event`] gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut AsyncEvent) {
    told("ibv_ack_async_event", (), || {
        if event.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: not null, and this function's own condition.
        let event = unsafe { event.read() };
        let mut world = world();
        match event.event_type {
            EVENT_CQ_ERR => {
                // SAFETY: what such an event is about is a completion queue.
                let queue = world.queue(unsafe { event.element.cq })?;
                queue.acknowledged = queue.acknowledged.wrapping_add(1);
            }
            EVENT_QP_REQ_ERR | EVENT_QP_ACCESS_ERR => {
                // SAFETY: what such an event is about is a queue pair.
                let pair = world.pair(unsafe { event.element.qp })?;
                pair.unacknowledged = pair.unacknowledged.saturating_sub(1);
            }
            _ => {}
        }
        ACKNOWLEDGED.notify_all();
        Ok(())
    });
}

impl World {
    /// Tells a context of an event.
    pub fn tell(
        &mut self,
        context: usize,
        event_type: c_uint,
        element: Element,
        about: Option<usize>,
    ) {
        if let Some(context) = self.contexts.get_mut(&context) {
            let event = AsyncEvent {
                element,
                event_type,
            };
            context.events.push_back(Told { event, about });
            context.bell.ring();
        }
    }

    /// Tells all who have opened a device that its port has gone down.
    pub fn tell_of_port(&mut self, device: usize, port: u8) {
        let open = self
            .contexts
            .values()
            .filter(|context| context.device == device);
        let open: Vec<usize> = open.map(|context| context.raw.address()).collect();
        for context in open {
            let port_num = port.into();
            self.tell(context, EVENT_PORT_ERR, Element { port_num }, None);
        }
    }

    /// Takes back the events about what goes.
    pub fn forget_events(&mut self, about: usize) {
        for context in self.contexts.values_mut() {
            let before = context.events.len();
            context.events.retain(|told| told.about != Some(about));
            (context.events.len()..before).for_each(|_| context.bell.unring());
        }
    }
}
