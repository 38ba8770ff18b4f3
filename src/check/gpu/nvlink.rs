//! gpu.nvlink: each GPU has as many NVLinks up as the other GPUs of its model in this machine.
//!
//! Whether a link ought to be up is not in NVML: a bridge may be absent by choice, and some models have links that
//! lead nowhere. Links to NVSwitches and those of an SXM board are wired in the board, so all GPUs of a model have
//! equally many. Error counters have no documented limit: they run from the driver's load, and links replay by
//! design. They are evidence; recoveries that rise since an earlier report are judged.

use std::collections::{BTreeSet, HashMap};

use super::reading::{each, nvml_gpu};
use crate::check::readings::nvlinks_of;
use crate::check::{Check, Ctx, Hint, Judgement, Rule, Source, passthrough, unidentified, words};
use crate::model::{
    ActionClass, Area, Fact, FasterPath, Ids, NvLink, NvmlGpu, Severity, counter, is_high, span,
};

const STATE: &str = "nvmlDeviceGetNvLinkState";
const ERRORS: &str = "nvmlDeviceGetFieldValues";

pub const CHECK: Check = Check {
    id: "gpu.nvlink",
    rule: "No GPU has fewer NVLinks up than the other GPUs of its model in this machine. With --baseline: its \
        NVLinks do not recover from errors ten times an hour or more since the earlier report.",
    sources: "NVML",
    severity: Severity::Warn,
    why: "A link that fails in training, or that an error (Xid 74, 144 to 150) has taken down, lowers the bandwidth to \
        all peers; a fabric manager may leave the GPU out. Links to switches and those of an SXM board are wired; \
        bridges may be absent by choice. Error counters run from the driver's load and have no documented limit, so they \
        are evidence only.",
    remedy: "Read the kernel log and the fabric manager's, reset the GPUs or reboot; if the links stay down, have the board \
        serviced.",
    action: ActionClass::ResetGpu
        .drained("https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html")
        .then(ActionClass::CallVendor),
    references: &[
        "https://docs.nvidia.com/deploy/nvml-api/group__NvLink.html",
        "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
        "https://github.com/Azure/azhpc-diagnostics/issues/73",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1150",
    ],
    explained_by: &["gpu.driver", "gpu.fabric"],
    reads: &[Source::Nvml, Source::NvLinks, Source::NvLinkErrors],
    hint: Some(Hint {
        cause: "An NVLink of a GPU is down.",
        words: "nvlink=5 slow=1 failure=1 imex=-1 missing=1",
    }),
    closes: Some(FasterPath::PeerAccess),
    judge: nvlink,
    ..Check::DEFAULT
};

fn nvlink(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let (models, alone) = (models(ctx), Model::default());
    each(ctx, |device| {
        let model = device.ids.known().and_then(|ids| models.get(ids)).unwrap_or(&alone);
        let subject = words::device(ctx, device.bdf);
        match nvml_gpu(ctx, device.bdf) {
            Ok(gpu) => errors(gpu, rising(ctx, gpu, links(subject, gpu, model))),
            Err(gap) => gap.unknown(subject),
        }
    })
}

fn links(subject: String, gpu: &NvmlGpu, model: &Model) -> Judgement {
    let active = match &gpu.active_links {
        Fact::Known(links) => links.len(),
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, Area::Nvml, STATE),
    };
    let down = gpu.inactive_links.known().copied();
    if active >= model.most && !(model.unknown && down != Some(0)) {
        return match (active, down) {
            (0, Some(0)) => Judgement::skip(subject, "It has no NVLink."),
            (0, _) => Judgement::skip(
                subject,
                "No NVLink is up, here or on another GPU of its model: it has none, no bridge or switch connects them, or \
                 the fabric is not set up (gpu.fabric).",
            ),
            (_, Some(0)) => Judgement::pass(subject, format!("All {active} NVLinks are up.")),
            (_, down) => Judgement::pass(
                subject,
                format!("{active} NVLinks are up; no GPU of its model in this machine has more."),
            )
            .evidence(STATE, shown(active, down)),
        };
    }
    if active >= model.most {
        return Judgement::undetermined(
            subject,
            "cannot determine whether its inactive NVLinks are meant to be up: those of another GPU of its model are unknown",
        )
        .needs("an NVML that shows all GPUs: see gpu.present and gpu.driver")
        .evidence(STATE, shown(active, down));
    }
    fewer(subject, gpu, active, model).evidence(STATE, shown(active, down))
}

/// Fewer links are up than those of another GPU of this model.
fn fewer(subject: String, gpu: &NvmlGpu, active: usize, model: &Model) -> Judgement {
    let most = model.most;
    if gpu.mig == Fact::Known(true)
        || gpu.virtualization.known().is_some_and(|mode| mode == "host_vgpu")
    {
        return Judgement::info(
            subject,
            format!(
                "{active} of its NVLinks are up and {most} of another GPU of its model: MIG and vGPU partitions switch links off."
            ),
        );
    }
    match model.wired {
        Some(true) => Judgement::broken(
            subject,
            format!(
                "{active} of its NVLinks are up; another GPU of its model in this machine has {most}. Traffic between GPUs is slower, or the \
                 fabric leaves this GPU out."
            ),
        )
        .command("nvidia-smi nvlink -s")
        .advice(
            "Xid 74 and 144 to 150, and SXid lines, in the kernel log name the link; so does the log of the fabric manager. Reset \
             the GPUs or reboot; if the same links stay down, the board or the GPU needs service.",
        ),
        Some(false) => Judgement::info(
            subject,
            format!(
                "{active} of its NVLinks are up; another GPU of its model here has {most}. If both have the same bridges, one is not \
                 seated well."
            ),
        ),
        None => Judgement::undetermined(
            subject,
            format!("cannot determine whether NVLinks are down: {active} are up, and {most} of another GPU of its model"),
        )
        .needs("NVML's product name and the remote end of its NVLinks"),
    }
}

/// The GPUs of one model in this machine.
#[derive(Default)]
struct Model {
    /// The most links that one has up.
    most: usize,
    /// The links of one are unknown.
    unknown: bool,
    /// The board wires the links, so all of them are meant to be up; unknown if NVML says too little.
    wired: Option<bool>,
}

fn models<'a>(ctx: &Ctx<'a>) -> HashMap<&'a Ids, Model> {
    let mut models: HashMap<&Ids, Model> = HashMap::new();
    for device in passthrough::own_gpus(ctx.facts) {
        let Fact::Known(ids) = &device.ids else {
            continue;
        };
        let model = models.entry(ids).or_default();
        match nvml_gpu(ctx, device.bdf).map(|gpu| (gpu, &gpu.active_links)) {
            Ok((gpu, Fact::Known(links))) if links.len() > model.most => {
                (model.most, model.wired) = (links.len(), wired(gpu, links));
            }
            Ok((_, Fact::Known(_))) => {}
            _ => model.unknown = true,
        }
    }
    // A function of unknown ids may be another GPU of any model.
    if unidentified(ctx.facts).is_some() {
        models.values_mut().for_each(|model| model.unknown = true);
    }
    models
}

fn wired(gpu: &NvmlGpu, links: &[NvLink]) -> Option<bool> {
    let leads_to = |kind: &str| {
        links.iter().any(|link| link.remote.known().is_some_and(|remote| remote == kind))
    };
    match gpu.name.known() {
        _ if leads_to("switch") => Some(true),
        Some(name) if name.contains("SXM") => Some(true),
        Some(_)
            if links
                .iter()
                .all(|link| link.remote.known().is_some_and(|remote| remote == "gpu")) =>
        {
            Some(false)
        }
        _ => None,
    }
}

fn shown(active: usize, down: Option<u32>) -> String {
    match down {
        Some(down) => format!("{active} active, {down} inactive"),
        None => format!("{active} active"),
    }
}

/// The judgement of errors that rose since an earlier report, if the number of links is not a fault.
fn rising(ctx: &Ctx<'_>, gpu: &NvmlGpu, judgement: Judgement) -> Judgement {
    let growth = ctx.facts.network.known().and_then(|network| network.growth.as_ref());
    let rises = growth.and_then(|growth| Some((growth, growth.rises.get(&nvlinks_of(gpu.bdf))?)));
    let Some((growth, rises)) = rises.filter(|_| judgement.rule != Rule::Broken) else {
        return judgement;
    };
    let high = rises.iter().filter(|(name, rise)| is_high(name, **rise, growth.seconds));
    let high: Vec<(&String, &u64)> = high.collect();
    if high.is_empty() {
        return judgement;
    }
    let within = span(growth.seconds);
    let listed = words::list(high.iter().map(|(name, rise)| format!("{name} +{rise}")));
    let known = || high.iter().filter_map(|(name, _)| counter(name));
    let meanings: BTreeSet<&str> = known().map(|counter| counter.meaning).collect();
    let meanings: Vec<&str> = meanings.into_iter().collect();
    let message =
        format!("NVLinks count errors now: within {within} {listed} rose. {}", meanings.join(" "));
    let causes: BTreeSet<&str> = known().map(|counter| counter.cause).collect();
    let broken = Judgement::broken(judgement.subject, message).evidence(ERRORS, listed);
    causes.into_iter().fold(broken, Judgement::advice)
}

/// Adds the counters that are not zero.
fn errors(gpu: &NvmlGpu, judgement: Judgement) -> Judgement {
    let Fact::Known(counters) = &gpu.link_errors else {
        return judgement;
    };
    let counted: Vec<String> = counters
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if counted.is_empty() { judgement } else { judgement.evidence(ERRORS, counted.join(", ")) }
}
