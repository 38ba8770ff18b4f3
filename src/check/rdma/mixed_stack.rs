//! rdma.mixed-stack: all loaded RDMA modules belong to one stack.

use crate::check::container::needs_for_absent;
use crate::check::{Check, Ctx, Hint, Judgement, words};
use crate::model::{ActionClass, Area, Fact, FasterPath, Module, Severity};

const MODULES: &str = "/proc/modules";

/// Modules of MLNX_OFED and DOCA-OFED depend on this one; the kernel's own do not.
const MARK: &str = "mlx_compat";

/// Modules of both stacks, with the same names.
const BOTH: [&str; 6] = ["ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib"];

pub const CHECK: Check = Check {
    id: "rdma.mixed-stack",
    rule: "All loaded RDMA modules belong to one stack: the kernel's own, or MLNX_OFED or \
        DOCA-OFED.",
    sources: "/proc/modules (modules that use mlx_compat: all of OFED's, none of the kernel's \
        own), /usr/bin/ofed_info",
    severity: Severity::Error,
    why: "Modules of two stacks reject each other's symbols ('disagrees about version'), and \
        nvidia-peermem works only with the stack that it was built against.",
    remedy: "Install the OFED modules for the running kernel (its packages rebuild them with \
        DKMS), or remove OFED completely.",
    action: ActionClass::Install.drained("docs: NVIDIA DOCA-OFED, Installation"),
    references: &[
        "docs: NVIDIA DOCA-OFED, Installation",
        "https://github.com/cifsd-team/ksmbd/issues/574",
        "https://github.com/microsoft/lisa/pull/3134",
    ],
    hint: Some(Hint {
        cause: "Parts of two RDMA stacks are mixed.",
        words: "mixed-stack=4 mismatch=3 storage=3 peermem=2 kernel-module=2 rdma=1 failure=1 missing=1",
    }),
    closes: Some(FasterPath::GpuDirect),
    judge: mixed_stack,
    ..Check::DEFAULT
};

fn mixed_stack(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let modules = match &ctx.facts.kernel.modules {
        Fact::Known(modules) => modules,
        Fact::Unknown(why) => {
            let unknown = Judgement::unknown("machine", *why, Area::Proc, MODULES);
            let here =
                "a kernel with loadable modules (CONFIG_MODULES): this one has no /proc/modules";
            return vec![match needs_for_absent(ctx, *why, here) {
                Some(needs) => unknown.needs(needs),
                None => unknown,
            }];
        }
    };
    let loaded = |name: &&str| modules.iter().any(|module: &Module| module.name == *name);
    let both: Vec<&str> = BOTH.into_iter().filter(loaded).collect();
    if both.is_empty() {
        return vec![match super::rdma_nics(ctx.facts).next() {
            Some(_) => Judgement::pass("machine", "The RDMA stack is built into the kernel.")
                .evidence(MODULES, format!("none of {}", words::list(BOTH))),
            None => Judgement::skip("machine", "No RDMA stack is loaded."),
        }];
    }
    let users = modules.iter().find(|module| module.name == MARK).map(|mark| &mark.users);
    let (ofed, own): (Vec<&str>, Vec<&str>) = both
        .into_iter()
        .partition(|name| users.is_some_and(|users| users.iter().any(|user| user == name)));
    vec![judge(ctx, &ofed, &own).evidence(
        format!("{MODULES}: users of {MARK}"),
        users.map_or_else(|| "it is not loaded".to_owned(), words::list),
    )]
}

fn judge(ctx: &Ctx<'_>, ofed: &[&str], own: &[&str]) -> Judgement {
    match (ofed.is_empty(), own.is_empty(), &ctx.facts.rdma_stack.ofed) {
        (false, false, _) => Judgement::broken(
            "machine",
            format!(
                "Modules of two RDMA stacks are loaded: OFED's {} beside the kernel's own {}.",
                words::list(ofed),
                words::list(own)
            ),
        )
        .advice("Reboot, or restart openibd (/etc/init.d/openibd restart); if it stays so, reinstall OFED \
                 for this kernel."),
        (false, true, _) => Judgement::pass("machine", "The loaded RDMA modules belong to OFED."),
        (true, _, Fact::Known(true)) => Judgement::broken(
            "machine",
            "OFED is installed, but the loaded RDMA modules are the kernel's own: OFED's were not built for this kernel, or not loaded. The kernel's own modules have no interface for nvidia-peermem.",
        )
        .weighing(Severity::Warn)
        .evidence("/usr/bin/ofed_info", "there")
        .advice("Reinstall OFED's kernel packages for the running kernel (dkms status shows them), then \
                 restart openibd (/etc/init.d/openibd restart)."),
        (true, _, Fact::Known(false)) => {
            Judgement::pass("machine", "The loaded RDMA modules are the kernel's own.")
        }
        (true, _, Fact::Unknown(why)) => {
            Judgement::unknown("machine", *why, Area::Files, "/usr/bin/ofed_info")
                .weighing(Severity::Warn)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, only};
    use crate::model::{Facts, Outcome, Why};

    fn with(modules: &[(&str, &[&str])]) -> Facts {
        let mut facts = machine();
        let module = |(name, users): &(&str, &[&str])| Module {
            name: (*name).to_owned(),
            users: users.iter().map(|user| (*user).to_owned()).collect(),
        };
        facts.kernel.modules = Fact::Known(modules.iter().map(module).collect());
        facts
    }

    #[test]
    fn one_stack_passes() {
        let own = with(&[("ib_core", &["mlx5_ib"]), ("mlx5_core", &[]), ("mlx5_ib", &[])]);
        assert_eq!(only("rdma.mixed-stack", &own).outcome, Outcome::Pass);
        let ofed = with(&[
            ("mlx_compat", &["ib_core", "mlx5_core"]),
            ("ib_core", &[]),
            ("mlx5_core", &[]),
        ]);
        assert_eq!(
            only("rdma.mixed-stack", &ofed).message,
            "The loaded RDMA modules belong to OFED."
        );
    }

    #[test]
    fn built_in_stack_and_missing_list() {
        assert_eq!(only("rdma.mixed-stack", &with(&[])).outcome, Outcome::Pass);
        let mut none = with(&[]);
        none.rdma = Fact::Known(Vec::new());
        assert_eq!(only("rdma.mixed-stack", &none).outcome, Outcome::Skip);
        let mut live = none.clone();
        live.host.source = "live".to_owned();
        live.kernel.modules = Fact::Unknown(Why::NotCovered);
        let needs = |facts: &Facts| only("rdma.mixed-stack", facts).needs.expect("what it needs");
        assert!(needs(&live).contains("CONFIG_MODULES"));
        live.platform.container_marks = Fact::Known(vec!["namespace pid:[4026532000]".to_owned()]);
        assert!(needs(&live).contains("outside of the container"));
        none.kernel.modules = Fact::Unknown(Why::Denied);
        assert_eq!(only("rdma.mixed-stack", &none).outcome, Outcome::Unknown);
    }
}
