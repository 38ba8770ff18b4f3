//! What has been learnt and proven about this driver, once a process and GPU, on memory of our own.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gpu::DevicePtr;
use gpu::pointer::ScratchKind;

use super::device::Device;
use super::owner::{Bench, Own, Owner};
use super::route::{self, Located};
use super::verify::{self, Span};
use super::view::{self, Piece};
use super::walk::{self, Path, Trace};
use crate::copy::{self, fence};
use crate::error::Kind;
use crate::pages::GPU_PAGE;
use crate::{Error, random};

#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// The way through CUDA's IPC handles, and CUDA's client and one of its objects.
    ipc: Lesson<Client>,
    /// The way through exported files, and the file of the trial. While any exported file is open
    /// in the machine, RM exports the next in tens of microseconds; the first takes over a
    /// millisecond (580.159.04, H200).
    export: Lesson<Arc<OwnedFd>>,
    /// The way through exported pools.
    pool: Lesson<()>,
    /// The way through CUDA's structures.
    walk: Lesson<Walk>,
    /// Whether stores to a mapping are gathered.
    gathers: OnceLock<bool>,
}

/// CUDA's client, and a memory object of it, which shows how its numbers look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) handle: u32,
    memory: u32,
}

/// Proven paths, which all lead to the same object.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    pub(crate) paths: Arc<[Path]>,
    pub(crate) client: u32,
}

/// Something learnt at most once. What failed for want of memory or files may be tried again; a
/// verdict stays.
#[derive(Debug)]
struct Lesson<T> {
    verdict: OnceLock<Result<T, String>>,
    learning: Mutex<()>,
    /// Failures that were none of the driver's nature. Each trial leaves memory of its own behind,
    /// so there are not many.
    failures: AtomicU32,
}

/// Trials that may fail for want of something before that is the verdict.
const TRIALS: u32 = 3;

impl<T> Default for Lesson<T> {
    fn default() -> Self {
        Self {
            verdict: OnceLock::new(),
            learning: Mutex::new(()),
            failures: AtomicU32::new(0),
        }
    }
}

impl<T: Clone> Lesson<T> {
    fn learn(&self, near: DevicePtr, teach: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if self.verdict.get().is_none() {
            let _one = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
            if self.verdict.get().is_none() {
                let verdict = match teach() {
                    Ok(lesson) => Ok(lesson),
                    Err(error)
                        if is_final(&error)
                            || self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= TRIALS =>
                    {
                        Err(error.to_string())
                    }
                    Err(error) => return Err(error),
                };
                // Nobody else can have set it: the lock is ours.
                let _ = self.verdict.set(verdict);
            }
        }
        match self.verdict.get() {
            Some(Ok(lesson)) => Ok(lesson.clone()),
            Some(Err(why)) => Err(Error::Memory {
                address: near,
                why: format!("the driver did not pass the trial on memory of our own: {why}"),
            }),
            None => Err(Error::Memory {
                address: near,
                why: "the trial on memory of our own came to no end".to_owned(),
            }),
        }
    }
}

/// RM's refusals and wrong contents are the driver's nature; what CUDA or the system lacked may be
/// there the next time.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Verification { .. } | Error::Memory { .. } => true,
        Error::Rm { .. } => matches!(
            error.kind(),
            Kind::Unsupported | Kind::Denied | Kind::Invalid
        ),
        _ => false,
    }
}

/// One who can be asked: the GPU, its CUDA, and a stream there.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) device: &'a Arc<Device>,
    pub(crate) owner: &'a dyn Owner,
    pub(crate) bench: &'a dyn Bench,
    /// The user's address that made it necessary, to name in errors.
    pub(crate) near: DevicePtr,
}

/// Bytes of the small allocations, which share a block, and of the large one, which has its own
/// object.
const SMALL: usize = 4096;
const LARGE: usize = 4 << 20;
/// The driver's granularity of `cuMemCreate`.
const CREATED: usize = 2 << 20;
/// Known bytes of samples whose object holds nothing else.
const KNOWN: usize = SMALL;
/// More than one memory object of a pool.
const POOLED: usize = 33 << 20;
/// Sets of numbers tried at most: each costs a few references and mappings.
const TRACES: usize = 8;
/// Blocks of the allocations that sort accidents out: neighbours differ in size.
const WITNESSES: [usize; 12] = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3];
/// How many blocks of the granularity each sample of `cuMemCreate` has.
const SAMPLES: [usize; 5] = [1, 2, 1, 1, 1];

impl Trust {
    /// The way through IPC handles, proven by two suballocations and an allocation of more than a
    /// block.
    pub(crate) fn ipc(&self, trial: Trial<'_>) -> Result<Client, Error> {
        self.ipc.learn(trial.near, || {
            let mut client = None;
            let mut displaced = false;
            // The first suballocation may open a block and lie at its start; a second one cannot.
            for bytes in [SMALL, SMALL, LARGE] {
                let sample = Sample::make(trial, ScratchKind::Malloc, bytes, bytes)?;
                let address = sample.own.address;
                let (located, place) = route::by_ipc(trial, address, bytes as u64)?;
                displaced |= place.offset != 0;
                self.prove(trial, &sample, &located)?;
                client = Some(Client {
                    handle: place.client,
                    memory: place.memory,
                });
            }
            let client = client.filter(|_| displaced);
            client.ok_or_else(|| {
                refused(
                    trial.near,
                    "no small allocation of CUDA's lies within a larger object",
                )
            })
        })
    }

    /// The way through exported files, proven by one allocation.
    pub(crate) fn export(&self, trial: Trial<'_>) -> Result<(), Error> {
        let lesson = self.export.learn(trial.near, || {
            let sample = Sample::make(
                trial,
                ScratchKind::Create { exportable: true },
                CREATED,
                KNOWN,
            )?;
            let own = sample.own;
            let (located, file) = route::by_export(trial, own.address, own.bytes as u64)?;
            self.prove(trial, &sample, &located)?;
            Ok(Arc::new(file))
        });
        lesson.map(drop)
    }

    /// The way through exported pools, proven by two allocations, of which the second begins in the
    /// pool's second object.
    pub(crate) fn pool(&self, trial: Trial<'_>) -> Result<(), Error> {
        self.pool.learn(trial.near, || {
            let made = trial
                .bench
                .scratch_pool(&[POOLED, SMALL])
                .map_err(unavailable)?;
            for own in made {
                let sample = Sample::fill(trial, own, KNOWN)?;
                let located = route::by_pool(trial, own.address, own.bytes as u64)?;
                self.prove(trial, &sample, &located)?;
            }
            Ok(())
        })
    }

    /// The way through CUDA's structures: every short path that leads from each of several handles
    /// to its own object.
    pub(crate) fn walk(&self, trial: Trial<'_>) -> Result<Walk, Error> {
        let client = self.ipc(trial)?;
        self.walk.learn(trial.near, || {
            let samples = scattered(trial)?;
            let handles = samples
                .iter()
                .map(|sample| route::retain(trial, sample.own.address));
            let handles = handles.collect::<Result<Vec<_>, _>>()?;
            let roots: Vec<u64> = handles.iter().map(|handle| handle.address()).collect();
            // CUDA numbers its objects one after another from a base of its own.
            let plausible = |number: u32| number >> 20 == client.memory >> 20;
            for depth in walk::DEPTHS {
                for Trace { numbers, paths } in walk::search(&roots, depth, &plausible)
                    .into_iter()
                    .take(TRACES)
                {
                    let proven = samples
                        .iter()
                        .zip(&numbers)
                        .try_for_each(|(sample, &number)| {
                            let place = (client.handle, number);
                            let located = route::by_number(
                                trial,
                                place,
                                sample.own.address,
                                sample.own.bytes as u64,
                            )?;
                            self.prove(trial, sample, &located)
                        });
                    match proven {
                        Ok(()) => {}
                        Err(error) if route::is_of_the_number(&error) => continue,
                        Err(error) => return Err(error),
                    }
                    let paths = witnessed(trial, client.handle, numbers, paths)?;
                    if !paths.is_empty() {
                        return Ok(Walk {
                            paths: paths.into(),
                            client: client.handle,
                        });
                    }
                }
            }
            Err(refused(
                trial.near,
                "no path through CUDA's structures leads to the memory object",
            ))
        })
    }

    /// Whether stores to a mapping are gathered into bursts, as measured on memory of our own; true
    /// where nothing was measured.
    pub(crate) fn gathers(&self) -> bool {
        self.gathers.get().copied().unwrap_or(true)
    }

    /// Compares what is known of the sample with its mapping, writes through the mapping, and reads
    /// that back through the GPU.
    fn prove(&self, trial: Trial<'_>, sample: &Sample, located: &Located) -> Result<(), Error> {
        let address = sample.own.address;
        let lead = address.get() % GPU_PAGE;
        let length = (lead + sample.bytes.len() as u64).next_multiple_of(GPU_PAGE);
        let pieces: Vec<Piece> = located
            .pieces(address.get() - lead, length)
            .ok_or_else(|| refused(address, "the object is smaller than the allocation in it"))?;
        let shown = view::show(trial.device, &pieces)?;
        for (at, chunk) in sample.bytes.chunks(CHUNK).enumerate() {
            let span = Span {
                address: address.offset((at * CHUNK) as u64),
                at: lead as usize + at * CHUNK,
                length: chunk.len() as u64,
            };
            verify::check_known(shown.vma.base(), span, chunk)?;
        }
        let start = lead as usize + sample.bytes.len() - SMALL;
        // SAFETY: the last page of the sample lies within the mapping, which lives to the end of
        // this function.
        let last = unsafe { shown.vma.base().add(start) };
        let span = Span {
            address: address.offset((sample.bytes.len() - SMALL) as u64),
            at: start,
            length: SMALL as u64,
        };
        self.time_stores(last);
        if sample.bytes.len() >= LARGE && self.gathers() {
            // SAFETY: the first bytes of the sample's mapping, which is ours alone and whose
            // contents have been compared.
            unsafe {
                copy::tune(
                    shown.vma.base().as_ptr().add(lead as usize),
                    copy::TUNE_BYTES,
                )
            };
        }
        verify::check(trial.bench, shown.vma.base(), &[span], &[])
    }

    /// Fills a page of the sample several times over, timed. A page of gathered stores takes well
    /// under a microsecond, of single ones tens (64 bytes a transaction against 8, and each of
    /// those waited for).
    fn time_stores(&self, page: NonNull<u8>) {
        let words = page.cast::<u64>();
        let fill = |value: u64| {
            let begun = Instant::now();
            for index in 0..SMALL / 8 {
                // SAFETY: the caller gives a page of our own device memory, aligned as pages of it
                // are.
                unsafe { words.add(index).write_volatile(value ^ index as u64) };
            }
            fence::writes();
            begun.elapsed()
        };
        let fastest = (0..FILLS)
            .map(|_| fill(random::word()))
            .min()
            .unwrap_or_default();
        let _ = self.gathers.set(fastest < GATHERED);
    }
}

/// Bytes of a sample between the places that are compared.
const CHUNK: usize = 64 << 10;
/// A page of stores that takes longer was not gathered.
const GATHERED: Duration = Duration::from_micros(25);
/// Pages filled, of which the fastest counts: the others were disturbed.
const FILLS: usize = 8;

/// Those paths that also lead from each of many further allocations to an object of its very size,
/// another each time. Paths that held for the few samples by accident, such as those that end in a
/// neighbour on the heap, do not. `seen` are the samples' own.
fn witnessed(
    trial: Trial<'_>,
    client: u32,
    mut seen: Vec<u32>,
    mut paths: Vec<Path>,
) -> Result<Vec<Path>, Error> {
    let mut clutter: Vec<Vec<u8>> = Vec::new();
    let mut held = Vec::new();
    for blocks in WITNESSES {
        clutter.extend(
            (0..random::word() % 24)
                .map(|_| Vec::with_capacity(16 + (random::word() % 1024) as usize)),
        );
        let (handle, bytes) = trial
            .bench
            .unmapped(blocks * CREATED)
            .map_err(unavailable)?;
        let numbers = walk::candidates(&paths, handle.address());
        let mut own = None;
        for number in numbers.into_iter().filter(|number| !seen.contains(number)) {
            match route::by_number(trial, (client, number), trial.near, bytes as u64) {
                Ok(_) => own = own.or(Some(number)),
                Err(error) if route::is_of_the_number(&error) => {}
                Err(error) => return Err(error),
            }
        }
        paths.retain(|path| own.is_some() && path.follow(handle.address()) == own);
        seen.extend(own);
        held.push(handle);
    }
    Ok(paths)
}

/// Samples whose handles have different neighbours: what is only near a handle by the accident of
/// the heap is then near some and not near others.
fn scattered(trial: Trial<'_>) -> Result<Vec<Sample>, Error> {
    let mut clutter: Vec<Vec<u8>> = Vec::new();
    let mut samples = Vec::new();
    for blocks in SAMPLES {
        let count = 16 + random::word() % 48;
        clutter
            .extend((0..count).map(|_| Vec::with_capacity(16 + (random::word() % 2048) as usize)));
        // Holes between them, some of which CUDA's next structures fill.
        let mut index = 0;
        clutter.retain(|_| {
            index += 1;
            index % 3 != 0
        });
        let kind = ScratchKind::Create { exportable: false };
        samples.push(Sample::make(trial, kind, blocks * CREATED, KNOWN)?);
    }
    Ok(samples)
}

/// Memory of our own, and the contents of its beginning.
struct Sample {
    own: Own,
    bytes: Vec<u8>,
}

impl Sample {
    fn make(
        trial: Trial<'_>,
        kind: ScratchKind,
        bytes: usize,
        known: usize,
    ) -> Result<Self, Error> {
        let own = trial.bench.scratch(kind, bytes).map_err(unavailable)?;
        Self::fill(trial, own, known)
    }

    fn fill(trial: Trial<'_>, own: Own, known: usize) -> Result<Self, Error> {
        let bytes = random::bytes(known);
        trial.bench.write(&own, &bytes).map_err(unavailable)?;
        Ok(Self { own, bytes })
    }
}

fn unavailable(source: gpu::Error) -> Error {
    Error::Cuda {
        operation: "allocate memory of our own for the trial of the driver",
        source,
    }
}

fn refused(address: DevicePtr, why: &str) -> Error {
    Error::Memory {
        address,
        why: why.to_owned(),
    }
}
