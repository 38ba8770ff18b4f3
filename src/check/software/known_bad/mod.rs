//! sw.known-bad: no component has a version with a known fault that matters on this machine.

mod conditions;
mod installed;

use conditions::all_hold;
use installed::{Installed, installed};

use crate::check::{Check, Ctx, Judgement, Source, or_skip, passthrough};
use crate::model::{ActionClass, Fact, Missing, Severity};
use crate::profile::{BadVersions, Component, bad_versions, version_numbers};

pub const CHECK: Check = Check {
    id: "sw.known-bad",
    rule: "No component has a version with a known fault that matters on this machine: the NVIDIA driver, NCCL, aws-ofi-nccl, UCX, \
        Amazon's module efa, gdrdrv, MLNX_OFED. Other checks have the versions that depend on more: platform.kernel, \
        param.grdma-topo, sw.net-plugin, gin.nvshmem, rdma.firmware.",
    sources: "/sys/module/{nvidia,gdrdrv,efa,mlx5_core}/version, LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, strings in \
        libnccl-net.so and libucp.so.0; the table profiles/versions.toml",
    severity: Severity::Info,
    why: "A release may corrupt data, hang, or turn GPUDirect off on some machines, and a later one does not. The table has each range \
        of versions with its condition, its effect and where it is written.",
    remedy: "Install the version that the finding names, or a later one.",
    action: ActionClass::Install
        .running("docs: profiles/versions.toml names the source of each fault"),
    references: &[
        "https://github.com/NVIDIA/nccl/releases",
        "https://docs.nvidia.com/deeplearning/nccl/release-notes/index.html",
        "https://github.com/aws/aws-ofi-nccl/releases",
        "https://github.com/openucx/ucx/blob/v1.22.0/NEWS",
        "https://github.com/amzn/amzn-drivers/blob/efa_linux_3.1.0/kernel/linux/efa/RELEASENOTES.md",
        "https://github.com/NVIDIA/gdrcopy/blob/v2.6/CHANGELOG.md",
        "https://docs.nvidia.com/networking/display/MLNXOFEDv543030/Bug+Fixes+in+This+Version",
    ],
    reads: &[Source::Software, Source::NvLinks],
    judge: known_bad,
    ..Check::DEFAULT
};

fn known_bad(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if matches!(ctx.facts.pci, Fact::Known(_)) && passthrough::own_gpus(ctx.facts).next().is_none()
    {
        return vec![Judgement::skip("machine", "There is no GPU.")];
    }
    let judgements = Component::ALL.into_iter().flat_map(|component| of_component(ctx, component));
    or_skip(judgements.collect(), "None of the components with known faults is installed.")
}

fn of_component(ctx: &Ctx<'_>, component: Component) -> Vec<Judgement> {
    match installed(ctx, component) {
        Ok(all) => all.iter().map(|one| judge(ctx, component, one)).collect(),
        Err(missing) if may_matter(ctx, component) => {
            vec![Judgement::missing(component.name(), missing)]
        }
        Err(_) => Vec::new(),
    }
}

/// True if a known fault of this component would matter on this machine, or may.
fn may_matter(ctx: &Ctx<'_>, component: Component) -> bool {
    bad_versions(component).any(|bad| all_hold(ctx, bad) != Ok(false))
}

fn judge(ctx: &Ctx<'_>, component: Component, found: &Installed) -> Judgement {
    let name = component.name();
    let Some(version) = &found.version else {
        return if may_matter(ctx, component) {
            Judgement::undetermined(
                &found.subject,
                format!("Version of {name} unknown: some versions have faults that matter on this machine."),
            )
            .evidence(&found.source, "no version")
            .needs(format!("the version of {name}, to compare with gdr explain sw.known-bad"))
        } else {
            Judgement::skip(
                &found.subject,
                format!("No known fault of {name} matters on this machine."),
            )
        };
    };
    let (mut here, mut maybe) = (Vec::new(), Vec::new());
    for bad in bad_versions(component).filter(|bad| bad.has(version)) {
        match all_hold(ctx, bad) {
            Ok(true) => here.push(bad),
            Ok(false) => {}
            Err(missing) => maybe.push((bad, missing)),
        }
    }
    let judgement = match (here.is_empty(), maybe.is_empty()) {
        (false, _) => broken(name, version, found, &here),
        (true, false) => unknown(name, version, found, maybe),
        (true, true) => Judgement::pass(
            &found.subject,
            format!("{name} {version} has no known fault that matters on this machine."),
        ),
    };
    judgement.evidence(&found.source, version)
}

fn broken(name: &str, version: &str, found: &Installed, bad: &[&BadVersions]) -> Judgement {
    let faults = bad.iter().map(|bad| bad.breaks.as_str()).collect::<Vec<_>>().join("; ");
    let severity = bad.iter().filter_map(|bad| bad.severity).max().unwrap_or(Severity::Info);
    let good = bad.iter().map(|bad| bad.good.as_str()).max_by_key(|good| version_numbers(good));
    let judgement =
        Judgement::broken(&found.subject, format!("{name} {version} has a known fault: {faults}."))
            .weighing(severity)
            .advice(format!("Install {name} {} or later.", good.unwrap_or_default()));
    bad.iter().fold(judgement, |judgement, bad| judgement.evidence("known from", &bad.source))
}

fn unknown(
    name: &str,
    version: &str,
    found: &Installed,
    maybe: Vec<(&BadVersions, Missing)>,
) -> Judgement {
    let faults = maybe.iter().map(|(bad, _)| bad.breaks.as_str()).collect::<Vec<_>>().join("; ");
    let Some((_, missing)) = maybe.into_iter().next() else {
        return Judgement::undetermined(&found.subject, format!("{name} {version} is unknown."));
    };
    let mut judgement = Judgement::missing(&found.subject, missing);
    judgement.message = format!(
        "{name} {version} has a known fault ({faults}); whether it matters here is unknown: {}",
        judgement.message
    );
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, machine, set_device_id, with_libraries};
    use crate::check::testing::{assert_fix_says, assert_says, findings};
    use crate::model::{Facts, Finding, Found, Library, Outcome, Why};

    fn library(name: &str, version: Option<&str>, words: &[&str]) -> Library {
        Library {
            name: name.to_owned(),
            path: format!("/usr/lib/{name}"),
            version: version.map(str::to_owned),
            found: Found::Cache,
            plugins: None,
            words: Fact::Known(words.iter().map(|word| (*word).to_owned()).collect()),
        }
    }

    fn of(subject: &str, facts: &Facts) -> Option<Finding> {
        findings("sw.known-bad", facts, &[]).into_iter().find(|found| found.subject == subject)
    }

    fn nccl(version: Option<&str>) -> Facts {
        with_libraries(vec![library("libnccl.so.2", version, &[])])
    }

    #[test]
    fn a_fault_matters_where_its_condition_holds() {
        const NCCL: &str = "/usr/lib/libnccl.so.2";
        let found = of(NCCL, &nccl(Some("2.18.1"))).expect("a finding");
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(&found, "LL128");
        assert_fix_says(&found, "2.18.3 or later");
        assert_eq!(of(NCCL, &nccl(Some("2.18.3"))).map(|f| f.outcome), Some(Outcome::Pass));
        // One GPU has no NVLinks to another.
        assert_eq!(of(NCCL, &nccl(Some("2.27.5"))).map(|f| f.outcome), Some(Outcome::Pass));
        let mut facts = nccl(Some("2.18.1"));
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(of(NCCL, &facts).map(|f| f.outcome), Some(Outcome::Pass));
        facts.rdma = Fact::Unknown(Why::Denied);
        assert_eq!(of(NCCL, &facts).map(|f| f.outcome), Some(Outcome::Unknown));
        assert_eq!(of(NCCL, &nccl(None)).map(|f| f.outcome), Some(Outcome::Unknown));
    }

    #[test]
    fn nccl_needs_a_listed_client_before_2_23_4() {
        const NCCL: &str = "/usr/lib/libnccl.so.2";
        let mut facts = nccl(Some("2.21.5"));
        assert_eq!(of(NCCL, &facts).map(|f| f.outcome), Some(Outcome::Pass), "dma-buf works");
        facts.set_proprietary();
        facts.peer_memory.nvidia_peermem = Fact::Known(true);
        facts.peer_memory.clients = Fact::Known(Some(vec!["nv_mem".to_owned()]));
        assert_eq!(of(NCCL, &facts).map(|f| f.outcome), Some(Outcome::Pass));
        facts.peer_memory.clients = Fact::Known(None);
        facts.kernel.modules = Fact::Known(vec![
            crate::model::Module {
                name: "ib_core".to_owned(),
                users: vec!["nvidia_peermem".to_owned()],
            },
            crate::model::Module {
                name: "nvidia".to_owned(),
                users: vec!["nvidia_peermem".to_owned()],
            },
        ]);
        let found = of(NCCL, &facts).expect("a finding");
        assert_eq!(found.outcome, Outcome::Warn, "{}", found.message);
        assert_says(&found, "memory_peers");
    }

    #[test]
    fn versions_of_modules() {
        let mut facts = machine();
        facts.gdrdrv.version = Fact::Known(Some("2.4.3".to_owned()));
        let found = of("gdrdrv", &facts).expect("a finding");
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(&found, "use after free");
        assert_fix_says(&found, "2.4.4 or later");
        facts.gdrdrv.version = Fact::Known(Some("2.5".to_owned()));
        assert_eq!(of("gdrdrv", &facts).map(|f| f.outcome), Some(Outcome::Pass));
        facts.gdrdrv.version = Fact::Unknown(Why::Denied);
        assert_eq!(of("gdrdrv", &facts).map(|f| f.outcome), Some(Outcome::Unknown));
        // A GB200 whose memory the driver manages.
        facts.gdrdrv.version = Fact::Known(Some("2.5".to_owned()));
        set_device_id(&mut facts, GPU, 0x2941);
        facts.param("CoherentGPUMemoryMode", "driver");
        assert_eq!(of("gdrdrv", &facts).map(|f| f.outcome), Some(Outcome::Warn));
        facts.rdma_stack.ofed = Fact::Known(true);
        facts.rdma_stack.mlx5_version = Fact::Known(Some("5.4-1.0.3".to_owned()));
        facts.peer_memory.nvidia_peermem = Fact::Known(true);
        let found = of("MLNX_OFED", &facts).expect("a finding");
        assert_says(&found, "deadlock");
        // The module of the kernel's tree.
        facts.rdma_stack.ofed = Fact::Known(false);
        assert_eq!(of("MLNX_OFED", &facts), None);
    }

    #[test]
    fn amazon_s_components() {
        const PLUGIN: &str = "/usr/lib/libnccl-net.so";
        let mut facts =
            with_libraries(vec![library("libnccl-net.so", None, &["aws-ofi-nccl 1.18.0"])]);
        assert_eq!(of(PLUGIN, &facts).map(|f| f.outcome), Some(Outcome::Pass), "no EFA");
        let nic = facts.nic_mut().place.present().map(ToString::to_string).expect("a NIC");
        facts.attributes_mut(&nic).driver = Fact::Known(Some("efa".to_owned()));
        let found = of(PLUGIN, &facts).expect("a finding");
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(&found, "broadcasts");
        facts.rdma_stack.efa_version = Fact::Known(Some("2.17.2g".to_owned()));
        const EFA: &str = "Amazon's module efa";
        assert_eq!(of(EFA, &facts).map(|f| f.outcome), Some(Outcome::Pass), "dma-buf works");
        facts.set_proprietary();
        let found = of(EFA, &facts).expect("a finding");
        assert_eq!(found.outcome, Outcome::Warn);
        assert_fix_says(&found, "2.17.3 or later");
        // Another plugin, and the module of the kernel's tree.
        facts.software.libraries =
            Fact::Known(vec![library("libnccl-net.so", None, &["ncclNetPlugin_v8"])]);
        facts.rdma_stack.efa_version = Fact::Known(None);
        assert_eq!((of(PLUGIN, &facts), of(EFA, &facts)), (None, None));
    }
}
