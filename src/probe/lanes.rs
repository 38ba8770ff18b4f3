//! Work of several streams that begins at one moment and is timed by the GPU's own clock: all of it is put in behind a
//! closed gate, so that what it costs to put in is no part of the time.

use std::time::Duration;

use gpu::{Error, Event, Gpu, HostMemory, Stream};

use super::sampling::{Budget, Sampler};

/// A gate that nobody opens opens itself after this long; a copy of a gibibyte over one lane of PCI Express takes a second.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A queue of a stream holds about a thousand pieces of work; what does not fit waits for a gate that nobody opens.
const MOST_RUNS: u32 = 256;

/// What a stream does over and over.
pub struct Lane<'a> {
    pub stream: &'a Stream,
    /// Puts one run of it in.
    pub work: Box<dyn Fn() -> Result<(), Error> + 'a>,
}

impl<'a> Lane<'a> {
    /// A lane of this work.
    pub fn new(stream: &'a Stream, work: impl Fn() -> Result<(), Error> + 'a) -> Self {
        Self {
            stream,
            work: Box::new(work),
        }
    }
}

/// What streams wait at until all work is in.
pub struct Gate(HostMemory);

impl Gate {
    /// A gate that the streams of any GPU can wait at.
    pub fn new(gpu: &Gpu) -> Result<Self, Error> {
        gpu.load_kernels()?;
        gpu.pinned(64).map(Self)
    }
}

/// Opens the gate however this ends: what waits there would wait for its own timeout.
struct Open<'a>(&'a Gate);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // The word is there: its offset is 0.
        let _ = self.0.0.store_u32(0, 1);
    }
}

/// How long the lanes took.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Seconds for one run of each.
    pub each: Vec<f64>,
    /// Seconds from the first's begin to the last's end, for one run of all.
    pub all: f64,
}

/// How often each lane's work is done.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Before the clock starts.
    pub warm: u32,
    pub timed: u32,
}

impl Runs {
    /// For copies of so many bytes: enough that one takes no time to speak of to begin, and no more than that.
    pub fn of(bytes: usize) -> Self {
        let timed = (ENOUGH / bytes.max(1)).clamp(2, MOST_RUNS as usize / 2) as u32;
        Self {
            warm: timed.div_ceil(4),
            timed,
        }
    }
}

/// A copy of so many bytes is timed without a second one after it to hide its begin in.
const ENOUGH: usize = 256 << 20;

/// Runs the lanes once, together.
pub fn together(gate: &Gate, lanes: &[Lane<'_>], runs: Runs) -> Result<Timed, Error> {
    let Some(first) = lanes.first() else {
        return Ok(Timed {
            each: Vec::new(),
            all: 0.0,
        });
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
    let each = marks
        .iter()
        .map(|(begin, end)| end.elapsed_since(begin).map(one));
    Ok(Timed {
        each: each.collect::<Result<_, _>>()?,
        all: one(last.elapsed_since(&marks[0].0)?),
    })
}

/// Runs the lanes until the time of all of them is known well enough: the samples of each lane, and of all.
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
    Ok(Measured {
        each,
        all: sampler.finish().1,
    })
}

/// Samples, in seconds for one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub each: Vec<Vec<f64>>,
    /// Of all of them together.
    pub all: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_lane_does_its_work_as_often_as_it_is_told() {
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
        assert_eq!(
            *log.borrow(),
            [0, 1, 0, 0, 1, 1],
            "warm first, then each its runs"
        );
        assert_eq!(timed.each.len(), 2);
        assert!(timed.all >= 0.0);
        // Work that cannot be put in opens the gate: nothing waits for its timeout.
        let begun = std::time::Instant::now();
        let broken = [Lane::new(&streams[0], || Err(Error::Empty))];
        assert!(together(&gate, &broken, Runs { warm: 0, timed: 1 }).is_err());
        streams[0].synchronize().expect("an open gate");
        assert!(begun.elapsed() < TIMEOUT / 2);
    }

    #[test]
    fn small_copies_are_run_often_and_large_ones_twice() {
        let runs = |bytes| (Runs::of(bytes).warm, Runs::of(bytes).timed);
        assert_eq!(runs(4), (32, 128));
        assert_eq!(runs(64 << 20), (1, 4));
        assert_eq!(runs(1 << 30), (1, 2));
    }
}
