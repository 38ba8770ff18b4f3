//! gpu.nvlink-domain: what a job over several machines of one NVLink domain needs, as one answer.
//!
//! NCCL uses NVLink between machines (MNNVL) if all GPUs have joined the fabric with the same cluster and clique, CUDA
//! supports fabric handles and they can be allocated (NCCL commit 192610c, src/mnnvl.cc). IMEX's daemon exports and
//! imports them. Only its control program knows its state, so a running service is not a pass. On NVL72 the fabric
//! manager runs on the switch trays: its version is not a fact of this machine.

use super::imex::{imex, is_of_domain};
use super::reading::{CUDA, cuda_gpu, nvml_gpu};
use crate::check::{
    Check, Ctx, Hint, Judgement, Rule, Source, container, passthrough, unknown_if, words,
};
use crate::model::{ActionClass, Area, Bdf, Fabric, Fact, Severity};

const FABRIC: &str = "nvmlDeviceGetGpuFabricInfoV";
const CONTROL: &str = "nvidia-imex-ctl -q";
const PROFILE: &str = "nvlink-domain";

/// What one requirement is found to be.
enum Requirement {
    Met,
    Failed(String),
    Unknown(String),
}

pub const CHECK: Check = Check {
    id: "gpu.nvlink-domain",
    rule: "A job over several machines of this NVLink domain has all it needs: one clique of the completed fabric, fabric \
        handles, an IMEX channel that opens, an IMEX daemon that is ready, and no variable that switches it off.",
    sources: "NVML, CUDA attribute 128, /dev/nvidia-caps-imex-channels, /etc/nvidia-imex, nvidia-imex.service, \
        nvidia-imex-ctl -q, /proc/self/environ",
    severity: Severity::Warn,
    why: "On GB200 and GB300 NVL72 NCCL uses NVLink between machines only if every GPU of the job has it; else it stops, or \
        falls back to the network without a word. What one machine cannot show is the other machines: their nodes files \
        and driver versions must be the same, and the fabric manager runs on the switch trays.",
    remedy: "Repair what the finding names; compare the machines with gdr fleet; nvidia-imex-ctl -N shows the whole domain.",
    action: ActionClass::RestartService
        .drained("https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/deployment.html"),
    references: &[
        "https://github.com/NVIDIA/nccl/blob/192610c9321b23deb0fad81cf51b99bc06849e85/src/mnnvl.cc",
        "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/deployment.html",
        "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/cmdservice.html",
        "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/289",
        "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/v0.4.1/cmd/compute-domain-daemon/main.go",
        "https://github.com/NVIDIA/DCGM/issues/308",
    ],
    explained_by: &["gpu.driver", "gpu.fabric", "gpu.imex", "platform.container"],
    reads: &[Source::Nvml, Source::Cuda],
    by_profile: true,
    hint: Some(Hint {
        cause: "Something that a job over several machines of an NVLink domain needs is missing.",
        words: "imex=5 nvlink=1 failure=1 missing=1 stall=1",
    }),
    judge: domain,
    ..Check::DEFAULT
};

fn domain(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let gpus: Vec<Bdf> = passthrough::own_gpus(ctx.facts).map(|device| device.bdf).collect();
    let members: Vec<Option<bool>> = gpus.iter().map(|bdf| is_of_domain(ctx, *bdf)).collect();
    let judgement = match (members.contains(&Some(true)), members.contains(&None)) {
        (true, _) => joint(ctx, &gpus),
        (false, true) => Judgement::undetermined(
            "machine",
            "cannot determine whether NVLink connects this machine with others: the registration of its GPUs is unknown",
        )
        .needs("NVML's fabric registration: gdr doctor on the machine itself"),
        (false, false) => {
            let message = "NVLink connects this machine with no other.";
            if ctx.expectations.names(PROFILE) { Judgement::broken("machine", message).advice(
                    "Only machines of one NVLink domain (GB200 NVL72, GB300 NVL72) share GPU memory over NVLink; elsewhere \
                     the profile rdma has what a job over several machines needs.",
                ) } else { Judgement::skip("machine", message) }
        }
    };
    vec![judgement]
}

fn joint(ctx: &Ctx<'_>, gpus: &[Bdf]) -> Judgement {
    let all = [
        registration(ctx, gpus),
        handles(ctx, gpus),
        channel(ctx),
        daemon(ctx),
        nodes(ctx),
        nccl(ctx),
    ];
    let (mut failed, mut unknown) = (Vec::new(), Vec::new());
    for state in all {
        match state {
            Requirement::Met => {}
            Requirement::Failed(text) => failed.push(text),
            Requirement::Unknown(text) => unknown.push(text),
        }
    }
    let open = if unknown.is_empty() {
        String::new()
    } else {
        format!(" Unknown: {}.", unknown.join("; "))
    };
    let judgement = if !failed.is_empty() {
        Judgement::broken(
            "machine",
            format!("No NVLink to other machines: {}.{open}", failed.join("; ")),
        )
        .advice("Repair what is named; gpu.fabric, gpu.imex and env.contradiction have the commands. Then compare the machines: gdr fleet.")
    } else if !unknown.is_empty() {
        Judgement::undetermined(
            "machine",
            format!(
                "cannot determine whether a job can use NVLink between this machine and others: {}",
                unknown.join("; ")
            ),
        )
        .needs("nvidia-imex-ctl -N on a machine of the domain: all nodes connected, the domain UP")
    } else {
        Judgement::pass(
            "machine",
            "A job can use NVLink between this machine and others: the fabric is completed, the channel opens, IMEX is ready.",
        )
    };
    evidence(ctx, judgement)
}

/// All GPUs have joined one clique of the cluster.
fn registration(ctx: &Ctx<'_>, gpus: &[Bdf]) -> Requirement {
    let mut cliques = Vec::new();
    for bdf in gpus {
        let name = words::device(ctx, *bdf);
        let Ok(gpu) = nvml_gpu(ctx, *bdf) else {
            return Requirement::Unknown(format!("NVML does not show {name}"));
        };
        match (&gpu.fabric, &gpu.fabric_registration) {
            (Fact::Known(state), _) if state != "completed" => {
                return Requirement::Failed(format!(
                    "the fabric state of {name} is {}",
                    state.replace('_', " ")
                ));
            }
            (Fact::Known(_), Fact::Known(own)) if own.status != 0 => {
                return Requirement::Failed(format!(
                    "the registration of {name} failed (NVML code {})",
                    own.status
                ));
            }
            (Fact::Known(_), Fact::Known(own)) if !own.cluster => {
                return Requirement::Failed(format!("{name} has no cluster id"));
            }
            (Fact::Known(_), Fact::Known(own)) => cliques.push(own.clique),
            _ => return Requirement::Unknown(format!("the fabric registration of {name}")),
        }
    }
    cliques.sort_unstable();
    cliques.dedup();
    match cliques.as_slice() {
        [_] => Requirement::Met,
        _ => Requirement::Failed(format!(
            "the GPUs of this machine are in the cliques {}",
            words::list(cliques)
        )),
    }
}

/// CUDA supports fabric handles.
fn handles(ctx: &Ctx<'_>, gpus: &[Bdf]) -> Requirement {
    for bdf in gpus {
        match cuda_gpu(ctx, *bdf).map(|gpu| &gpu.fabric_handles) {
            Ok(Fact::Known(true)) => {}
            Ok(Fact::Known(false)) => {
                return Requirement::Failed(format!(
                    "CUDA has no fabric handles on {}",
                    words::device(ctx, *bdf)
                ));
            }
            _ => {
                return Requirement::Unknown(format!(
                    "CUDA's fabric handles (attribute 128 of {CUDA})"
                ));
            }
        }
    }
    Requirement::Met
}

/// This user can open a channel, as gpu.imex judges it.
fn channel(ctx: &Ctx<'_>) -> Requirement {
    let found = imex(ctx);
    let of = |rule: Rule| found.iter().find(|judgement| judgement.rule == rule);
    match (of(Rule::Broken), of(Rule::Unknown), of(Rule::Holds)) {
        (Some(broken), ..) => Requirement::Failed(sentence(&broken.message)),
        (None, None, Some(_)) => Requirement::Met,
        _ => Requirement::Unknown("whether this user can open an IMEX channel".to_owned()),
    }
}

fn sentence(message: &str) -> String {
    message.trim_end_matches('.').to_owned()
}

/// IMEX's daemon is ready. Where a DRA driver or a job's prolog runs it, the service of the host says nothing
/// (NVIDIA/DCGM issue 308).
fn daemon(ctx: &Ctx<'_>) -> Requirement {
    let fabric = &ctx.facts.fabric;
    let running = fabric.units.get(Fabric::IMEX).map(|unit| &unit.running);
    match (fabric.imex_state.present(), running) {
        (Some(state), _) if state == "READY" => Requirement::Met,
        (Some(state), _) => Requirement::Failed(format!("IMEX's daemon is not ready ({CONTROL}: {state})")),
        (None, Some(Fact::Known(true))) => {
            Requirement::Unknown("nvidia-imex.service runs, and whether it is ready is not known".to_owned())
        }
        (None, _) => Requirement::Unknown(
            "whether IMEX's daemon is ready (no nvidia-imex.service is seen to run; a DRA driver or a job's prolog may run it)"
                .to_owned(),
        ),
    }
}

/// The nodes file has this machine. Without it the daemon does not start: "No matching network interface found for any
/// IP addresses in the node configuration" (dra-driver-nvidia-gpu issue 289).
fn nodes(ctx: &Ctx<'_>) -> Requirement {
    let fabric = &ctx.facts.fabric;
    let is_ready = fabric.imex_state.present().is_some_and(|state| state == "READY");
    // A daemon that runs may have read another file, or this one before it changed.
    let runs = fabric.units.get(Fabric::IMEX).is_none_or(|unit| unit.running != Fact::Known(false));
    match fabric.imex_nodes.present() {
        Some(nodes)
            if nodes.count > 0
                && nodes.own == Fact::Known(false)
                && !is_ready
                && !runs
                && !container::in_container(ctx) =>
        {
            Requirement::Failed(format!(
                "no address of this machine is in {}, so IMEX's daemon does not start",
                nodes.path
            ))
        }
        _ => Requirement::Met,
    }
}

/// The environment does not switch NVLink between machines off.
fn nccl(ctx: &Ctx<'_>) -> Requirement {
    let Fact::Known(variables) = &ctx.facts.environment else {
        return Requirement::Unknown("the environment".to_owned());
    };
    let off = ["NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE"]
        .into_iter()
        .find(|name| variables.get(*name).is_some_and(|value| value.trim() == "0"));
    match off {
        Some(name) => Requirement::Failed(format!("{name}=0 keeps NCCL from it")),
        None => Requirement::Met,
    }
}

fn evidence(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    let fabric = &ctx.facts.fabric;
    let mut judgement = judgement.weighing(if ctx.expectations.names(PROFILE) {
        Severity::Error
    } else {
        Severity::Warn
    });
    let cliques = ctx.facts.nvml().map(|nvml| {
        words::list(nvml.gpus.iter().filter_map(|gpu| {
            let own = gpu.fabric_registration.known()?;
            Some(format!("{}: clique {}", words::device(ctx, gpu.bdf), own.clique))
        }))
    });
    if let Some(cliques) = cliques.filter(|cliques| !cliques.is_empty()) {
        judgement = judgement.evidence(FABRIC, cliques);
    }
    if let Some(state) = fabric.imex_state.present() {
        judgement = judgement.evidence(CONTROL, state.as_str());
    }
    if let Some(unit) = fabric.units.get(Fabric::IMEX) {
        judgement = judgement.evidence(Fabric::IMEX, unit.words());
    }
    match fabric.imex_nodes.present() {
        Some(nodes) => {
            let own = match nodes.own {
                Fact::Known(true) => ", this machine among them",
                Fact::Known(false) => ", this machine not among them",
                Fact::Unknown(_) => "",
            };
            let repeated = match nodes.repeated {
                0 => String::new(),
                repeated => format!(", {repeated} of them repeated"),
            };
            judgement.evidence(nodes.path.as_str(), format!("{} nodes{own}{repeated}", nodes.count))
        }
        None => judgement,
    }
}
