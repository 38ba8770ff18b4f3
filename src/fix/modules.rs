//! Kernel modules that a fix has loaded: now, with what each needs, and at boot by a list of our own.

use super::desired::{ChangeTarget, DesiredState};
use crate::check::{Ctx, ground};
use crate::model::{Fact, Operation};

/// Wishes that a module is loaded now. What it needs goes before it, each in a step of its own: so an undo takes away what
/// came, and nothing else.
pub fn load(ctx: &Ctx<'_>, desired: &mut DesiredState, module: &str) {
    let name = module.replace('-', "_");
    // modules.dep lists them so that the last is loaded first (modules.dep(5), depmod(8)).
    if let Fact::Known(Some(file)) = ctx.facts.module_files.find(&name) {
        // The driver is there before anybody asks for what stands on it; Debian's goes by another name.
        let needs = file
            .needs
            .iter()
            .rev()
            .filter(|needed| !needed.starts_with("nvidia"));
        for needed in needs {
            desired.run(
                format!("Load {needed}, which {name} needs."),
                Operation::load_module(needed),
            );
        }
    }
    desired.run(format!("Load {name}."), Operation::load_module(&name));
}

/// Wishes a list for systemd-modules-load, which loads in the order of the lines (modules-load.d(5)).
pub fn at_boot(desired: &mut DesiredState, path: &str, why: &str, modules: &[&str]) {
    let lines: String = modules.iter().map(|module| format!("{module}\n")).collect();
    desired.desired_change(
        format!("Load {} at every boot.", modules.join(", ")),
        ChangeTarget::file(path, format!("# By 'gdr fix': {why}\n{lines}")),
    );
}

/// Why a module cannot be loaded, as modprobe's configuration has it; what only the boot heeds is a warning.
pub fn kept_out(ctx: &Ctx<'_>, desired: &mut DesiredState, module: &str) -> Option<String> {
    let (line, only_at_boot) = ground::keeps_out(ctx, &module.replace('-', "_"))?;
    if only_at_boot {
        desired.warnings.push(format!(
            "{line} keeps systemd from loading {module} at boot, though not modprobe: take it out ('gdr fix modprobe')."
        ));
        return None;
    }
    Some(format!(
        "{line} keeps {module} from being loaded: take it out first ('gdr fix modprobe')."
    ))
}

/// The kernel, for a sentence about its modules.
pub fn kernel(ctx: &Ctx<'_>) -> String {
    match ctx.facts.kernel.release.known() {
        Some(release) => format!("kernel {release}"),
        None => "this kernel".to_owned(),
    }
}

/// Whether the machine is not known to be without systemd.
pub fn may_have_systemd(ctx: &Ctx<'_>) -> bool {
    ctx.facts.platform.systemd != Fact::Known(false)
}
