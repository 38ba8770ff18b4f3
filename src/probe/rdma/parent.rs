//! The parent: selects the ends and runs a child for each connection.

use super::across::{self, Across, RemotePlace, report_impossible};
use super::client::LIMITED_BY_LINK;
use super::comparison::compare;
use super::control::Message;
use super::nodes::{self, on_nodes, remote_on_node};
use super::on_demand;
use super::options::{MemoryKind, Named, Options, RemoteEnd};
use super::pairs::{curves, new_task, places, remote, served, task};
use super::perftest;
use super::plan::MAX_MESSAGE;
use super::settings::RelaxedOrdering;
use super::task::{LocalEnd, Part, Task};
use super::together::{TogetherTask, shared};
use crate::model::figure::{rdma, transfer};
use crate::model::{GIGABYTES_PER_SECOND, ProbeKind, ProbeReport};
use crate::probe::children::Children;
use crate::probe::machine::{Machine, ProbedNic};
use crate::probe::scope::{ProbeError, Scope, chosen};
use crate::probe::supervise::Probe;
use crate::probe::target::Target;
use crate::probe::verdict::{Promise, Subject};

/// Note of a report of the simulated NIC.
const SIMULATED: &str = "The NIC is SIMULATED: a thread of the CPU executes the requests. The results measure this machine's CPU, not a \
                         NIC. With --device a NIC of this machine moves the simulated GPU's memory.";

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Rdma;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let Some((nics, gpus)) = devices(self, machine, children)? else {
            return Ok(());
        };
        let found = match places(self, &nics, &gpus) {
            Ok(places) => places,
            Err(why) => {
                report_impossible::<Options>(children, why);
                return Ok(());
            }
        };
        let found = if self.curves { curves(self, &nics, &found) } else { found };
        let found = on_nodes(self, machine, &nics, found)?;
        match &self.remote {
            RemoteEnd::Here(named) => {
                measure_local(self, (machine, &nics), children, &gpus, &found, named.as_ref())
            }
            RemoteEnd::At { .. } | RemoteEnd::Comes(..) | RemoteEnd::Launched(..) => {
                across::run(self, children, &found)
            }
        }
    }

    fn finish(&self, report: &mut ProbeReport) {
        if !self.simulates_nic() && !matches!(self.remote, RemoteEnd::Comes(..)) {
            report.packets = Some(self.settings.reported());
        }
        report.notes.extend(forbidden_ordering(self, report));
        report.notes.extend(nodes::costs(&report.results));
        report.notes.extend(shared(&report.results));
        report.notes.extend(on_demand::costs(&report.results));
        if self.simulates_nic() {
            report.notes.push(SIMULATED.to_owned());
        }
        if self.perftest {
            let lines = perftest::commands(report, self);
            report.notes.extend(lines);
        }
    }

    /// Each GPU with its best NIC.
    fn expect(&self, machine: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        let gpus: Vec<Target> = match self.kind {
            MemoryKind::Host | MemoryKind::Huge => Vec::new(),
            MemoryKind::Best | MemoryKind::Pinned | MemoryKind::Gpu => {
                let chosen = chosen(&self.scope, machine, &machine.listed())?;
                chosen.iter().map(|gpu| gpu.target()).collect()
            }
        };
        let found = match places(self, &machine.nics, &gpus) {
            Ok(found) => found,
            Err(why) => {
                report.notes.push(format!("No expected value: {why}."));
                return Ok(());
            }
        };
        let name = if self.curves { transfer::V3.bandwidth.name } else { rdma::WRITE.name };
        for place in &found {
            let task = task(self, place, place);
            let about = Subject::new(&task.subject, "verbs");
            // To another machine, so the port counts too.
            let limit = place.path.into_iter().chain(place.rate_of_bond()).min();
            report.results.push(match limit {
                Some(limit) => about.promised(
                    name,
                    LIMITED_BY_LINK,
                    GIGABYTES_PER_SECOND,
                    Promise { value: limit as f64 / 1e9, share: self.scope.terms.shares.port },
                ),
                None => {
                    let why =
                        "the bandwidth of its port and path is not in this snapshot".to_owned();
                    about.not_measured(name, LIMITED_BY_LINK, why)
                }
            });
        }
        Ok(())
    }
}

impl Across for Options {
    type LocalEnd = LocalEnd;
    type Message = Message;
    type Task = Task;
    const NAME: &'static str = "rdma";
    const BACKEND: &'static str = "verbs";

    fn name(&self) -> &'static str {
        self.name()
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn remote(&self) -> &RemoteEnd {
        &self.remote
    }

    fn inventory(&self, place: &LocalEnd) -> RemotePlace {
        RemotePlace {
            subject: place.subject.clone(),
            limit: place.rate_of_bond().into_iter().chain(place.path).min(),
            curve: place.curve,
        }
    }

    fn room(&self) -> usize {
        self.room()
    }

    fn client(&self, place: &LocalEnd, subject: String, limit: Option<u64>) -> Task {
        new_task(self, subject, Part::Client(place.clone()), limit)
    }

    fn server(&self, place: &LocalEnd, subject: String, room: usize) -> Option<Task> {
        let part = Part::Server(place.clone());
        (room <= MAX_MESSAGE).then(|| Task { room, ..new_task(self, subject, part, None) })
    }

    fn subject(task: &Task) -> &str {
        &task.subject
    }

    fn sanitize(message: Message) -> Message {
        match message {
            Message::Found(Some(what)) => Message::Found(Some(across::reason(&what))),
            message => message,
        }
    }
}

/// Note of NICs whose PCI Express keeps them from relaxed ordering.
fn forbidden_ordering(options: &Options, report: &ProbeReport) -> Option<String> {
    let forbidden = report.ends.iter().filter(|end| end.relaxed_ordering == Some(false));
    let mut names: Vec<&str> = forbidden.map(|end| end.device.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    (options.relaxed_ordering != RelaxedOrdering::Off && !names.is_empty()).then(|| {
        format!(
            "Relaxed ordering is requested and has no effect: PCI Express forbids it to {} (bit 4 of Device Control): see \
             gdr doctor --only rdma.write-ordering.",
            names.join(", ")
        )
    })
}

/// The NIC of `--sim`.
fn simulated_nic() -> ProbedNic {
    ProbedNic {
        name: "sim".to_owned(),
        software: true,
        ports: vec![(1, None)],
        ..ProbedNic::default()
    }
}

/// Why a simulated run needs libibverbs.
const NIC_IS_REAL: &str = "With another process or a named device, --sim simulates the GPU and not the NIC, which needs libibverbs. \
                           'gdr probe rdma --sim' alone simulates both.";

/// The NICs and the selected GPUs.
type Devices = (Vec<ProbedNic>, Vec<Target>);

/// The devices of this machine; none if the probe cannot continue.
fn devices(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
) -> Result<Option<Devices>, ProbeError> {
    // Without the library nothing else works.
    let nics = if options.simulates_nic() {
        vec![simulated_nic()]
    } else {
        let Some(nics) = served(machine, children)? else {
            if options.scope.sim {
                children.report.notes.push(NIC_IS_REAL.to_owned());
            }
            return Ok(None);
        };
        nics
    };
    Ok(gpus(options, machine, children)?.map(|gpus| (nics, gpus)))
}

/// The ends of this machine for a fleet: one for each NIC, in the order of the NICs. Each GPU has its best NIC; other NICs take part
/// if they were named. Empty if the probe cannot continue.
pub fn rails(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
) -> Result<Vec<LocalEnd>, ProbeError> {
    let Some((nics, gpus)) = devices(options, machine, children)? else {
        return Ok(Vec::new());
    };
    let every = Options { all: true, ..options.clone() };
    let more = (!options.devices.is_empty()).then(|| places(&every, &nics, &gpus));
    let found = places(options, &nics, &gpus).and_then(|found| {
        let more = more.unwrap_or_else(|| Ok(Vec::new()))?;
        Ok(found.into_iter().chain(more))
    });
    let mut rails: Vec<LocalEnd> = Vec::new();
    match found {
        Ok(found) => {
            for place in found {
                if rails.iter().all(|known| known.port != place.port) {
                    rails.push(place);
                }
            }
        }
        Err(why) => report_impossible::<Options>(children, why),
    }
    let order = |place: &LocalEnd| {
        let name = place.port.device.clone();
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = name[digits..].parse().unwrap_or(0);
        (name[..digits].to_owned(), number, place.port.number)
    };
    rails.sort_by_key(order);
    on_nodes(options, machine, &nics, rails)
}

/// The selected GPUs; none if the probe cannot continue.
fn gpus(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
) -> Result<Option<Vec<Target>>, ProbeError> {
    if !options.wants_gpus() {
        return Ok(Some(Vec::new()));
    }
    let sim = u32::from(options.scope.sim);
    let Some(listed) = children.list(sim, options.kind != MemoryKind::Best)? else {
        return Ok(None);
    };
    if listed.is_empty() {
        let note = "No GPU is used: the memory is host memory.".to_owned();
        children.report.notes.push(note);
        return Ok(Some(Vec::new()));
    }
    let chosen = chosen(&options.scope, machine, &listed)?;
    children.report.gpus = chosen.iter().map(|gpu| gpu.target().probed(&gpu.listed.name)).collect();
    Ok(Some(chosen.iter().map(|gpu| gpu.target()).collect()))
}

fn measure_local(
    options: &Options,
    (machine, nics): (&Machine, &[ProbedNic]),
    children: &mut Children<'_>,
    gpus: &[Target],
    found: &[LocalEnd],
    named: Option<&Named>,
) -> Result<(), ProbeError> {
    let mut tasks = Vec::new();
    for local in found {
        let remote = match named.map(|named| remote(options, nics, gpus, named, local)) {
            Some(Ok(remote)) => remote_on_node(options, machine, nics, local, remote)?,
            Some(Err(why)) => {
                report_impossible::<Options>(children, why);
                return Ok(());
            }
            None => local.clone(),
        };
        let task = task(options, local, &remote);
        let mut ran = children.run(&task.subject.clone(), &task, &[])?;
        if ran.go_on && local.curve.is_none() {
            ran = compare(options, children, local, &remote)?.unwrap_or(ran);
        }
        if ran.go_on && local.curve.is_none() {
            ran = nodes::compare(options, machine, children, local, &remote)?.unwrap_or(ran);
        }
        if !ran.go_on {
            return Ok(());
        }
        tasks.push(task);
    }
    match (options.together, tasks.len()) {
        (false, _) => {}
        (true, 0 | 1) => children.note(
            "--together needs two connections: several GPUs, or several NICs with --device."
                .to_owned(),
        ),
        (true, _) => {
            children.run("all together", &TogetherTask { tasks }, &[])?;
        }
    }
    Ok(())
}
