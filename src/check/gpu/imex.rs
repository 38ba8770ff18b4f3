//! gpu.imex: if GPUs share memory between machines over NVLink, this user has a channel.

use super::reading::{CUDA, cuda_gpu, each, nvml_gpu};
use crate::check::{Check, Ctx, Hint, Judgement, Source, passthrough, unknown_if, words};
use crate::model::Order as _;
use crate::model::{ActionClass, Area, Bdf, Fabric, Fact, NodeState, PciDevice, Severity, Why};

const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";
const DEVICE: &str = "nvidia-caps-imex-channels";

pub const CHECK: Check = Check {
    id: "gpu.imex",
    rule: "If NVLink connects machines, this user has a channel to share memory between them.",
    sources: "CUDA attribute 128, NVML, /proc/devices, /dev/nvidia-caps-imex-channels, nvidia-imex.service",
    severity: Severity::Warn,
    why: "Memory with fabric handles needs a channel node of nvidia-caps-imex-channels; without one its allocation \
        fails (800, not permitted). Within one machine file descriptors do the same, and no channel is \
        needed.",
    remedy: "Create the channel's node (mknod, or NVreg_CreateImexChannel0=1) and start nvidia-imex on all machines of \
        the domain.",
    action: ActionClass::RestartService
        .running("https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/imexchannels.html"),
    references: &[
        "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/imexchannels.html",
        "https://github.com/NVIDIA/nccl/issues/1632",
        "https://github.com/NVIDIA/nvidia-modprobe/issues/9",
    ],
    explained_by: &["gpu.driver", "platform.container"],
    reads: &[Source::Nvml, Source::Cuda],
    hint: Some(Hint {
        cause: "Memory of GPUs on other nodes needs an IMEX channel that this process can open.",
        words: "imex=6 fabric=1 nvlink=1 failure=1 missing=1 container=1 not-permitted=1 invalid=1 kv-transfer=1 \
            cuda-ipc=2",
    }),
    judge: imex,
    ..Check::DEFAULT
};

/// One judgement for all GPUs with fabric handles: channels belong to the machine.
pub fn imex(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let able: Vec<Bdf> = passthrough::own_gpus(ctx.facts)
        .map(|device| device.bdf)
        .filter(|bdf| cuda_gpu(ctx, *bdf).is_ok_and(|gpu| gpu.fabric_handles == Fact::Known(true)))
        .collect();
    if able.is_empty() {
        each(ctx, |device| sharing(ctx, device))
    } else {
        vec![channel(ctx, &able)]
    }
}

/// A GPU without fabric handles, or one whose support is unknown.
fn sharing(ctx: &Ctx<'_>, device: &PciDevice) -> Judgement {
    let subject = words::device(ctx, device.bdf);
    match cuda_gpu(ctx, device.bdf).map(|gpu| gpu.fabric_handles.clone()) {
        Err(gap) => gap.unknown(subject),
        Ok(Fact::Unknown(why)) if why != Why::NotCovered => {
            Judgement::unknown(subject, why, Area::Cuda, "CUDA attribute 128")
        }
        // Drivers before CUDA 12.3 lack the attribute and have no fabric handles.
        Ok(_) => Judgement::skip(subject, "It shares no memory with other machines over NVLink."),
    }
}

fn channel(ctx: &Ctx<'_>, able: &[Bdf]) -> Judgement {
    let subject = words::list(able.iter().map(|bdf| words::device(ctx, *bdf)));
    let judgement = open(ctx, able, subject)
        .evidence(format!("{CUDA}: HANDLE_TYPE_FABRIC_SUPPORTED (128)"), "1");
    match ctx.facts.fabric.units.get(Fabric::IMEX) {
        Some(unit) => judgement.evidence(Fabric::IMEX, unit.words()),
        None => judgement,
    }
}

fn open(ctx: &Ctx<'_>, able: &[Bdf], subject: String) -> Judgement {
    let nodes = match &ctx.facts.fabric.imex_channels {
        Fact::Known(nodes) => nodes,
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, Area::Devices, CHANNELS),
    };
    let majors = ctx.facts.kernel.char_devices.as_ref().map(|devices| devices.get(DEVICE).cloned());
    let is_drivers = |state: &NodeState| {
        let major = |majors: &Option<Vec<u32>>| {
            majors.as_ref().is_some_and(|majors| majors.contains(&state.major))
        };
        state.character && majors.known().is_some_and(major)
    };
    let mut states =
        nodes.iter().filter_map(|node| Some((node, node.state.present()?))).collect::<Vec<_>>();
    // One channel that opens is enough, so it comes first.
    states.order_by_key(|(_, state)| (!is_drivers(state), state.usable != Fact::Known(true)));
    let Some((node, state)) = states.first() else {
        return missing(ctx, able, subject).evidence(CHANNELS, "no channel");
    };
    if let Fact::Unknown(why) = majors {
        return Judgement::unknown(subject, why, Area::Proc, "/proc/devices");
    }
    let value = format!("major {}, mode {:o}", state.major, state.mode);
    match (is_drivers(state), &state.usable) {
        (false, _) => Judgement::broken(
            subject,
            format!(
                "{} is left over from an earlier load of the driver: its major number is not the driver's.",
                node.path
            ),
        )
        .command(format!("rm -r {CHANNELS} && {}", make(ctx))),
        (true, Fact::Known(true)) => Judgement::pass(subject, format!("{} opens for this user.", node.path)),
        (true, Fact::Known(false)) => Judgement::broken(
            subject,
            format!(
                "{} does not open for this user: memory for other machines cannot be allocated (error 800, not permitted).",
                node.path
            ),
        )
        .advice(
            "Ask the administrator or the job scheduler for a channel: the node's owner and mode say \
                 who may open it.",
        ),
        (true, Fact::Unknown(_)) if state.mode & 0o006 == 0o006 => {
            Judgement::pass(subject, format!("{} opens for every user.", node.path))
        }
        (true, Fact::Unknown(why)) => return Judgement::unknown(subject, *why, Area::Devices, &node.path),
    }
    .evidence(node.path.as_str(), value)
}

/// Within one machine file descriptors do the same: only GPUs whose NVLinks reach other machines need a channel.
fn missing(ctx: &Ctx<'_>, able: &[Bdf], subject: String) -> Judgement {
    let cluster: Vec<Option<bool>> = able.iter().map(|bdf| is_of_domain(ctx, *bdf)).collect();
    match (cluster.contains(&Some(true)), cluster.contains(&None)) {
        (true, _) => Judgement::broken(
            subject,
            "There is no IMEX channel: NVLink connects these GPUs with other machines, and memory for those cannot be allocated.",
        )
        .command(make(ctx))
        .advice(
            "NVreg_CreateImexChannel0=1 creates the channel at every load of the driver; start \
                 nvidia-imex on all machines of the domain.",
        ),
        (false, true) => Judgement::undetermined(
            subject,
            "cannot determine whether a channel is needed: it is unknown whether NVLink connects these GPUs with other machines",
        )
        .needs("NVML's fabric registration: gdr doctor on the machine itself"),
        (false, false) => Judgement::info(
            subject,
            "There is no IMEX channel, and none is needed: NVLink does not connect these GPUs with other machines.",
        ),
    }
}

/// True if NVLink connects this GPU with other machines; `None` if that is unknown.
pub fn is_of_domain(ctx: &Ctx<'_>, bdf: Bdf) -> Option<bool> {
    let ids = ctx.facts.device(bdf).and_then(|device| device.ids.known());
    // Some single-machine boards have a cluster id too; NVLink connects only coherent machines.
    if ids.is_some_and(|ids| !ids.is_coherent_gpu() && !ids.is_unknown_gpu()) {
        return Some(false);
    }
    let gpu = nvml_gpu(ctx, bdf).ok()?;
    match (&gpu.fabric, &gpu.fabric_registration) {
        (Fact::Known(state), _) if state == "not_supported" => Some(false),
        // Before that the cluster id is zero.
        (Fact::Known(state), Fact::Known(registration)) if state == "completed" => {
            if registration.cluster { is_coherent(ctx, bdf).then_some(true) } else { Some(false) }
        }
        _ => None,
    }
}

fn is_coherent(ctx: &Ctx<'_>, bdf: Bdf) -> bool {
    let ids = ctx.facts.device(bdf).and_then(|device| device.ids.known());
    ids.is_some_and(|ids| ids.is_coherent_gpu())
}

/// Not nvidia-modprobe: newer versions no longer have the option.
fn make(ctx: &Ctx<'_>) -> String {
    let majors = ctx.facts.kernel.char_devices.known().and_then(|devices| devices.get(DEVICE));
    let major = majors.and_then(|majors| majors.first());
    let major =
        major.map_or(format!("$(awk '/{DEVICE}/ {{print $1}}' /proc/devices)"), u32::to_string);
    format!("mkdir -p {CHANNELS} && mknod {CHANNELS}/channel0 c {major} 0")
}
