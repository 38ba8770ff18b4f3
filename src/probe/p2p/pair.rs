//! One ordered pair: what the driver says of it, copies without peer access, and with it copies and kernels.

use gpu::{Allocation, DeviceMemory, Error, P2pAttribute};

use super::cluster::{Cluster, Member};
use super::integrity::{LOOK_AT, Means, ROUNDS, Two};
use super::task::{Pair, Unit};
use crate::model::ProbedPair;
use crate::probe::chase::{LIST, chase, ring};
use crate::probe::depth::VERIFIED;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::sampling::{Sampler, time};

/// Rounds of the game that two kernels play, for one sample.
const ROUND_TRIPS: u32 = 200;

/// All of a pair.
pub fn run(
    cluster: &mut Cluster<'_>,
    number: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let unit = Unit::Pair(number);
    let task = cluster.task;
    let Some(pair) = task.pairs.get(number) else {
        return Ok(());
    };
    let mut open = true;
    for end in [pair.from, pair.to] {
        open &= cluster.open(end, reporter)?;
    }
    if !open {
        let refused = [pair.from, pair.to]
            .into_iter()
            .find_map(|end| cluster.refusal(end));
        let why = format!("a GPU cannot be opened: {}", refused.unwrap_or_default());
        return Ok(reporter.result(cluster.about(unit).impossible(
            "p2p.access",
            None,
            true,
            why,
        ))?);
    }
    cluster.begin("p2p.access", unit, reporter)?;
    let granted = access(cluster, pair, unit, reporter)?;
    let largest = cluster.sizes().last().copied().unwrap_or(4);
    // However small the copies that are measured, the least that is verified has room.
    let room = largest.next_multiple_of(16).max(VERIFIED);
    let Some((here, there)) = cluster.member(pair.from).zip(cluster.member(pair.to)) else {
        return Ok(());
    };
    let (local, remote) = (here.take(room)?, there.take(room)?);
    let work = Work {
        number,
        pair,
        local,
        remote,
    };
    work.staged(cluster, reporter)?;
    if !granted {
        return Ok(());
    }
    cluster.begin("p2p.access", unit, reporter)?;
    let Some((here, there)) = cluster.member(pair.from).zip(cluster.member(pair.to)) else {
        return Ok(());
    };
    // Both ways: what one writes, the other one's copies of the same pair bring back.
    let reach = here.gpu.access(&there.gpu)?;
    let back = match there.gpu.can_access(&here.gpu)? {
        true => Some(there.gpu.access(&here.gpu)?),
        false => None,
    };
    work.verified(cluster, reporter)?;
    work.copies(cluster, reporter)?;
    work.both_ways(cluster, reporter)?;
    work.round_trip(cluster, reporter)?;
    work.kernels(cluster, reporter)?;
    if back.is_some() {
        work.kernel_round_trip(cluster, reporter)?;
    }
    drop((reach, back));
    Ok(())
}

/// What is said of a pair; whether CUDA grants access.
fn access(
    cluster: &Cluster<'_>,
    pair: &Pair,
    unit: Unit,
    reporter: &mut Reporter<'_>,
) -> Result<bool, StepError> {
    let task = cluster.task;
    let Some((here, there)) = cluster.member(pair.from).zip(cluster.member(pair.to)) else {
        return Ok(false);
    };
    let granted = here.gpu.can_access(&there.gpu)?;
    // What an old driver does not know is no reason to end here.
    let attribute = |attribute| {
        let answer = here
            .gpu
            .device()
            .p2p_attribute(there.gpu.device(), attribute);
        answer.ok().flatten()
    };
    let Pair { between, .. } = pair;
    let told = ProbedPair {
        subject: task.arrow(pair),
        from: task.gpu(pair.from).to_owned(),
        to: task.gpu(pair.to).to_owned(),
        can_access: Some(granted),
        performance_rank: attribute(P2pAttribute::PERFORMANCE_RANK),
        atomics: attribute(P2pAttribute::NATIVE_ATOMIC_SUPPORTED).map(|value| value != 0),
        nvml: between.nvml.clone(),
        nvlinks: between.nvlinks,
        class: between.class.clone(),
        link: cluster
            .capacity(pair)
            .map(|(rate, _)| (rate * 1e9).round() as u64),
    };
    let about = cluster.about(unit);
    let result = match granted {
        true => about.right("p2p.access", None, 0),
        false => about.impossible("p2p.access", None, true, refused(&told, here, there)),
    };
    reporter.tell(&Event::Pair(Box::new(told)))?;
    reporter.result(result)?;
    Ok(granted)
}

/// Why one may not reach the other, as far as that can be known.
fn refused(told: &ProbedPair, here: &Member, there: &Member) -> String {
    let mut why =
        "CUDA does not let the one reach the other's memory (cuDeviceCanAccessPeer): copies go through the host"
            .to_owned();
    let against: Vec<String> = told
        .nvml
        .iter()
        .filter(|(_, status)| *status != "granted")
        .map(|(what, status)| format!("{what}: {status}"))
        .collect();
    if !against.is_empty() {
        why.push_str(&format!(". NVML says of {}", against.join("; ")));
    }
    let (one, other) = (here.gpu.device(), there.gpu.device());
    if one.pci.is_some() && one.pci == other.pci {
        why.push_str(". Both are MIG instances of one GPU: these never reach each other");
    } else if [one, other]
        .iter()
        .any(|device| device.name.contains(" MIG "))
    {
        why.push_str(". A MIG instance reaches no other GPU");
    } else {
        why.push_str(". See gdr doctor --profile p2p and gdr topo");
    }
    why
}

/// The pair, and a buffer of each GPU.
struct Work<'p> {
    number: usize,
    pair: &'p Pair,
    local: DeviceMemory,
    remote: DeviceMemory,
}

impl Work<'_> {
    fn unit(&self) -> Unit {
        Unit::Pair(self.number)
    }

    fn two<'a>(&'a self, cluster: &'a Cluster<'_>) -> Result<Two<'a>, StepError> {
        let ends = cluster
            .member(self.pair.from)
            .zip(cluster.member(self.pair.to));
        // Both were opened before there was any work.
        let (here, there) = ends.ok_or(Error::Foreign("GPU"))?;
        Ok(Two {
            here,
            there,
            local: &self.local,
            remote: &self.remote,
        })
    }

    /// Verifies one way with every size, each under its own name.
    fn verify(
        &self,
        cluster: &mut Cluster<'_>,
        means: Means,
        name: &str,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let most = self.local.len();
        let sizes = cluster.task.terms.depth.p2p_verified().iter().copied();
        for bytes in sizes.filter(|size| *size <= most) {
            cluster.begin(name, self.unit(), reporter)?;
            let verified = self.two(cluster)?.verify(means, bytes, &cluster.seeds);
            let about = cluster.about(self.unit());
            reporter.result(match verified? {
                None => about.right(name, Some(bytes), bytes * ROUNDS as usize),
                Some((round, wrong)) => {
                    let words = format!("round {round}: {wrong}. {LOOK_AT}");
                    about.wrong(name, Some(bytes), words)
                }
            })?;
        }
        Ok(())
    }

    /// Without peer access the driver stages copies through the host.
    fn staged(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        self.verify(cluster, Means::Write, "validate.staged", reporter)?;
        for bytes in some(cluster) {
            cluster.begin("p2p.staged.bandwidth", self.unit(), reporter)?;
            self.one(
                cluster,
                Means::Write,
                ("p2p.staged", false),
                bytes,
                reporter,
            )?;
        }
        Ok(())
    }

    fn verified(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for means in Means::ALL {
            self.verify(
                cluster,
                means,
                &format!("validate.{}", means.name()),
                reporter,
            )?;
        }
        Ok(())
    }

    /// Latency by the host's clock, which counts the call and waiting for its end, and bandwidth by the GPU's. `access` is
    /// on: without it the driver's staging waits for what is before it in the stream while it puts a copy in, so nothing can
    /// be put in behind a closed gate, and the host's clock counts several copies that were put in one after the other.
    fn one(
        &self,
        cluster: &Cluster<'_>,
        means: Means,
        (name, access): (&str, bool),
        bytes: usize,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let (two, budget) = (self.two(cluster)?, cluster.budget());
        let about = cluster.about(self.unit());
        let stream = &two.here.stream;
        let put = || two.put(means, bytes);
        let samples = time(budget, || put().and_then(|()| stream.synchronize()))?;
        reporter.result(about.latency(&format!("{name}.latency"), Some(bytes), 0, &samples))?;
        let runs = Runs::of(bytes);
        let samples = match access {
            true => measure(&two.here.gate, &[Lane::new(stream, put)], runs, budget)?.all,
            false => {
                let all = time(budget, || {
                    (0..runs.timed).try_for_each(|_| put())?;
                    stream.synchronize()
                })?;
                all.into_iter()
                    .map(|seconds| seconds / f64::from(runs.timed))
                    .collect()
            }
        };
        let promise = cluster.promise(self.pair, bytes).filter(|_| access);
        Ok(reporter.result(about.bandwidth(
            &format!("{name}.bandwidth"),
            bytes,
            0,
            &samples,
            promise,
        ))?)
    }

    fn copies(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for (means, sizes) in [
            (Means::Write, cluster.sizes()),
            (Means::Read, some(cluster)),
        ] {
            let name = format!("p2p.{}", means.name());
            for bytes in sizes {
                cluster.begin(&format!("{name}.bandwidth"), self.unit(), reporter)?;
                self.one(cluster, means, (&name, true), bytes, reporter)?;
            }
        }
        Ok(())
    }

    /// Each GPU writes to the other at the same time: the sum, against twice the way.
    fn both_ways(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let name = "p2p.copy.both.bandwidth";
        cluster.begin(name, self.unit(), reporter)?;
        let two = self.two(cluster)?;
        let bytes = cluster.sizes().last().copied().unwrap_or(4);
        let (source, target) = (two.there.take(bytes)?, two.here.take(bytes)?);
        let (local, remote, a, b) = (
            &self.local,
            &self.remote,
            &two.here.stream,
            &two.there.stream,
        );
        let lanes = [
            Lane::new(a, || a.copy(remote, 0, local, 0, bytes)),
            Lane::new(b, || b.copy(&target, 0, &source, 0, bytes)),
        ];
        let measured = measure(&two.here.gate, &lanes, Runs::of(bytes), cluster.budget())?;
        let promise = cluster.promise(self.pair, bytes).map(|mut promise| {
            promise.value *= 2.0;
            promise
        });
        let about = cluster.about(self.unit());
        Ok(reporter.result(about.bandwidth(name, bytes * 2, 0, &measured.all, promise))?)
    }

    /// There and back again, each copy after the one before: size by half the round trip, as the papers count.
    fn round_trip(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for bytes in some(cluster) {
            let name = "p2p.copy.round-trip";
            cluster.begin(name, self.unit(), reporter)?;
            let two = self.two(cluster)?;
            let (there, back) = (two.here.gpu.event()?, two.there.gpu.event()?);
            let (local, remote, a, b) = (
                &self.local,
                &self.remote,
                &two.here.stream,
                &two.there.stream,
            );
            let lanes = [Lane::new(a, || {
                a.copy(remote, 0, local, 0, bytes)?;
                a.record(&there)?;
                b.wait(&there)?;
                b.copy(local, 0, remote, 0, bytes)?;
                b.record(&back)?;
                a.wait(&back)
            })];
            let runs = Runs::of(bytes.max(16 << 20));
            let samples = measure(&two.here.gate, &lanes, runs, cluster.budget())?.all;
            two.there.stream.synchronize()?;
            let half: Vec<f64> = samples.iter().map(|seconds| seconds / 2.0).collect();
            let about = cluster.about(self.unit());
            reporter.result(about.latency(&format!("{name}.latency"), Some(bytes), 0, &samples))?;
            reporter.result(about.bandwidth(
                &format!("{name}.bandwidth"),
                bytes,
                0,
                &half,
                None,
            ))?;
        }
        Ok(())
    }

    /// A kernel that stores to the other's memory and loads from it, and what one load costs.
    fn kernels(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for means in [Means::Store, Means::Load] {
            let name = format!("p2p.{}.bandwidth", means.name());
            for bytes in some(cluster).into_iter().filter(|bytes| bytes % 16 == 0) {
                cluster.begin(&name, self.unit(), reporter)?;
                let two = self.two(cluster)?;
                let lanes = [Lane::new(&two.here.stream, || two.put(means, bytes))];
                let samples =
                    measure(&two.here.gate, &lanes, Runs::of(bytes), cluster.budget())?.all;
                let promise = cluster.promise(self.pair, bytes);
                reporter.result(
                    cluster
                        .about(self.unit())
                        .bandwidth(&name, bytes, 0, &samples, promise),
                )?;
            }
        }
        let name = "p2p.kernel.load.latency";
        cluster.begin(name, self.unit(), reporter)?;
        let two = self.two(cluster)?;
        let list = two.there.take(LIST)?;
        two.there.witness.write(&list, 0, &ring())?;
        let samples = chase(&two.here.stream, &list, cluster.budget())?;
        let about = cluster.about(self.unit());
        Ok(reporter.result(match samples {
            Some(samples) => about.latency(name, Some(8), 0, &samples),
            None => about.wrong(
                name,
                Some(8),
                format!("a list led out of the other GPU's memory. {LOOK_AT}"),
            ),
        })?)
    }

    /// Two kernels, each waiting for the word that the other one stores in its memory.
    fn kernel_round_trip(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let name = "p2p.kernel.round-trip.latency";
        cluster.begin(name, self.unit(), reporter)?;
        let two = self.two(cluster)?;
        let (here, there) = (two.here, two.there);
        let word = |member: &Member| member.gpu.allocate(Allocation::Malloc, 64);
        let (ours, theirs) = (word(here)?, word(there)?);
        let (begin, end) = (here.gpu.event()?, here.gpu.event()?);
        let mut sampler = Sampler::new(cluster.budget());
        let about = cluster.about(self.unit());
        while sampler.wants_more() {
            here.witness.fill(&ours, 0, 64, 0)?;
            there.witness.fill(&theirs, 0, 64, 0)?;
            here.witness.synchronize()?;
            there.witness.synchronize()?;
            there.stream.ping_pong(&theirs, &ours, ROUND_TRIPS)?;
            here.stream.record(&begin)?;
            here.stream.ping(&ours, &theirs, ROUND_TRIPS)?;
            here.stream.record(&end)?;
            here.stream.synchronize()?;
            there.stream.synchronize()?;
            let mut last = [0; 4];
            here.witness.read(&ours, 0, &mut last)?;
            if u32::from_le_bytes(last) != ROUND_TRIPS {
                let why = format!("a word that the other GPU stored did not arrive. {LOOK_AT}");
                return Ok(reporter.result(about.wrong(name, Some(4), why))?);
            }
            sampler.push(end.elapsed_since(&begin)?.as_secs_f64() / f64::from(ROUND_TRIPS));
        }
        Ok(reporter.result(about.latency(name, Some(4), 0, &sampler.finish().1))?)
    }
}

/// The sizes of what is beside the main sweep.
fn some(cluster: &Cluster<'_>) -> Vec<usize> {
    let sizes = cluster.sizes();
    match cluster.task.terms.depth.every_size() {
        true => sizes,
        false => sizes.last().copied().into_iter().collect(),
    }
}
