//! Events: places in streams, with the time when they were passed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::answer::{
    INVALID_HANDLE, INVALID_VALUE, NOT_READY, Return, answer_here, held, put, whole,
};
use crate::stream::{Mark, Work, fresh_handle, stream_of};

#[derive(Clone)]
struct Event {
    gpu: usize,
    is_timed: bool,
    /// Where it was last recorded.
    mark: Option<Arc<Mark>>,
}

static EVENTS: Mutex<BTreeMap<usize, Event>> = Mutex::new(BTreeMap::new());

fn event_of(handle: usize) -> Result<Event, Return> {
    held(&EVENTS).get(&handle).cloned().ok_or(INVALID_HANDLE)
}

/// Where an event was last recorded, if it was.
pub fn mark_of(handle: usize) -> Result<Option<Arc<Mark>>, Return> {
    event_of(handle).map(|event| event.mark)
}

/// Milliseconds from one event to another.
pub fn elapsed(from: usize, to: usize) -> Result<f32, Return> {
    let (from, to) = (event_of(from)?, event_of(to)?);
    if !(from.is_timed && to.is_timed) || from.gpu != to.gpu {
        return Err(INVALID_HANDLE);
    }
    let passed = |event: &Event| {
        event
            .mark
            .as_ref()
            .ok_or(INVALID_HANDLE)?
            .passed()
            .ok_or(NOT_READY)
    };
    let (from, to) = (passed(&from)?, passed(&to)?);
    let seconds = match to.checked_duration_since(from) {
        Some(after) => after.as_secs_f64(),
        None => -from.duration_since(to).as_secs_f64(),
    };
    Ok((seconds * 1e3) as f32)
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(out: *mut usize, flags: u32) -> Return {
    answer_here("cuEventCreate", |gpu| {
        // CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING.
        if flags > 3 {
            return Err(INVALID_VALUE);
        }
        let handle = fresh_handle();
        let event = Event {
            gpu,
            is_timed: flags & 2 == 0,
            mark: None,
        };
        held(&EVENTS).insert(handle, event);
        // SAFETY: this function's own condition.
        unsafe { put(out, handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: usize) -> Return {
    answer_here("cuEventDestroy_v2", |_| {
        held(&EVENTS).remove(&event).map(drop).ok_or(INVALID_HANDLE)
    })
}

/// cuda.h's function: event and stream are of one context.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: usize, stream: usize) -> Return {
    answer_here("cuEventRecord", |gpu| {
        let stream = stream_of(stream, gpu)?;
        let mark = Arc::new(Mark::default());
        {
            let mut events = held(&EVENTS);
            let event = events
                .get_mut(&event)
                .filter(|event| event.gpu == stream.gpu);
            event.ok_or(INVALID_HANDLE)?.mark = Some(Arc::clone(&mark));
        }
        stream.put(Work::Mark(mark));
        Ok(())
    })
}

/// cuda.h's function: one that was never recorded is done.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: usize) -> Return {
    answer_here("cuEventQuery", |_| {
        let event = event_of(event)?;
        whole(event.gpu)?;
        let is_done = event.mark.is_none_or(|mark| mark.passed().is_some());
        is_done.then_some(()).ok_or(NOT_READY)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: usize) -> Return {
    answer_here("cuEventSynchronize", |_| {
        let event = event_of(event)?;
        if let Some(mark) = event.mark {
            mark.wait();
        }
        whole(event.gpu)
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(out: *mut f32, from: usize, to: usize) -> Return {
    answer_here("cuEventElapsedTime", |_| {
        let elapsed = elapsed(from, to)?;
        // SAFETY: this function's own condition.
        unsafe { put(out, elapsed) }
    })
}
