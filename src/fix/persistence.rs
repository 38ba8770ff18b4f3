//! persistence: the driver keeps a GPU's state while nobody uses it: by its daemon, which outlasts a reboot, else by
//! nvidia-smi until the next one.

use super::draft::{Draft, Fix, Need, Want};
use super::modules::may_have_systemd;
use crate::check::{Ctx, ground};
use crate::model::{Bdf, Fabric, Fact, Operation, Unit, UnitLines};

/// The fix.
pub const FIX: Fix = Fix {
    id: "persistence",
    about: "The driver keeps a GPU ready while nobody uses it, so that no program waits for its start.",
    draft,
};

const UNIT: &str = Fabric::PERSISTENCE;
const DROP_IN: &str = "/etc/systemd/system/nvidia-persistenced.service.d/zz-gdr-persistence.conf";
/// With it the daemon runs and keeps nothing: Ubuntu's unit has it.
const IDLE: &str = "--no-persistence-mode";

fn draft(need: &Need<'_>) -> Draft {
    let ctx = need.ctx;
    if ground::in_container(ctx) {
        return Draft::refused("This is a container: the driver is the machine's. Run this on the machine itself.");
    }
    let off = match off(ctx) {
        Ok(off) => off,
        Err(why) => return Draft::refused(why),
    };
    let unit = ctx.facts.fabric.units.get(UNIT);
    let unit = unit.filter(|unit| unit.installed == Fact::Known(true) && may_have_systemd(ctx));
    let mut draft = Draft::default();
    match unit {
        Some(unit) => by_daemon(unit, &off, &mut draft),
        None => {
            by_hand(&off, &mut draft);
            if !off.is_empty() {
                draft.warnings.push(format!(
                    "This lasts until the next boot: {UNIT} is not installed, which makes it last (package \
                     nvidia-persistenced, on Ubuntu nvidia-compute-utils-BRANCH)."
                ));
            }
        }
    }
    draft
}

/// The GPUs without persistence mode.
fn off(ctx: &Ctx<'_>) -> Result<Vec<Bdf>, String> {
    let Some(nvml) = ctx.facts.nvml() else {
        return Err("NVML does not tell whether persistence mode is on: see gpu.driver.".to_owned());
    };
    let of = |gpu: &&crate::model::NvmlGpu| gpu.persistence == Fact::Known(false);
    Ok(nvml.gpus.iter().filter(of).map(|gpu| gpu.bdf).collect())
}

/// By the daemon: it is enabled where it can be, told to keep the GPUs where it is told not to, and runs.
fn by_daemon(unit: &Unit, off: &[Bdf], draft: &mut Draft) {
    let lines = unit.lines.present();
    if lines.is_none_or(|lines| lines.installable) {
        draft.run(format!("Start {UNIT} at every boot."), Operation::enable_unit(UNIT));
    }
    if let Some(kept) = lines.and_then(keeping) {
        draft.wish(
            format!("{UNIT} is told to keep nothing ({IDLE}): take that word from its command."),
            Want::file(
                DROP_IN,
                format!("# By 'gdr fix persistence': without {IDLE}.\n[Service]\nExecStart=\nExecStart={kept}\n"),
            ),
        );
        draft.wish("systemd reads its units again.", Want::Run(Operation::ReloadUnits));
        draft.run(
            "The daemon starts anew, with the command that keeps the GPUs.",
            Operation::restart_unit(UNIT),
        );
        return;
    }
    match unit.running {
        _ if off.is_empty() => {}
        // It runs, and somebody has switched the mode off since.
        Fact::Known(true) => by_hand(off, draft),
        _ => draft.run(
            "Start the daemon now: it switches persistence mode on.",
            Operation::start_unit(UNIT),
        ),
    }
}

/// The daemon's command without the word that has it keep nothing; none where it has no such word, or goes on in the next
/// line, of which nothing is known.
fn keeping(lines: &UnitLines) -> Option<String> {
    let start = lines.start.as_deref().filter(|start| !start.ends_with('\\'))?;
    let words = start.split_ascii_whitespace();
    let kept: Vec<&str> = words.clone().filter(|word| *word != IDLE).collect();
    (kept.len() < words.count()).then(|| kept.join(" "))
}

/// By nvidia-smi, a GPU at a time: those that have the mode on keep it on after an undo.
fn by_hand(off: &[Bdf], draft: &mut Draft) {
    for gpu in off {
        draft.wish(
            format!("Switch persistence mode of {gpu} on."),
            Want::Run(Operation::SetPersistenceMode { gpu: *gpu, on: true }),
        );
    }
}
