//! Loads kernel modules: now, with their dependencies, and at boot.

use super::desired::{ChangeTarget, DesiredState};
use crate::check::{Ctx, ground};
use crate::model::{Fact, Operation};

/// Adds the load of a module. Each dependency is a step, so that an undo unloads exactly what was loaded.
pub fn load(ctx: &Ctx<'_>, desired: &mut DesiredState, module: &str) {
    let name = module.replace('-', "_");
    // modules.dep lists the dependency to load first last (modules.dep(5), depmod(8)).
    if let Fact::Known(Some(file)) = ctx.facts.module_files.find(&name) {
        // The driver is loaded already, under another name on Debian.
        let needs = file.needs.iter().rev().filter(|needed| !needed.starts_with("nvidia"));
        for needed in needs {
            desired
                .run(format!("Load {needed}, which {name} needs."), Operation::load_module(needed));
        }
    }
    desired.run(format!("Load {name}."), Operation::load_module(&name));
}

/// Adds a list for systemd-modules-load, which keeps the order of lines (modules-load.d(5)).
pub fn at_boot(desired: &mut DesiredState, path: &str, why: &str, modules: &[&str]) {
    let lines: String = modules.iter().map(|module| format!("{module}\n")).collect();
    desired.change(
        format!("Load {} at every boot.", modules.join(", ")),
        ChangeTarget::file(path, format!("# By 'gdr fix': {why}\n{lines}")),
    );
}

/// Why modprobe's configuration blocks a module. A block that affects only boot is a warning.
pub fn kept_out(ctx: &Ctx<'_>, desired: &mut DesiredState, module: &str) -> Option<String> {
    let (line, only_at_boot) = ground::keeps_out(ctx, &module.replace('-', "_"))?;
    if only_at_boot {
        desired.warnings.push(format!(
            "{line} blocks {module} at boot (systemd), but not for modprobe: remove it ('gdr fix modprobe')."
        ));
        return None;
    }
    Some(format!("{line} blocks {module}: remove it first ('gdr fix modprobe')."))
}

pub fn kernel(ctx: &Ctx<'_>) -> String {
    match ctx.facts.kernel.release.known() {
        Some(release) => format!("kernel {release}"),
        None => "this kernel".to_owned(),
    }
}

pub fn may_have_systemd(ctx: &Ctx<'_>) -> bool {
    ctx.facts.platform.systemd != Fact::Known(false)
}
