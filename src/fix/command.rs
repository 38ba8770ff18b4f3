//! Command lines of operations, their successful exit statuses, and how each operation is undone.

use crate::check::ground::NON_PREFETCHABLE;
use crate::model::{
    DeviceNode, FirmwareTool, GrubMkconfig, ImageBuild, InitramfsBuilder, Mutation, Operation,
};
use crate::world::{CommandLine, Program};

/// Exit status that stands for "not installed", as in a shell (POSIX, Shell Command Language 2.8.2).
pub const MISSING: i32 = 127;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reversal {
    /// Run the same operation again after everything else: it rebuilds or reloads something.
    Rerun,
    By(Operation),
    /// By another operation, or by a reboot.
    UntilReboot(Operation),
}

pub fn command(operation: &Operation) -> CommandLine {
    let systemctl = |words: &[&str]| CommandLine::new(Program::Systemctl, words.iter().copied());
    match operation {
        Operation::ReloadUnits => systemctl(&["daemon-reload"]),
        Operation::EnableUnit { unit } => systemctl(&["enable", unit.as_str()]),
        Operation::DisableUnit { unit } => systemctl(&["disable", unit.as_str()]),
        Operation::StartUnit { unit } => systemctl(&["start", unit.as_str()]),
        Operation::StopUnit { unit } => systemctl(&["stop", unit.as_str()]),
        Operation::RestartUnit { unit } => systemctl(&["restart", unit.as_str()]),
        Operation::ReloadUdevRules => CommandLine::new(Program::Udevadm, ["control", "--reload"]),
        Operation::LoadModule { module } => CommandLine::new(Program::Modprobe, [module.as_str()]),
        // Not modprobe -r: it also removes unused dependencies, such as the NIC's own driver.
        Operation::UnloadModule { module } => {
            CommandLine::new(Program::Rmmod, [module.as_str().replace('-', "_")])
        }
        Operation::RebuildInitramfs { builder } => match builder {
            InitramfsBuilder::UpdateInitramfs => {
                CommandLine::new(Program::UpdateInitramfs, ["-u", "-k", "all"])
            }
            InitramfsBuilder::Dracut => {
                CommandLine::new(Program::Dracut, ["-f", "--regenerate-all"])
            }
            InitramfsBuilder::Mkinitcpio => CommandLine::new(Program::Mkinitcpio, ["-P"]),
        },
        Operation::UpdateGrub => CommandLine::new(Program::UpdateGrub, Vec::<String>::new()),
        Operation::MakeGrubConfig { program, path } => {
            let program = match program {
                GrubMkconfig::Grub2Mkconfig => Program::Grub2Mkconfig,
                GrubMkconfig::GrubMkconfig => Program::GrubMkconfig,
            };
            CommandLine::new(program, ["-o", path.as_str()])
        }
        Operation::AddKernelEntry { release, image } => {
            CommandLine::new(Program::KernelInstall, ["add", release.as_str(), image.as_str()])
        }
        Operation::SetKernelParameter { old, new } => {
            let mut words = vec!["--update-kernel=ALL".to_owned()];
            words.extend(old.as_ref().map(|old| format!("--remove-args={old}")));
            words.extend(new.as_ref().map(|new| format!("--args={new}")));
            CommandLine::new(Program::Grubby, words)
        }
        Operation::SetNonPrefetchable { program, device, on } => {
            let program = match program {
                FirmwareTool::Mlxconfig => Program::Mlxconfig,
                FirmwareTool::Mstconfig => Program::Mstconfig,
            };
            let setting = format!("{NON_PREFETCHABLE}={}", u8::from(*on));
            let words = ["-y", "-d", &device.to_string(), "set", &setting].map(str::to_owned);
            CommandLine::new(program, words)
        }
        Operation::SetPersistenceMode { gpu, on } => {
            let on = u8::from(*on).to_string();
            CommandLine::new(
                Program::NvidiaSmi,
                ["-i", &gpu.to_string(), "-pm", &on].map(str::to_owned),
            )
        }
        Operation::MakeNode(DeviceNode { major, minor, mode }) => {
            let (major, minor, mode) =
                (major.to_string(), minor.to_string(), format!("{mode:04o}"));
            CommandLine::new(Program::Mknod, ["-m", &mode, DeviceNode::PATH, "c", &major, &minor])
        }
        Operation::RemoveNode(_) => CommandLine::new(Program::Rm, ["-f", DeviceNode::PATH]),
        Operation::SetNodeMode { new, .. } => {
            CommandLine::new(Program::Chmod, [format!("{new:04o}").as_str(), DeviceNode::PATH])
        }
    }
}

/// The command that builds one image; `None` if the builder needs a kernel release that is unknown.
pub fn build(image: &ImageBuild) -> Option<CommandLine> {
    Some(match image.builder {
        InitramfsBuilder::UpdateInitramfs => {
            let release = image.release.as_ref()?;
            CommandLine::new(Program::UpdateInitramfs, ["-u", "-k", release.as_str()])
        }
        InitramfsBuilder::Dracut => CommandLine::new(Program::Dracut, ["-f", image.path.as_str()]),
        InitramfsBuilder::Mkinitcpio => CommandLine::new(Program::Mkinitcpio, ["-P"]),
    })
}

/// Exit statuses that mean success.
pub fn expected(operation: &Operation) -> &'static [i32] {
    match operation {
        // Without udevd, udevadm exits with 1 (old versions: 2); a udevd started later reads the rules anyway.
        Operation::ReloadUdevRules => &[0, 1, 2, MISSING],
        _ => &[0],
    }
}

pub fn reversal(operation: &Operation) -> Reversal {
    match operation.clone() {
        Operation::ReloadUnits
        | Operation::RestartUnit { .. }
        | Operation::ReloadUdevRules
        | Operation::RebuildInitramfs { .. }
        | Operation::UpdateGrub
        | Operation::MakeGrubConfig { .. }
        | Operation::AddKernelEntry { .. } => Reversal::Rerun,
        Operation::EnableUnit { unit } => Reversal::By(Operation::DisableUnit { unit }),
        Operation::DisableUnit { unit } => Reversal::By(Operation::EnableUnit { unit }),
        Operation::StartUnit { unit } => Reversal::UntilReboot(Operation::StopUnit { unit }),
        Operation::StopUnit { unit } => Reversal::UntilReboot(Operation::StartUnit { unit }),
        Operation::LoadModule { module } => {
            Reversal::UntilReboot(Operation::UnloadModule { module })
        }
        Operation::UnloadModule { module } => {
            Reversal::UntilReboot(Operation::LoadModule { module })
        }
        Operation::SetKernelParameter { old, new } => {
            Reversal::By(Operation::SetKernelParameter { old: new, new: old })
        }
        Operation::SetNonPrefetchable { program, device, on } => {
            Reversal::By(Operation::SetNonPrefetchable { program, device, on: !on })
        }
        Operation::SetPersistenceMode { gpu, on } => {
            Reversal::UntilReboot(Operation::SetPersistenceMode { gpu, on: !on })
        }
        Operation::MakeNode(node) => Reversal::UntilReboot(Operation::RemoveNode(node)),
        Operation::RemoveNode(node) => Reversal::UntilReboot(Operation::MakeNode(node)),
        Operation::SetNodeMode { old, new } => {
            Reversal::UntilReboot(Operation::SetNodeMode { old: new, new: old })
        }
    }
}

/// True if what the operation derives is made of what the mutation changes.
pub fn is_source(operation: &Operation, mutation: &Mutation) -> bool {
    // An initramfs may contain any file of /etc, and kernel-install builds one too.
    let any =
        matches!(operation, Operation::RebuildInitramfs { .. } | Operation::AddKernelEntry { .. });
    let directories: &[&str] = match operation {
        Operation::UpdateGrub | Operation::MakeGrubConfig { .. } => {
            &["/etc/default/", "/etc/grub.d/"]
        }
        Operation::ReloadUnits | Operation::RestartUnit { .. } => &["/etc/systemd/"],
        Operation::ReloadUdevRules => &["/etc/udev/"],
        _ => &[],
    };
    match mutation {
        Mutation::ReplaceFile(change) => {
            let is_in = |directory: &&str| change.path.as_str().starts_with(*directory);
            any || directories.iter().any(is_in)
        }
        // A previous image that is put back may contain what the repair changed.
        Mutation::RebuildImage(_) => any,
        Mutation::WriteConfig(_) | Mutation::WriteAttribute(_) | Mutation::Run(_) => false,
    }
}
