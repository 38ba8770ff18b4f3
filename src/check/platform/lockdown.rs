//! platform.lockdown: a locked-down kernel rejects unsigned modules and writes to configuration space.
//!
//! GPUDirect works with signed modules, so this is a fault only if the driver is not loaded, or a port's ACS bits must be
//! cleared.

use crate::check::container::needs_for_absent;
use crate::check::{Check, Ctx, Hint, Judgement, pcie, version};
use crate::model::{ActionClass, Area, Fact, Severity};

const SOURCE: &str = "/sys/kernel/security/lockdown";
const SECURE: &str = "/sys/firmware/efi/efivars/SecureBoot-*";

pub const CHECK: Check = Check {
    id: "platform.lockdown",
    rule: "Kernel lockdown does not block the driver or a repair.",
    sources: "/sys/kernel/security/lockdown, the firmware's variable SecureBoot",
    severity: Severity::Warn,
    why: "A locked-down kernel loads only signed modules and lets nobody write configuration \
        space: an unsigned driver or gdrdrv does not load, and setpci is rejected.",
    remedy: "Sign the modules and enroll the key, clear ACS bits by kernel parameters instead of \
        setpci, or turn off Secure Boot.",
    action: ActionClass::Configure
        .drained("https://man7.org/linux/man-pages/man7/kernel_lockdown.7.html"),
    references: &["https://man7.org/linux/man-pages/man7/kernel_lockdown.7.html"],
    hint: Some(Hint {
        cause: "The kernel is locked down (Secure Boot) and refuses unsigned modules.",
        words: "secure-boot=7 kernel-module=1 driver=1 missing=1 failure=1",
    }),
    judge: lockdown,
    ..Check::DEFAULT
};

/// Judges the lockdown mode by what it blocks.
fn lockdown(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let platform = &ctx.facts.platform;
    let secure = match &platform.secure_boot {
        Fact::Known(Some(true)) => "on",
        Fact::Known(Some(false)) => "off",
        Fact::Known(None) => "no such variable",
        Fact::Unknown(why) => why.phrase(),
    };
    let mode = match &platform.lockdown {
        Fact::Known(mode) => mode.as_deref().unwrap_or("none"),
        Fact::Unknown(why) => {
            let unknown =
                Judgement::unknown("machine", *why, Area::Sys, SOURCE).evidence(SECURE, secure);
            let mount = "securityfs (mount -t securityfs securityfs /sys/kernel/security)";
            return vec![match needs_for_absent(ctx, *why, mount) {
                Some(needs) => unknown.needs(needs),
                None => unknown,
            }];
        }
    };
    let judgement = match mode {
        "none" => Judgement::pass("machine", "The kernel is not locked down."),
        mode => locked(ctx, mode),
    };
    let shown = match &platform.lockdown {
        Fact::Known(None) => "not there",
        _ => mode,
    };
    vec![judgement.evidence(SOURCE, shown).evidence(SECURE, secure)]
}

fn locked(ctx: &Ctx<'_>, mode: &str) -> Judgement {
    let refuses = "it refuses modules that are not signed, and writes to configuration space";
    let missing =
        ctx.facts.gpus().next().is_some() && version::driver(ctx.facts) == Fact::Known(None);
    if missing {
        let message = format!(
            "Kernel locked down ({mode}): {refuses}. The NVIDIA driver is not loaded, which may be why."
        );
        return Judgement::broken("machine", message).weighing(Severity::Warn).advice(
            "Sign the driver's modules and enrol the key (mokutil --import), or switch Secure Boot \
                 off.",
        );
    }
    let redirecting =
        if ctx.facts.platform.is_guest() { Fact::Known(false) } else { pcie::redirecting(ctx) };
    if let Fact::Unknown(why) = redirecting {
        let source = "whether a port's ACS bits must be cleared (pcie.acs)";
        return Judgement::unknown("machine", why, Area::Sys, source);
    }
    if redirecting == Fact::Known(true) {
        let message = format!(
            "Kernel locked down ({mode}): {refuses}, so setpci cannot clear the bits that pcie.acs reports."
        );
        return Judgement::broken("machine", message).weighing(Severity::Warn).advice(
            "Set pci=disable_acs_redir= or pci=config_acs= on the kernel command line, or switch \
                 Secure Boot off.",
        );
    }
    Judgement::info("machine", format!("Kernel locked down ({mode}): {refuses}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, machine, only};
    use crate::model::{Facts, Outcome, Why};

    #[test]
    fn warns_without_driver() {
        let mut facts = machine();
        facts.platform.lockdown = Fact::Known(Some("integrity".to_owned()));
        facts.driver.module_version = Fact::Known(None);
        facts.driver.version_line = Fact::Known(None);
        let found = only("platform.lockdown", &facts);
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(&found, "may be why");
    }

    #[test]
    fn unreadable_mode_is_unknown() {
        let mut facts = machine();
        facts.platform.lockdown = Fact::Unknown(Why::NotCovered);
        facts.platform.container_marks = Fact::Known(vec!["namespace pid:[4026532000]".to_owned()]);
        let found = only("platform.lockdown", &facts);
        assert_eq!(found.outcome, Outcome::Unknown);
        assert!(found.needs.is_some_and(|needs| needs.contains("container")));
        // Only namespaces make a container.
        facts.platform.container_marks = Fact::Known(vec!["file /.dockerenv".to_owned()]);
        let needs = |facts: &Facts| only("platform.lockdown", facts).needs.expect("what it needs");
        facts.host.source = "/srv/node17".to_owned();
        assert!(needs(&facts).contains("a snapshot of it") && !needs(&facts).contains("container"));
        facts.host.source = "live".to_owned();
        assert_eq!(
            needs(&facts),
            "securityfs (mount -t securityfs securityfs /sys/kernel/security)"
        );
        facts.platform.lockdown = Fact::Known(None);
        assert_eq!(only("platform.lockdown", &facts).outcome, Outcome::Pass);
    }
}
