//! Compares the kernel parameters of this boot with those configured for the next: why a permanent change has no effect
//! yet.

use crate::check::Ctx;
use crate::kmod::{acs, words};
use crate::model::Bdf;

/// For a port that redirects: a kernel parameter that should clear its bits takes effect at the next boot, or had no effect.
pub fn pending_acs(ctx: &Ctx<'_>, port: Bdf) -> Option<String> {
    let line = ctx.facts.kernel.command_line.known()?;
    let parameter = |line: &str| {
        [acs::CONFIG, acs::DISABLE].into_iter().find(|name| {
            let entries = acs::entries(line, name).unwrap_or_default();
            entries.iter().any(|entry| acs::names(entry, port))
        })
    };
    if let Some(name) = parameter(line) {
        return Some(format!(
            " The kernel's command line names this port (pci={name}=), but the bits are set: this kernel does not apply it (6.11 to 6.14 have a bug there), or a reset of the port set them again. Use gdr fix-acs --persist unit."
        ));
    }
    let configured = ctx.facts.boot.settings("acs");
    let (source, name) =
        configured.iter().find_map(|(source, line)| Some((source, parameter(line)?)))?;
    Some(not_yet(source, &format!("pci={name}=")))
}

/// For translated addresses: the parameter that passes them through takes effect at the next boot.
pub fn pending_iommu(ctx: &Ctx<'_>, arm: bool) -> Option<String> {
    let word = if arm { "iommu.passthrough=1" } else { "iommu=pt" };
    let has_it = |line: &str| words(line).iter().any(|one| one == word);
    if has_it(ctx.facts.kernel.command_line.known()?) {
        return None;
    }
    let configured = ctx.facts.boot.settings("iommu");
    let (source, _) = configured.iter().find(|(_, line)| has_it(line))?;
    Some(not_yet(source, word))
}

fn not_yet(source: &str, word: &str) -> String {
    format!(
        " {source} passes {word} to the kernel for it, but /proc/cmdline does not have it: reboot; if you did, check whether the boot loader's configuration was regenerated."
    )
}
