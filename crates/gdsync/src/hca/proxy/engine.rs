//! The proxy's thread: each queue pair's doorbells, receives and completions, again and again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use verbs::Event;

use super::pair::Pair;
use super::region::MemoryRegions;
use super::{Shared, State, completions, receives, sends};

/// How long it looks again and again, after it had something to do.
const SPIN: Duration = Duration::from_micros(100);
/// How long it sleeps between two looks, at first and after it had nothing to do for [`LONG`].
const NAP: Duration = Duration::from_micros(20);
const LONG_NAP: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_millis(50);
/// How often it looks whether the device has failed.
const CHECK: Duration = Duration::from_millis(50);

/// The thread, and what it works on. Dropped, the thread ends.
#[derive(Debug)]
pub(super) struct Engine {
    pub shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts it under a name; `device` is asked for its events.
    pub(super) fn start(name: &str, device: Option<verbs::Context>) -> Result<Self, crate::Error> {
        let shared = Arc::new(Shared {
            device,
            bell: Bell::default(),
            state: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(&served))
            .map_err(crate::Error::Thread)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.bell.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// Serves until the bell is closed.
fn serve(shared: &Shared) {
    let _end = End(shared);
    let (mut active, mut checked) = (Instant::now(), Instant::now());
    while !shared.bell.is_closed() {
        let mut state = shared.lock();
        let mut worked = false;
        let State { pairs, regions, .. } = &mut *state;
        for pair in pairs.values_mut() {
            worked |= step(pair, regions);
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            if has_failed(shared) {
                state.give_up();
            }
        }
        drop(state);
        let idle = active.elapsed();
        if worked {
            active = Instant::now();
        } else if idle < SPIN {
            std::thread::yield_now();
        } else {
            shared.bell.sleep(if idle < LONG { NAP } else { LONG_NAP });
        }
    }
}

/// One step of a queue pair; whether there was anything to do.
pub(super) fn step(pair: &mut Pair, regions: &MemoryRegions) -> bool {
    let mut worked = sends::listen(pair);
    if pair.failed {
        return completions::flush(pair) | worked;
    }
    worked |= completions::take(pair);
    worked |= receives::post(pair, regions);
    worked |= sends::post(pair, regions);
    pair.retire();
    if pair.broken {
        completions::fail(pair);
        worked = true;
    }
    worked
}

/// Whether the device has told that it failed.
fn has_failed(shared: &Shared) -> bool {
    let Some(context) = &shared.device else {
        return false;
    };
    // Events come one by one; a device that cannot be asked tells it at the next request.
    while let Ok(Some(event)) = context.event(Duration::ZERO) {
        if event == Event::Device {
            return true;
        }
    }
    false
}

/// However the thread ends: no stream waits for what will not come.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.bell.close();
        self.0.lock().give_up();
    }
}

/// What wakes the thread.
#[derive(Debug, Default)]
pub(super) struct Bell {
    inner: Mutex<Inner>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    awake: bool,
    closed: bool,
}

impl Bell {
    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Sleeps until somebody wakes it, at most so long.
    fn sleep(&self, most: Duration) {
        let idle = |inner: &mut Inner| !inner.awake && !inner.closed;
        let slept = self.rung.wait_timeout_while(self.lock(), most, idle);
        let (mut inner, _) = slept.unwrap_or_else(PoisonError::into_inner);
        inner.awake = false;
    }

    pub(super) fn wake(&self) {
        self.lock().awake = true;
        self.rung.notify_all();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.rung.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
