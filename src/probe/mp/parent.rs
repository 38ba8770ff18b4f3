//! The parent's side: two children on this machine, or one here and one on another.

use super::child::NAME;
use super::mpi::{self, MpiFigures};
use super::plan::MAX_ROOM;
use super::talk::Message;
use super::task::{Side, Task};
use crate::model::figure;
use crate::model::{ProbeKind, ProbeReport, ProbeResult};
use crate::probe::children::Children;
use crate::probe::hca::{HcaChoice, HcaOption, HcaProvider};
use crate::probe::machine::Machine;
use crate::probe::processes;
use crate::probe::rdma::RemoteEnd;
use crate::probe::rdma::across::{self, Across, RemotePlace, report_impossible};
use crate::probe::scope::{ProbeError, Scope};
use crate::probe::supervise::{Probe, expect_no_latency};
use crate::probe::target::Target;
use crate::probe::terms::Terms;
use crate::probe::verdict::Subject;

/// `gdr probe mp`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    pub hca: HcaOption,
    /// The other rank: without a device, of this machine.
    pub remote: RemoteEnd,
    pub mpi: MpiFigures,
}

/// The note with a software HCA.
const SIMULATED: &str = "The HCA is SIMULATED: threads of the CPU execute the WQEs, and messages go through a socket. The figures show the \
                         cost of streams and queues, and nothing about a NIC.";

/// The note where two real processes use one GPU.
const ONE_GPU: &str = "Both processes use one GPU, which runs them in turns (time slices; MPS changes that). Their kernels wait for each \
                       other's turn, so the latency by kernels is that of the turns. Two machines show that of messages: --listen.";

/// A GPU, and its HCA.
pub struct LocalEnd {
    target: Target,
    hca: HcaChoice,
}

impl Options {
    fn task(&self, place: &LocalEnd, subject: String, side: Side, room: usize) -> Task {
        Task {
            subject,
            target: place.target.clone(),
            hca: place.hca.clone(),
            terms: self.scope.terms.clone(),
            side,
            is_across: !self.is_here(),
            room,
        }
    }

    fn is_here(&self) -> bool {
        matches!(self.remote, RemoteEnd::Here(_))
    }

    /// Adds MPI's figures beside those of a subject.
    fn mpi_beside(&self, children: &mut Children<'_>, subject: &str) -> Result<(), ProbeError> {
        let terms = &self.scope.terms;
        let terms = Terms { sizes: terms.mp_sizes(self.scope.sim), ..terms.clone() };
        mpi::beside(children, &self.mpi, subject, terms)
    }
}

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Mp;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let gpus = children.gpus(&self.scope, 1, machine)?;
        if gpus.is_empty() {
            return Ok(());
        }
        let Some(nics) = self.hca.nics(machine, children)? else {
            return Ok(());
        };
        let mut places = Vec::new();
        for gpu in gpus {
            let target = gpu.target();
            match self.hca.choice(&target, &nics) {
                Ok(hca) => places.push(LocalEnd { target, hca }),
                Err(why) => {
                    let why = format!("{why}; --hca sim needs no RDMA device");
                    report_impossible::<Self>(children, why);
                    return Ok(());
                }
            }
        }
        if !self.is_here() {
            across::run(self, children, &places)?;
            if matches!(self.mpi, MpiFigures::Launched(_)) && children.report.complete {
                let subject = across_subject(children.report);
                self.mpi_beside(children, &subject)?;
            }
            return Ok(());
        }
        let room = self.room();
        for place in &places {
            let subject = &place.target.subject;
            let [client, server] = [Side::Client, Side::Server]
                .map(|side| self.task(place, subject.clone(), side, room));
            let sockets = processes::sockets()?;
            let both = processes::run(children, subject, [&client, &server], sockets)?;
            let about = Subject::new(subject, place.target.cuda());
            both.report_remote_failure(children.report, &about, NAME);
            if !both.go_on() {
                return Ok(());
            }
        }
        match places.first() {
            Some(place) => self.mpi_beside(children, &place.target.subject),
            None => Ok(()),
        }
    }

    fn finish(&self, report: &mut ProbeReport) {
        if self.hca.provider == HcaProvider::Sim {
            report.notes.push(SIMULATED.to_owned());
        }
        let by_kernels = |result: &ProbeResult| {
            result.name == figure::mp::KERNEL_LATENCY.name && result.median.is_some()
        };
        if self.is_here() && !self.scope.sim && report.results.iter().any(by_kernels) {
            report.notes.push(ONE_GPU.to_owned());
        }
    }

    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        expect_no_latency(report, figure::mp::CPU_LATENCY, 8);
        Ok(())
    }
}

/// That of the first figure.
fn across_subject(report: &ProbeReport) -> String {
    let first = report.results.first();
    first.map_or_else(|| "MPI".to_owned(), |result| result.subject.clone())
}

impl Across for Options {
    type LocalEnd = LocalEnd;
    type Message = Message;
    type Task = Task;
    const NAME: &'static str = NAME;
    const BACKEND: &'static str = "mp";

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn remote(&self) -> &RemoteEnd {
        &self.remote
    }

    fn inventory(&self, place: &LocalEnd) -> RemotePlace {
        let gpu = place.target.subject.split(' ').next().unwrap_or_default();
        RemotePlace {
            subject: match place.hca.port() {
                Some(port) => format!("{gpu} {}:{}", port.device, port.number),
                None => gpu.to_owned(),
            },
            limit: None,
            curve: None,
        }
    }

    fn room(&self) -> usize {
        self.scope.terms.mp_room(self.scope.sim)
    }

    fn client(&self, place: &LocalEnd, subject: String, _: Option<u64>) -> Task {
        self.task(place, subject, Side::Client, self.room())
    }

    fn server(&self, place: &LocalEnd, subject: String, room: usize) -> Option<Task> {
        (room <= MAX_ROOM).then(|| self.task(place, subject, Side::Server, room))
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
