//! platform.cma: memory of the contiguous allocator (CMA).
//!
//! Before it pins pages for a registration, the kernel moves them out of CMA memory. If that fails, it returns ENOMEM, which
//! looks like a memlock limit. Kexec handover (`kho=on`) reserves CMA memory too.

use crate::check::{Check, Ctx, Hint, Judgement, unknown_if, words};
use crate::model::Fact;
use crate::model::{ActionClass, Area, Severity};

const SOURCE: &str = "/proc/meminfo: CmaTotal, CmaFree";

pub const CHECK: Check = Check {
    id: "platform.cma",
    rule: "How much memory is reserved for contiguous allocations (CMA), whose pages cannot \
        stay pinned.",
    sources: "/proc/meminfo: CmaTotal, CmaFree; /proc/cmdline",
    severity: Severity::Info,
    why: "The kernel moves pages out of this memory before it pins them. If it cannot, memory \
        registration fails with ENOMEM although locked memory is unlimited.",
    remedy: "If registrations fail this way, boot with cma=0 and without kho=on.",
    action: ActionClass::Configure
        .drained("https://docs.kernel.org/core-api/pin_user_pages.html")
        .then(ActionClass::Reboot),
    references: &["https://docs.kernel.org/core-api/pin_user_pages.html"],
    volatile: true,
    hint: Some(Hint {
        cause: "The kernel's contiguous memory area is used up.",
        words: "cma=5 no-memory=2 failure=1",
    }),
    judge: cma,
    ..Check::DEFAULT
};

/// Reports the size of CMA memory.
fn cma(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let kernel = &ctx.facts.kernel;
    if let Some(unknown) = unknown_if(&kernel.cma, "machine", Area::Proc, SOURCE) {
        return vec![unknown];
    }
    let Fact::Known(Some(cma)) = &kernel.cma else {
        let pass = Judgement::pass(
            "machine",
            "This kernel reserves no memory for contiguous allocations.",
        );
        return vec![pass.evidence(SOURCE, "not there")];
    };
    let sizes = format!("{}, {} free", words::size(cma.total), words::size(cma.free));
    let judgement = match cma.total {
        0 => Judgement::pass("machine", "No memory is reserved for contiguous allocations."),
        total => Judgement::info(
            "machine",
            format!(
                "{} are reserved for contiguous allocations: the kernel moves pages out of it before it pins them. ENOMEM from a registration that memlock does not limit may come from this.",
                words::size(total)
            ),
        )
        .advice("If registrations fail this way, boot with cma=0 (and without kho=on)."),
    };
    let judgement = judgement.evidence(SOURCE, sizes);
    let line = kernel.command_line.known().map_or("", String::as_str);
    let parameters: Vec<&str> = line
        .split_ascii_whitespace()
        .filter(|word| word.starts_with("cma=") || word.starts_with("kho"))
        .collect();
    vec![if parameters.is_empty() {
        judgement
    } else {
        judgement.evidence("/proc/cmdline", parameters.join(" "))
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, only};
    use crate::model::{Cma, Outcome};

    #[test]
    fn names_parameters_of_reserved_memory() {
        let mut facts = machine();
        facts.kernel.cma = Fact::Known(Some(Cma { total: 0, free: 0 }));
        assert_eq!(only("platform.cma", &facts).outcome, Outcome::Pass);
        facts.kernel.cma = Fact::Known(Some(Cma { total: 64 << 20, free: 1 << 20 }));
        facts.kernel.command_line = Fact::Known("ro kho=on".to_owned());
        let found = only("platform.cma", &facts);
        assert!(found.evidence.iter().any(|e| e.value == "kho=on"));
    }
}
