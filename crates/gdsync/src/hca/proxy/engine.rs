//! The proxy's thread: each queue pair's doorbells, receives and completions, again and again.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use verbs::Event;

use super::pair::Pair;
use super::region::MemoryRegions;
use super::{Shared, State, completions, receives, sends};
use crate::hca::inbox::{Inbox, Pace};

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
            bell: Inbox::default(),
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
                state.give_up();
            }
        }
        drop(state);
        pace.rest(worked, &shared.bell);
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
