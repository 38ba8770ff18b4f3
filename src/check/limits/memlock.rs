//! limits.memlock: how much memory this process may pin for RDMA.

use crate::check::{Check, Ctx, Hint, Judgement, nics, words};
use crate::model::{ActionClass, Area, Fact, Process, Severity};

const LIMITS: &str = "/proc/self/limits: Max locked memory";

pub const CHECK: Check = Check {
    id: "limits.memlock",
    rule: "This process may lock as much memory as RDMA needs.",
    sources: "/proc/self/limits, /proc/self/status, /proc/self/uid_map; limits.d, system.conf, units of slurmd, \
        containerd, docker, crio, kubelet",
    severity: Severity::Warn,
    why: "Registered memory is pinned and counts against this limit unless the process has CAP_IPC_LOCK. \
        Beyond the limit registration fails with ENOMEM (Cannot allocate memory), or with EPERM if the limit is 0.",
    remedy: "Raise it: ulimit -l unlimited, limits.d, LimitMEMLOCK= of the service that starts the program, --ulimit \
        memlock=-1 of the container.",
    action: ActionClass::Configure
        .running("https://man7.org/linux/man-pages/man2/getrlimit.2.html"),
    references: &[
        "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
        "https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/umem.c",
        "https://github.com/systemd/systemd/commit/852b62507b22c0a986032a2c9fa9cc464a5b7bd2",
    ],
    hint: Some(Hint {
        cause: "The limit of locked memory is too small for RDMA.",
        words: "memlock=6 no-memory=3 verbs-object=3 limit=2 register=2 rdma=2 failure=1 ucx=1 container=1 slow=1 \
            gpu-memory=-2 bar1=-2 gdrcopy=-3",
    }),
    judge: memlock,
    ..Check::DEFAULT
};

/// The limit of this process and of programs that services start.
fn memlock(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let mut judgements = own(ctx);
    judgements.extend(services(ctx));
    judgements
}

/// Pinned memory counts against the limit unless the process has CAP_IPC_LOCK in the initial user namespace.
fn own(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let process = &ctx.facts.process;
    let subject = "this process";
    let soft = match process.memlock_soft {
        Fact::Known(soft) => soft,
        Fact::Unknown(why) => return vec![Judgement::unknown(subject, why, Area::Proc, LIMITS)],
    };
    let Some(soft) = soft else {
        let judgement = Judgement::pass(subject, "Locked memory is unlimited.");
        return vec![judgement.evidence(LIMITS, "unlimited")];
    };
    let limit = format!("{soft} bytes");
    match process.capable(Process::CAP_IPC_LOCK) {
        Fact::Known(true) => {
            let message = format!(
                "This process has CAP_IPC_LOCK: the limit of {} does not apply to it. It applies to processes without the capability.",
                words::size(soft)
            );
            vec![
                Judgement::pass(subject, message)
                    .evidence(LIMITS, limit)
                    .evidence("/proc/self/status: CapEff", "cap_ipc_lock"),
            ]
        }
        Fact::Known(false) => vec![low_limit(ctx, soft).evidence(LIMITS, limit)],
        Fact::Unknown(why) => {
            let source = "/proc/self/status: CapEff, /proc/self/uid_map";
            vec![Judgement::unknown(subject, why, Area::Proc, source).evidence(LIMITS, limit)]
        }
    }
}

/// Services whose units limit the programs that they start; without a setting, systemd's default is
/// 8 MiB. A container or job may still set another limit.
fn services(ctx: &Ctx<'_>) -> Option<Judgement> {
    nics::rdma_nics(ctx.facts).next()?;
    let services = ctx.facts.limits.services.known()?;
    let settings = ctx.facts.limits.memlock_settings.known()?;
    let default =
        settings.iter().rev().find(|setting| setting.line.starts_with("DefaultLimitMEMLOCK="));
    let limited: Vec<_> = services
        .iter()
        .filter_map(|service| {
            let setting = service.memlock.as_ref().or(default);
            let unlimited = setting.is_some_and(|setting| setting.line.ends_with("=infinity"));
            (!unlimited).then_some((service, setting))
        })
        .collect();
    if limited.is_empty() {
        return None;
    }
    let names = words::list(limited.iter().map(|(service, _)| &service.name));
    let message = format!(
        "Programs that {names} starts may lock little memory, unless the job or container sets a higher limit."
    );
    let judgement =
        limited.iter().fold(Judgement::info(names, message), |judgement, (service, setting)| {
            match setting {
                Some(setting) => judgement.evidence(&setting.path, &setting.line),
                None => judgement.evidence(
                    format!("{}.service", service.name),
                    "no LimitMEMLOCK: systemd's default, 8 MiB",
                ),
            }
        });
    let first = limited.first().map_or("", |(service, _)| &service.name);
    Some(judgement.fix("memlock").advice(format!(
                "Set LimitMEMLOCK=infinity in the [Service] section of {first} (systemctl edit) and restart it; for docker, start with \
                 --ulimit memlock=-1."
            )))
}

fn low_limit(ctx: &Ctx<'_>, soft: u64) -> Judgement {
    let subject = "this process";
    let counted = "Queues, host memory and GPU memory by nvidia-peermem count against it, GPU memory by dma-buf does not. \
                   If a registration fails, ENOMEM means this limit, EPERM a limit of 0, EFAULT that nvidia-peermem is \
                   missing.";
    let (weight, message) = match soft {
        0 => (
            Severity::Error,
            format!(
                "This process may lock no memory at all: nothing can be registered for RDMA. {counted}"
            ),
        ),
        soft => (
            Severity::Warn,
            format!("This process may lock {} at most. {counted}", words::size(soft)),
        ),
    };
    // Without a NIC no memory is registered.
    let no_nic = ctx.facts.rdma.known().is_some() && nics::rdma_nics(ctx.facts).next().is_none();
    let weight = if no_nic { Severity::Info } else { weight };
    let hard = match ctx.facts.process.memlock_hard {
        Fact::Known(None) => "unlimited (ulimit -l unlimited raises it in this shell)".to_owned(),
        Fact::Known(Some(hard)) => format!("{hard} bytes"),
        Fact::Unknown(why) => why.phrase().to_owned(),
    };
    let judgement = Judgement::broken(subject, message)
        .weighing(weight)
        .evidence("/proc/self/limits: Max locked memory, hard", hard);
    let settings = ctx.facts.limits.memlock_settings.known().into_iter().flatten();
    settings
        .fold(judgement, |judgement, setting| judgement.evidence(&setting.path, &setting.line))
        .fix("memlock")
        .advice(
            "For logins, write '* - memlock unlimited' to a file of /etc/security/limits.d; for \
                 services (slurmd, containerd, docker), set LimitMEMLOCK=infinity in the unit; for \
                 docker, start with --ulimit memlock=-1.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{findings, machine, only};
    use crate::model::{Facts, Outcome, Service, Setting, Why};

    fn with(soft: Option<u64>, capabilities: u64) -> Facts {
        let mut facts = machine();
        facts.process.memlock_soft = Fact::Known(soft);
        facts.process.capabilities = Fact::Known(capabilities);
        facts
    }

    #[test]
    fn names_services_with_limits() {
        let mut facts = machine();
        let setting =
            |path: &str, line: &str| Setting { path: path.to_owned(), line: line.to_owned() };
        let service =
            |name: &str, memlock: Option<Setting>| Service { name: name.to_owned(), memlock };
        let slurmd = "/usr/lib/systemd/system/slurmd.service";
        facts.limits.services = Fact::Known(vec![
            service("slurmd", Some(setting(slurmd, "LimitMEMLOCK=infinity"))),
            service("docker", None),
        ]);
        let found = findings("limits.memlock", &facts, &["rdma"]);
        assert_eq!((found[0].outcome, found[1].outcome), (Outcome::Pass, Outcome::Info));
        assert_eq!(found[1].subject, "docker");
        let default = setting("/etc/systemd/system.conf", "DefaultLimitMEMLOCK=infinity");
        facts.limits.memlock_settings = Fact::Known(vec![default]);
        assert_eq!(findings("limits.memlock", &facts, &[]).len(), 1);
    }

    #[test]
    fn capability_in_other_namespace() {
        let mut facts = with(Some(65536), 1 << 14);
        facts.process.initial_user_namespace = Fact::Known(false);
        assert_eq!(only("limits.memlock", &facts).outcome, Outcome::Warn);
        facts.process.initial_user_namespace = Fact::Unknown(Why::Denied);
        assert_eq!(only("limits.memlock", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn information_without_nic() {
        let mut facts = with(Some(0), 0);
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("limits.memlock", &facts).outcome, Outcome::Info);
    }
}
