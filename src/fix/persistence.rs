//! persistence: the driver keeps a GPU's state while nobody uses it: by its daemon, which outlasts a reboot, else by
//! nvidia-smi until the next one.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use super::modules::may_have_systemd;
use crate::check::{Ctx, ground};
use crate::model::{Bdf, Fabric, Fact, Operation, Unit, UnitLines};

pub const FIX: Fix = Fix {
    id: "persistence",
    about: "The driver keeps a GPU ready while nobody uses it, so that no program waits for its start.",
    desired,
};

const UNIT: &str = Fabric::PERSISTENCE;
const DROP_IN: &str = "/etc/systemd/system/nvidia-persistenced.service.d/zz-gdr-persistence.conf";
/// With it the daemon runs and keeps nothing: Ubuntu's unit has it.
const IDLE: &str = "--no-persistence-mode";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::in_container(ctx) {
        return DesiredState::refused(
            "This is a container: the driver is the machine's. Run this on the machine itself.",
        );
    }
    let off = match off(ctx) {
        Ok(off) => off,
        Err(why) => return DesiredState::refused(why),
    };
    let unit = ctx.facts.fabric.units.get(UNIT);
    let unit = unit.filter(|unit| unit.installed == Fact::Known(true) && may_have_systemd(ctx));
    let mut desired = DesiredState::default();
    match unit {
        Some(unit) => by_daemon(unit, &off, &mut desired),
        None => {
            by_hand(&off, &mut desired);
            if !off.is_empty() {
                desired.warnings.push(format!(
                    "This lasts until the next boot: {UNIT} is not installed, which makes it last (package \
                     nvidia-persistenced, on Ubuntu nvidia-compute-utils-BRANCH)."
                ));
            }
        }
    }
    desired
}

/// The GPUs without persistence mode.
fn off(ctx: &Ctx<'_>) -> Result<Vec<Bdf>, String> {
    let Some(nvml) = ctx.facts.nvml() else {
        return Err(
            "NVML does not tell whether persistence mode is on: see gpu.driver.".to_owned(),
        );
    };
    let of = |gpu: &&crate::model::NvmlGpu| gpu.persistence == Fact::Known(false);
    Ok(nvml.gpus.iter().filter(of).map(|gpu| gpu.bdf).collect())
}

/// By the daemon: it is enabled where it can be, told to keep the GPUs where it is told not to, and runs.
fn by_daemon(unit: &Unit, off: &[Bdf], desired: &mut DesiredState) {
    let lines = unit.lines.present();
    if lines.is_none_or(|lines| lines.installable) {
        desired.run(
            format!("Start {UNIT} at every boot."),
            Operation::enable_unit(UNIT),
        );
    }
    if let Some(kept) = lines.and_then(keeping) {
        desired.desired_change(
            format!("{UNIT} is told to keep nothing ({IDLE}): take that word from its command."),
            ChangeTarget::file(
                DROP_IN,
                format!("# By 'gdr fix persistence': without {IDLE}.\n[Service]\nExecStart=\nExecStart={kept}\n"),
            ),
        );
        desired.desired_change(
            "systemd reads its units again.",
            ChangeTarget::Run(Operation::ReloadUnits),
        );
        desired.run(
            "The daemon starts anew, with the command that keeps the GPUs.",
            Operation::restart_unit(UNIT),
        );
        return;
    }
    match unit.running {
        _ if off.is_empty() => {}
        // It runs, and somebody has switched the mode off since.
        Fact::Known(true) => by_hand(off, desired),
        _ => desired.run(
            "Start the daemon now: it switches persistence mode on.",
            Operation::start_unit(UNIT),
        ),
    }
}

/// The daemon's command without the word that has it keep nothing; none where it has no such word, or goes on in the next
/// line, of which nothing is known.
fn keeping(lines: &UnitLines) -> Option<String> {
    let start = lines
        .start
        .as_deref()
        .filter(|start| !start.ends_with('\\'))?;
    let words = start.split_ascii_whitespace();
    let kept: Vec<&str> = words.clone().filter(|word| *word != IDLE).collect();
    (kept.len() < words.count()).then(|| kept.join(" "))
}

/// By nvidia-smi, a GPU at a time: those that have the mode on keep it on after an undo.
fn by_hand(off: &[Bdf], desired: &mut DesiredState) {
    for gpu in off {
        desired.desired_change(
            format!("Switch persistence mode of {gpu} on."),
            ChangeTarget::Run(Operation::SetPersistenceMode {
                gpu: *gpu,
                on: true,
            }),
        );
    }
}
