//! gpu.fabric: the GPUs have joined the NVLink fabric of their switches.
//!
//! NVML reports it since Hopper. On older GPUs the switches are PCI functions of class 0680, and only
//! `cuInit` shows whether they are set up: it returns 802 until then.

use super::reading::{cuda, each, is_complete, nvml_gpu};
use crate::check::{Check, Ctx, Hint, Judgement, Source, container, version, words};
use crate::model::{
    ActionClass, Area, CudaOutcome, Fabric, FabricRegistration, Fact, Missing, NvmlGpu, PciDevice,
    Severity, Why,
};

const SOURCE: &str = "nvmlDeviceGetGpuFabricInfoV";
/// `CUDA_ERROR_SYSTEM_NOT_READY`.
const NOT_READY: i32 = 802;

/// Result of `cuInit`, as far as the fabric is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Starts,
    NotReady,
    /// Not called, or failed for another reason.
    Unknown,
}

pub const CHECK: Check = Check {
    id: "gpu.fabric",
    rule: "The GPU has joined the NVLink fabric of its switches.",
    sources: "NVML, PCI class 0680, cuInit, nvidia-fabricmanager.service",
    severity: Severity::Error,
    why: "On boards with NVLink switches CUDA does not start (802, system not yet initialised) until the fabric \
        manager has set the switches up; with confidential computing, until the GPUs are declared ready. NVLink connects the \
        GPUs of one clique only.",
    remedy: "Install and start nvidia-fabricmanager of the driver's version, in a guest on its host.",
    action: ActionClass::RestartService
        .drained("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/")
        .then(ActionClass::ResetGpu),
    references: &[
        "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
        "docs: NVML, nvmlGpuFabricInfo_t: cliqueId",
        "docs: NVML, nvmlSystemSetConfComputeGpusReadyState (nvidia-smi conf-compute -srs)",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml, Source::Cuda],
    hint: Some(Hint {
        cause: "The NVLink fabric is not configured: the fabric manager does not run, or does not fit the driver.",
        words: "fabric=6 nvlink=4 missing=2 failure=1 mismatch=1 stall=1 imex=1 invalid=1 segfault=1 many-gpus=1 \
            timeout=1",
    }),
    judge: fabric,
    ..Check::DEFAULT
};

/// One judgement if CUDA waits for the fabric, else one for each GPU.
fn fabric(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let start = match &ctx.facts.cuda {
        Fact::Known(CudaOutcome::Read(_)) => Start::Starts,
        Fact::Known(CudaOutcome::Failed { code: Some(NOT_READY), .. }) => Start::NotReady,
        _ => Start::Unknown,
    };
    match start {
        Start::NotReady => vec![not_ready(ctx)],
        _ => each(ctx, |device| judge(ctx, device, start)),
    }
}

fn not_ready(ctx: &Ctx<'_>) -> Judgement {
    let states: Vec<&str> = ctx
        .facts
        .nvml()
        .map(|nvml| {
            nvml.gpus.iter().filter_map(|gpu| gpu.fabric.known()).map(String::as_str).collect()
        })
        .unwrap_or_default();
    let member = states.iter().any(|state| *state != "not_supported") || switches(ctx) > 0;
    let confidential =
        ctx.facts.nvml().is_some_and(|nvml| nvml.confidential_compute == Fact::Known(true));
    let judgement = match (member, confidential) {
        (_, true) => Judgement::broken(
            "machine",
            "CUDA does not start: the GPUs of this confidential machine are not yet declared ready.",
        )
        .command("nvidia-smi conf-compute -srs 1")
        .advice("Set the GPUs ready after attestation."),
        (true, _) => remedy(
            ctx,
            Judgement::broken("machine", "CUDA does not start: the NVLink fabric is not set up."),
        ),
        (false, _) => Judgement::broken(
            "machine",
            "CUDA does not start: it reports that the system is not ready, as it does before an NVLink fabric is set up.",
        )
        .advice(
            "Where there are NVLink switches, check the service nvidia-fabricmanager; else read the \
                 NVRM and Xid lines of the kernel log.",
        ),
    };
    let judgement = judgement.evidence("cuInit", "CUDA_ERROR_SYSTEM_NOT_READY (802)");
    let judgement =
        if states.is_empty() { judgement } else { judgement.evidence(SOURCE, states.join(", ")) };
    manager(ctx, judgement)
}

fn judge(ctx: &Ctx<'_>, device: &PciDevice, start: Start) -> Judgement {
    let subject = words::device(ctx, device.bdf);
    let gpu = match nvml_gpu(ctx, device.bdf) {
        Ok(gpu) => gpu,
        Err(_) if start == Start::Starts && ctx.facts.nvml.known().is_some() => {
            return Judgement::pass(subject, "CUDA starts: it does not wait for an NVLink fabric.")
                .evidence("cuInit", "success");
        }
        Err(gap) => return gap.unknown(subject),
    };
    match &gpu.fabric {
        Fact::Known(state) if state == "completed" => completed(ctx, subject, gpu),
        Fact::Known(state) if state == "not_supported" => {
            no_member(ctx, subject, gpu, start).evidence(SOURCE, state)
        }
        Fact::Known(state) => waiting(ctx, subject, state, start),
        Fact::Unknown(Why::NotCovered) if is_complete(gpu) => {
            no_member(ctx, subject, gpu, start).evidence(SOURCE, "not supported")
        }
        Fact::Unknown(why) => Judgement::unknown(subject, *why, Area::Nvml, SOURCE),
    }
}

fn completed(ctx: &Ctx<'_>, subject: String, gpu: &NvmlGpu) -> Judgement {
    // An older NVML does not have it.
    if let Fact::Unknown(why) = &gpu.fabric_registration
        && *why != Why::NotCovered
    {
        return Judgement::unknown(subject, *why, Area::Nvml, SOURCE);
    }
    match gpu.fabric_registration.known() {
        Some(FabricRegistration { status, .. }) if *status != 0 => {
            let message =
                format!("No NVLink fabric: its registration failed (NVML code {status}), and it has no access to peers.");
            manager(ctx, remedy(ctx, Judgement::broken(subject, message)))
        }
        Some(FabricRegistration {
            health: Some(health), ..
        }) if health == "unhealthy" || health == "limited_capacity" => Judgement::broken(
            subject,
            format!("It has joined the NVLink fabric, whose health is '{health}': links to peers are slower or lost."),
        )
        .weighing(Severity::Warn)
        .advice(
            "nvidia-smi nvlink -s and nvidia-smi -q (Fabric) show which links are down; read the NVRM \
                 and Xid lines of the kernel log.",
        )
        .evidence(SOURCE, health.as_str()),
        registration => match registration.and_then(|own| outside(ctx, own)) {
            Some((own, others)) => Judgement::broken(
                subject,
                format!(
                    "It has joined the NVLink fabric in clique {own}; {others} of this machine are in others. NVLink connects the GPUs of one clique only."
                ),
            )
            .weighing(Severity::Warn)
            .advice("If these GPUs are to reach each other over NVLink, put them in one partition of the fabric manager (on NVL72: of NMX)."),
            None => match manager_mismatch(ctx) {
                Ok(Some(versions)) if needs_manager(ctx, gpu) => Judgement::broken(
                    subject,
                    format!(
                        "It has joined the NVLink fabric, and {versions}: the manager does not start again, and after a reboot CUDA does not start."
                    ),
                )
                .weighing(Severity::Warn)
                .advice("Install the driver and nvidia-fabricmanager in the same version."),
                Err(missing) if needs_manager(ctx, gpu) => Judgement::missing(subject, missing),
                _ => Judgement::pass(subject, "It has joined the NVLink fabric."),
            },
        },
    }
    .evidence(SOURCE, "completed")
}

/// The clique of a GPU, and the GPUs of this machine that are in other cliques.
fn outside(ctx: &Ctx<'_>, own: &FabricRegistration) -> Option<(u32, String)> {
    let gpus = ctx.facts.nvml()?.gpus.iter();
    let others = gpus.filter(|gpu| {
        gpu.fabric.known().is_some_and(|state| state == "completed")
            && gpu.fabric_registration.known().is_some_and(|other| {
                other.status == 0 && other.cluster == own.cluster && other.clique != own.clique
            })
    });
    let names: Vec<String> = others.map(|gpu| words::device(ctx, gpu.bdf)).collect();
    (!names.is_empty()).then(|| (own.clique, words::list(names)))
}

/// A GPU without a fabric in NVML: before Hopper it may have switches anyway.
fn no_member(ctx: &Ctx<'_>, subject: String, gpu: &NvmlGpu, start: Start) -> Judgement {
    let older = matches!(gpu.architecture.known().map(String::as_str), Some("volta" | "ampere"));
    match (switches(ctx), older, start) {
        (0, _, _) | (_, false, _) => match cuda(ctx) {
            // Error 802 may contradict NVML.
            Err(gap) if has_unknown_result(&ctx.facts.cuda) => gap.unknown(subject),
            _ => Judgement::skip(subject, "It belongs to no NVLink fabric."),
        },
        (count, true, Start::Starts) => Judgement::pass(
            subject,
            format!("CUDA starts: the {count} NVLink switches of this machine are set up."),
        )
        .evidence("cuInit", "success"),
        (count, true, _) => manager(
            ctx,
            Judgement::undetermined(
                subject,
                format!(
                    "cannot determine whether the {count} NVLink switches of this machine are set up"
                ),
            )
            .needs("a CUDA that starts: cuInit answers 802 until they are"),
        ),
    }
}

fn has_unknown_result(cuda: &Fact<CudaOutcome>) -> bool {
    match cuda {
        Fact::Known(CudaOutcome::Failed { code, .. }) => code.is_none(),
        Fact::Known(_) => false,
        Fact::Unknown(_) => true,
    }
}

fn waiting(ctx: &Ctx<'_>, subject: String, state: &str, start: Start) -> Judgement {
    let words = state.replace('_', " ");
    let judgement = match start {
        Start::Starts => Judgement::info(
            subject,
            format!("No NVLink fabric yet: its registration is {words}. CUDA starts, so the GPU works alone, without peers over NVLink."),
        )
        .evidence("cuInit", "success"),
        _ => remedy(
            ctx,
            Judgement::broken(
                subject,
                format!("No NVLink fabric yet: its registration is {words}, and CUDA does not start until it is completed."),
            ),
        ),
    };
    manager(ctx, judgement.evidence(SOURCE, state))
}

fn switches(ctx: &Ctx<'_>) -> usize {
    let is_switch = |device: &&PciDevice| device.ids.known().is_some_and(|ids| ids.is_nvswitch());
    ctx.facts.devices().iter().filter(is_switch).count()
}

/// How to set the fabric up, here or on the host.
fn remedy(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    let driver = version::driver(ctx.facts);
    let driver = driver.present().map_or("of the driver", String::as_str);
    let unit = ctx.facts.fabric.units.get(Fabric::MANAGER);
    let management =
        ctx.facts.rdma.known().is_some_and(|devices| {
            devices.iter().any(|device| device.management == Fact::Known(true))
        });
    if management && ctx.facts.fabric.umad == Fact::Known(false) {
        return judgement
            .evidence("/sys/class/infiniband_mad", "not there")
            .command("modprobe ib_umad && systemctl restart nvidia-fabricmanager")
            .advice(
                "The fabric manager reaches the switches through a ConnectX's management function; name \
                 ib_umad in /etc/modules-load.d to load it at boot.",
            );
    }
    if let Ok(Some(versions)) = manager_mismatch(ctx) {
        return judgement.advice(format!(
            "Install nvidia-fabricmanager in version {driver}: {versions}, and the manager stops at its start if they differ \
             ('don't match with driver version')."
        ));
    }
    if ctx.facts.platform.is_guest() && switches(ctx) == 0 {
        return judgement.advice(
            "On the host, let the fabric manager activate the partition of these GPUs; its journal \
                 there says why it has not.",
        );
    }
    let advice = match unit.map(|unit| (&unit.installed, &unit.running)) {
        Some((Fact::Known(false), _)) => format!(
            "Install nvidia-fabricmanager, version {driver} (with nvlsm on Blackwell and later), then enable and start it."
        ),
        Some((_, Fact::Known(true))) => {
            format!(
                "Read the journal of nvidia-fabricmanager; its version must be the driver's, {driver}."
            )
        }
        _ => {
            return judgement.command("systemctl enable --now nvidia-fabricmanager").advice(
                format!(
                    "Its version must be the driver's, {driver}; its journal says what stops it."
                ),
            );
        }
    };
    judgement.advice(advice)
}

/// The versions of driver and fabric manager, if they differ. The manager compares them at its start and stops
/// (NVIDIA/gpu-operator issue 544, NVIDIA/gpu-driver-container issue 735).
fn manager_mismatch(ctx: &Ctx<'_>) -> Result<Option<String>, Missing> {
    // The packages of a container are not those that run on the machine.
    if container::in_container(ctx) {
        return Ok(None);
    }
    let manager = &ctx.facts.fabric.manager_version;
    let unit = ctx.facts.fabric.units.get(Fabric::MANAGER);
    if manager.known().is_none() && unit.is_none_or(|unit| unit.installed != Fact::Known(true)) {
        return Ok(None);
    }
    let manager = manager.or_missing(Area::Files, "/var/lib/dpkg/status")?;
    let driver = version::driver(ctx.facts);
    let driver = driver.or_missing(Area::Sys, "/sys/module/nvidia/version")?;
    Ok(driver.as_ref().zip(manager.as_ref()).filter(|(driver, manager)| driver != manager).map(
        |(driver, manager)| {
            format!("nvidia-fabricmanager is of version {manager}, the driver of {driver}")
        },
    ))
}

/// A fabric manager on this machine sets up the switches of this GPU: not in a guest without switches, and not on
/// NVL72, whose switch trays run it.
fn needs_manager(ctx: &Ctx<'_>, gpu: &NvmlGpu) -> bool {
    let ids = ctx.facts.device(gpu.bdf).and_then(|device| device.ids.known());
    let is_tray = ids.is_some_and(|ids| ids.is_coherent_gpu());
    let is_on_the_host = ctx.facts.platform.is_guest() && switches(ctx) == 0;
    !is_tray && !is_on_the_host
}

fn manager(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    match ctx.facts.fabric.units.get(Fabric::MANAGER) {
        Some(unit) => judgement.evidence(Fabric::MANAGER, unit.words()),
        None => judgement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, findings, gpu, machine};
    use crate::model::{Facts, NvmlOutcome, Outcome};

    /// Two GPUs that have joined the fabric in these cliques.
    fn in_cliques(cliques: [u32; 2]) -> Facts {
        let mut facts = machine();
        let second = gpu("0000:05:00.0");
        let Fact::Known(NvmlOutcome::Read(nvml)) = &mut facts.nvml else {
            panic!("no NVML");
        };
        let mut other = nvml.gpus[0].clone();
        other.bdf = second.bdf;
        nvml.gpus.push(other);
        for (gpu, clique) in nvml.gpus.iter_mut().zip(cliques) {
            gpu.fabric = Fact::Known("completed".to_owned());
            gpu.fabric_registration =
                Fact::Known(FabricRegistration { status: 0, clique, cluster: true, health: None });
        }
        facts.add(second);
        facts
    }

    #[test]
    fn cliques_divide_a_machine() {
        let found = findings("gpu.fabric", &in_cliques([4, 4]), &[]);
        assert!(found.iter().all(|found| found.outcome == Outcome::Pass));
        let found = findings("gpu.fabric", &in_cliques([4, 7]), &[]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].outcome, Outcome::Warn);
        assert!(found[0].message.contains("clique 4; GPU1 (0000:05:00.0)"));
    }
}
