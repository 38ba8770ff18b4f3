//! The proxy's thread: polls doorbells, receives and completions of every queue pair.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use verbs::Event;

use super::pair::ProxyQueuePair;
use super::region::MemoryRegions;
use super::{Shared, State, completions, receives, sends};
use crate::hca::inbox::{Inbox, Pace};

/// Interval between checks for a failed device or queue pair.
const CHECK: Duration = Duration::from_millis(50);

/// The thread and its state. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Engine {
    pub shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the thread. It reads the events of `device`.
    pub(super) fn start(name: &str, device: Option<verbs::Context>) -> Result<Self, crate::Error> {
        let shared = Arc::new(Shared { device, bell: Inbox::default(), state: Mutex::default() });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(&served))
            .map_err(crate::Error::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.bell.close();
        if let Some(thread) = self.thread.take() {
            // Ignored: a panicked thread needs no further handling.
            let _ = thread.join();
        }
    }
}

/// Serves until the bell is closed.
fn serve(shared: &Shared) {
    let _end = End(shared);
    let (mut pace, mut checked) = (Pace::new(), Instant::now());
    while shared.bell.take().is_some() {
        let mut state = shared.lock();
        let mut worked = false;
        let State { pairs, regions, .. } = &mut *state;
        for pair in pairs.values_mut() {
            worked |= step(pair, regions);
        }
        if checked.elapsed() >= CHECK {
            checked = Instant::now();
            if has_failed(shared) {
                state.fail_all();
            }
            state.pairs.values_mut().for_each(receives::check);
        }
        drop(state);
        pace.rest(worked, &shared.bell);
    }
}

/// One step of a queue pair. True if there was work.
pub(super) fn step(pair: &mut ProxyQueuePair, regions: &MemoryRegions) -> bool {
    let mut worked = sends::poll_doorbell(pair);
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

/// True if the device has reported a fatal error.
fn has_failed(shared: &Shared) -> bool {
    let Some(context) = &shared.device else {
        return false;
    };
    // If reading events fails, the next work request fails too.
    while let Ok(Some(event)) = context.event(Duration::ZERO) {
        if event == Event::Device {
            return true;
        }
    }
    false
}

/// Fails all queue pairs when the thread ends, even by a panic, so that no stream keeps waiting.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.bell.close();
        self.0.lock().fail_all();
    }
}
