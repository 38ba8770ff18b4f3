//! rdma.uar-map: CUDA registers the doorbell of each mlx5 NIC for each GPU, tried with --live.

use super::{MLX5, driver, each_nic, rdma_nics};
use crate::check::param::{PeerMapping, peer_mapping_remedy};
use crate::check::{Ctx, Judgement, passthrough, unknown_if, words};
use crate::model::{
    Bdf, DoorbellTrial, DoorbellTrials, Fact, GpuRegistration, RdmaDevice, RegistrationOutcome,
};

const CALL: &str = "cuMemHostRegister with IOMEMORY";

// CUresult (cuda.h).
const INVALID_VALUE: u32 = 1;
const OPERATING_SYSTEM: u32 = 304;
const NOT_PERMITTED: u32 = 800;
const NOT_SUPPORTED: u32 = 801;

const ENOMEM: i32 = 12;

/// Each mlx5 NIC, with all GPUs of this machine; where these differ, in parts.
pub fn uar_map(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let may_be_one = |nic: &RdmaDevice| {
        driver(ctx.facts, nic)
            .known()
            .is_none_or(|name| name == MLX5)
    };
    let one = |judgement| vec![judgement];
    if ctx.facts.rdma.known().is_none() || !rdma_nics(ctx.facts).any(may_be_one) {
        return each_mlx5(ctx, |_| vec![]);
    }
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", "/sys/bus/pci/devices") {
        return one(unknown);
    }
    let gpus: Vec<Bdf> = passthrough::own_gpus(ctx.facts)
        .map(|gpu| gpu.bdf)
        .collect();
    if gpus.is_empty() {
        return one(Judgement::skip(
            "machine",
            "This machine uses no GPU itself.",
        ));
    }
    let Some(outcome) = &ctx.facts.registration else {
        return one(Judgement::skip(
            "machine",
            "A doorbell is registered only with --live.",
        ));
    };
    let trial = "a trial of registering doorbells";
    match outcome {
        Fact::Unknown(why) => one(Judgement::unknown("machine", *why, trial)),
        Fact::Known(RegistrationOutcome::Absent { reason } | RegistrationOutcome::Failed { reason }) => {
            one(Judgement::undetermined("machine", format!("Cannot determine: {reason}."))
                .evidence(trial, reason)
                .needs("CUDA and libibverbs that list their devices here: see gpu.driver and rdma.provider"))
        }
        Fact::Known(RegistrationOutcome::Tried(tried)) => each_mlx5(ctx, |nic| judge(ctx, nic, &gpus, tried)),
    }
}

/// The NICs that mlx5 drives; a NIC whose driver is another, or unknown, gives its judgement.
fn each_mlx5(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice) -> Vec<Judgement>) -> Vec<Judgement> {
    each_nic(ctx, |nic| match driver(ctx.facts, nic) {
        Fact::Known(driver) if driver == MLX5 => judge(nic),
        Fact::Known(driver) => vec![Judgement::skip(
            &nic.name,
            format!("It is no mlx5 NIC: {driver} drives it."),
        )],
        Fact::Unknown(why) => vec![Judgement::unknown(&nic.name, why, "the NIC's driver")],
    })
}

/// What is known of a GPU with a NIC.
#[derive(Clone, Copy, PartialEq)]
enum Seen<'a> {
    Trial(&'a DoorbellTrial),
    /// The GPU could not be opened.
    NoGpu(&'a str),
    /// CUDA does not show the GPU.
    Hidden,
    /// The NIC was not among those that were tried.
    NoNic,
    /// Whoever tried registrations did not try this one.
    Untried,
}

fn seen<'a>(nic: &RdmaDevice, gpu: Bdf, tried: &'a [GpuRegistration]) -> Seen<'a> {
    match tried.iter().find(|tried| tried.bdf == Some(gpu)) {
        None => Seen::Hidden,
        Some(tried) => match &tried.doorbells {
            None => Seen::Untried,
            Some(DoorbellTrials::NotTried { reason }) => Seen::NoGpu(reason),
            Some(DoorbellTrials::Tried(rdma_nics)) => {
                rdma_nics.get(&nic.name).map_or(Seen::NoNic, Seen::Trial)
            }
        },
    }
}

/// One judgement where all GPUs fare alike, as they do but where one has a registry key of its own.
fn judge(
    ctx: &Ctx<'_>,
    nic: &RdmaDevice,
    gpus: &[Bdf],
    tried: &[GpuRegistration],
) -> Vec<Judgement> {
    let mut parts: Vec<(Seen<'_>, Vec<Bdf>)> = Vec::new();
    for gpu in gpus {
        let seen = seen(nic, *gpu, tried);
        match parts.iter_mut().find(|(other, _)| *other == seen) {
            Some((_, those)) => those.push(*gpu),
            None => parts.push((seen, vec![*gpu])),
        }
    }
    let whole = parts.len() == 1;
    let parts = parts.into_iter();
    parts
        .map(|(seen, gpus)| {
            let names: Vec<String> = gpus.iter().map(|gpu| name(ctx, *gpu)).collect();
            let pairs = names.iter().map(|gpu| format!("{gpu}–{}", nic.name));
            let subject = match whole {
                true => nic.name.clone(),
                false => words::list(pairs),
            };
            told(ctx, subject, nic, seen, (&gpus, &words::list(&names)))
        })
        .collect()
}

/// A GPU by its row's name, else its address.
fn name(ctx: &Ctx<'_>, gpu: Bdf) -> String {
    let row = ctx.topology.rows.iter().find(|row| row.bdf == Some(gpu));
    row.map_or_else(|| gpu.to_string(), |row| row.name.clone())
}

fn told(
    ctx: &Ctx<'_>,
    subject: String,
    nic: &RdmaDevice,
    seen: Seen<'_>,
    (gpus, who): (&[Bdf], &str),
) -> Judgement {
    let unknown = |reason: &str| {
        Judgement::undetermined(subject.clone(), format!("Cannot determine: {reason}."))
    };
    let called = format!("{CALL} on {} for {who}", nic.name);
    match seen {
        Seen::Trial(DoorbellTrial::Registered) => {
            Judgement::pass(subject, format!("{who} may ring its doorbell: CUDA registers its page."))
                .evidence(called, "registered")
        }
        Seen::Trial(DoorbellTrial::Refused { code, reason }) => {
            refused(ctx, subject, (gpus, who), *code, reason).evidence(called, reason)
        }
        Seen::Trial(DoorbellTrial::NoLibrary { reason }) => unknown(reason)
            .evidence("libmlx5.so.1", reason)
            .needs("rdma-core's library for mlx5, which gives the address of the doorbell (package ibverbs-providers; libibverbs on RPM systems): see rdma.provider"),
        Seen::Trial(DoorbellTrial::Closed(refusal)) => unknown(&refusal.reason)
            .evidence(format!("ibv_open_device on {}", nic.name), &refusal.reason)
            .needs("a user who may open the NIC's node: see rdma.device"),
        Seen::Trial(DoorbellTrial::Withheld(refusal)) => unknown(&refusal.reason)
            .evidence(format!("a queue pair of {}", nic.name), &refusal.reason)
            .needs(match refusal.code {
                Some(ENOMEM) => "room for a queue pair's memory: see limits.memlock",
                _ => "a queue pair with a doorbell register of its own, in a thread domain: see dmesg, and whether rdma-core is \
                      as new as the kernel (rdma.core)",
            }),
        Seen::NoGpu(reason) => unknown(&format!("{who} cannot be used by this process"))
            .evidence("the trial", reason)
            .needs("a GPU that this process may use: see gpu.driver, and which processes use it"),
        Seen::Hidden => unknown(&format!("CUDA does not show {who} to this process"))
            .evidence("the trial", "not among its GPUs")
            .needs("a process that sees all GPUs: see CUDA_VISIBLE_DEVICES and the container's devices"),
        Seen::NoNic => unknown("it was not tried")
            .evidence("the trial", "not among its NICs")
            .needs("a NIC that libibverbs and libmlx5 support, among its first 64: see rdma.provider"),
        Seen::Untried => unknown("the recorded trial did not include this")
            .evidence("the trial", "of an older gdr")
            .needs("gdr doctor --live of this version, or its snapshot"),
    }
}

/// What CUDA refused, why, and what to do.
fn refused(
    ctx: &Ctx<'_>,
    subject: String,
    (gpus, who): (&[Bdf], &str),
    code: Option<u32>,
    reason: &str,
) -> Judgement {
    // The worst of them says what is to be done.
    let mapping = || {
        let each = gpus.iter().map(|gpu| PeerMapping::of(ctx, *gpu));
        each.max().unwrap_or(PeerMapping::Shut)
    };
    let (why, mapping) = match code {
        Some(NOT_PERMITTED) => {
            let mapping = mapping();
            let although = match mapping {
                PeerMapping::Open => ", although PeerMappingOverride is on",
                PeerMapping::OpenNext(_) | PeerMapping::Shut => "",
            };
            let why = format!(
                "the driver refuses peer mappings to this process{although} (CUDA error 800, not permitted)"
            );
            (why, Some(mapping))
        }
        Some(OPERATING_SYSTEM) => {
            let why = "the driver could not follow this process's mapping of it in this kernel (CUDA error 304, operating system)";
            (why.to_owned(), None)
        }
        Some(NOT_SUPPORTED) => {
            let why = "the driver maps no device's registers on this platform (CUDA error 801, not supported)";
            (why.to_owned(), None)
        }
        Some(INVALID_VALUE) => {
            let why =
                "CUDA does not recognize it as device registers (CUDA error 1, invalid value)";
            (why.to_owned(), None)
        }
        Some(_) | None => (reason.to_owned(), None),
    };
    let judgement = Judgement::broken(
        subject,
        format!(
            "{who} cannot ring its doorbell: {why}. Until then, a CPU thread can ring it (gdr probe async --hca proxy)."
        ),
    );
    if let Some(mapping) = mapping {
        return peer_mapping_remedy(ctx, judgement, &mapping);
    }
    match code {
        Some(OPERATING_SYSTEM) => judgement.advice(
            "Install a driver made for this kernel: the kernel's function changed from follow_pfn to follow_pte to follow_pfnmap_start (see gpu.min-driver, \
                 platform.kernel, and the NVRM lines of the kernel log).",
        ),
        Some(NOT_SUPPORTED) => judgement.advice(
            "Install a newer driver (see gpu.min-driver); if it is the newest, use the proxy on this platform.",
        ),
        _ => judgement.advice(
            "Read the NVRM and mlx5_core lines of the kernel log; gdr knows no remedy but the proxy.",
        ),
    }
}

#[cfg(test)]
mod tests;
