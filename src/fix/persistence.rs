//! persistence: keeps GPUs initialized while unused: permanently by the persistence daemon, else by
//! nvidia-smi until the next reboot.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange, open};
use super::modules::may_have_systemd;
use crate::check::{Ctx, ground};
use crate::model::{Bdf, Fabric, Fact, Operation, Unit, UnitLines};

pub const FIX: Fix = Fix {
    id: "persistence",
    about: "The driver keeps idle GPUs initialized, so that programs start without a delay.",
    checks: &["gpu.persistence"],
    requires: &[],
    desired,
};

const UNIT: &str = Fabric::PERSISTENCE;
const DROP_IN: &str = "/etc/systemd/system/nvidia-persistenced.service.d/zz-gdr-persistence.conf";
/// Ubuntu's unit has this option, with which the daemon does nothing.
const IDLE: &str = "--no-persistence-mode";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::in_container(ctx) {
        return DesiredState::refused(
            "This is a container, which uses the host's driver: run this on the host.",
        );
    }
    let off = match off(ctx) {
        Ok(off) => off,
        Err(why) => return DesiredState::none(why),
    };
    let unit = ctx.facts.fabric.units.get(UNIT);
    let unit = unit.filter(|unit| unit.installed == Fact::Known(true) && may_have_systemd(ctx));
    let mut desired = DesiredState::default();
    match unit {
        Some(unit) => by_daemon(unit, &off, &mut desired),
        None => {
            by_nvidia_smi(&off, &mut desired);
            if !off.is_empty() {
                desired.warnings.push(format!(
                    "A reboot reverts the change: {UNIT}, which makes it permanent, is not installed (package \
                     nvidia-persistenced, on Ubuntu nvidia-compute-utils-BRANCH)."
                ));
            }
        }
    }
    desired
}

fn off(ctx: &Ctx<'_>) -> Result<Vec<Bdf>, NoChange> {
    let Some(nvml) = ctx.facts.nvml() else {
        let why = "cannot determine the persistence mode, because NVML does not answer";
        return Err(NoChange::Unknown(open(
            why,
            Some("the driver and libnvidia-ml.so.1, see 'gdr doctor --only gpu.driver'"),
        )));
    };
    let is_off = |gpu: &&crate::model::NvmlGpu| gpu.persistence == Fact::Known(false);
    Ok(nvml.gpus.iter().filter(is_off).map(|gpu| gpu.bdf).collect())
}

/// Enables and starts the daemon, without the option that disables it.
fn by_daemon(unit: &Unit, off: &[Bdf], desired: &mut DesiredState) {
    let lines = unit.lines.present();
    if lines.is_none_or(|lines| lines.installable) {
        desired.run(format!("Start {UNIT} at every boot."), Operation::enable_unit(UNIT));
    }
    if let Some(kept) = lines.and_then(without_idle) {
        desired.change(
            format!("Remove {IDLE} from the command of {UNIT}."),
            ChangeTarget::file(
                DROP_IN,
                format!("# By 'gdr fix persistence': without {IDLE}.\n[Service]\nExecStart=\nExecStart={kept}\n"),
            ),
        );
        desired.change("Reload systemd's units.", ChangeTarget::Run(Operation::ReloadUnits));
        desired.run("Restart the daemon with the new command.", Operation::restart_unit(UNIT));
        return;
    }
    match unit.running {
        _ if off.is_empty() => {}
        // Another program has switched the mode off.
        Fact::Known(true) => by_nvidia_smi(off, desired),
        _ => desired.run(
            "Start the daemon now: it switches persistence mode on.",
            Operation::start_unit(UNIT),
        ),
    }
}

/// The daemon's command without `IDLE`; `None` if it lacks that option, or continues on the next line,
/// which was not recorded.
fn without_idle(lines: &UnitLines) -> Option<String> {
    let start = lines.start.as_deref().filter(|start| !start.ends_with('\\'))?;
    let words = start.split_ascii_whitespace();
    let kept: Vec<&str> = words.clone().filter(|word| *word != IDLE).collect();
    (kept.len() < words.count()).then(|| kept.join(" "))
}

/// By nvidia-smi, one GPU at a time: an undo changes no others.
fn by_nvidia_smi(off: &[Bdf], desired: &mut DesiredState) {
    for gpu in off {
        desired.change(
            format!("Enable persistence mode of {gpu}."),
            ChangeTarget::Run(Operation::SetPersistenceMode { gpu: *gpu, on: true }),
        );
    }
}
