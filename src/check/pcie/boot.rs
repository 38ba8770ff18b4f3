//! What boots to come are told, held against what this one was told: why a change that was to last has not arrived.

use crate::check::Ctx;
use crate::kmod::{acs, words};
use crate::model::Bdf;

/// Where a port redirects: that the kernel is to clear its bits and was not told yet, or that it was and did not.
pub fn promise(ctx: &Ctx<'_>, port: Bdf) -> Option<String> {
    let line = ctx.facts.kernel.command_line.known()?;
    let named = |line: &str| {
        [acs::CONFIG, acs::DISABLE].into_iter().find(|name| {
            let entries = acs::entries(line, name).unwrap_or_default();
            entries.iter().any(|entry| acs::names(entry, port))
        })
    };
    if let Some(name) = named(line) {
        return Some(format!(
            " The kernel's command line names this port (pci={name}=), but the bits are set: this kernel does not apply it (6.11 to 6.14 have a bug there), or a reset of the port set them again. Use gdr fix-acs --persist unit."
        ));
    }
    let told = ctx.facts.boot.settings("acs");
    let (source, name) = told
        .iter()
        .find_map(|(source, line)| Some((source, named(line)?)))?;
    Some(not_yet(source, &format!("pci={name}=")))
}

/// Where addresses are translated: that the kernel is to pass them through and was not told yet.
pub fn waits(ctx: &Ctx<'_>, arm: bool) -> Option<String> {
    let word = if arm {
        "iommu.passthrough=1"
    } else {
        "iommu=pt"
    };
    let has_it = |line: &str| words(line).iter().any(|one| one == word);
    if has_it(ctx.facts.kernel.command_line.known()?) {
        return None;
    }
    let told = ctx.facts.boot.settings("iommu");
    let (source, _) = told.iter().find(|(_, line)| has_it(line))?;
    Some(not_yet(source, word))
}

fn not_yet(source: &str, word: &str) -> String {
    format!(
        " {source} passes {word} to the kernel for it, but /proc/cmdline does not have it: reboot; if you did, check whether the boot loader's configuration was regenerated."
    )
}
