//! `gdr probe`.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::expected::expected_machine;
use super::machine::Machine;
use super::mask_key::Masked;
use super::packets::{self, named};
use super::probe_async::async_options;
use super::probe_copy::{copy_options, list_tests};
use super::probe_file;
use super::profiles::expectations;
use crate::check::expected_bandwidths;
use crate::cli::{
    self, AsyncHca, Global, MpProbe, MpiMemory, MpiProbe, NicArgs, NumaChoice, PeerArgs, Probe,
    ProbeFormat, ProbeWhat, RdmaArgs, RdmaMemory, RdmaMemoryPath, Rendezvous, style,
};
use crate::collect::CollectOptions;
use crate::model::{PROBE_SCHEMA, ProbeKind, ProbeReport, Side};
use crate::output::{self, Document, Progress};
use crate::probe::children::Watcher;
use crate::probe::depth::{Depth, Terms};
use crate::probe::events::Step;
use crate::probe::interrupts::Interrupts;
use crate::probe::rendezvous::{
    DEFAULT_PORT, SECRET_VARIABLE, Secret, default_listen, from_environment, is_exposed,
};
use crate::probe::scope::{Nodes, Scope};
use crate::probe::supervise;
use crate::probe::verdict::{exit_code, failures, next_step};
use crate::probe::{self, baseline, host, mp, mpi, p2p, rdma, transfer};
use crate::profile::Expectations;
use crate::render::{html, junit, probe as render};
use crate::world::NvmlQuery;

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Probe,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    if let ProbeWhat::Copy(wanted) = &options.what
        && wanted.list_tests
    {
        super::print(out, &list_tests(style(global.color)))?;
        return Ok(0);
    }
    let session = Session {
        machine,
        global,
        want: match &options.what {
            // GPUDirect v2 is between GPUs.
            ProbeWhat::P2p(_) | ProbeWhat::Transfer(_) => pairs(),
            _ => CollectOptions::default(),
        },
        scope: scope_of(&options.what),
        profile: profile_of(&options.what),
        masked: Masked::by(scope_of(&options.what).masks.mask_key.as_deref())?
            .with_hosts(peer(&options.what)),
    };
    let scope = session.scope()?;
    match &options.what {
        ProbeWhat::Copy(wanted) => {
            let nodes = nodes(wanted.numa, scope.terms.depth);
            let options = copy_options(scope, nodes, wanted)?;
            session.run(&options, out, err)
        }
        ProbeWhat::Host(wanted) => {
            let options = host::Options { nodes: nodes(wanted.numa, scope.terms.depth), scope };
            session.run(&options, out, err)
        }
        ProbeWhat::P2p(_) => session.run(&p2p::Options { scope }, out, err),
        ProbeWhat::Mpi(wanted) => session.run(&mpi_options(scope, wanted)?, out, err),
        ProbeWhat::Async(wanted) => {
            let options = async_options(scope, wanted)?;
            session.run(&options, out, err)
        }
        ProbeWhat::Mp(wanted) => {
            session.run(&mp_options(scope, wanted, machine.is_live())?, out, err)
        }
        ProbeWhat::Transfer(wanted) => {
            let options = rdma::Options {
                curves: true,
                kind: rdma::MemoryKind::Gpu,
                ..rdma_options(scope, wanted, &RdmaArgs::default(), machine.is_live())?
            };
            session.run(&transfer::Options(options), out, err)
        }
        ProbeWhat::Rdma(wanted) => {
            let options = rdma_options(scope, &wanted.nics, &wanted.own, machine.is_live())?;
            session.run(&options, out, err)
        }
    }
}

pub fn scope_of(what: &ProbeWhat) -> &cli::Scope {
    match what {
        ProbeWhat::Copy(options) => &options.scope,
        ProbeWhat::Host(options) => &options.scope,
        ProbeWhat::P2p(options) => &options.scope,
        ProbeWhat::Rdma(options) => &options.nics.scope,
        ProbeWhat::Async(options) => &options.scope,
        ProbeWhat::Mp(options) => &options.scope,
        ProbeWhat::Mpi(options) => &options.scope,
        ProbeWhat::Transfer(options) => &options.scope,
    }
}

/// The other machine of a probe, which results may name.
fn peer(what: &ProbeWhat) -> Option<String> {
    let peer = match what {
        ProbeWhat::Rdma(options) => &options.nics.peer,
        ProbeWhat::Transfer(options) => &options.peer,
        ProbeWhat::Mp(options) => &options.peer,
        _ => return None,
    };
    Some(peer.peer.as_ref()?.host_and_port(DEFAULT_PORT).0)
}

/// The profile whose shares of a link's rate a figure is compared with.
fn profile_of(what: &ProbeWhat) -> &'static str {
    match what {
        ProbeWhat::Host(_) | ProbeWhat::Mpi(_) => "mpi",
        ProbeWhat::P2p(_) => "p2p",
        ProbeWhat::Rdma(_) | ProbeWhat::Transfer(_) => "rdma",
        // Async and mp have no threshold of their own: no bandwidth limits latencies.
        ProbeWhat::Copy(_) | ProbeWhat::Async(_) | ProbeWhat::Mp(_) => "gdrcopy",
    }
}

fn mpi_options(scope: Scope, wanted: &MpiProbe) -> anyhow::Result<mpi::Options> {
    if scope.sim && (wanted.mpi.is_some() || wanted.memory == Some(MpiMemory::Host)) {
        bail!("--sim simulates MPI and a GPU: omit --mpi and --memory host");
    }
    Ok(mpi::Options {
        scope,
        library: wanted.mpi.clone(),
        memory: match wanted.memory {
            None => mpi::MemoryChoice::Best,
            Some(MpiMemory::Host) => mpi::MemoryChoice::Host,
            Some(MpiMemory::Gpu) => mpi::MemoryChoice::Gpu,
        },
    })
}

/// Facts about pairs of GPUs.
fn pairs() -> CollectOptions {
    CollectOptions {
        nvml: NvmlQuery { links: true, p2p: true, from_gpus: 2, ..NvmlQuery::default() },
        ..CollectOptions::default()
    }
}

/// Common settings of all probes.
pub struct Session<'a> {
    pub machine: &'a Machine,
    pub want: CollectOptions,
    pub global: &'a Global,
    pub scope: &'a cli::Scope,
    pub masked: Masked,
    /// The profile with the default thresholds.
    pub profile: &'static str,
}

impl Session<'_> {
    fn expectations(&self) -> anyhow::Result<Expectations> {
        match self.scope.profile.as_slice() {
            [] => expectations(&[self.profile.to_owned()]),
            named => expectations(named),
        }
    }

    pub fn scope(&self) -> anyhow::Result<Scope> {
        let shares = self.expectations()?.shares();
        let mut sizes: Vec<usize> = self.scope.size.iter().map(|size| size.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Scope {
            sim: self.scope.sim,
            gpus: self.scope.gpu.clone(),
            terms: Terms {
                depth: match (self.scope.quick, self.scope.full) {
                    (true, _) => Depth::Quick,
                    (_, true) => Depth::Full,
                    _ => Depth::Default,
                },
                sizes,
                shares,
                timeout: Duration::from_secs(self.global.library_timeout),
            },
        })
    }

    /// Measures the local machine, or shows expected values for a recorded one, and prints the report.
    fn run<P: supervise::Probe>(
        &self,
        probe: &P,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let facts = self.machine.facts(self.want);
        super::notes(self.global, self.machine.is_imported(), &facts, err);
        let expected = expected_machine(self.machine, &facts)?;
        if !self.machine.is_live() {
            if self.scope.sim {
                bail!("--sim runs on this machine: it does not work with --sysroot or --from");
            }
            if self.scope.save.is_some() || self.scope.baseline.is_some() {
                bail!("nothing is measured with --sysroot or --from: omit --save and --baseline");
            }
            if self.is_chart() {
                bail!(
                    "nothing is measured with --sysroot or --from, so there is no curve: use --format table or json"
                );
            }
            let report = self.masked.probe(supervise::expected(probe, &expected)?)?;
            self.print(out, &report)?;
            return Ok(exit_code(&report));
        }
        let baseline = self.baseline(P::KIND)?;
        if let Some(file) = &self.scope.save {
            probe_file::check_save(file)?;
        }
        let interrupts = Interrupts::catch()?;
        let status = self.measured(probe, &expected, baseline, &interrupts, (out, err));
        super::concluded(&interrupts, status, err)
    }

    /// Measures, compares and prints the report.
    fn measured<P: supervise::Probe>(
        &self,
        probe: &P,
        expected: &probe::machine::Machine,
        baseline: Option<probe_file::Saved>,
        interrupts: &Interrupts,
        (out, err): (&mut dyn Write, &mut dyn Write),
    ) -> anyhow::Result<u8> {
        let mut report = self.measure(probe, expected, interrupts, err)?;
        interrupts.printing();
        if failures(&report).next().is_some() {
            report.notes.extend(super::limits::tight());
        }
        report.findings = expected_bandwidths(&self.expectations()?, &report);
        if let Some(saved) = baseline {
            let side = Side {
                source: "live".to_owned(),
                host: report.host.name.clone(),
                taken: Some(output::now()),
            };
            let diff =
                baseline::compare(&saved.report.results, &report.results, baseline::TOLERANCE);
            report.baseline = Some(diff.report(saved.side, side, true));
        }
        if interrupts.status().is_none() {
            report.next_step = next_step(&report);
        }
        let report = self.masked.probe(report)?;
        let is_chart = self.is_chart();
        // Of several ranks only the first one prints the report.
        let is_rank = report.mpi.as_ref().is_some_and(|mpi| mpi.rank > 0);
        if is_chart || is_rank {
            // A curve does not show failures.
            for result in failures(&report) {
                let reason = result.reason.as_deref().unwrap_or("unknown reason");
                super::remark(err, &format!("{}: {}: {reason}", result.subject, result.name));
            }
        }
        if !is_rank {
            self.print(out, &report)?;
            self.save(&report, out, err)?;
        }
        Ok(exit_code(&report))
    }

    fn is_chart(&self) -> bool {
        matches!(self.scope.format, ProbeFormat::Curve | ProbeFormat::Svg)
    }

    fn baseline(&self, kind: ProbeKind) -> anyhow::Result<Option<probe_file::Saved>> {
        let read = |file: &PathBuf| {
            probe_file::baseline(file, kind, self.scope.sim)
                .with_context(|| format!("--baseline {}", file.display()))
        };
        self.scope.baseline.as_ref().map(read).transpose()
    }

    /// Runs the probe as often as the user wants. An interrupted run ends it.
    fn measure<P: supervise::Probe>(
        &self,
        probe: &P,
        expected: &probe::machine::Machine,
        interrupts: &Interrupts,
        err: &mut dyn Write,
    ) -> anyhow::Result<ProbeReport> {
        let mut watcher = TerminalWatcher { bar: Progress::new(), err };
        let mut runs = Vec::new();
        for _ in 0..self.scope.runs {
            let run = supervise::measure(probe, expected, interrupts, &mut watcher);
            watcher.bar.clear();
            runs.push(run?);
            if runs.last().is_some_and(|run| !run.complete) {
                break;
            }
        }
        baseline::combine(runs).context("no run")
    }

    fn save(
        &self,
        report: &ProbeReport,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let Some(file) = &self.scope.save else {
            return Ok(());
        };
        let name = file.display();
        if failures(report).next().is_some() || !report.complete {
            super::remark(
                err,
                &format!("{name} was not written: the probe failed or is incomplete"),
            );
            return Ok(());
        }
        probe_file::save(file, report, out).with_context(|| format!("cannot write {name}"))?;
        super::remark(
            err,
            &format!(
                "{name}: compare with it: gdr probe {} --baseline {name}",
                report.probe.name()
            ),
        );
        Ok(())
    }

    fn print(&self, out: &mut dyn Write, report: &ProbeReport) -> anyhow::Result<()> {
        let style = style(self.global.color);
        let text = match self.scope.format {
            ProbeFormat::Table => render::table(report, style),
            ProbeFormat::Curve => render::curve(report, style),
            ProbeFormat::Svg => render::svg(report),
            ProbeFormat::Html => html::probe(report, &output::now()),
            ProbeFormat::Junit => junit::probe(report),
            // 50 MB with 256 GPUs: write it directly.
            ProbeFormat::Json => {
                return super::print_with(out, |out| {
                    output::write_pretty(out, &Document::new(PROBE_SCHEMA, report))
                });
            }
        };
        super::print(out, &text)
    }
}

pub fn rdma_options(
    scope: Scope,
    wanted: &NicArgs,
    own: &RdmaArgs,
    is_live: bool,
) -> anyhow::Result<rdma::Options> {
    let kind = match own.memory {
        None if wanted.memory_path.is_some() || scope.sim || own.all => rdma::MemoryKind::Gpu,
        None if own.odp => rdma::MemoryKind::Host,
        None => rdma::MemoryKind::Best,
        Some(RdmaMemory::Host) => rdma::MemoryKind::Host,
        Some(RdmaMemory::Huge) => rdma::MemoryKind::Huge,
        Some(RdmaMemory::Pinned) => rdma::MemoryKind::Pinned,
        Some(RdmaMemory::Gpu) => rdma::MemoryKind::Gpu,
    };
    if scope.sim && kind != rdma::MemoryKind::Gpu {
        bail!("--sim needs GPU memory: omit --memory, or use --memory gpu");
    }
    if kind != rdma::MemoryKind::Gpu && wanted.memory_path.is_some() {
        bail!("--memory-path needs GPU memory: omit --memory, or use --memory gpu");
    }
    if own.odp && kind != rdma::MemoryKind::Host {
        bail!(
            "--odp is for host memory, whose pages the kernel finds for the NIC: use --memory host, without --sim and --memory-path"
        );
    }
    let options = rdma::Options {
        kind,
        memory_path: wanted.memory_path.map(|memory_path| match memory_path {
            RdmaMemoryPath::DataDirect => rdma::MemoryPath::DataDirect,
            RdmaMemoryPath::DmaBufPcie => rdma::MemoryPath::DmaBufPcie,
            RdmaMemoryPath::DmaBuf => rdma::MemoryPath::DmaBuf,
            RdmaMemoryPath::Peermem => rdma::MemoryPath::Peermem,
            RdmaMemoryPath::Staged => rdma::MemoryPath::Staged,
        }),
        devices: wanted.device.iter().map(named).collect(),
        remote: if is_live {
            remote(&wanted.peer, wanted.remote_device.as_ref())?
        } else {
            // Nothing is measured, so no other machine is needed.
            rdma::RemoteEnd::Here(None)
        },
        gids: wanted.gid_index.clone(),
        pkey_index: wanted.pkey_index,
        settings: packets::settings(&wanted.packets)?,
        relaxed_ordering: packets::relaxed_ordering(wanted.packets.relaxed_ordering),
        on_demand: own.odp,
        nodes: wanted.numa.map(chosen_nodes),
        all: own.all,
        together: own.together,
        link: false,
        queue_pairs: wanted.qps,
        curves: false,
        perftest: own.show_perftest,
        scope,
    };
    if options.simulates_nic()
        && (wanted.memory_path.is_some()
            || !wanted.gid_index.is_empty()
            || wanted.pkey_index != 0
            || own.show_perftest
            || packets::is_any(&wanted.packets))
    {
        bail!(
            "--memory-path, --gid-index, --pkey-index, --show-perftest and the options of packets need a real NIC, but --sim simulates \
             it: name one with --device"
        );
    }
    if matches!(options.remote, rdma::RemoteEnd::Comes(..)) && packets::is_any(&wanted.packets) {
        bail!(
            "the client chooses how packets are addressed: give these options to it, not to --listen"
        );
    }
    Ok(options)
}

fn mp_options(scope: Scope, wanted: &MpProbe, is_live: bool) -> anyhow::Result<mp::Options> {
    let hca = match wanted.hca {
        None if scope.sim => mp::Hca::Sim,
        None => mp::Hca::Auto,
        Some(AsyncHca::Mlx5) => mp::Hca::Mlx5,
        Some(AsyncHca::Proxy) => mp::Hca::Proxy,
        Some(AsyncHca::Sim) => mp::Hca::Sim,
    };
    if hca == mp::Hca::Sim && (wanted.device.is_some() || wanted.gid_index.is_some()) {
        bail!("--device and --gid-index need a NIC: add --hca mlx5 or --hca proxy");
    }
    let remote = if is_live {
        remote(&wanted.peer, None)?
    } else {
        // Nothing is measured, so no other machine is needed.
        rdma::RemoteEnd::Here(None)
    };
    let launched = match &remote {
        rdma::RemoteEnd::Launched(..) => mp::launched(),
        _ => None,
    };
    let is_here = matches!(remote, rdma::RemoteEnd::Here(_));
    let mpi = match &wanted.mpi {
        _ if wanted.no_mpi => mp::MpiFigures::None,
        Some(launcher) => mp::MpiFigures::By(launcher.clone()),
        None if is_here && !scope.sim => mp::MpiFigures::By("mpirun".into()),
        None => launched.map_or(mp::MpiFigures::None, mp::MpiFigures::Launched),
    };
    Ok(mp::Options {
        hca,
        device: wanted.device.as_ref().map(named),
        gid: wanted.gid_index,
        remote,
        mpi,
        scope,
    })
}

/// Location of the remote end.
fn remote(
    wanted: &PeerArgs,
    named_here: Option<&cli::DevicePort>,
) -> anyhow::Result<rdma::RemoteEnd> {
    if let Some(peer) = &wanted.peer {
        let (host, port) = peer.host_and_port(DEFAULT_PORT);
        let Some(secret) = secret(wanted)? else {
            bail!(
                "no secret for {host}: run the command that --listen printed there, or pass the secret in \
                 {SECRET_VARIABLE} or --secret-file FILE"
            );
        };
        return Ok(rdma::RemoteEnd::At { host, port, secret });
    }
    if let Some(address) = &wanted.listen {
        let secret = secret(wanted)?;
        let any_address = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), DEFAULT_PORT);
        let address = match address {
            Some(address) => address.socket(DEFAULT_PORT),
            None if wanted.no_secret => default_listen(),
            None => any_address,
        };
        if secret.as_ref().is_some_and(|secret| is_exposed(address.ip(), secret)) {
            bail!(
                "--no-secret needs a loopback address, and {} is not one: omit --no-secret, or use --listen 127.0.0.1",
                address.ip()
            );
        }
        return Ok(rdma::RemoteEnd::Comes(address, secret));
    }
    let launched = match &wanted.rendezvous {
        Some(Rendezvous::Launcher) => Some(None),
        Some(Rendezvous::File(file)) => Some(Some(file.clone())),
        None if named_here.is_none() && has_launched_peer() => Some(None),
        None => None,
    };
    match launched {
        Some(_) if wanted.no_secret => {
            bail!("the processes of a launcher need a secret: omit --no-secret")
        }
        Some(file) => Ok(rdma::RemoteEnd::Launched(file, secret(wanted)?)),
        None if wanted.no_secret || wanted.secret_file.is_some() => {
            bail!(
                "--secret-file and --no-secret need another process: add HOST, --listen or --rendezvous"
            )
        }
        None => Ok(rdma::RemoteEnd::Here(named_here.map(named))),
    }
}

/// The secret from the options or the environment, valid or not; none without either.
fn secret(wanted: &PeerArgs) -> anyhow::Result<Option<Secret>> {
    if wanted.no_secret {
        return Ok(Some(Secret::none()));
    }
    match &wanted.secret_file {
        Some(file) => Ok(Some(Secret::from_file(file)?)),
        None => Ok(Secret::from_environment()?),
    }
}

/// True if a launcher started at least two processes.
fn has_launched_peer() -> bool {
    let place = from_environment(&|name| std::env::var(name).ok());
    // Invalid variables are an error only with --rendezvous.
    place.is_ok_and(|place| place.is_some_and(|place| place.size.is_some_and(|size| size > 1)))
}

fn nodes(wanted: Option<NumaChoice>, depth: Depth) -> Nodes {
    match wanted {
        Some(wanted) => chosen_nodes(wanted),
        None if depth == Depth::Quick => Nodes::Near,
        None => Nodes::All,
    }
}

fn chosen_nodes(wanted: NumaChoice) -> Nodes {
    match wanted {
        NumaChoice::All => Nodes::All,
        NumaChoice::Near => Nodes::Near,
        NumaChoice::Node(node) => Nodes::One(node),
    }
}

/// Shows progress and messages while a probe runs.
struct TerminalWatcher<'e> {
    bar: Progress,
    err: &'e mut dyn Write,
}

impl Watcher for TerminalWatcher<'_> {
    fn step(&mut self, subject: &str, step: &Step) {
        self.bar.show(subject, &step.what, step.done, step.total);
    }

    fn message(&mut self, message: &str) {
        let Self { bar, err } = self;
        bar.suspend(|| super::remark(*err, message));
    }
}
