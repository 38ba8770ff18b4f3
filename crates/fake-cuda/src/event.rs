//! Events: points in streams, with the time at which they were reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use gpu::sim::execution::{Item, Record, RecordState};

use crate::answer::{
    INVALID_HANDLE, INVALID_VALUE, NOT_READY, Return, answer_here, held, put, whole,
};
use crate::stream::{fresh_handle, stream_of};

#[derive(Clone)]
struct Event {
    gpu: usize,
    is_timed: bool,
    /// The latest record.
    record: Option<Arc<Record>>,
}

static EVENTS: Mutex<BTreeMap<usize, Event>> = Mutex::new(BTreeMap::new());

fn event_of(handle: usize) -> Result<Event, Return> {
    held(&EVENTS).get(&handle).cloned().ok_or(INVALID_HANDLE)
}

/// Latest record of an event, if any.
pub fn record_of(handle: usize) -> Result<Option<Arc<Record>>, Return> {
    event_of(handle).map(|event| event.record)
}

/// Milliseconds between two events.
pub fn elapsed(from: usize, to: usize) -> Result<f32, Return> {
    let (from, to) = (event_of(from)?, event_of(to)?);
    if !(from.is_timed && to.is_timed) || from.gpu != to.gpu {
        return Err(INVALID_HANDLE);
    }
    let passed = |event: &Event| match event.record.as_ref().ok_or(INVALID_HANDLE)?.state() {
        RecordState::Done(at) => Ok(at),
        _ => Err(NOT_READY),
    };
    let (from, to) = (passed(&from)?, passed(&to)?);
    let seconds = match to.checked_duration_since(from) {
        Some(after) => after.as_secs_f64(),
        None => -from.duration_since(to).as_secs_f64(),
    };
    Ok((seconds * 1e3) as f32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(out: *mut usize, flags: u32) -> Return {
    answer_here("cuEventCreate", |gpu| {
        // CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING.
        if flags > 3 {
            return Err(INVALID_VALUE);
        }
        let handle = fresh_handle();
        let event = Event { gpu, is_timed: flags & 2 == 0, record: None };
        held(&EVENTS).insert(handle, event);
        // SAFETY: cuda.h's contract.
        unsafe { put(out, handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: usize) -> Return {
    answer_here("cuEventDestroy_v2", |_| {
        held(&EVENTS).remove(&event).map(drop).ok_or(INVALID_HANDLE)
    })
}

/// Event and stream belong to one context.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: usize, stream: usize) -> Return {
    answer_here("cuEventRecord", |gpu| {
        let stream = stream_of(stream, gpu)?;
        let record = Arc::new(Record::default());
        {
            let mut events = held(&EVENTS);
            let event = events.get_mut(&event).filter(|event| event.gpu == stream.gpu);
            event.ok_or(INVALID_HANDLE)?.record = Some(Arc::clone(&record));
        }
        stream.put(Item::Signal(record));
        Ok(())
    })
}

/// An event that was never recorded is done.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: usize) -> Return {
    answer_here("cuEventQuery", |_| {
        let event = event_of(event)?;
        whole(event.gpu)?;
        let is_done =
            event.record.is_none_or(|record| matches!(record.state(), RecordState::Done(_)));
        is_done.then_some(()).ok_or(NOT_READY)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: usize) -> Return {
    answer_here("cuEventSynchronize", |_| {
        let event = event_of(event)?;
        if let Some(record) = event.record {
            record.wait();
        }
        whole(event.gpu)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(out: *mut f32, from: usize, to: usize) -> Return {
    answer_here("cuEventElapsedTime", |_| {
        let elapsed = elapsed(from, to)?;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, elapsed) }
    })
}
