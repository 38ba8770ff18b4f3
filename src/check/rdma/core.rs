//! rdma.core: verbs register dma-bufs.

use super::{driver, each_nic, rdma_nics};
use crate::check::memory_path::{PathState, peer_memory};
use crate::check::version::{self, Flavour};
use crate::check::{Check, Ctx, Hint, Judgement, Source};
use crate::model::{
    ActionClass, Area, Dmabuf, DmabufAnswer, Fact, FasterPath, NicDriver, RdmaDevice, Severity,
    Verbs, VerbsOutcome, VerbsTrial, dmabuf_providers,
};

const SYMBOL: &str = "ibv_reg_dmabuf_mr";

pub const CHECK: Check = Check {
    id: "rdma.core",
    rule: "libibverbs, its provider and the kernel register dma-buf memory.",
    sources: "the symbol ibv_reg_dmabuf_mr; under --live its answer to file -1",
    severity: Severity::Warn,
    why: "Without nvidia-peermem, a NIC gets GPU memory as a dma-buf. errno 95 (provider) and \
        93 (kernel) mean that dma-buf is not supported; every other number is about the file \
        only.",
    remedy: "Install rdma-core 34 or later (mlx5 34, efa 38, irdma 45, bnxt_re 48, mana 57, ionic \
        61; mlx4, rxe, erdma and hns have no such function) and kernel 5.12 or later. OFED \
        numbers its libibverbs differently: the symbol decides.",
    action: ActionClass::Install
        .running("https://github.com/linux-rdma/rdma-core/blob/v64.0/libibverbs/man/ibv_reg_mr.3"),
    references: &[
        "https://github.com/linux-rdma/rdma-core/blob/v64.0/libibverbs/man/ibv_reg_mr.3",
        "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/transport/net_ib/gdr.cc",
    ],
    explained_by: &["rdma.device", "rdma.modules", "rdma.provider"],
    reads: &[Source::Verbs],
    hint: Some(Hint {
        cause: "The libibverbs or kernel in use cannot register a dma-buf.",
        words: "dmabuf=4 register=2 unsupported=3 mismatch=2 rdma=2 provider=2 invalid=1 failure=1 kernel-version=1",
    }),
    closes: Some(FasterPath::Rdma),
    judge: core,
    ..Check::DEFAULT
};

/// One judgement for each NIC, if libibverbs is installed.
fn core(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let verbs = match &ctx.facts.verbs {
        _ if ctx.facts.rdma.known().is_none() || rdma_nics(ctx.facts).next().is_none() => {
            return each_nic(ctx, |_| vec![]);
        }
        Fact::Known(VerbsOutcome::Read(verbs)) => verbs,
        Fact::Known(_) => {
            return vec![Judgement::skip(
                "machine",
                "libibverbs is not available: see rdma.provider.",
            )];
        }
        Fact::Unknown(why) => {
            return vec![Judgement::unknown("machine", *why, Area::Verbs, "libibverbs.so.1")];
        }
    };
    each_nic(ctx, |nic| vec![judge(ctx, nic, verbs)])
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice, verbs: &Verbs) -> Judgement {
    let library = verbs.library.as_deref().unwrap_or("libibverbs.so.1");
    match &verbs.reg_dmabuf_mr {
        Fact::Known(true) => {}
        Fact::Known(false) => {
            let lacks = "libibverbs is older than rdma-core 34: it registers no dma-buf";
            let advice = "Install rdma-core 34 or later, or the user space of a newer OFED.";
            return without(ctx, nic, lacks, advice)
                .evidence(format!("{SYMBOL} in {library}"), "not there");
        }
        Fact::Unknown(why) => return Judgement::unknown(&nic.name, *why, Area::Verbs, SYMBOL),
    }
    let judgement = match verbs.trials.as_ref().and_then(|trials| trials.get(&nic.name)) {
        Some(trial) => tried(ctx, nic, trial),
        None => by_driver(ctx, nic),
    };
    judgement.evidence(format!("{SYMBOL} in {library}"), "there")
}

/// Judges the result of a registration on the device.
fn tried(ctx: &Ctx<'_>, nic: &RdmaDevice, trial: &VerbsTrial) -> Judgement {
    let source = format!("{SYMBOL}(fd -1) on {}", nic.name);
    let answer = match trial {
        VerbsTrial::Opened(device) => &device.dmabuf,
        VerbsTrial::Refused(error) => {
            return Judgement::undetermined(
                &nic.name,
                format!("Cannot determine: {}.", error.reason),
            )
            .evidence("ibv_open_device", &error.reason)
            .needs("a user who may open its node: rdma.device");
        }
    };
    match answer {
        DmabufAnswer::Registers(errno) => Judgement::pass(
            &nic.name,
            "It registers dma-bufs: it refused the file that it was given, not the operation.",
        )
        .evidence(source, format!("errno {errno}")),
        DmabufAnswer::Refuses(95) => without(
            ctx,
            nic,
            "its provider's library or its driver registers no dma-buf (errno 95)",
            &provider_advice(known_driver(ctx, nic)),
        )
        .evidence(source, "errno 95"),
        DmabufAnswer::Refuses(errno) => without(
            ctx,
            nic,
            &format!("the kernel registers no dma-buf for it (errno {errno})"),
            &kernel_advice(known_driver(ctx, nic)),
        )
        .evidence(source, format!("errno {errno}")),
        DmabufAnswer::Failed(error) => {
            Judgement::undetermined(&nic.name, format!("Cannot determine: {}.", error.reason))
                .needs("a device that answers")
        }
        DmabufAnswer::NotAsked => {
            Judgement::undetermined(&nic.name, "Cannot determine: it was not queried.")
                .needs("--live")
        }
    }
}

fn known_driver(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Option<&'static NicDriver> {
    NicDriver::of(driver(ctx.facts, nic).known()?)
}

/// Which versions help against errno 95: the library or the driver is too old, or the driver has no such function at all.
fn provider_advice(driver: Option<&NicDriver>) -> String {
    match driver {
        Some(driver) => {
            let versions = driver.dmabuf_versions();
            match driver.dmabuf {
                Dmabuf::Since { .. } => {
                    // mlx5_ib's function is compiled only then (Linux 6.12, drivers/infiniband/hw/mlx5/mr.c).
                    let with = match driver.name {
                        "mlx5" => ", in a kernel with CONFIG_INFINIBAND_ON_DEMAND_PAGING",
                        _ => "",
                    };
                    format!("Update the older of both: {versions}{with}.")
                }
                Dmabuf::Never => format!("Use nvidia-peermem with it, or another NIC: {versions}."),
            }
        }
        None => format!("Install an rdma-core whose provider does: {}.", dmabuf_providers()),
    }
}

/// Which kernel helps against errno 93. mlx5 moves dma-bufs by page faults; other drivers pin them.
fn kernel_advice(driver: Option<&NicDriver>) -> String {
    match driver {
        Some(driver) if driver.name != "mlx5" => {
            format!("Use a newer kernel: {}.", driver.dmabuf_versions())
        }
        _ => "Use a kernel from 5.12 on (mlx5; later for others) with CONFIG_INFINIBAND_ON_DEMAND_PAGING."
            .to_owned(),
    }
}

/// Judges by the driver's provider, for a library with the function.
fn by_driver(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Judgement {
    let driver = match driver(ctx.facts, nic) {
        Fact::Known(driver) => driver,
        Fact::Unknown(why) => {
            return Judgement::unknown(&nic.name, why, Area::Sys, "the NIC's driver");
        }
    };
    let judgement = match driver.as_str() {
        "mlx5_core" => Judgement::pass(
            &nic.name,
            "By the facts it registers dma-bufs: libmlx5 does in each library that has the function.",
        ),
        name => match NicDriver::of(name) {
            Some(known) if known.dmabuf == Dmabuf::Never => without(
                ctx,
                nic,
                &format!("{driver} registers no dma-buf"),
                "Use nvidia-peermem with it, or another NIC.",
            ),
            known => {
                let versions = known.map(|known| format!(": {}", known.dmabuf_versions()));
                let versions = versions.unwrap_or_default();
                Judgement::undetermined(
                    &nic.name,
                    format!(
                        "Cannot determine: whether {driver} registers dma-bufs depends on the versions of its provider and the \
                         kernel{versions}."
                    ),
                )
                .needs("--live")
            }
        },
    };
    judgement.evidence(format!("driver of {}", nic.name), driver)
}

/// Missing support for dma-buf: a fault only if the driver exports it and nvidia-peermem does not work.
fn without(ctx: &Ctx<'_>, nic: &RdmaDevice, what: &str, advice: &str) -> Judgement {
    if let Fact::Known(Some(Flavour::Proprietary)) = version::flavour(ctx.facts) {
        let message = format!(
            "The loaded driver exports no dma-buf, so that it does not matter that {what}."
        );
        return Judgement::skip(&nic.name, message);
    }
    match peer_memory(ctx, nic, &driver(ctx.facts, nic)) {
        PathState::Open(_) => Judgement::info(
            &nic.name,
            format!("GPU memory is reached through nvidia-peermem alone: {what}."),
        ),
        PathState::Closed(_) | PathState::Unknown(..) => {
            let mut letters = what.chars();
            let start = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            Judgement::broken(&nic.name, format!("{start}{}.", letters.as_str())).advice(advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, NIC, assert_fix_says, assert_outcome, assert_says, bind, machine, only,
    };
    use crate::model::{Facts, Outcome, VerbsDevice, VerbsError, Why};

    fn with(change: impl FnOnce(&mut Verbs)) -> Facts {
        let mut facts = machine();
        if let Fact::Known(VerbsOutcome::Read(verbs)) = &mut facts.verbs {
            change(verbs);
        }
        facts
    }

    fn answering(dmabuf: DmabufAnswer) -> Facts {
        let opened = VerbsTrial::Opened(VerbsDevice { dmabuf, ..VerbsDevice::default() });
        with(|verbs| verbs.trials = Some([("mlx5_0".to_owned(), opened)].into()))
    }

    fn without_peermem(mut facts: Facts) -> Facts {
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        facts.peer_memory.clients = Fact::Known(None);
        facts
    }

    #[test]
    fn rejected_registration_warns_without_peermem() {
        assert_outcome("rdma.core", &answering(DmabufAnswer::Registers(9)), Outcome::Pass);
        for errno in [93, 95] {
            let facts = answering(DmabufAnswer::Refuses(errno));
            assert_eq!(only("rdma.core", &facts).outcome, Outcome::Info);
            let found = only("rdma.core", &without_peermem(facts));
            assert_eq!(found.outcome, Outcome::Warn);
            assert_says(&found, &format!("errno {errno}"));
        }
    }

    #[test]
    fn versions_are_those_of_the_driver() {
        for (function, versions) in [
            ("bnxt_en", "bnxt_re registers dma-bufs from Linux 6.6 and rdma-core 48 on"),
            ("ice", "irdma registers dma-bufs from Linux 6.3 and rdma-core 45 on"),
            ("newnic", "mlx5 34, efa 38, irdma 45, bnxt_re 48, mana 57, ionic 61"),
        ] {
            let mut facts = without_peermem(answering(DmabufAnswer::Refuses(95)));
            bind(&mut facts, NIC, Some(function));
            assert_fix_says(&only("rdma.core", &facts), versions);
        }
        let check = super::super::CHECKS.iter().find(|check| check.id == "rdma.core");
        assert!(check.is_some_and(|check| check.remedy.contains(&dmabuf_providers())));
    }

    #[test]
    fn mlx4_registers_no_dma_buf() {
        let mut facts = without_peermem(machine());
        bind(&mut facts, NIC, Some("mlx4_core"));
        assert_eq!(only("rdma.core", &facts).outcome, Outcome::Warn);
    }

    #[test]
    fn failed_trials_are_unknown() {
        let refused = VerbsTrial::Refused(VerbsError {
            code: Some(13),
            reason: "cannot open mlx5_0: Permission denied".to_owned(),
        });
        let facts = with(|verbs| verbs.trials = Some([("mlx5_0".to_owned(), refused)].into()));
        assert_eq!(only("rdma.core", &facts).outcome, Outcome::Unknown);
        assert_eq!(
            only("rdma.core", &answering(DmabufAnswer::Failed(VerbsError::default()))).outcome,
            Outcome::Unknown
        );
        let mut facts = machine();
        facts.verbs = Fact::Unknown(Why::TimedOut);
        assert_eq!(only("rdma.core", &facts).outcome, Outcome::Unknown);
        facts.verbs = Fact::Known(VerbsOutcome::Absent { reason: String::new() });
        assert_eq!(only("rdma.core", &facts).outcome, Outcome::Skip);
    }

    #[test]
    fn proprietary_driver_needs_no_dma_buf() {
        let mut facts = without_peermem(answering(DmabufAnswer::Refuses(95)));
        facts.set_proprietary();
        assert_eq!(only("rdma.core", &facts).outcome, Outcome::Skip);
    }
}
