//! peermem.loaded: each NIC has a memory path to GPU memory, nvidia-peermem or dma-buf.
//!
//! Files show only that a path should work; a transfer proves it.

use super::buildable;
use crate::check::memory_path::{CLIENTS, MODULE, PathState, dma_buf, peer_memory};
use crate::check::version::{self, Generation};
use crate::check::{Check, Ctx, Hint, Judgement, Rule, Source, nics, passthrough, unidentified};
use crate::model::{
    ActionClass, Area, Fact, FasterPath, Ids, Missing, PciDevice, RdmaDevice, Severity, Why,
};
use crate::topo::{ForcedPcie, forced_pcie, forced_pcie_remedy, is_efa};

const DEVICES: &str = "/sys/bus/pci/devices";

pub const CHECK: Check = Check {
    id: "peermem.loaded",
    rule: "nvidia-peermem or dma-buf gives each NIC access to GPU memory.",
    sources: "/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers, /proc/modules, the NIC's driver, osrelease",
    severity: Severity::Warn,
    why: "A NIC needs the bus addresses of GPU memory: from nvidia-peermem, or from the kernel \
        through dma-buf. With neither, ibv_reg_mr of GPU memory returns EFAULT (Bad \
        address), and programs stage data through host memory or stop.",
    remedy: "modprobe nvidia-peermem, or use a kernel, driver and provider that register \
        dma-bufs.",
    action: ActionClass::Configure.running("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
        "https://docs.kernel.org/driver-api/dma-buf.html",
    ],
    explained_by: &[
        "gpu.driver",
        "param.grdma-topo",
        "peermem.buildable",
        "peermem.legacy",
        "rdma.mixed-stack",
        "rdma.modules",
    ],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "No peer memory module opens GPU memory to the NIC, and dma-buf is not used instead.",
        words: "peermem=5 gpudirect=5 register=4 send-gdr=4 bad-address=3 receive-plain=3 missing=2 gpu-memory=2 \
            kv-transfer=2 nvshmem=2 rdma=1 failure=1 ucx=1 kernel-module=1 segfault=1 dmabuf=1 ofi=1 \
            unsupported=1 invalid=1 geforce=-1 slow=-1 mpi=-1 integrated-gpu=-2 storage=-2 gdrcopy=-2 memlock=-2 \
            no-memory=-2 bar1=-2 guest=-2 build=-2",
    }),
    closes: Some(FasterPath::GpuDirect),
    allows_path: true,
    judge: peermem,
    ..Check::DEFAULT
};

/// One judgement for each NIC.
fn peermem(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.rdma {
        return vec![Judgement::unknown("machine", why, Area::Sys, "/sys/class/infiniband")];
    }
    let rdma_nics: Vec<&RdmaDevice> = nics::rdma_nics(ctx.facts).collect();
    if rdma_nics.is_empty() {
        return vec![Judgement::skip("machine", "There is no NIC that could reach GPU memory.")];
    }
    if version::driver(ctx.facts) == Fact::Known(None) {
        return vec![Judgement::no_driver("machine")];
    }
    let mut gpus = passthrough::own_gpus(ctx.facts).peekable();
    if gpus.peek().is_none()
        && let Some(unidentified) = unidentified(ctx.facts)
    {
        return vec![unidentified];
    }
    let is_integrated = |gpu: &PciDevice| gpu.ids.known().is_some_and(Ids::is_integrated_gpu);
    if gpus.peek().is_some() && gpus.all(is_integrated) {
        let message = "The GPU shares the CPU's memory and has no GPUDirect RDMA, by design: a NIC can access memory from cuMemHostAlloc, \
             registered as host memory.";
        return vec![Judgement::info("machine", message)];
    }
    rdma_nics.into_iter().map(|nic| judge(ctx, nic)).collect()
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Judgement {
    let provider = nics::driver(ctx.facts, nic);
    let peermem = peer_memory(ctx, nic, &provider);
    let dma_buf = dma_buf(ctx, &provider);
    let subject = nic.name.clone();
    let is_dma_buf_alone = matches!(
        (&peermem, &dma_buf),
        (PathState::Closed(_) | PathState::Unknown(..), PathState::Open(_))
    );
    let is_denied = if is_dma_buf_alone { is_denied_to_plugin(ctx, nic) } else { Ok(false) };
    let judgement = match (&peermem, &dma_buf) {
        _ if let Err(missing) = is_denied => Judgement::missing(subject, missing),
        _ if is_denied == Ok(true) => {
            let message = "No forced PCIe mapping: GPU memory is reachable through the default mapping of a dma-buf alone. The driver denies \
                 the one that NCCL's plugin for EFA (aws-ofi-nccl) asks for (param.grdma-topo).";
            Judgement::broken(subject, message).advice(forced_pcie_remedy(ctx.facts))
        }
        (PathState::Open(_), PathState::Open(_)) => Judgement::pass(
            subject,
            "Both memory paths to GPU memory should work: nvidia-peermem and dma-buf.",
        ),
        (PathState::Open(_), _) => {
            Judgement::pass(subject, "GPU memory should be reachable through nvidia-peermem.")
        }
        (PathState::Closed(_), PathState::Open(_)) => Judgement::pass(
            subject,
            "GPU memory should be reachable through dma-buf. Software that knows only \
             nvidia-peermem (ibv_reg_mr on a GPU pointer) cannot use this memory path.",
        ),
        (PathState::Unknown(..), PathState::Open(_)) => Judgement::pass(
            subject,
            "GPU memory should be reachable through dma-buf. Whether nvidia-peermem works too is unknown.",
        ),
        (PathState::Unknown(why, area, source), _)
        | (PathState::Closed(_), PathState::Unknown(why, area, source)) => {
            Judgement::unknown(subject, *why, *area, source)
        }
        (PathState::Closed(peermem), PathState::Closed(dma_buf)) => {
            let message = format!(
                "No memory path to GPU memory works: nvidia-peermem: {peermem}; dma-buf: {dma_buf}."
            );
            remedy(ctx, Judgement::broken(subject, message))
        }
    };
    let describe = |memory_path: &PathState| match memory_path {
        PathState::Open(why) => format!("open: {why}"),
        PathState::Closed(why) => format!("closed: {why}"),
        PathState::Unknown(why, _, source) => why.sentence(source),
    };
    judgement
        .evidence(format!("{MODULE}, {CLIENTS}"), describe(&peermem))
        .evidence("/proc/driver/nvidia/version, osrelease, the NIC's driver", describe(&dma_buf))
}

/// True if the driver denies an EFA the mapping that its plugin for NCCL asks for, for every coherent GPU, and there is no other GPU.
fn is_denied_to_plugin(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Result<bool, Missing> {
    let function = nic.place.present().and_then(|bdf| ctx.facts.device(*bdf));
    let Some(function) = function.filter(|function| is_efa(function)) else {
        return Ok(false);
    };
    let (mut denied, mut missing) = (false, None);
    for gpu in passthrough::own_gpus(ctx.facts) {
        match &gpu.ids {
            Fact::Known(ids) if ids.is_coherent_gpu() => {}
            Fact::Known(ids) if !ids.is_unknown_gpu() => return Ok(false),
            // An unknown model, or a function whose ids could not be read.
            _ => {
                let source =
                    format!("whether the memory of GPU {} is coherent with the CPU", gpu.bdf);
                missing = Some(Missing::new(Why::NotCovered, Area::Sys, source));
                continue;
            }
        }
        match forced_pcie(ctx.facts, gpu.bdf, function.bdf) {
            Ok(Some(ForcedPcie::Denied)) => denied = true,
            Ok(Some(ForcedPcie::Unproven)) => {
                let source = "whether this driver allows the forced PCIe mapping for an EFA";
                missing = Some(Missing::new(Why::NotCovered, Area::Sys, source));
            }
            Ok(Some(ForcedPcie::Allowed) | None) => return Ok(false),
            Err(unknown) => missing = Some(unknown),
        }
    }
    // A function that could not be identified may be such a GPU.
    let hidden = ctx.facts.devices().iter().find_map(|device| {
        Some(Missing::new(device.ids.why()?, Area::Sys, format!("{DEVICES}/{}/config", device.bdf)))
    });
    match missing.or(hidden.filter(|_| !denied)) {
        Some(missing) => Err(missing),
        None => Ok(denied),
    }
}

/// Advice on how to enable nvidia-peermem. Loading it helps only if it can be loaded and is not.
pub fn remedy(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    let branch = version::driver(ctx.facts).present().and_then(|version| version::branch(version));
    let peers = &ctx.facts.peer_memory;
    let open_possible =
        ctx.facts.gpus().all(|gpu| Generation::of_device(gpu) > Some(Generation::BeforeTuring));
    let other =
        if open_possible { "; or install the open kernel modules and use dma-buf" } else { "" };
    match (&peers.nvidia_peermem, &peers.clients, branch) {
        (_, _, Some(..470)) => judgement.advice(format!(
            "Install driver 470 or later, which brings nvidia-peermem, or nv_peer_mem for this one{other}."
        )),
        (Fact::Known(false), Fact::Known(Some(_)), _) => judgement.fix("peermem").command("modprobe nvidia-peermem"),
        (Fact::Known(true), ..) => judgement.advice(format!(
            "Reinstall the NVIDIA driver now that the RDMA stack (DOCA-OFED) is here, so that nvidia-peermem is built \
             with its symbols, then reload nvidia-peermem{other}."
        )),
        (not_loaded, ..) => {
            let judgement = judgement.command("modprobe nvidia-peermem").advice(format!(
                "'Invalid argument' means that the driver was built without the RDMA stack's symbols: then install \
                 DOCA-OFED and reinstall the driver{other}."
            ));
            // Its dependencies show that it can be loaded.
            let built = buildable(ctx).iter().any(|found| found.rule == Rule::Holds);
            if not_loaded == &Fact::Known(false) && built { judgement.fix("peermem") } else { judgement }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, GPU, NIC, assert_fix_says, assert_says, bind, findings, fix, machine, only,
        set_device_id,
    };
    use crate::model::{Facts, Module, Outcome, Why};

    /// Proprietary modules, with nvidia-peermem loaded or not, and the stack's clients.
    fn peers(loaded: bool, clients: Option<&[&str]>) -> Facts {
        let mut facts = machine();
        facts.set_proprietary();
        facts.peer_memory.nvidia_peermem = Fact::Known(loaded);
        let list = |clients: &[&str]| clients.iter().map(|name| (*name).to_owned()).collect();
        facts.peer_memory.clients = Fact::Known(clients.map(list));
        facts
    }

    fn users(facts: &mut Facts, lines: &[(&str, &[&str])]) {
        let module = |(name, users): &(&str, &[&str])| Module {
            name: (*name).to_owned(),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
        };
        facts.kernel.modules = Fact::Known(lines.iter().map(module).collect());
    }

    #[test]
    fn peermem_must_be_a_client() {
        let found = only("peermem.loaded", &peers(true, Some(&["nv_mem"])));
        assert_eq!(found.outcome, Outcome::Pass);
        assert_says(&found, "through nvidia-peermem");
        let found = only("peermem.loaded", &peers(true, Some(&["other"])));
        assert_says(&found, "not a client");
        assert_eq!(fix(&found).0, "advice");
        let found = only("peermem.loaded", &peers(false, Some(&[])));
        let command = "modprobe nvidia-peermem".to_owned();
        assert_eq!(fix(&found), ("peermem", command));
        let found = only("peermem.loaded", &peers(false, None));
        let (id, text) = fix(&found);
        assert!(id == "peermem" && text.contains("Invalid argument"), "{text}");
        let mut facts = peers(false, None);
        facts.module_files.on_disk = Fact::Known(Some(Vec::new()));
        assert_eq!(fix(&only("peermem.loaded", &facts)).0, "advice");
        assert_eq!(
            findings("peermem.loaded", &peers(false, None), &["rdma"])[0].outcome,
            Outcome::Fail
        );
    }

    #[test]
    fn module_users_replace_list_of_clients() {
        let mut facts = peers(true, None);
        let nvidia: (&str, &[&str]) = ("nvidia", &["nvidia_peermem"]);
        users(&mut facts, &[nvidia, ("ib_core", &["mlx5_ib", "nvidia_peermem"])]);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Pass);
        users(&mut facts, &[nvidia, ("ib_uverbs", &["nvidia_peermem"])]);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Pass);
        users(&mut facts, &[nvidia, ("ib_core", &["mlx5_ib"])]);
        assert_says(&only("peermem.loaded", &facts), "built without the RDMA stack's symbols");
        // A built-in stack, and a kernel that lists no users.
        users(&mut facts, &[nvidia]);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Unknown);
        users(&mut facts, &[("nvidia", &[]), ("ib_core", &[])]);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn dma_buf_needs_modules_kernel_driver_and_provider() {
        let open = |change: fn(&mut Facts)| {
            let mut facts = peers(false, None);
            facts.driver = machine().driver;
            change(&mut facts);
            only("peermem.loaded", &facts)
        };
        let found = open(|_| {});
        assert_eq!(found.outcome, Outcome::Pass);
        assert!(
            found.message.contains("through dma-buf")
                && found.message.contains("knows only nvidia-peermem")
        );
        for (change, outcome, word) in [
            (
                (|f| f.kernel.release = Fact::Known("5.4.0-90".to_owned())) as fn(&mut Facts),
                Outcome::Warn,
                "older than 5.12",
            ),
            (
                |f| f.driver.module_version = Fact::Known(Some("510.1".to_owned())),
                Outcome::Warn,
                "older than 515",
            ),
            (|f| bind(f, NIC, Some("mlx4_core")), Outcome::Warn, "mlx4_core does not take it"),
            (
                |f| {
                    bind(f, NIC, Some("bnxt_en"));
                    f.kernel.release = Fact::Known("6.5.0".to_owned());
                },
                Outcome::Unknown,
                "whether bnxt_en of kernel 6.5.0",
            ),
            (
                |f| {
                    bind(f, NIC, Some("bnxt_en"));
                    f.kernel.release = Fact::Known("6.6.0".to_owned());
                },
                Outcome::Pass,
                "through dma-buf",
            ),
            (|f| bind(f, NIC, Some("newnic")), Outcome::Unknown, "whether newnic supports"),
            (|f| f.device_mut(NIC).attributes = None, Outcome::Unknown, "the NIC's driver"),
            (|f| f.kernel.release = Fact::Unknown(Why::Denied), Outcome::Unknown, "osrelease"),
        ] {
            let found = open(change);
            assert_eq!(found.outcome, outcome, "{}", found.message);
            assert_says(&found, word);
        }
    }

    #[test]
    fn integrated_gpu_has_no_memory_for_a_nic() {
        let mut facts = machine();
        // A GB10.
        set_device_id(&mut facts, GPU, 0x2e12);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Info);
    }

    #[test]
    fn unknown_model_is_no_pass_for_an_efa() {
        let mut facts = machine();
        bind(&mut facts, NIC, Some("efa"));
        facts.kernel.modules = Fact::Known(Vec::new());
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Pass);
        set_device_id(&mut facts, GPU, 0x3041);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Unknown);
        facts.device_mut(GPU).ids = Fact::Unknown(Why::Denied);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn efa_needs_its_own_module() {
        let mut facts = peers(true, Some(&["nv_mem"]));
        bind(&mut facts, NIC, Some("efa"));
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Warn);
        users(&mut facts, &[("efa_nv_peermem", &[])]);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn never_advises_open_modules_before_turing() {
        let mut facts = peers(true, Some(&[]));
        assert_fix_says(&only("peermem.loaded", &facts), "open kernel modules");
        set_device_id(&mut facts, GPU, 0x1db4);
        assert!(
            !only("peermem.loaded", &facts)
                .fix
                .expect("advice")
                .text()
                .contains("open kernel modules")
        );
    }

    #[test]
    fn missing_nic_or_facts() {
        let mut facts = machine();
        facts.peer_memory = Default::default();
        facts.driver.version_line = Fact::Unknown(Why::Denied);
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Unknown);
        facts.nic_mut().parent = Fact::Known(Some("eth0".to_owned()));
        assert_eq!(only("peermem.loaded", &facts).outcome, Outcome::Skip);
    }
}
