//! Streams: work is done by whoever puts it in, at once, while nothing before it waits. What waits, for another GPU or for an
//! event, gets a thread, and what comes after it queues up there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::answer::{
    INVALID_HANDLE, INVALID_VALUE, NOT_READY, Return, answer_here, break_contexts, held, put, whole,
};
use crate::event;

/// A place in a stream: when everything before it was done.
#[derive(Default)]
pub struct Mark {
    passed: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Mark {
    /// When it was passed, if it was.
    pub fn passed(&self) -> Option<Instant> {
        *held(&self.passed)
    }

    pub fn wait(&self) {
        let mut passed = held(&self.passed);
        while passed.is_none() {
            passed = self
                .changed
                .wait(passed)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pass(&self) {
        *held(&self.passed) = Some(Instant::now());
        self.changed.notify_all();
    }
}

/// What a kernel or a copy does; an error breaks the context.
pub type Body = Box<dyn FnOnce() -> Result<(), Return> + Send>;

pub enum Work {
    Now(Body),
    /// Perhaps not before somebody else has done something.
    Waiting(Body),
    Mark(Arc<Mark>),
    Await(Arc<Mark>),
}

impl Work {
    fn waits(&self) -> bool {
        match self {
            Self::Now(_) | Self::Mark(_) => false,
            Self::Waiting(_) => true,
            Self::Await(mark) => mark.passed().is_none(),
        }
    }

    /// In a broken context nothing is done any more, and every place is passed.
    fn run(self, gpu: usize) {
        let is_whole = whole(gpu).is_ok();
        match self {
            Self::Now(body) | Self::Waiting(body) if is_whole => {
                if let Err(code) = body() {
                    break_contexts(Some(gpu), code);
                }
            }
            Self::Await(mark) if is_whole => mark.wait(),
            Self::Mark(mark) => mark.pass(),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Queue {
    /// Somebody does this stream's work.
    busy: bool,
    works: VecDeque<Work>,
}

/// A stream of one GPU's context.
pub struct Stream {
    pub gpu: usize,
    queue: Mutex<Queue>,
    idle: Condvar,
}

impl Stream {
    fn new(gpu: usize) -> Arc<Self> {
        let (queue, idle) = Default::default();
        Arc::new(Self { gpu, queue, idle })
    }

    pub fn put(self: &Arc<Self>, work: Work) {
        {
            let mut queue = held(&self.queue);
            if queue.busy {
                queue.works.push_back(work);
                return;
            }
            queue.busy = true;
        }
        if work.waits() {
            self.go_on_with(work);
            return;
        }
        work.run(self.gpu);
        // Another thread may have put something in meanwhile.
        if let Some(next) = self.next() {
            self.go_on_with(next);
        }
    }

    /// Does this work, and all that comes after it, in a thread.
    fn go_on_with(self: &Arc<Self>, work: Work) {
        let stream = Arc::clone(self);
        std::thread::spawn(move || {
            let mut work = Some(work);
            while let Some(now) = work {
                now.run(stream.gpu);
                work = stream.next();
            }
        });
    }

    /// The next work; without one the stream is idle.
    fn next(&self) -> Option<Work> {
        let mut queue = held(&self.queue);
        let next = queue.works.pop_front();
        if next.is_none() {
            queue.busy = false;
            self.idle.notify_all();
        }
        next
    }

    fn is_idle(&self) -> bool {
        !held(&self.queue).busy
    }

    /// Waits until all that was put in is done.
    pub fn finish(&self) {
        let mut queue = held(&self.queue);
        while queue.busy {
            queue = self
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

static STREAMS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());
/// The streams that each context has anyway, by GPU.
static DEFAULTS: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());

/// A handle that no stream, event, module or function has.
pub fn fresh_handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1_0000);
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

/// The stream of a handle. Null, `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD` are one stream of the current context here.
pub fn stream_of(handle: usize, gpu: usize) -> Result<Arc<Stream>, Return> {
    if handle <= 2 {
        let mut defaults = held(&DEFAULTS);
        return Ok(Arc::clone(
            defaults.entry(gpu).or_insert_with(|| Stream::new(gpu)),
        ));
    }
    held(&STREAMS).get(&handle).cloned().ok_or(INVALID_HANDLE)
}

/// Waits for all streams of a GPU's context.
pub fn finish_all(gpu: usize) {
    let named: Vec<_> = held(&STREAMS).values().cloned().collect();
    let default = held(&DEFAULTS).get(&gpu).cloned();
    let of_gpu = named
        .into_iter()
        .chain(default)
        .filter(|stream| stream.gpu == gpu);
    of_gpu.for_each(|stream| stream.finish());
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(out: *mut usize, flags: u32) -> Return {
    answer_here("cuStreamCreate", |gpu| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let handle = fresh_handle();
        held(&STREAMS).insert(handle, Stream::new(gpu));
        // SAFETY: this function's own condition.
        unsafe { put(out, handle) }
    })
}

/// cuda.h's function: what is in it is done all the same.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: usize) -> Return {
    answer_here("cuStreamDestroy_v2", |_| {
        held(&STREAMS)
            .remove(&stream)
            .map(drop)
            .ok_or(INVALID_HANDLE)
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
        stream.is_idle().then_some(()).ok_or(NOT_READY)
    })
}

/// cuda.h's function: the event as it was last recorded before this call.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> Return {
    answer_here("cuStreamWaitEvent", |gpu| {
        let stream = stream_of(stream, gpu)?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        if let Some(mark) = event::mark_of(event)? {
            stream.put(Work::Await(mark));
        }
        Ok(())
    })
}
