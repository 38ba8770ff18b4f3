//! limits.rdma-cgroup: what the RDMA controller allows this process's control group.

use crate::check::{Check, Ctx, Hint, Judgement, unknown_if};
use crate::model::{ActionClass, Area, Fact, RdmaGrant, Severity};
use crate::output::shell_word;

const SOURCE: &str = "rdma.max of this process's control groups";

pub const CHECK: Check = Check {
    id: "limits.rdma-cgroup",
    rule: "The RDMA controller of this process's control group has handles and objects left.",
    sources: "/proc/self/cgroup, rdma.max and rdma.current of it and of those above",
    severity: Severity::Info,
    why: "The RDMA controller limits how many devices a group may open and how many objects, such as queues and memory regions, \
        it may create. Beyond that ibv_open_device, ibv_create_qp and ibv_reg_mr fail, whatever the memlock limit \
        is.",
    remedy: "Raise rdma.max of the group (Slurm, Kubernetes or systemd set it), or end the processes that use the resources.",
    action: ActionClass::Configure
        .running("https://docs.kernel.org/admin-guide/cgroup-v2.html#rdma"),
    references: &["https://docs.kernel.org/admin-guide/cgroup-v2.html#rdma"],
    volatile: true,
    hint: Some(Hint {
        cause: "The control group's limit of RDMA objects is used up.",
        words: "cgroup=4 verbs-object=3 no-memory=2 rdma=2 limit=1 container=1",
    }),
    needs_nics: true,
    judge: rdma_cgroup,
    ..Check::DEFAULT
};

/// One judgement for each exhausted limit, one for the others.
fn rdma_cgroup(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let subject = "this process";
    let grants = &ctx.facts.limits.rdma_cgroup;
    if let Some(unknown) = unknown_if(grants, subject, Area::Proc, "/proc/self/cgroup, rdma.max") {
        return vec![unknown];
    }
    let grants: Vec<&RdmaGrant> = grants.known().into_iter().flatten().collect();
    if grants.is_empty() {
        let pass = Judgement::pass(subject, "No RDMA controller limits this process.");
        return vec![pass.evidence(SOURCE, "no limit")];
    }
    let mut judgements = Vec::new();
    let mut left = Vec::new();
    for grant in grants {
        match &grant.used {
            Fact::Known(used) if *used >= grant.most => judgements.push(exhausted(grant, *used)),
            Fact::Known(used) => left.push((grant, *used)),
            Fact::Unknown(why) => {
                let source = format!("{}/rdma.current", grant.group);
                judgements.push(Judgement::unknown(grant.device.clone(), *why, Area::Sys, &source));
            }
        }
    }
    if !left.is_empty() {
        let pass = Judgement::pass(
            subject,
            "The RDMA controller limits this process, and no limit is reached.",
        );
        judgements.push(left.iter().fold(pass, |pass, (grant, used)| {
            pass.evidence(source(grant), format!("{used} of {}", grant.most))
        }));
    }
    judgements
}

fn exhausted(grant: &RdmaGrant, used: u64) -> Judgement {
    let what = match grant.resource.as_str() {
        "hca_handle" => "open the device again",
        _ => "create another queue or memory region",
    };
    let message = format!(
        "RDMA limit of the control group reached: {used} of {} {} on {}, so no process in it can {what}.",
        grant.most, grant.resource, grant.device
    );
    Judgement::broken(grant.device.clone(), message)
        .weighing(Severity::Warn)
        .evidence(source(grant), format!("{used} of {}", grant.most))
        .command(format!(
            "echo {} > {}",
            shell_word(&format!("{} {}=max", grant.device, grant.resource)),
            shell_word(&format!("{}/rdma.max", grant.group))
        ))
        .advice("Run it as root, or raise the limit where Slurm, Kubernetes or systemd sets it.")
}

fn source(grant: &RdmaGrant) -> String {
    format!("{}/rdma.max, rdma.current: {} {}", grant.group, grant.device, grant.resource)
}
