//! Work of several streams that starts together and is timed by GPU events. All of it is queued behind a closed gate, so that the
//! time of queueing is not measured.

use std::time::Duration;

use gpu::{Error, Event, Gpu, HostMemory, Stream};

use super::sampling::{Budget, Sampler};

/// The gate's kernel gives up after this time; a copy of a gibibyte over one lane of PCI Express takes a second.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A stream's queue holds about a thousand operations. A call that finds it full would block behind the closed gate.
const MAX_RUNS: u32 = 256;

/// Repeated work of one stream.
pub struct Lane<'a> {
    pub stream: &'a Stream,
    /// Queues one run.
    pub work: Box<dyn Fn() -> Result<(), Error> + 'a>,
}

impl<'a> Lane<'a> {
    pub fn new(stream: &'a Stream, work: impl Fn() -> Result<(), Error> + 'a) -> Self {
        Self { stream, work: Box::new(work) }
    }
}

/// A flag that streams wait for until all work is queued.
pub struct Gate(HostMemory);

impl Gate {
    /// A gate for the streams of any GPU.
    pub fn new(gpu: &Gpu) -> Result<Self, Error> {
        gpu.load_kernels()?;
        gpu.pinned(64).map(Self)
    }
}

/// Opens the gate on every return, so that no stream waits for the timeout.
struct Open<'a>(&'a Gate);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // Cannot fail: offset 0 is in bounds.
        let _ = self.0.0.store_u32(0, 1);
    }
}

/// Times of the lanes.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Seconds per run, of each lane.
    pub each: Vec<f64>,
    /// Seconds per run from the first lane's begin to the last one's end.
    pub all: f64,
}

/// Runs of each lane.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Runs before the clock starts.
    pub warm: u32,
    pub timed: u32,
}

impl Runs {
    /// For copies of `bytes`: enough to hide the start of one, and at most half a queue.
    pub fn of(bytes: usize) -> Self {
        let timed = (ENOUGH / bytes.max(1)).clamp(2, MAX_RUNS as usize / 2) as u32;
        Self { warm: timed.div_ceil(4), timed }
    }
}

/// Bytes of all timed copies together; two copies at least.
const ENOUGH: usize = 256 << 20;

/// Runs the lanes once, together.
pub fn together(gate: &Gate, lanes: &[Lane<'_>], runs: Runs) -> Result<Timed, Error> {
    let Some(first) = lanes.first() else {
        return Ok(Timed { each: Vec::new(), all: 0.0 });
    };
    let marks = lanes
        .iter()
        .map(|lane| Ok((lane.stream.gpu().event()?, lane.stream.gpu().event()?)))
        .collect::<Result<Vec<(Event, Event)>, Error>>()?;
    let last = first.stream.gpu().event()?;
    gate.0.store_u32(0, 0)?;
    let open = Open(gate);
    for lane in lanes {
        lane.stream.hold(&gate.0, TIMEOUT)?;
        (0..runs.warm).try_for_each(|_| (lane.work)())?;
    }
    for (at, (lane, (begin, _))) in lanes.iter().zip(&marks).enumerate() {
        if at > 0 {
            lane.stream.wait(&marks[0].0)?;
        }
        lane.stream.record(begin)?;
    }
    for (lane, (_, end)) in lanes.iter().zip(&marks) {
        (0..runs.timed).try_for_each(|_| (lane.work)())?;
        lane.stream.record(end)?;
    }
    for (_, end) in &marks[1..] {
        first.stream.wait(end)?;
    }
    first.stream.record(&last)?;
    drop(open);
    for lane in lanes {
        lane.stream.synchronize()?;
    }
    let one = |time: Duration| time.as_secs_f64() / f64::from(runs.timed.max(1));
    let each = marks.iter().map(|(begin, end)| end.elapsed_since(begin).map(one));
    Ok(Timed { each: each.collect::<Result<_, _>>()?, all: one(last.elapsed_since(&marks[0].0)?) })
}

/// Runs the lanes until the median of their common time is known well enough.
pub fn measure(
    gate: &Gate,
    lanes: &[Lane<'_>],
    runs: Runs,
    budget: Budget,
) -> Result<Measured, Error> {
    let mut sampler = Sampler::new(budget);
    let mut each = vec![Vec::new(); lanes.len()];
    while sampler.wants_more() {
        let timed = together(gate, lanes, runs)?;
        for (samples, sample) in each.iter_mut().zip(timed.each) {
            samples.push(sample);
        }
        sampler.push(timed.all);
    }
    Ok(Measured { each, all: sampler.finish().1 })
}

/// Samples, in seconds per run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub each: Vec<Vec<f64>>,
    /// Of all lanes together.
    pub all: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn runs_each_lane_and_opens_gate_after_error() {
        let (gpus, log) = ([Gpu::sim(), Gpu::sim()], RefCell::new(Vec::new()));
        let streams = gpus.each_ref().map(|gpu| gpu.stream().expect("a stream"));
        let gate = Gate::new(&gpus[0]).expect("a gate");
        let lanes: Vec<Lane<'_>> = streams
            .iter()
            .enumerate()
            .map(|(at, stream)| {
                let log = &log;
                Lane::new(stream, move || {
                    log.borrow_mut().push(at);
                    Ok(())
                })
            })
            .collect();
        let timed = together(&gate, &lanes, Runs { warm: 1, timed: 2 }).expect("times");
        assert_eq!(*log.borrow(), [0, 1, 0, 0, 1, 1], "warm-up first, then each lane's runs");
        assert_eq!(timed.each.len(), 2);
        assert!(timed.all >= 0.0);
        // Work that cannot be queued opens the gate: nothing waits for the timeout.
        let begun = std::time::Instant::now();
        let broken = [Lane::new(&streams[0], || Err(Error::Empty))];
        assert!(together(&gate, &broken, Runs { warm: 0, timed: 1 }).is_err());
        streams[0].synchronize().expect("an open gate");
        assert!(begun.elapsed() < TIMEOUT / 2);
    }

    #[test]
    fn number_of_runs_depends_on_size() {
        let runs = |bytes| (Runs::of(bytes).warm, Runs::of(bytes).timed);
        assert_eq!(runs(4), (32, 128));
        assert_eq!(runs(64 << 20), (1, 4));
        assert_eq!(runs(1 << 30), (1, 2));
    }
}
