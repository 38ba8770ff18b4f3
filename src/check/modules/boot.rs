//! peermem.boot: the loaded peer memory module is loaded again after a reboot, and after a restart of openibd.

use crate::check::memory_path;
use crate::check::{Check, Ctx, Hint, Judgement, Source, unknown_if, words};
use crate::model::{ActionClass, Area, Fact, Severity};

const PLACES: &str =
    "/etc/modules-load.d, /etc/modules, /etc/infiniband/nv_peer_mem.conf, multi-user.target.wants";

pub const CHECK: Check = Check {
    id: "peermem.boot",
    rule: "The peer memory module that is loaded now is loaded again after a reboot.",
    sources: "modules-load.d, /etc/modules, /etc/infiniband/nv_peer_mem.conf, multi-user.target.wants",
    severity: Severity::Warn,
    why: "Nothing loads nvidia-peermem automatically, because no device needs it. After a \
        reboot or a restart of the RDMA stack, registration of GPU memory fails with Bad \
        address.",
    remedy: "Name nvidia-peermem in a file of /etc/modules-load.d.",
    action: ActionClass::Configure.running("https://docs.nvidia.com/cuda/gpudirect-rdma/"),
    references: &["https://docs.nvidia.com/cuda/gpudirect-rdma/"],
    explained_by: &["peermem.loaded"],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "The peer memory module is not loaded at boot.",
        words: "peermem=4 blacklist=1 missing=1",
    }),
    judge: boot,
    ..Check::DEFAULT
};

/// Judges whether a known mechanism loads the module at boot.
fn boot(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let peers = &ctx.facts.peer_memory;
    let unknown =
        unknown_if(&peers.nvidia_peermem, "machine", Area::Sys, "/sys/module/nvidia_peermem");
    if let Some(unknown) = unknown
        .or_else(|| unknown_if(&peers.nv_peer_mem, "machine", Area::Sys, "/sys/module/nv_peer_mem"))
    {
        return vec![unknown];
    }
    let module = match (&peers.nvidia_peermem, &peers.nv_peer_mem) {
        (Fact::Known(true), _) => "nvidia-peermem",
        (_, Fact::Known(true)) => "nv_peer_mem",
        _ => {
            return vec![Judgement::skip("machine", "No peer memory module is loaded.")];
        }
    };
    let at_boot = match &ctx.facts.module_files.at_boot {
        Fact::Known(at_boot) => at_boot,
        Fact::Unknown(why) => return vec![Judgement::unknown(module, *why, Area::Files, PLACES)],
    };
    let places: Vec<_> =
        at_boot.iter().filter(|place| loads_module(module, &place.names)).collect();
    if !places.is_empty() {
        let by = words::list(places.iter().map(|place| &place.path));
        let pass = Judgement::pass(module, format!("{module} is loaded at boot, by {by}."));
        return vec![
            places.iter().fold(pass, |pass, place| pass.evidence(&place.path, &place.names)),
        ];
    }
    // A script or a local unit may have loaded it. In a container the host loads it, and with dma-buf for every NIC it
    // is not needed.
    let container =
        ctx.facts.platform.container_marks.known().is_some_and(|marks| !marks.is_empty());
    let weight = if container || memory_path::dma_buf_everywhere(ctx) {
        Severity::Info
    } else {
        Severity::Warn
    };
    let message = format!(
        "{module} is loaded, and nothing that gdr knows loads it at boot: after a reboot or a restart of openibd the NICs may lose access to GPU memory."
    );
    vec![
        Judgement::broken(module, message)
            .weighing(weight)
            .evidence(PLACES, format!("no entry for {module}"))
            .fix("peermem")
            .command(format!("echo {module} > /etc/modules-load.d/{module}.conf")),
    ]
}

/// True if these names in a boot configuration load the module.
pub fn loads_module(module: &str, names: &str) -> bool {
    let names = names.replace('-', "_");
    let old = names.starts_with("nv_peer_mem") || names == "ONBOOT=yes";
    match module {
        "nvidia-peermem" => !old,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, machine, only};
    use crate::model::{AtBoot, Facts, Outcome, Why};

    /// Proprietary modules: no dma-buf.
    fn closed() -> Facts {
        let mut facts = machine();
        facts.set_proprietary();
        facts
    }

    fn at_boot(path: &str, names: &str) -> Fact<Vec<AtBoot>> {
        Fact::Known(vec![AtBoot { path: path.to_owned(), names: names.to_owned() }])
    }

    #[test]
    fn configuration_of_old_module_does_not_count() {
        let mut facts = closed();
        facts.module_files.at_boot = at_boot("/etc/infiniband/nv_peer_mem.conf", "ONBOOT=yes");
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Warn);
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Skip);
        facts.peer_memory.nv_peer_mem = Fact::Known(true);
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Pass);
        facts.module_files.at_boot = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Unknown);
    }
}
