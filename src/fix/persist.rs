//! How a change of access control services outlasts a reboot: a unit of systemd that makes it again, or the kernel's own
//! command line.

use std::collections::BTreeMap;

use super::boot::{Parameter, Rest, tell};
use super::desired::{ChangeTarget, DesiredState, FixRequest};
use crate::check::{Ctx, ground};
use crate::kmod::acs::{self, CONFIG, DISABLE, Wanted};
use crate::model::{Bdf, Boot, Fact, Operation};

/// What brings up devices and their drivers: which ports matter is seen from those.
const AFTER: &str = "systemd-udev-settle.service systemd-modules-load.service openibd.service nvidia-persistenced.service";
/// What starts the programs that move data.
const BEFORE: &str = "slurmd.service docker.service containerd.service crio.service kubelet.service k3s.service k3s-agent.service";

/// A unit makes it again at every boot.
pub fn unit(desired: &mut DesiredState, request: &FixRequest<'_>) -> Result<(), String> {
    let unit = Boot::UNIT;
    let argv = &request.options.again;
    let Some(program) = argv.first().filter(|program| program.starts_with('/')) else {
        return Err("Where gdr's own binary is, is not known: a unit has to name it.".to_owned());
    };
    if let Some(why) = &request.options.unsafe_program {
        return Err(why.clone());
    }
    if let Some(Fact::Known(None)) = request.ctx.facts.tools.get("systemctl") {
        return Err(
            "There is no systemctl here: systemd does not start this machine's services."
                .to_owned(),
        );
    }
    let command: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    let text = format!(
        "# Made by 'gdr fix-acs --persist unit'; 'gdr undo' takes it back.\n\
         [Unit]\n\
         Description=Let traffic between GPUs and NICs go straight through PCI switches\n\
         Wants=systemd-udev-settle.service\n\
         After={AFTER}\n\
         Before={BEFORE}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={}\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        command.join(" ")
    );
    desired.desired_change(
        format!("{unit} clears the bits again at every boot."),
        ChangeTarget::file(format!("{}/{unit}", Boot::UNITS), text),
    );
    desired.desired_change(
        "systemd reads its units again.",
        ChangeTarget::Run(Operation::ReloadUnits),
    );
    desired.run("It starts at boot.", Operation::enable_unit(unit));
    desired.warnings.push(format!(
        "The unit runs {program}: keep the program there. A hot-plug or a reset of a port (AER, DPC) undoes the change until \
         the unit is started again: systemctl restart {unit}."
    ));
    Ok(())
}

/// A word of ExecStart (systemd.service, COMMAND LINES; systemd.unit, SPECIFIERS).
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

/// The kernel makes it at every boot. `ports` are those that it is told of, and the bits to clear.
pub fn command_line(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    ports: &BTreeMap<Bdf, u16>,
) -> Result<(), String> {
    if ports.is_empty() {
        return Ok(());
    }
    let name = parameter(ctx)?;
    let wanted: Vec<Wanted> = ports
        .iter()
        .filter_map(|(port, clear)| {
            let acs = ctx.facts.device(*port)?.config.acs.present()?;
            Some(Wanted {
                port: *port,
                control: acs.control.0,
                clear: *clear,
            })
        })
        .collect();
    let Fact::Known(line) = &ctx.facts.kernel.command_line else {
        return Err(
            "The kernel's command line cannot be read: what it has already would be lost."
                .to_owned(),
        );
    };
    // What waits for a reboot comes first: it was merged with the rest when it was written.
    let waiting = ctx.facts.boot.told("acs");
    let lines = waiting
        .iter()
        .map(|(_, line)| line.as_str())
        .chain([line.as_str()]);
    let mut there: Vec<String> = Vec::new();
    for line in lines {
        for entry in acs::entries(line, name)? {
            if !there.contains(&entry) {
                there.push(entry);
            }
        }
    }
    let (value, rest): (String, Rest) = match name {
        CONFIG => (acs::config(&there, &wanted), |word| {
            acs::without(word, CONFIG)
        }),
        _ => (acs::disable(&there, &wanted), |word| {
            acs::without(word, DISABLE)
        }),
    };
    tell(
        desired,
        ctx,
        &Parameter {
            fix: "acs",
            head: format!("pci={name}="),
            value,
            rest,
        },
    )
    .map_err(|why| {
        format!("{why} 'gdr fix-acs --persist unit' makes the change at every boot instead.")
    })
}

/// The kernel's parameter for it.
fn parameter(ctx: &Ctx<'_>) -> Result<&'static str, String> {
    let refused = |why: String| Err(format!("{why} Use 'gdr fix-acs --persist unit'."));
    let release = match &ctx.facts.kernel.release {
        Fact::Known(release) => release,
        Fact::Unknown(why) => {
            return refused(format!(
                "The kernel's release is not known: {}.",
                why.phrase()
            ));
        }
    };
    match ground::kernel(release) {
        Some(kernel) if kernel >= (6, 15) => Ok(CONFIG),
        Some(kernel) if kernel >= (6, 11) => refused(format!(
            "Kernel {release} takes neither pci={CONFIG}= nor pci={DISABLE}= of more than one port: both have a fault from \
             6.11 on that 6.15 mended.",
        )),
        Some(kernel) if kernel >= (4, 19) => Ok(DISABLE),
        Some(_) => refused(format!(
            "Kernel {release} has no parameter for it: {DISABLE} came with 4.19."
        )),
        None => refused(format!(
            "'{release}' is no release of a kernel that gdr could place."
        )),
    }
}
