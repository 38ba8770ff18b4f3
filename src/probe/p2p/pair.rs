//! One ordered pair: its attributes, copies without peer access, copies and kernels with it.

use gpu::{Error, P2pAttribute};

use super::cluster::{Cluster, Member};
use super::integrity::{GpuPair, Transfer};
use super::task::{OrderedPair, Unit};
use crate::model::ProbedPair;
use crate::model::figure::{FigureKind, p2p, validated};
use crate::probe::chase::{LIST, chase, ring};
use crate::probe::depth::VERIFIED;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::integrity::{LOOK_AT, ROUNDS};
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::sampling::{Sampler, time};
use crate::probe::verdict::{Promise, Subject};

/// Round trips between two kernels, per sample.
const ROUND_TRIPS: u32 = 200;

/// Measures one pair.
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
    let name = p2p::ACCESS;
    for gpu in [pair.from, pair.to] {
        cluster.open(gpu, reporter)?;
    }
    let cluster = &*cluster;
    let Some((local_gpu, remote_gpu)) = cluster.members(pair) else {
        let errors = [pair.from, pair.to].map(|gpu| cluster.open_error(gpu));
        let error = errors.into_iter().flatten().next().unwrap_or_default();
        let about = cluster.about(unit);
        let why = format!("a GPU cannot be opened: {error}");
        return Ok(reporter.result(about.impossible(name, None, true, why))?);
    };
    cluster.begin(name, unit, reporter)?;
    // Even if only small copies are measured, the buffers hold the smallest verified size.
    let size = cluster.largest().next_multiple_of(16).max(VERIFIED);
    let has_access = access(cluster, pair, (local_gpu, remote_gpu), reporter)?;
    let (local, remote) = (local_gpu.allocate(size)?, remote_gpu.allocate(size)?);
    let work = Work {
        cluster,
        unit,
        pair,
        about: cluster.about(unit),
        gpus: GpuPair { local_gpu, remote_gpu, local: &local, remote: &remote },
    };
    work.staged(reporter)?;
    if !has_access {
        return Ok(());
    }
    cluster.begin(name, unit, reporter)?;
    // In both directions: a copy of the remote GPU reads back what the local one wrote.
    let _access = local_gpu.gpu.access(&remote_gpu.gpu)?;
    let reverse_access = if remote_gpu.gpu.can_access(&local_gpu.gpu)? {
        Some(remote_gpu.gpu.access(&local_gpu.gpu)?)
    } else {
        None
    };
    for transfer in Transfer::ALL {
        work.verify(transfer, &p2p::verified(transfer.figure()), reporter)?;
    }
    work.copies(reporter)?;
    work.both_directions(reporter)?;
    work.round_trip(reporter)?;
    work.kernels(reporter)?;
    if reverse_access.is_some() {
        work.kernel_round_trip(reporter)?;
    }
    Ok(())
}

/// Reports a pair's attributes. True if CUDA allows peer access.
fn access(
    cluster: &Cluster<'_>,
    pair: &OrderedPair,
    (local_gpu, remote_gpu): (&Member, &Member),
    reporter: &mut Reporter<'_>,
) -> Result<bool, StepError> {
    let task = cluster.task;
    let granted = local_gpu.gpu.can_access(&remote_gpu.gpu)?;
    // An old driver does not know all attributes.
    let attribute = |attribute| {
        let answer = local_gpu.gpu.device().p2p_attribute(remote_gpu.gpu.device(), attribute);
        answer.ok().flatten()
    };
    let probed = ProbedPair {
        subject: task.arrow(pair),
        from: task.gpu(pair.from).to_owned(),
        to: task.gpu(pair.to).to_owned(),
        can_access: Some(granted),
        performance_rank: attribute(P2pAttribute::PERFORMANCE_RANK),
        atomics: attribute(P2pAttribute::NATIVE_ATOMIC_SUPPORTED).map(|value| value != 0),
        nvml: pair.path.nvml.clone(),
        nvlinks: pair.path.nvlinks,
        class: pair.path.class.clone(),
        link: cluster.capacity(pair).map(|(rate, _)| (rate * 1e9).round() as u64),
    };
    let about = Subject::new(&probed.subject, task.backend());
    let result = if granted {
        about.right(p2p::ACCESS, None, 0)
    } else {
        about.impossible(p2p::ACCESS, None, true, no_access_reason(&probed, local_gpu, remote_gpu))
    };
    reporter.send(&Event::Pair(Box::new(probed)))?;
    reporter.result(result)?;
    Ok(granted)
}

/// Why one GPU has no access to the other, as far as known.
fn no_access_reason(pair: &ProbedPair, local_gpu: &Member, remote_gpu: &Member) -> String {
    let mut why =
        "CUDA does not allow peer access between them (cuDeviceCanAccessPeer): copies go through the host"
            .to_owned();
    let denied: Vec<String> = pair
        .nvml
        .iter()
        .filter(|(_, status)| *status != "granted")
        .map(|(what, status)| format!("{what}: {status}"))
        .collect();
    if !denied.is_empty() {
        why.push_str(&format!(". NVML reports {}", denied.join("; ")));
    }
    let (one, other) = (local_gpu.gpu.device(), remote_gpu.gpu.device());
    if one.pci.is_some() && one.pci == other.pci {
        why.push_str(". Both are MIG instances of one GPU, which have no peer access");
    } else if [one, other].iter().any(|device| device.name.contains(" MIG ")) {
        why.push_str(". A MIG instance has no peer access");
    } else {
        why.push_str(". See gdr doctor --profile p2p and gdr topo");
    }
    why
}

/// A pair with a buffer of each GPU.
pub struct Work<'a> {
    pub cluster: &'a Cluster<'a>,
    pub unit: Unit,
    pub pair: &'a OrderedPair,
    pub about: Subject,
    pub gpus: GpuPair<'a>,
}

impl Work<'_> {
    fn begin(&self, name: &str, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        self.cluster.begin(name, self.unit, reporter)
    }

    /// Samples of one lane of the local GPU.
    pub fn sample(
        &self,
        bytes: usize,
        work: impl Fn() -> Result<(), Error>,
    ) -> Result<Vec<f64>, Error> {
        let local_gpu = self.gpus.local_gpu;
        let lanes = [Lane::new(&local_gpu.stream, work)];
        let budget = self.cluster.budget();
        Ok(measure(&local_gpu.gate, &lanes, Runs::of(bytes), budget)?.all)
    }

    /// The sizes for all transfers but the main sweep.
    fn other_sizes(&self) -> Vec<usize> {
        if self.cluster.task.terms.depth.every_size() {
            self.cluster.sizes()
        } else {
            vec![self.cluster.largest()]
        }
    }

    /// Verifies one kind of transfer with every size.
    fn verify(
        &self,
        transfer: Transfer,
        name: &str,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let most = self.gpus.local.len();
        let sizes = self.cluster.task.terms.depth.p2p_verified(transfer).iter().copied();
        for bytes in sizes.filter(|size| *size <= most) {
            self.begin(name, reporter)?;
            let wrong = self.gpus.verify(transfer, bytes, &self.cluster.seeds)?;
            let wrong = wrong.map(|(round, wrong)| format!("round {round}: {}", wrong.advice()));
            let verified = bytes * ROUNDS as usize;
            let right = self.about.right(name, Some(bytes), verified);
            reporter.result(self.about.checked(right, wrong))?;
        }
        Ok(())
    }

    /// Copies without peer access, which the driver stages through the host.
    fn staged(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        self.verify(Transfer::Write, &validated("staged"), reporter)?;
        for bytes in self.other_sizes() {
            self.begin(p2p::STAGED.name, reporter)?;
            self.measure_size(Transfer::Write, (p2p::STAGED, false), bytes, reporter)?;
        }
        Ok(())
    }

    /// Latency by the host's clock, with the call and the wait for its end, and bandwidth by GPU events. Without peer access the
    /// call blocks on earlier work of the stream and cannot be queued behind a closed gate, so the host's clock times several
    /// consecutive copies instead.
    fn measure_size(
        &self,
        transfer: Transfer,
        (figure, access): (FigureKind, bool),
        bytes: usize,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let budget = self.cluster.budget();
        let stream = &self.gpus.local_gpu.stream;
        let copy = || self.gpus.queue(transfer, bytes);
        let samples = time(budget, || copy().and_then(|()| stream.synchronize()))?;
        reporter.result(self.about.latency(&latency_of(figure), Some(bytes), 0, &samples))?;
        let samples = match Runs::of(bytes).timed {
            _ if access => self.sample(bytes, copy)?,
            // A copy so long hides its start by itself.
            ..=2 => samples,
            count => {
                let mut all = time(budget, || {
                    (0..count).try_for_each(|_| copy())?;
                    stream.synchronize()
                })?;
                all.iter_mut().for_each(|seconds| *seconds /= f64::from(count));
                all
            }
        };
        let promise = self.cluster.promise(self.pair, bytes).filter(|_| access);
        Ok(reporter.result(self.about.bandwidth(figure.name, bytes, 0, &samples, promise))?)
    }

    fn copies(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        for (transfer, sizes) in
            [(Transfer::Write, self.cluster.sizes()), (Transfer::Read, self.other_sizes())]
        {
            let figure = transfer.figure();
            for bytes in sizes {
                self.begin(figure.name, reporter)?;
                self.measure_size(transfer, (figure, true), bytes, reporter)?;
            }
        }
        Ok(())
    }

    /// Each GPU writes to the other at the same time: the sum, compared with twice the path.
    fn both_directions(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let name = p2p::BOTH.name;
        self.begin(name, reporter)?;
        let (gpus, bytes) = (&self.gpus, self.cluster.largest());
        let (a, b) = (&gpus.local_gpu.stream, &gpus.remote_gpu.stream);
        let source = gpus.remote_gpu.allocate(bytes)?;
        let target = gpus.local_gpu.allocate(bytes)?;
        let lanes = [
            Lane::new(a, || a.copy(gpus.remote, 0, gpus.local, 0, bytes)),
            Lane::new(b, || b.copy(&target, 0, &source, 0, bytes)),
        ];
        let (gate, budget) = (&gpus.local_gpu.gate, self.cluster.budget());
        let samples = measure(gate, &lanes, Runs::of(bytes), budget)?.all;
        let promise = self.cluster.promise(self.pair, bytes).map(Promise::doubled);
        let result = self.about.bandwidth(name, bytes * 2, 0, &samples, promise);
        Ok(reporter.result(result)?)
    }

    /// Ping-pong of consecutive copies. The bandwidth is the size over half the round trip, as in publications.
    fn round_trip(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let (latency, bandwidth) = (latency_of(p2p::ROUND_TRIP), p2p::ROUND_TRIP.name);
        for bytes in self.other_sizes() {
            self.begin(p2p::ROUND_TRIPS, reporter)?;
            let samples = self.round_trips(bytes)?;
            let half: Vec<f64> = samples.iter().map(|seconds| seconds / 2.0).collect();
            reporter.result(self.about.latency(&latency, Some(bytes), 0, &samples))?;
            reporter.result(self.about.bandwidth(bandwidth, bytes, 0, &half, None))?;
        }
        Ok(())
    }

    /// Seconds of round trips of copies.
    pub fn round_trips(&self, bytes: usize) -> Result<Vec<f64>, Error> {
        let gpus = &self.gpus;
        let (a, b) = (&gpus.local_gpu.stream, &gpus.remote_gpu.stream);
        let sent = gpus.local_gpu.gpu.event()?;
        let returned = gpus.remote_gpu.gpu.event()?;
        let samples = self.sample(bytes.max(16 << 20), || {
            a.copy(gpus.remote, 0, gpus.local, 0, bytes)?;
            a.record(&sent)?;
            b.wait(&sent)?;
            b.copy(gpus.local, 0, gpus.remote, 0, bytes)?;
            b.record(&returned)?;
            a.wait(&returned)
        })?;
        b.synchronize()?;
        Ok(samples)
    }

    /// Kernels that store to the remote memory and load from it, and the latency of one load.
    fn kernels(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let gpus = &self.gpus;
        for transfer in [Transfer::Store, Transfer::Load] {
            let name = transfer.figure().name;
            let sizes = self.other_sizes().into_iter();
            for bytes in sizes.filter(|bytes| bytes % 16 == 0) {
                self.begin(name, reporter)?;
                let samples = self.sample(bytes, || gpus.queue(transfer, bytes))?;
                let promise = self.cluster.promise(self.pair, bytes);
                reporter.result(self.about.bandwidth(name, bytes, 0, &samples, promise))?;
            }
        }
        let name = p2p::LOAD_LATENCY.name;
        self.begin(name, reporter)?;
        let list = gpus.remote_gpu.allocate(LIST)?;
        gpus.remote_gpu.witness.write(&list, 0, &ring())?;
        let samples = chase(&gpus.local_gpu.stream, &list, self.cluster.budget())?;
        let why = || format!("the kernel read a wrong list entry. {LOOK_AT}");
        Ok(reporter.result(match samples {
            Some(samples) => self.about.latency(name, Some(8), 0, &samples),
            None => self.about.wrong(name, Some(8), why()),
        })?)
    }

    /// Ping-pong of two kernels: each waits for a word that the other stores in its memory.
    fn kernel_round_trip(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let name = p2p::KERNEL_ROUND_TRIP.name;
        self.begin(name, reporter)?;
        let (local_gpu, remote_gpu) = (self.gpus.local_gpu, self.gpus.remote_gpu);
        let (local, remote) = (local_gpu.allocate(64)?, remote_gpu.allocate(64)?);
        let (begin, end) = (local_gpu.gpu.event()?, local_gpu.gpu.event()?);
        let mut sampler = Sampler::new(self.cluster.budget());
        while sampler.wants_more() {
            local_gpu.witness.fill(&local, 0, 64, 0)?;
            remote_gpu.witness.fill(&remote, 0, 64, 0)?;
            local_gpu.witness.synchronize()?;
            remote_gpu.witness.synchronize()?;
            remote_gpu.stream.ping_pong(&remote, &local, ROUND_TRIPS)?;
            local_gpu.stream.record(&begin)?;
            local_gpu.stream.ping(&local, &remote, ROUND_TRIPS)?;
            local_gpu.stream.record(&end)?;
            local_gpu.stream.synchronize()?;
            remote_gpu.stream.synchronize()?;
            let mut last = [0; 4];
            local_gpu.witness.read(&local, 0, &mut last)?;
            if u32::from_le_bytes(last) != ROUND_TRIPS {
                let why = format!("a word that the other GPU stored did not arrive. {LOOK_AT}");
                return Ok(reporter.result(self.about.wrong(name, Some(4), why))?);
            }
            sampler.push(end.elapsed_since(&begin)?.as_secs_f64() / f64::from(ROUND_TRIPS));
        }
        let samples = sampler.finish().1;
        Ok(reporter.result(self.about.latency(name, Some(4), 0, &samples))?)
    }
}

/// The name of the latency beside a bandwidth.
fn latency_of(bandwidth: FigureKind) -> String {
    bandwidth.name.replace(".bandwidth", ".latency")
}
