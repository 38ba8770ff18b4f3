//! Facts about this driver, learnt once per process and GPU with our own memory.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gpu::DevicePtr;
use gpu::pointer::ScratchKind;

use super::device::Device;
use super::fault::memory_error;
use super::owner::{Bench, Own, Owner};
use super::route::{self, Objects};
use super::verify::{self, Span};
use super::view::{self, Extent};
use super::walk::{self, Path, Trace};
use crate::copy::{self, fence};
use crate::error::Kind;
use crate::pages::GPU_PAGE;
use crate::{Error, random};

#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Proof of CUDA's IPC handles, with CUDA's client and one of its objects.
    ipc: Fact<Client>,
    /// Proof of exported files, and the exported file. While any exported file is open on the
    /// machine, RM exports the next in tens of microseconds; the first takes over a millisecond
    /// (580.159.04, H200).
    export: Fact<Arc<OwnedFd>>,
    /// Proof of exported pools.
    pool: Fact<()>,
    /// Proven paths through CUDA's structures.
    walk: Fact<Walk>,
    /// True if stores to a mapping are combined.
    combines: OnceLock<bool>,
}

/// CUDA's client and one of its memory objects, as a sample of its handle numbers.
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

/// Fact learnt at most once. Exhausted memory or files may be retried; a verdict is final.
#[derive(Debug)]
struct Fact<T> {
    verdict: OnceLock<Result<T, String>>,
    learning: Mutex<()>,
    /// Failures not caused by the driver. Each trial leaks its memory, so their number is limited.
    failures: AtomicU32,
}

/// Number of such failures after which the last becomes the verdict.
const TRIALS: u32 = 3;

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self { verdict: OnceLock::new(), learning: Mutex::new(()), failures: AtomicU32::new(0) }
    }
}

impl<T: Clone> Fact<T> {
    fn learn(&self, near: DevicePtr, teach: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if self.verdict.get().is_none() {
            let _one = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
            if self.verdict.get().is_none() {
                let verdict = match teach() {
                    Ok(fact) => Ok(fact),
                    Err(error)
                        if is_final(&error)
                            || self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= TRIALS =>
                    {
                        Err(error.to_string())
                    }
                    Err(error) => return Err(error),
                };
                // Only the lock's holder sets it.
                let _ = self.verdict.set(verdict);
            }
        }
        match self.verdict.get() {
            Some(Ok(fact)) => Ok(fact.clone()),
            Some(Err(why)) => Err(Error::Memory {
                address: near,
                why: format!("the driver failed the trial on our own memory: {why}"),
            }),
            None => Err(Error::Memory {
                address: near,
                why: "the trial on our own memory did not finish".to_owned(),
            }),
        }
    }
}

/// RM errors and wrong contents are permanent; a lack of CUDA or system resources is not.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Verification { .. } | Error::Memory { .. } => true,
        Error::Rm { .. } => {
            matches!(error.kind(), Kind::Unsupported | Kind::Denied | Kind::Invalid)
        }
        _ => false,
    }
}

/// Inputs of a trial: GPU, CUDA, and a stream.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) device: &'a Arc<Device>,
    pub(crate) owner: &'a dyn Owner,
    pub(crate) bench: &'a dyn Bench,
    /// User address that needs the proof, for errors.
    pub(crate) near: DevicePtr,
}

/// Size of the small allocations, which share an object, and of the large one, which has its own.
const SMALL: usize = 4096;
const LARGE: usize = 4 << 20;
/// Driver granularity of `cuMemCreate` in bytes.
const CREATED: usize = 2 << 20;
/// Known bytes of the large one. Random contents take 1.5 ms per MiB.
const TUNED: usize = copy::TUNE_BYTES;
/// Known bytes of samples with an object of their own.
const KNOWN: usize = SMALL;
/// More than one memory object of a pool.
const POOLED: usize = 33 << 20;
/// Maximum sets of numbers to try; each costs a few references and mappings.
const TRACES: usize = 8;
/// Sizes of further allocations, in granules; neighbours differ.
const WITNESSES: [usize; 12] = [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3];
/// Sizes of the `cuMemCreate` samples, in granules.
const SAMPLES: [usize; 5] = [1, 2, 1, 1, 1];

impl Trust {
    /// Proves IPC handles with two suballocations and an allocation larger than a block.
    pub(crate) fn ipc(&self, trial: Trial<'_>) -> Result<Client, Error> {
        self.ipc.learn(trial.near, || {
            let mut client = None;
            let mut displaced = false;
            // The first suballocation may lie at the start of a new block, the second cannot.
            for (bytes, known) in [(SMALL, SMALL), (SMALL, SMALL), (LARGE, TUNED)] {
                let sample = Sample::make(trial, ScratchKind::Malloc, bytes, known)?;
                let address = sample.own.address;
                let (located, place) = route::by_ipc(trial, address, bytes as u64)?;
                displaced |= place.offset != 0;
                self.prove(trial, &sample, &located)?;
                client = Some(Client { handle: place.client, memory: place.memory });
            }
            let client = client.filter(|_| displaced);
            client.ok_or_else(|| {
                memory_error(trial.near, "no small CUDA allocation lies within a larger object")
            })
        })
    }

    /// Proves exported files with one allocation.
    pub(crate) fn export(&self, trial: Trial<'_>) -> Result<(), Error> {
        let fact = self.export.learn(trial.near, || {
            let sample =
                Sample::make(trial, ScratchKind::Create { exportable: true }, CREATED, KNOWN)?;
            let own = sample.own;
            let (located, file) = route::by_export(trial, own.address, own.bytes as u64)?;
            self.prove(trial, &sample, &located)?;
            Ok(Arc::new(file))
        });
        fact.map(drop)
    }

    /// Proves exported pools with two allocations; the second begins in the pool's second object.
    pub(crate) fn pool(&self, trial: Trial<'_>) -> Result<(), Error> {
        self.pool.learn(trial.near, || {
            let made = trial.bench.scratch_pool(&[POOLED, SMALL]).map_err(unavailable)?;
            for own in made {
                let sample = Sample::fill(trial, own, KNOWN)?;
                let located = route::by_pool(trial, own.address, own.bytes as u64)?;
                self.prove(trial, &sample, &located)?;
            }
            Ok(())
        })
    }

    /// Searches every short path through CUDA's structures that leads from each of several handles
    /// to its object.
    pub(crate) fn walk(&self, trial: Trial<'_>) -> Result<Walk, Error> {
        let client = self.ipc(trial)?;
        self.walk.learn(trial.near, || {
            let samples = scattered(trial)?;
            let handles = samples.iter().map(|sample| route::retain(trial, sample.own.address));
            let handles = handles.collect::<Result<Vec<_>, _>>()?;
            let roots: Vec<u64> = handles.iter().map(|handle| handle.address()).collect();
            // CUDA numbers its objects consecutively from its own base.
            let plausible = |number: u32| number >> 20 == client.memory >> 20;
            for depth in walk::DEPTHS {
                for Trace { numbers, paths } in
                    walk::search(&roots, depth, &plausible).into_iter().take(TRACES)
                {
                    let proven = samples.iter().zip(&numbers).try_for_each(|(sample, &number)| {
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
                        return Ok(Walk { paths: paths.into(), client: client.handle });
                    }
                }
            }
            Err(memory_error(
                trial.near,
                "no path through CUDA's structures leads to the memory object",
            ))
        })
    }

    /// True if stores to a mapping are combined, as measured on our own memory; true if not
    /// measured.
    pub(crate) fn combines(&self) -> bool {
        self.combines.get().copied().unwrap_or(true)
    }

    /// Compares the sample's known contents with its mapping, writes through the mapping, and reads
    /// that back through the GPU.
    fn prove(&self, trial: Trial<'_>, sample: &Sample, located: &Objects) -> Result<(), Error> {
        let address = sample.own.address;
        let lead = address.get() % GPU_PAGE;
        let length = (lead + sample.bytes.len() as u64).next_multiple_of(GPU_PAGE);
        let extents: Vec<Extent> =
            located.extents(address.get() - lead, length).ok_or_else(|| {
                memory_error(address, "the object is smaller than the allocation in it")
            })?;
        let mapped = view::show(trial.device, &extents)?;
        for (at, chunk) in sample.bytes.chunks(CHUNK).enumerate() {
            let span = Span {
                address: address.offset((at * CHUNK) as u64),
                at: lead as usize + at * CHUNK,
                length: chunk.len() as u64,
            };
            verify::check_known(mapped.vma.base(), span, chunk)?;
        }
        let start = lead as usize + sample.bytes.len() - SMALL;
        // SAFETY: the last page of the sample lies within the mapping, which outlives this
        // function.
        let last = unsafe { mapped.vma.base().add(start) };
        let span = Span {
            address: address.offset((sample.bytes.len() - SMALL) as u64),
            at: start,
            length: SMALL as u64,
        };
        self.time_stores(last);
        if sample.bytes.len() >= TUNED && self.combines() {
            // SAFETY: the first bytes of the sample's mapping, which only we use and whose contents
            // have been compared.
            unsafe { copy::tune(mapped.vma.base().as_ptr().add(lead as usize), copy::TUNE_BYTES) };
        }
        verify::check(trial.bench, mapped.vma.base(), &[span], &[])
    }

    /// Fills a page of the sample several times. Combined stores take well under a microsecond for
    /// a page, single ones tens (64 bytes per transaction against 8).
    fn time_stores(&self, page: NonNull<u8>) {
        let words = page.cast::<u64>();
        let fill = |value: u64| {
            let started = Instant::now();
            for index in 0..SMALL / 8 {
                // SAFETY: the caller passes an aligned page of our own device memory.
                unsafe { words.add(index).write_volatile(value ^ index as u64) };
            }
            fence::writes();
            started.elapsed()
        };
        let fastest = (0..FILLS).map(|_| fill(random::word())).min().unwrap_or_default();
        let _ = self.combines.set(fastest < COMBINED);
    }
}

/// Distance in bytes between compared places of a sample.
const CHUNK: usize = 64 << 10;
/// Longest time for a page of combined stores.
const COMBINED: Duration = Duration::from_micros(25);
/// Pages filled; the fastest counts, because others may be disturbed.
const FILLS: usize = 8;

/// Keeps the paths that also lead from each of many further allocations to a different object of
/// its exact size. This drops paths that fit the samples by chance, such as to a heap neighbour.
/// `seen` are the objects of the samples.
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
        let (handle, bytes) = trial.bench.unmapped(blocks * CREATED).map_err(unavailable)?;
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

/// Samples with different heap neighbours: an object that is near a handle by chance is near some
/// of them only.
fn scattered(trial: Trial<'_>) -> Result<Vec<Sample>, Error> {
    let mut clutter: Vec<Vec<u8>> = Vec::new();
    let mut samples = Vec::new();
    for blocks in SAMPLES {
        let count = 16 + random::word() % 48;
        clutter
            .extend((0..count).map(|_| Vec::with_capacity(16 + (random::word() % 2048) as usize)));
        // Gaps between them, which CUDA's next structures may fill.
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

/// Our own memory, and the contents of its beginning.
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
    Error::Cuda { operation: "allocate memory to test the driver", source }
}
