//! A thread that watches the waits of streams and rings deferred doorbells.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Error;
use crate::peer::Peer;
use crate::words::Words;

/// Interval while a doorbell is deferred.
const SOON: Duration = Duration::from_micros(200);
/// Bounds of the interval otherwise: an eighth of the timeout.
const MIN: Duration = Duration::from_millis(1);
const MAX: Duration = Duration::from_millis(100);

/// Wakes the monitor.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    is_rung: bool,
    is_closed: bool,
}

impl Bell {
    /// A doorbell is deferred.
    pub fn ring(&self) {
        self.lock().is_rung = true;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits; `None` once closed, else true if it was rung.
    fn wait(&self, timeout: Duration) -> Option<bool> {
        let quiet = |state: &mut BellState| !state.is_rung && !state.is_closed;
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, quiet);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_rung = std::mem::take(&mut state.is_rung);
        (!state.is_closed).then_some(is_rung)
    }

    fn lock(&self) -> MutexGuard<'_, BellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Monitor {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Receives what no request reports, in words.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

impl Monitor {
    pub fn start(
        peers: Vec<Arc<Peer>>,
        words: Arc<Words>,
        bell: Arc<Bell>,
        timeout: Duration,
        report: Report,
    ) -> Result<Self, Error> {
        let interval = (timeout / 8).clamp(MIN, MAX);
        let heard = Arc::clone(&bell);
        let serve = move || {
            let mut next = interval;
            while let Some(is_rung) = heard.wait(next) {
                let now = Instant::now();
                let found = peers.iter().filter_map(|peer| peer.watch(now));
                for words in found.chain(words.watch(now)) {
                    report(&words);
                }
                let is_deferred = peers.iter().any(|peer| peer.is_deferred());
                next = if is_rung || is_deferred { SOON } else { interval };
            }
        };
        let thread = std::thread::Builder::new().name("mp monitor".to_owned());
        Ok(Self { bell, thread: Some(thread.spawn(serve).map_err(Error::Thread)?) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.bell.close();
        if let Some(thread) = self.thread.take() {
            // Ignored: a panicked thread needs no further handling.
            let _ = thread.join();
        }
    }
}
