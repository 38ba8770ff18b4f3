//! One ordered pair: its attributes, copies without peer access, copies and kernels with it.

use gpu::{Allocation, DeviceMemory, Error, Gpu, P2pAttribute};

use super::cluster::{Cluster, Member};
use super::integrity::{GpuPair, Transfer};
use super::task::{Pair, Unit};
use crate::model::ProbedPair;
use crate::probe::chase::{LIST, chase, ring};
use crate::probe::depth::VERIFIED;
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::integrity::{LOOK_AT, ROUNDS};
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::sampling::{Sampler, time};
use crate::probe::verdict::Promise;

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
    let name = "p2p.access";
    for gpu in [pair.from, pair.to] {
        cluster.open(gpu, reporter)?;
    }
    let Some((local_gpu, remote_gpu)) = cluster.members(pair) else {
        let errors = [pair.from, pair.to].map(|gpu| cluster.open_error(gpu));
        let error = errors.into_iter().flatten().next().unwrap_or_default();
        let about = cluster.about(unit);
        let why = format!("a GPU cannot be opened: {error}");
        return Ok(reporter.result(about.impossible(name, None, true, why))?);
    };
    let devices = [&local_gpu.gpu, &remote_gpu.gpu].map(Gpu::clone);
    cluster.begin(name, unit, reporter)?;
    let has_access = access(cluster, pair, unit, reporter)?;
    // Even if only small copies are measured, the buffers hold the smallest verified size.
    let size = cluster.largest().next_multiple_of(16).max(VERIFIED);
    let work = Work {
        number,
        pair,
        local: devices[0].allocate(Allocation::Malloc, size)?,
        remote: devices[1].allocate(Allocation::Malloc, size)?,
    };
    work.staged(cluster, reporter)?;
    if !has_access {
        return Ok(());
    }
    cluster.begin(name, unit, reporter)?;
    // In both directions: a copy of the remote GPU reads back what the local one wrote.
    let [local_gpu, remote_gpu] = &devices;
    let _access = local_gpu.access(remote_gpu)?;
    let reverse_access = match remote_gpu.can_access(local_gpu)? {
        true => Some(remote_gpu.access(local_gpu)?),
        false => None,
    };
    work.verify_all(cluster, reporter)?;
    work.copies(cluster, reporter)?;
    work.both_directions(cluster, reporter)?;
    work.round_trip(cluster, reporter)?;
    work.kernels(cluster, reporter)?;
    if reverse_access.is_some() {
        work.kernel_round_trip(cluster, reporter)?;
    }
    Ok(())
}

/// Reports a pair's attributes. True if CUDA allows peer access.
fn access(
    cluster: &Cluster<'_>,
    pair: &Pair,
    unit: Unit,
    reporter: &mut Reporter<'_>,
) -> Result<bool, StepError> {
    let task = cluster.task;
    let Some((local_gpu, remote_gpu)) = cluster.members(pair) else {
        return Ok(false);
    };
    let granted = local_gpu.gpu.can_access(&remote_gpu.gpu)?;
    // An old driver does not know all attributes.
    let attribute = |attribute| {
        let answer = local_gpu
            .gpu
            .device()
            .p2p_attribute(remote_gpu.gpu.device(), attribute);
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
        link: cluster
            .capacity(pair)
            .map(|(rate, _)| (rate * 1e9).round() as u64),
    };
    let about = cluster.about(unit);
    let result = match granted {
        true => about.right("p2p.access", None, 0),
        false => about.impossible(
            "p2p.access",
            None,
            true,
            no_access_reason(&probed, local_gpu, remote_gpu),
        ),
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
    } else if [one, other]
        .iter()
        .any(|device| device.name.contains(" MIG "))
    {
        why.push_str(". A MIG instance has no peer access");
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

    fn gpu_pair<'a>(&'a self, cluster: &'a Cluster<'_>) -> Result<GpuPair<'a>, StepError> {
        let members = cluster.members(self.pair);
        // `run` has opened both.
        let (local_gpu, remote_gpu) = members.ok_or(Error::Foreign("GPU"))?;
        Ok(GpuPair {
            local_gpu,
            remote_gpu,
            local: &self.local,
            remote: &self.remote,
        })
    }

    /// Verifies one kind of transfer with every size.
    fn verify(
        &self,
        cluster: &mut Cluster<'_>,
        transfer: Transfer,
        name: &str,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let most = self.local.len();
        let sizes = cluster.task.terms.depth.p2p_verified().iter().copied();
        for bytes in sizes.filter(|size| *size <= most) {
            cluster.begin(name, self.unit(), reporter)?;
            let verified = self
                .gpu_pair(cluster)?
                .verify(transfer, bytes, &cluster.seeds);
            let wrong =
                verified?.map(|(round, wrong)| format!("round {round}: {wrong}. {LOOK_AT}"));
            let about = cluster.about(self.unit());
            let right = about.right(name, Some(bytes), bytes * ROUNDS as usize);
            reporter.result(about.checked(right, wrong))?;
        }
        Ok(())
    }

    /// Copies without peer access, which the driver stages through the host.
    fn staged(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        self.verify(cluster, Transfer::Write, "validate.staged", reporter)?;
        for bytes in other_sizes(cluster) {
            cluster.begin("p2p.staged.bandwidth", self.unit(), reporter)?;
            self.measure_size(
                cluster,
                Transfer::Write,
                ("p2p.staged", false),
                bytes,
                reporter,
            )?;
        }
        Ok(())
    }

    fn verify_all(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for transfer in Transfer::ALL {
            self.verify(
                cluster,
                transfer,
                &format!("validate.{}", transfer.name()),
                reporter,
            )?;
        }
        Ok(())
    }

    /// Latency by the host's clock, with the call and the wait for its end, and bandwidth by GPU events. Without peer access the
    /// call blocks on earlier work of the stream and cannot be queued behind a closed gate, so the host's clock times several
    /// consecutive copies instead.
    fn measure_size(
        &self,
        cluster: &Cluster<'_>,
        transfer: Transfer,
        (name, access): (&str, bool),
        bytes: usize,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let (gpus, budget) = (self.gpu_pair(cluster)?, cluster.budget());
        let about = cluster.about(self.unit());
        let stream = &gpus.local_gpu.stream;
        let copy = || gpus.queue(transfer, bytes);
        let samples = time(budget, || copy().and_then(|()| stream.synchronize()))?;
        reporter.result(about.latency(&format!("{name}.latency"), Some(bytes), 0, &samples))?;
        let runs = Runs::of(bytes);
        let samples = match access {
            true => {
                measure(
                    &gpus.local_gpu.gate,
                    &[Lane::new(stream, copy)],
                    runs,
                    budget,
                )?
                .all
            }
            false => {
                let all = time(budget, || {
                    (0..runs.timed).try_for_each(|_| copy())?;
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
        for (transfer, sizes) in [
            (Transfer::Write, cluster.sizes()),
            (Transfer::Read, other_sizes(cluster)),
        ] {
            let name = format!("p2p.{}", transfer.name());
            for bytes in sizes {
                cluster.begin(&format!("{name}.bandwidth"), self.unit(), reporter)?;
                self.measure_size(cluster, transfer, (&name, true), bytes, reporter)?;
            }
        }
        Ok(())
    }

    /// Each GPU writes to the other at the same time: the sum, compared with twice the path.
    fn both_directions(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let name = "p2p.copy.both.bandwidth";
        cluster.begin(name, self.unit(), reporter)?;
        let gpus = self.gpu_pair(cluster)?;
        let bytes = cluster.largest();
        let (source, target) = (
            gpus.remote_gpu.allocate(bytes)?,
            gpus.local_gpu.allocate(bytes)?,
        );
        let (local, remote, a, b) = (
            &self.local,
            &self.remote,
            &gpus.local_gpu.stream,
            &gpus.remote_gpu.stream,
        );
        let lanes = [
            Lane::new(a, || a.copy(remote, 0, local, 0, bytes)),
            Lane::new(b, || b.copy(&target, 0, &source, 0, bytes)),
        ];
        let measured = measure(
            &gpus.local_gpu.gate,
            &lanes,
            Runs::of(bytes),
            cluster.budget(),
        )?;
        let promise = cluster.promise(self.pair, bytes).map(Promise::doubled);
        let about = cluster.about(self.unit());
        Ok(reporter.result(about.bandwidth(name, bytes * 2, 0, &measured.all, promise))?)
    }

    /// Ping-pong of consecutive copies. The bandwidth is the size over half the round trip, as in publications.
    fn round_trip(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for bytes in other_sizes(cluster) {
            let name = "p2p.copy.round-trip";
            cluster.begin(name, self.unit(), reporter)?;
            let gpus = self.gpu_pair(cluster)?;
            let (sent, returned) = (gpus.local_gpu.gpu.event()?, gpus.remote_gpu.gpu.event()?);
            let (local, remote, a, b) = (
                &self.local,
                &self.remote,
                &gpus.local_gpu.stream,
                &gpus.remote_gpu.stream,
            );
            let lanes = [Lane::new(a, || {
                a.copy(remote, 0, local, 0, bytes)?;
                a.record(&sent)?;
                b.wait(&sent)?;
                b.copy(local, 0, remote, 0, bytes)?;
                b.record(&returned)?;
                a.wait(&returned)
            })];
            let runs = Runs::of(bytes.max(16 << 20));
            let samples = measure(&gpus.local_gpu.gate, &lanes, runs, cluster.budget())?.all;
            gpus.remote_gpu.stream.synchronize()?;
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

    /// Kernels that store to the remote memory and load from it, and the latency of one load.
    fn kernels(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        for transfer in [Transfer::Store, Transfer::Load] {
            let name = format!("p2p.{}.bandwidth", transfer.name());
            for bytes in other_sizes(cluster)
                .into_iter()
                .filter(|bytes| bytes % 16 == 0)
            {
                cluster.begin(&name, self.unit(), reporter)?;
                let gpus = self.gpu_pair(cluster)?;
                let lanes = [Lane::new(&gpus.local_gpu.stream, || {
                    gpus.queue(transfer, bytes)
                })];
                let samples = measure(
                    &gpus.local_gpu.gate,
                    &lanes,
                    Runs::of(bytes),
                    cluster.budget(),
                )?
                .all;
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
        let gpus = self.gpu_pair(cluster)?;
        let list = gpus.remote_gpu.allocate(LIST)?;
        gpus.remote_gpu.witness.write(&list, 0, &ring())?;
        let samples = chase(&gpus.local_gpu.stream, &list, cluster.budget())?;
        let about = cluster.about(self.unit());
        Ok(reporter.result(match samples {
            Some(samples) => about.latency(name, Some(8), 0, &samples),
            None => about.wrong(
                name,
                Some(8),
                format!("the kernel read a wrong list entry. {LOOK_AT}"),
            ),
        })?)
    }

    /// Ping-pong of two kernels: each waits for a word that the other stores in its memory.
    fn kernel_round_trip(
        &self,
        cluster: &mut Cluster<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), StepError> {
        let name = "p2p.kernel.round-trip.latency";
        cluster.begin(name, self.unit(), reporter)?;
        let gpus = self.gpu_pair(cluster)?;
        let (local_gpu, remote_gpu) = (gpus.local_gpu, gpus.remote_gpu);
        let word = |member: &Member| member.gpu.allocate(Allocation::Malloc, 64);
        let (local, remote) = (word(local_gpu)?, word(remote_gpu)?);
        let (begin, end) = (local_gpu.gpu.event()?, local_gpu.gpu.event()?);
        let mut sampler = Sampler::new(cluster.budget());
        let about = cluster.about(self.unit());
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
                return Ok(reporter.result(about.wrong(name, Some(4), why))?);
            }
            sampler.push(end.elapsed_since(&begin)?.as_secs_f64() / f64::from(ROUND_TRIPS));
        }
        Ok(reporter.result(about.latency(name, Some(4), 0, &sampler.finish().1))?)
    }
}

/// The sizes for all transfers but the main sweep.
fn other_sizes(cluster: &Cluster<'_>) -> Vec<usize> {
    let sizes = cluster.sizes();
    match cluster.task.terms.depth.every_size() {
        true => sizes,
        false => sizes.last().copied().into_iter().collect(),
    }
}
