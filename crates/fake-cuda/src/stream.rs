//! Streams: each is a queue of `gpu::sim::execution` with a thread that runs its work. A broken context
//! skips work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gpu::sim::execution::{Item, Queue};

use crate::answer::{
    INVALID_HANDLE, INVALID_VALUE, NOT_READY, Return, answer_here, break_contexts, held, put, whole,
};
use crate::event;

/// Stream of a GPU's context.
pub struct Stream {
    pub gpu: usize,
    queue: Queue,
}

impl Stream {
    fn new(gpu: usize) -> Arc<Self> {
        // A destroyed stream still finishes its work.
        let queue = Queue::new(None, move || whole(gpu).is_err());
        let stream = Arc::new(Self { gpu, queue });
        let served = Arc::clone(&stream);
        std::thread::spawn(move || served.queue.serve());
        stream
    }

    /// Enqueues work; the queue never abandons it.
    pub fn put(&self, item: Item) {
        let _ = self.queue.push(item);
    }

    /// Enqueues a fault that breaks the context when the stream reaches it.
    pub fn put_fault(&self, code: Return) {
        let gpu = self.gpu;
        self.put(Item::Call(Box::new(move || break_contexts(Some(gpu), code))));
    }

    /// Waits until all enqueued work is done.
    pub fn finish(&self) {
        let _ = self.queue.synchronize();
    }
}

static STREAMS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());
/// Default streams of the contexts, by GPU.
static DEFAULTS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// New handle, unique among streams, events, modules and functions.
pub fn fresh_handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1_0000);
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

/// Stream of a handle. Null, `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD` are the default stream
/// of the current context.
pub fn stream_of(handle: usize, gpu: usize) -> Result<Arc<Stream>, Return> {
    if handle <= 2 {
        let mut defaults = held(&DEFAULTS);
        return Ok(Arc::clone(defaults.entry(gpu).or_insert_with(|| Stream::new(gpu))));
    }
    held(&STREAMS).get(&handle).cloned().ok_or(INVALID_HANDLE)
}

/// Waits for all streams of a GPU's context.
pub fn finish_all(gpu: usize) {
    let named: Vec<_> = held(&STREAMS).values().cloned().collect();
    let default = held(&DEFAULTS).get(&gpu).cloned();
    let of_gpu = named.into_iter().chain(default).filter(|stream| stream.gpu == gpu);
    of_gpu.for_each(|stream| stream.finish());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(out: *mut usize, flags: u32) -> Return {
    answer_here("cuStreamCreate", |gpu| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = fresh_handle();
        held(&STREAMS).insert(handle, Stream::new(gpu));
        // SAFETY: cuda.h's contract.
        unsafe { put(out, handle) }
    })
}

/// Its work still finishes.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: usize) -> Return {
    answer_here("cuStreamDestroy_v2", |_| {
        let stream = held(&STREAMS).remove(&stream).ok_or(INVALID_HANDLE)?;
        stream.queue.close();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: usize) -> Return {
    answer_here("cuStreamSynchronize", |gpu| {
        let stream = stream_of(stream, gpu)?;
        stream.finish();
        whole(stream.gpu)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: usize) -> Return {
    answer_here("cuStreamQuery", |gpu| {
        let stream = stream_of(stream, gpu)?;
        whole(stream.gpu)?;
        stream.queue.is_idle().unwrap_or(true).then_some(()).ok_or(NOT_READY)
    })
}

/// Waits for the latest record before this call.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> Return {
    answer_here("cuStreamWaitEvent", |gpu| {
        let stream = stream_of(stream, gpu)?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        if let Some(record) = event::record_of(event)? {
            stream.put(Item::Await(record));
        }
        Ok(())
    })
}
