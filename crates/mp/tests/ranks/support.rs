//! Runs a function on every rank, each in a thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use gdrcopy::{BackendKind, Gdr};
use gdsync::hca::sim::SimHca;
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Gpu, Stream};
use mp::bootstrap::{Bootstrap, Local};
use mp::{Communicator, Options, Region};

pub const LONG: Duration = Duration::from_secs(60);

/// A rank with its software HCA.
pub struct Rank {
    pub ranks: Communicator,
    pub hca: Arc<SimHca>,
    all: Arc<Meeting>,
}

/// Where the ranks wait for each other. One that panicked fails those that wait for it, which would hide its message for ever.
#[derive(Default)]
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

#[derive(Default)]
struct MeetingState {
    arrivals: usize,
    has_failed: bool,
}

/// Tells the meeting if the thread of its rank panics.
struct Attendance(Arc<Meeting>);

impl Drop for Attendance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let state = self.0.state.lock();
            state.unwrap_or_else(PoisonError::into_inner).has_failed = true;
            self.0.changed.notify_all();
        }
    }
}

/// An allocator of a simulated GPU with mapped memory.
pub fn allocator() -> Allocator {
    Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok())
}

/// Software HCAs of `size` ranks, linked to each other.
pub fn hcas(size: u32) -> Vec<Arc<SimHca>> {
    let hca = |rank| Arc::new(SimHca::with_lid(allocator(), rank as u16 + 1).unwrap());
    let hcas: Vec<Arc<SimHca>> = (0..size).map(hca).collect();
    for (position, one) in hcas.iter().enumerate() {
        hcas[..position].iter().for_each(|other| one.join(other));
    }
    hcas
}

/// Runs `work` on connected ranks.
pub fn on_ranks<T: Send>(size: u32, options: Options, work: impl Fn(Rank) -> T + Sync) -> Vec<T> {
    on_hcas(hcas(size), allocator, options, work)
}

/// [`on_ranks`] with HCAs that are linked already, and the allocator of each rank.
pub fn on_hcas<T: Send>(
    hcas: Vec<Arc<SimHca>>,
    allocator: fn() -> Allocator,
    options: Options,
    work: impl Fn(Rank) -> T + Sync,
) -> Vec<T> {
    let locals = Local::ranks(hcas.len() as u32);
    let all = Arc::<Meeting>::default();
    std::thread::scope(|scope| {
        let start = |(local, hca): (Local, Arc<SimHca>)| {
            let (options, all, work) = (options.clone(), Arc::clone(&all), &work);
            scope.spawn(move || {
                let _attendance = Attendance(Arc::clone(&all));
                let bootstrap: Box<dyn Bootstrap> = Box::new(local);
                let ranks =
                    Communicator::connect(bootstrap, hca.clone(), allocator(), options).unwrap();
                work(Rank { ranks, hca, all })
            })
        };
        let threads: Vec<_> = locals.into_iter().zip(hcas).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

impl Rank {
    /// Waits for the other ranks, however long they take.
    pub fn meet(&self) {
        let size = self.ranks.size() as usize;
        let mut state = self.all.state.lock().unwrap();
        state.arrivals += 1;
        let last = state.arrivals.next_multiple_of(size);
        self.all.changed.notify_all();
        let is_early = |state: &mut MeetingState| state.arrivals < last && !state.has_failed;
        let state = self.all.changed.wait_while(state, is_early).unwrap();
        assert!(state.arrivals >= last, "another rank failed");
    }

    /// Registered host memory.
    pub fn memory(&self, bytes: usize) -> (MappedMemory, Region) {
        self.memory_at(MemoryLocation::Host, bytes)
    }

    pub fn memory_at(&self, location: MemoryLocation, bytes: usize) -> (MappedMemory, Region) {
        let place = self.ranks.allocator().place(location, bytes).unwrap();
        let region = self.ranks.register(&place).unwrap();
        (place, region)
    }

    pub fn stream(&self) -> Stream {
        self.ranks.allocator().gpu().stream().unwrap()
    }

    /// Ends together with the others, without open requests and errors of software.
    pub fn end(self) {
        assert_eq!(self.hca.violations(), []);
        self.meet();
        assert_eq!(self.ranks.finalize().unwrap(), 0);
    }
}

pub fn read(place: &MappedMemory, offset: usize, bytes: usize) -> Vec<u8> {
    let mut seen = vec![0; bytes];
    place.read(offset, &mut seen).unwrap();
    seen
}

/// Bytes that depend on position and seed.
pub fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8 ^ seed).collect()
}
