//! peermem.buildable: nvidia-peermem for this kernel was built with the symbols of the present RDMA stack.
//!
//! `modules.dep` lists ib_core or ib_uverbs among its dependencies if and only if it was built with their symbols. Without
//! them its initialization fails with EINVAL and logs nothing.

use crate::check::memory_path::{self, PathState};
use crate::check::{Check, Ctx, Hint, Judgement, Source, nics, unknown_if, version};
use crate::model::{ActionClass, Area, Fact, ModuleFile, Severity, Why};

const DEP: &str = "modules.dep of this kernel";
const SYMBOLS: &str = "modules.symbols of this kernel";
const SYMBOL: &str = "ib_register_peer_memory_client";
/// The first driver branch with nvidia-peermem.
const FIRST: u32 = 470;

pub const CHECK: Check = Check {
    id: "peermem.buildable",
    rule: "nvidia-peermem is installed for this kernel, built against an RDMA stack that is \
        installed.",
    sources: "modules.dep and modules.symbols of the running kernel, /sys/kernel/mm/memory_peers",
    severity: Severity::Error,
    why: "If nvidia-peermem was built without an RDMA stack that supports peer memory, it does \
        not load: modprobe prints Invalid argument, and the kernel log has no message. If \
        the file is missing, modprobe cannot help.",
    remedy: "Install the RDMA stack first (DOCA-OFED), then the NVIDIA driver, and both again \
        after a kernel update; or use dma-buf with the open kernel modules.",
    action: ActionClass::Install.drained("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &[
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia-peermem/nvidia-peermem.c",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/pull/630",
    ],
    explained_by: &["rdma.mixed-stack"],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "The peer memory module does not build or load with this kernel and RDMA stack.",
        words: "peermem=4 build=3 mismatch=3 invalid=3 kernel-module=2 mixed-stack=2 failure=1 container=1 \
            kernel-version=1",
    }),
    judge: buildable,
    ..Check::DEFAULT
};

/// Judges whether modprobe can load the module.
pub fn buildable(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) =
        unknown_if(&ctx.facts.rdma, "machine", Area::Sys, "/sys/class/infiniband")
    {
        return vec![unknown];
    }
    if nics::rdma_nics(ctx.facts).next().is_none() {
        return vec![Judgement::skip("machine", "There is no NIC that could reach GPU memory.")];
    }
    let branch = match version::driver(ctx.facts) {
        Fact::Known(None) => return vec![Judgement::no_driver("machine")],
        Fact::Known(Some(version)) => version::branch(&version),
        Fact::Unknown(why) => {
            return vec![Judgement::unknown(
                "nvidia-peermem",
                why,
                Area::Sys,
                "/sys/module/nvidia/version",
            )];
        }
    };
    if branch.is_some_and(|branch| branch < FIRST) {
        let message = "Drivers before 470 have no nvidia-peermem; they need nv_peer_mem.";
        return vec![Judgement::skip("machine", message)];
    }
    if let Some(state) = loaded(ctx) {
        let judgement = Judgement::pass(
            "nvidia-peermem",
            "nvidia-peermem is loaded, and the RDMA stack uses it.",
        );
        return vec![
            judgement.evidence(format!("{}, {}", memory_path::MODULE, memory_path::CLIENTS), state),
        ];
    }
    vec![match ctx.facts.module_files.find("nvidia_peermem") {
        Fact::Known(Some(module)) => built(ctx, module),
        Fact::Known(None) => weigh(
            ctx,
            Judgement::broken(
                "nvidia-peermem",
                format!(
                    "There is no nvidia-peermem.ko for {}: modprobe finds nothing to load.",
                    kernel(ctx)
                ),
            )
            .evidence(DEP, "no nvidia-peermem")
            .advice("Install the RDMA stack (DOCA-OFED), then reinstall the NVIDIA driver for this kernel."),
        ),
        // A container lacks the host's module files.
        Fact::Unknown(why) => weigh(
            ctx,
            Judgement::unknown("nvidia-peermem", why, Area::Modprobe, DEP)
                .needs("gdr doctor on the machine itself, where /lib/modules is"),
        ),
    }]
}

/// The evidence that the RDMA stack uses the loaded module.
fn loaded(ctx: &Ctx<'_>) -> Option<String> {
    match memory_path::peer_memory_module(ctx) {
        PathState::Open(state) if ctx.facts.peer_memory.nvidia_peermem == Fact::Known(true) => {
            Some(state)
        }
        _ => None,
    }
}

fn kernel(ctx: &Ctx<'_>) -> String {
    match ctx.facts.kernel.release.known() {
        Some(release) => format!("kernel {release}"),
        None => "this kernel".to_owned(),
    }
}

fn built(ctx: &Ctx<'_>, module: &ModuleFile) -> Judgement {
    let stack: Vec<&str> =
        module.needs.iter().map(String::as_str).filter(|name| is_stack(name)).collect();
    let needs =
        if module.needs.is_empty() { "nothing".to_owned() } else { module.needs.join(", ") };
    let dep =
        |judgement: Judgement| judgement.evidence(DEP, format!("{} needs {needs}", module.path));
    if !stack.is_empty() {
        let message = format!(
            "nvidia-peermem of {} was built with the RDMA stack's symbols ({}).",
            kernel(ctx),
            stack.join(", ")
        );
        return dep(Judgement::pass("nvidia-peermem", message));
    }
    match &ctx.facts.module_files.peer_memory_exporters {
        Fact::Known(Some(exporters)) if exporters.is_empty() => weigh(
            ctx,
            dep(Judgement::broken(
                "nvidia-peermem",
                format!(
                    "No peer memory in the RDMA stack: no module of {} exports {SYMBOL}, and modprobe nvidia-peermem fails with Invalid argument or Unknown symbol.",
                    kernel(ctx)
                ),
            ))
            .evidence(SYMBOLS, format!("no {SYMBOL}"))
            .advice("Install DOCA-OFED for this kernel (or rebuild its modules for it), then reinstall the \
                 NVIDIA driver."),
        ),
        Fact::Known(Some(exporters)) => weigh(
            ctx,
            dep(Judgement::broken(
                "nvidia-peermem",
                format!(
                    "nvidia-peermem does not load: that of {} was built without the RDMA stack's symbols. modprobe fails with Invalid argument, and the kernel logs nothing.",
                    kernel(ctx)
                ),
            ))
            .evidence(SYMBOLS, format!("{SYMBOL} in {}", exporters.join(", ")))
            .advice("Reinstall the NVIDIA driver now that the RDMA stack is here (dkms: remove and install it \
                 again)."),
        ),
        Fact::Known(None) => weigh(ctx, Judgement::unknown("nvidia-peermem", Why::NotCovered, Area::Modprobe, SYMBOLS)),
        Fact::Unknown(why) => weigh(ctx, Judgement::unknown("nvidia-peermem", *why, Area::Modprobe, SYMBOLS)),
    }
}

fn is_stack(name: &str) -> bool {
    name == "ib_core" || name == "ib_uverbs"
}

/// If dma-buf works for every NIC, only software without dma-buf is affected.
fn weigh(ctx: &Ctx<'_>, judgement: Judgement) -> Judgement {
    if memory_path::dma_buf_everywhere(ctx) {
        Judgement {
            message: format!(
                "{}. dma-buf is open without it.",
                judgement.message.trim_end_matches('.')
            ),
            ..judgement.weighing(Severity::Info)
        }
    } else {
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, findings, machine, only};
    use crate::model::{Facts, Outcome};

    /// Not loaded, with proprietary modules (no dma-buf) and an unknown list of modules on disk.
    fn without_list() -> Facts {
        let mut facts = machine();
        facts.set_proprietary();
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        facts.peer_memory.clients = Fact::Known(None);
        facts.module_files.on_disk = Fact::Known(None);
        facts
    }

    #[test]
    fn module_users_replace_list_of_clients() {
        let mut facts = machine();
        facts.peer_memory.clients = Fact::Known(None);
        facts.module_files.on_disk = Fact::Known(None);
        let module = |name: &str, user: &str| crate::model::Module {
            name: name.to_owned(),
            users: vec![user.to_owned()],
        };
        let modules = ["nvidia", "ib_core"].map(|name| module(name, "nvidia_peermem"));
        facts.kernel.modules = Fact::Known(modules.to_vec());
        assert_eq!(only("peermem.buildable", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn unknown_with_dma_buf_is_info() {
        let mut facts = without_list();
        facts.driver = machine().driver;
        let found = &findings("peermem.buildable", &facts, &["rdma"])[0];
        assert_eq!((found.outcome, found.severity), (Outcome::Unknown, Severity::Info));
        assert!(found.message.ends_with(". dma-buf is open without it."), "{}", found.message);
    }

    #[test]
    fn missing_module_list_is_unknown() {
        let mut facts = without_list();
        let found = only("peermem.buildable", &facts);
        assert_eq!(found.outcome, Outcome::Unknown);
        assert!(found.needs.is_some_and(|needs| needs.contains("/lib/modules")));
        facts.driver.version_line = Fact::Known(None);
        facts.driver.module_version = Fact::Known(None);
        assert_eq!(only("peermem.buildable", &facts).outcome, Outcome::Skip);
        facts.driver.module_version = Fact::Known(Some("460.91.03".to_owned()));
        assert_eq!(only("peermem.buildable", &facts).outcome, Outcome::Skip);
    }
}
