//! Makes a change of ACS bits survive a reboot: by a systemd unit or by a kernel parameter.

use std::collections::BTreeMap;

use super::boot::{Parameter, Strip, set_parameter};
use super::desired::{ChangeTarget, DesiredState, FixRequest, NoChange};
use crate::check::{Ctx, ground};
use crate::kmod::acs::{self, CONFIG, DISABLE, PortChange};
use crate::model::{AcsBits, Bdf, Boot, Fact, Operation};

/// Units that load drivers: the relevant ports are known only after them.
const AFTER: &str = "systemd-udev-settle.service systemd-modules-load.service openibd.service nvidia-persistenced.service";
/// Units that start programs which move data.
const BEFORE: &str = "slurmd.service docker.service containerd.service crio.service kubelet.service k3s.service k3s-agent.service";

pub fn unit(desired: &mut DesiredState, request: &FixRequest<'_>) -> Result<(), String> {
    let unit = Boot::UNIT;
    let argv = &request.options.rerun;
    let Some(program) = argv.first().filter(|program| program.starts_with('/')) else {
        return Err("Cannot determine the path of gdr's binary, which the unit needs.".to_owned());
    };
    if let Some(why) = &request.options.unsafe_program {
        return Err(why.clone());
    }
    if let Some(Fact::Known(None)) = request.ctx.facts.tools.get("systemctl") {
        return Err("There is no systemctl: this machine does not use systemd.".to_owned());
    }
    // A unit that outlives gdr's package is skipped at boot, and does not fail. Its path begins with a slash, so it is not read as another condition.
    let condition = format!("ConditionFileIsExecutable={}\n", program.replace('%', "%%"));
    let command: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    let text = format!(
        "# Made by 'gdr fix-acs --persist unit'; 'gdr undo' removes it.\n\
         [Unit]\n\
         Description=Let PCI switches route traffic between GPUs and NICs directly\n\
         Wants=systemd-udev-settle.service\n\
         After={AFTER}\n\
         Before={BEFORE}\n\
         {condition}\n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={}\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        command.join(" ")
    );
    desired.change(
        format!("{unit} clears the bits at every boot."),
        ChangeTarget::file(format!("{}/{unit}", Boot::UNITS), text),
    );
    desired.change("Reload systemd's units.", ChangeTarget::Run(Operation::ReloadUnits));
    desired.run("Enable it.", Operation::enable_unit(unit));
    desired.warnings.push(format!(
        "The unit runs {program}: keep it at this path. A hot-plug or a reset of a port (AER, DPC) reverts the change until the \
         unit is restarted: systemctl restart {unit}."
    ));
    Ok(())
}

/// Quotes a word for ExecStart (systemd.service, COMMAND LINES; systemd.unit, SPECIFIERS).
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' | '$' => text.extend([c, c]),
            _ => text.push(c),
        }
    }
    text + "\""
}

/// Adds the kernel parameter that clears these bits of each port.
pub fn command_line(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    ports: &BTreeMap<Bdf, AcsBits>,
) -> Result<(), NoChange> {
    if ports.is_empty() {
        return Ok(());
    }
    let name = parameter(ctx)?;
    let changes: Vec<PortChange> = ports
        .iter()
        .filter_map(|(port, clear)| {
            let acs = ctx.facts.device(*port)?.config.acs.present()?;
            Some(PortChange { port: *port, control: acs.control, clear: *clear })
        })
        .collect();
    let line = match &ctx.facts.kernel.command_line {
        Fact::Known(line) => line,
        Fact::Unknown(why) => return Err(NoChange::unread("/proc/cmdline", *why)),
    };
    // A pending line was merged with the present one when it was written.
    let pending = ctx.facts.boot.settings("acs");
    let lines = pending.iter().map(|(_, line)| line.as_str()).chain([line.as_str()]);
    let mut entries: Vec<String> = Vec::new();
    for line in lines {
        for entry in acs::entries(line, name)? {
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
    }
    let (value, strip): (String, Strip) = match name {
        CONFIG => (acs::config(&entries, &changes), |word| acs::without(word, CONFIG)),
        _ => (acs::disable(&entries, &changes), |word| acs::without(word, DISABLE)),
    };
    set_parameter(
        desired,
        ctx,
        &Parameter { fix: "acs", head: format!("pci={name}="), value, strip },
    )
    .map_err(|why| match why {
        NoChange::Refused(why) => {
            NoChange::Refused(format!("{why} Or use 'gdr fix-acs --persist unit'."))
        }
        unknown => unknown,
    })
}

/// The name of the parameter in this kernel.
fn parameter(ctx: &Ctx<'_>) -> Result<&'static str, NoChange> {
    let refused = |why: String| {
        let why = format!("{why} Use 'gdr fix-acs --persist unit'.");
        Err(NoChange::Refused(why))
    };
    let release = match &ctx.facts.kernel.release {
        Fact::Known(release) => release,
        Fact::Unknown(why) => {
            return Err(NoChange::unread("/proc/sys/kernel/osrelease", *why));
        }
    };
    match ground::kernel(release) {
        Some(kernel) if kernel >= (6, 15) => Ok(CONFIG),
        Some(kernel) if kernel >= (6, 11) => refused(format!(
            "Kernel {release} accepts neither pci={CONFIG}= nor pci={DISABLE}= for more than one port (a bug from 6.11, fixed \
             in 6.15).",
        )),
        Some(kernel) if kernel >= (4, 19) => Ok(DISABLE),
        Some(_) => {
            refused(format!("Kernel {release} has no such parameter: {DISABLE} needs 4.19."))
        }
        None => refused(format!("'{release}' is not a kernel release.")),
    }
}
