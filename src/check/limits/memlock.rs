//! limits.memlock: how much memory this process may pin for RDMA.

use crate::check::{Ctx, Judgement, rdma, words};
use crate::model::{Fact, Process, Severity};

const LIMITS: &str = "/proc/self/limits: Max locked memory";

/// The kernel charges what a process pins against its limit, unless it has CAP_IPC_LOCK in the initial user namespace.
pub fn memlock(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let process = &ctx.facts.process;
    let subject = "this process";
    let soft = match process.memlock_soft {
        Fact::Known(soft) => soft,
        Fact::Unknown(why) => return vec![Judgement::unknown(subject, why, LIMITS)],
    };
    let Some(soft) = soft else {
        let judgement = Judgement::pass(subject, "Locked memory is unlimited.");
        return vec![judgement.evidence(LIMITS, "unlimited")];
    };
    let said = format!("{soft} bytes");
    match process.capable(Process::CAP_IPC_LOCK) {
        Fact::Known(true) => {
            let message = format!(
                "This process has CAP_IPC_LOCK: the limit of {} does not bind it. It binds processes without it.",
                words::size(soft)
            );
            vec![
                Judgement::pass(subject, message)
                    .evidence(LIMITS, said)
                    .evidence("/proc/self/status: CapEff", "cap_ipc_lock"),
            ]
        }
        Fact::Known(false) => vec![limited(ctx, soft).evidence(LIMITS, said)],
        Fact::Unknown(why) => {
            let source = "/proc/self/status: CapEff, /proc/self/uid_map";
            vec![Judgement::unknown(subject, why, source).evidence(LIMITS, said)]
        }
    }
}

fn limited(ctx: &Ctx<'_>, soft: u64) -> Judgement {
    let subject = "this process";
    let counted = "Queues, host memory and GPU memory by nvidia-peermem count against it, GPU memory by dma-buf does not. \
                   Of a failing registration ENOMEM means this limit, EPERM a limit of 0, EFAULT that nvidia-peermem is \
                   missing.";
    let (weight, message) = match soft {
        0 => (
            Severity::Error,
            format!("This process may lock no memory at all: nothing can be registered for RDMA. {counted}"),
        ),
        soft => (
            Severity::Warn,
            format!("This process may lock {} at most. {counted}", words::size(soft)),
        ),
    };
    // Without a NIC nobody registers memory.
    let no_nic = ctx.facts.rdma.known().is_some() && rdma::cards(ctx.facts).next().is_none();
    let weight = if no_nic { Severity::Info } else { weight };
    let hard = match ctx.facts.process.memlock_hard {
        Fact::Known(None) => "unlimited (ulimit -l unlimited raises it in this shell)".to_owned(),
        Fact::Known(Some(hard)) => format!("{hard} bytes"),
        Fact::Unknown(why) => why.phrase().to_owned(),
    };
    Judgement::broken(subject, message)
        .weighing(weight)
        .evidence("/proc/self/limits: Max locked memory, hard", hard)
        .fix(
            "memlock",
            "for logins: '* - memlock unlimited' in a file of /etc/security/limits.d; for services (slurmd, containerd, \
             docker): LimitMEMLOCK=infinity in the unit; for docker: --ulimit memlock=-1",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{findings, machine, only};
    use crate::model::{Facts, Outcome, Why};

    fn with(soft: Option<u64>, capabilities: u64) -> Facts {
        let mut facts = machine();
        facts.process.memlock_soft = Fact::Known(soft);
        facts.process.capabilities = Fact::Known(capabilities);
        facts
    }

    #[test]
    fn the_limit_binds_those_without_the_capability() {
        for (soft, capabilities, outcome, word) in [
            (None, 0, Outcome::Pass, "unlimited"),
            (Some(8 << 20), 0, Outcome::Warn, "may lock 8 MiB at most"),
            (Some(0), 0, Outcome::Fail, "no memory at all"),
            (Some(0), 1 << 14, Outcome::Pass, "CAP_IPC_LOCK"),
            (Some(65536), 1 << 21, Outcome::Warn, "64 KiB"),
        ] {
            let found = &findings("limits.memlock", &with(soft, capabilities), &["rdma"])[0];
            assert_eq!(found.outcome, outcome, "{soft:?} {capabilities:x}");
            assert!(found.message.contains(word), "{}", found.message);
        }
        let fix = only("limits.memlock", &with(Some(0), 0)).fix.expect("a fix");
        for word in ["limits.d", "LimitMEMLOCK=infinity", "--ulimit memlock=-1"] {
            assert!(fix.command.contains(word), "{word}");
        }
    }

    #[test]
    fn a_capability_of_another_user_namespace_is_none() {
        let mut facts = with(Some(65536), 1 << 14);
        facts.process.initial_user_namespace = Fact::Known(false);
        assert_eq!(only("limits.memlock", &facts).outcome, Outcome::Warn);
        facts.process.initial_user_namespace = Fact::Unknown(Why::Denied);
        assert_eq!(only("limits.memlock", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn without_a_nic_it_is_worth_knowing_only() {
        let mut facts = with(Some(0), 0);
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("limits.memlock", &facts).outcome, Outcome::Info);
        assert_eq!(only("limits.memlock", &Facts::default()).outcome, Outcome::Unknown);
    }
}
