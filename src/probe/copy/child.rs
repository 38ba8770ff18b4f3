//! The child's side: it opens one GPU, maps its memory, and works through its task, telling what it does and finds.

use std::io::{self, Write};

use gdrcopy::copy::kernels as all_kernels;
use gdrcopy::{BackendKind, Gdr, Outcome};
use gpu::Gpu;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::request::{Request, Task};
use super::session::{Session, Trouble};
use super::{calls, kernels_check, ping_pong, sweep, validate};
use crate::model::{BackendChoice, BackendOutcome, Bdf, IdList};
use crate::probe::events::{Event, Listed, Teller};
use crate::probe::verdict::Subject;

/// Does what the parent asked for.
pub fn answer(request: Request, out: &mut dyn Write) -> io::Result<()> {
    match request {
        Request::List { sim, patience } => {
            let mut teller = Teller::new(out, patience);
            list(sim, &mut teller)?;
            teller.tell(&Event::End)
        }
        Request::Copy(task) => {
            let mut teller = Teller::new(out, task.patience);
            match probe(&task, &mut teller) {
                Ok(()) => {}
                // Nobody hears it any more.
                Err(Trouble::Io(error)) => return Err(error),
                Err(trouble) => teller.result(
                    about(&task, if task.ordinal.is_none() { "sim" } else { "" }).impossible(
                        "map",
                        None,
                        true,
                        gpu::sentence(&trouble),
                    ),
                )?,
            }
            teller.tell(&Event::End)
        }
    }
}

/// The names of the copy kernels this CPU can run.
pub fn kernels() -> Vec<&'static str> {
    let kernels = all_kernels().iter().filter(|kernel| kernel.supported());
    kernels.map(gdrcopy::copy::Kernel::name).collect()
}

fn list(sim: bool, teller: &mut Teller<'_>) -> io::Result<()> {
    if sim {
        let gpu = Gpu::sim();
        return teller.tell(&Event::Listed(vec![listed(gpu.device())]));
    }
    teller.doing("libcuda.so.1 to start (cuInit)")?;
    let machine = Subject {
        subject: "machine".to_owned(),
        backend: "cuda".to_owned(),
        numa: None,
    };
    let why = match gpu::devices() {
        Ok(devices) if devices.is_empty() => {
            "CUDA shows no GPU here: see CUDA_VISIBLE_DEVICES and gdr doctor".to_owned()
        }
        Ok(devices) => return teller.tell(&Event::Listed(devices.iter().map(listed).collect())),
        Err(error) => format!(
            "there is no GPU to probe: {}; gdr doctor tells more, --sim needs no GPU",
            gpu::sentence(&error)
        ),
    };
    teller.result(machine.impossible("gpu", None, true, why))
}

fn listed(device: &gpu::Device) -> Listed {
    Listed {
        ordinal: device.ordinal,
        name: device.name.clone(),
        uuid: device.uuid.clone(),
        bdf: device.pci.and_then(|pci| pci.to_string().parse::<Bdf>().ok()),
    }
}

fn about(task: &Task, backend: &str) -> Subject {
    Subject {
        subject: task.subject.clone(),
        backend: backend.to_owned(),
        numa: task.node.as_ref().map(|node| node.0),
    }
}

fn probe(task: &Task, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    if let Some((node, cpus)) = &task.node {
        bind(*node, cpus)?;
    }
    teller.doing("CUDA to open the GPU")?;
    let gpu = match task.ordinal {
        Some(ordinal) => Gpu::open(ordinal)?,
        None => Gpu::sim(),
    };
    teller.doing("a backend to open")?;
    let backends = backends(task);
    let opened = match (&task.backend, task.ordinal) {
        (_, None) => Gdr::open_with(BackendKind::Sim),
        (Some(name), _) => BackendKind::named(name).map_or_else(Gdr::open, Gdr::open_with),
        (None, _) => Gdr::open(),
    };
    let mut session = Session::new(task, gpu, opened, backends, teller)?;
    if !task.sweep_only {
        validate::run(&mut session, teller)?;
        kernels_check::run(&mut session, teller)?;
        calls::run(&session, teller)?;
        ping_pong::run(&session, teller)?;
    }
    sweep::run(&mut session, teller)
}

/// Those of the CPUs that this process may use.
pub fn usable(cpus: &IdList) -> IdList {
    match sched_getaffinity(None) {
        Ok(allowed) => {
            let number =
                |cpu: &u32| usize::try_from(*cpu).is_ok_and(|cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu));
            let most = u32::try_from(CpuSet::MAX_CPU).unwrap_or(u32::MAX);
            IdList::new((0..most).filter(|cpu| cpus.contains(*cpu)).filter(number))
        }
        // What cannot be asked is found out when a child binds itself.
        Err(_) => cpus.clone(),
    }
}

/// Binds this process, and all threads it will start, to the CPUs of a node that it may use.
fn bind(node: u32, cpus: &IdList) -> Result<(), Trouble> {
    let allowed = sched_getaffinity(None).map_err(|errno| Trouble::Bind(node, errno.into()))?;
    let mut wanted = CpuSet::new();
    let mut any = false;
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
        if u32::try_from(cpu).is_ok_and(|cpu| cpus.contains(cpu)) {
            wanted.set(cpu);
            any = true;
        }
    }
    if !any {
        return Err(Trouble::NoCpu(node));
    }
    sched_setaffinity(None, &wanted).map_err(|errno| Trouble::Bind(node, errno.into()))
}

fn backends(task: &Task) -> Vec<BackendChoice> {
    let found = match task.ordinal {
        Some(_) => Gdr::explain(),
        None => Vec::new(),
    };
    let choices = found.into_iter().filter(|found| found.backend != BackendKind::Sim);
    choices
        .map(|found| BackendChoice {
            outcome: match (&task.backend, found.outcome) {
                (Some(forced), Outcome::Chosen | Outcome::Usable) if forced != found.backend.name() => {
                    BackendOutcome::Usable
                }
                (Some(_), Outcome::Usable) | (_, Outcome::Chosen) => BackendOutcome::Chosen,
                (_, Outcome::Usable) => BackendOutcome::Usable,
                (_, Outcome::Refused) => BackendOutcome::Refused,
            },
            backend: found.backend.name().to_owned(),
            why: found.why,
        })
        .collect()
}
