//! rdma.provider: libibverbs has a provider for each NIC.

use super::{CLASS, each_nic, rdma_nics};
use crate::check::{Check, Ctx, Hint, Judgement, Source};
use crate::model::{
    ActionClass, Area, Fact, FasterPath, RdmaDevice, Severity, Verbs, VerbsOutcome,
};

const CALL: &str = "ibv_get_device_list";
const INSTALL: &str = "Install ibverbs-providers (Debian, Ubuntu) or libibverbs (Fedora, RHEL); in a container, into its image.";

pub const CHECK: Check = Check {
    id: "rdma.provider",
    rule: "Each RDMA device has its user-space driver (provider library).",
    sources: "ibv_get_device_list, /sys/class/infiniband",
    severity: Severity::Error,
    why: "libibverbs opens one provider library for each kind of device (libmlx5, libefa, \
        ...). Programs do not find a device without its provider, even if /sys has it.",
    remedy: "Install the providers: Debian and Ubuntu ibverbs-providers, Fedora and RHEL \
        libibverbs, or the user space of the vendor's stack; in a container image, too.",
    action: ActionClass::Install
        .running("https://github.com/linux-rdma/rdma-core/blob/v64.0/Documentation/libibverbs.md"),
    references: &["https://github.com/linux-rdma/rdma-core/blob/v64.0/Documentation/libibverbs.md"],
    explained_by: &["rdma.device", "rdma.modules"],
    reads: &[Source::Verbs],
    hint: Some(Hint {
        cause: "The provider library of the NIC is missing or does not fit the kernel.",
        words: "provider=5 missing=2 container=1 rdma=1 no-device=1 failure=1 mismatch=1 rdma-device=1",
    }),
    closes: Some(FasterPath::Rdma),
    judge: provider,
    ..Check::DEFAULT
};

/// One judgement for each NIC, or one for the library.
fn provider(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let verbs = match &ctx.facts.verbs {
        // Without a NIC the library does not matter.
        _ if ctx.facts.rdma.known().is_none() || rdma_nics(ctx.facts).next().is_none() => {
            return each_nic(ctx, |_| vec![]);
        }
        Fact::Known(VerbsOutcome::Read(verbs)) => verbs,
        Fact::Known(VerbsOutcome::Absent { reason }) => {
            let message =
                "libibverbs.so.1 is not installed: no program of this system finds an RDMA device.";
            // Only a warning: a host that runs all programs in containers needs no library.
            let broken = Judgement::broken("machine", message).weighing(Severity::Warn);
            return vec![broken.evidence("dlopen", reason).advice(INSTALL)];
        }
        Fact::Known(VerbsOutcome::Failed { reason, .. }) => {
            let broken =
                Judgement::broken("machine", format!("libibverbs does not work: {reason}."));
            return vec![
                broken.evidence(CALL, reason).advice("Compare with ibv_devices; see rdma.modules."),
            ];
        }
        Fact::Unknown(why) => {
            return vec![Judgement::unknown("machine", *why, Area::Verbs, "libibverbs.so.1")];
        }
    };
    let served = verbs.devices.join(", ");
    each_nic(ctx, |nic| vec![judge(nic, verbs, &served)])
}

fn judge(nic: &RdmaDevice, verbs: &Verbs, served: &str) -> Judgement {
    if verbs.devices.contains(&nic.name) {
        return Judgement::pass(&nic.name, "libibverbs has a provider for it.")
            .evidence(CALL, served);
    }
    if nic.uverbs.is_absent() {
        return Judgement::skip(&nic.name, "It has no verbs node, so no provider can open it.");
    }
    Judgement::broken(
        &nic.name,
        "libibverbs does not list it: it is in sysfs, but its provider library is missing.",
    )
    .evidence(CALL, if served.is_empty() { "none" } else { served })
    .evidence(CLASS, &nic.name)
    .advice(INSTALL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, machine, only};
    use crate::model::{Facts, Outcome, Why};

    fn with(verbs: Fact<VerbsOutcome>) -> Facts {
        let mut facts = machine();
        facts.verbs = verbs;
        facts
    }

    #[test]
    fn skipped_without_nic_or_node() {
        let mut facts = with(Fact::Known(VerbsOutcome::Read(Box::default())));
        facts.nic_mut().uverbs = Fact::Known(None);
        assert_eq!(only("rdma.provider", &facts).outcome, Outcome::Skip);
        let mut facts = with(Fact::Unknown(Why::NotCovered));
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("rdma.provider", &facts).outcome, Outcome::Skip);
    }
}
