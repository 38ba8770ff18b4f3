//! Programs that a fix runs. A journal records the operation and not a command line: the program and its arguments
//! follow from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, FilePath, Invalid, KernelRelease, KernelWord, ModuleName, UnitName};

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// systemd reloads its units.
    ReloadUnits,
    /// Starts a unit at every boot.
    EnableUnit { unit: UnitName },
    /// No longer starts a unit at boot.
    DisableUnit { unit: UnitName },
    /// Starts a unit now.
    StartUnit { unit: UnitName },
    /// Stops a unit now.
    StopUnit { unit: UnitName },
    /// Stops a unit and starts it again.
    RestartUnit { unit: UnitName },
    /// udevd reloads its rules.
    ReloadUdevRules,
    /// Loads a kernel module and the modules that it depends on.
    LoadModule { module: ModuleName },
    /// Unloads a kernel module.
    UnloadModule { module: ModuleName },
    /// Rebuilds the initramfs images of all kernels.
    RebuildInitramfs {
        /// The program that builds them.
        builder: InitramfsBuilder,
    },
    /// `update-grub` regenerates GRUB's configuration.
    UpdateGrub,
    /// Regenerates a GRUB configuration file.
    MakeGrubConfig {
        /// The program that writes it.
        program: GrubMkconfig,
        path: FilePath,
    },
    /// kernel-install recreates the boot loader entry of a kernel.
    AddKernelEntry {
        /// Release of the kernel.
        release: KernelRelease,
        image: FilePath,
    },
    /// grubby replaces a word on the command line of every installed kernel.
    SetKernelParameter {
        /// The word to remove; absent if the edit only adds.
        old: Option<KernelWord>,
        /// The word to add; absent if the edit only removes.
        new: Option<KernelWord>,
    },
    /// Sets whether the first BAR of an mlx5 NIC is non-prefetchable memory; effective after the next firmware reset.
    SetNonPrefetchable {
        /// The firmware tool.
        program: FirmwareTool,
        /// The NIC.
        device: Bdf,
        /// On or off.
        on: bool,
    },
    /// Sets whether the driver keeps a GPU's state while no process uses the GPU.
    SetPersistenceMode {
        gpu: Bdf,
        /// On or off.
        on: bool,
    },
    /// Creates gdrcopy's device node.
    MakeNode(DeviceNode),
    /// Removes gdrcopy's device node.
    RemoveNode(DeviceNode),
    /// Changes the permissions of gdrcopy's device node.
    SetNodeMode {
        /// The permissions before.
        old: u32,
        /// The permissions after.
        new: u32,
    },
}

impl Operation {
    /// An operation that starts a unit at every boot.
    pub fn enable_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::EnableUnit { unit: unit.try_into()? })
    }

    /// An operation that no longer starts a unit at boot.
    pub fn disable_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::DisableUnit { unit: unit.try_into()? })
    }

    /// An operation that starts a unit now.
    pub fn start_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::StartUnit { unit: unit.try_into()? })
    }

    /// An operation that restarts a unit.
    pub fn restart_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::RestartUnit { unit: unit.try_into()? })
    }

    /// An operation that loads a kernel module.
    pub fn load_module(module: &str) -> Result<Self, Invalid> {
        Ok(Self::LoadModule { module: module.try_into()? })
    }

    /// An operation that regenerates a GRUB configuration file.
    pub fn make_grub_config(program: GrubMkconfig, path: &str) -> Result<Self, Invalid> {
        Ok(Self::MakeGrubConfig { program, path: path.try_into()? })
    }

    /// An operation that recreates the boot loader entry of a kernel.
    pub fn add_kernel_entry(release: &str, image: &str) -> Result<Self, Invalid> {
        Ok(Self::AddKernelEntry { release: release.try_into()?, image: image.try_into()? })
    }

    /// An operation that replaces a word on the command line of every installed kernel.
    pub fn set_kernel_parameter(old: Option<&str>, new: &str) -> Result<Self, Invalid> {
        Ok(Self::SetKernelParameter {
            old: old.map(KernelWord::try_from).transpose()?,
            new: Some(new.try_into()?),
        })
    }
}

/// gdrcopy's device node `/dev/gdrdrv`, a character device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceNode {
    pub major: u32,
    pub minor: u32,
    /// Permissions.
    pub mode: u32,
}

impl DeviceNode {
    /// The path that gdrcopy's library opens.
    pub const PATH: &str = "/dev/gdrdrv";
}

/// Program that builds initramfs images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InitramfsBuilder {
    /// Debian, Ubuntu.
    UpdateInitramfs,
    /// Red Hat, SUSE.
    Dracut,
    /// Arch.
    Mkinitcpio,
}

/// Program that generates GRUB's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrubMkconfig {
    /// Its name on Red Hat and SUSE.
    Grub2Mkconfig,
    /// Its name on other distributions.
    GrubMkconfig,
}

/// Program that changes firmware parameters of mlx5 NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirmwareTool {
    /// From NVIDIA's MFT.
    Mlxconfig,
    /// From the package mstflint.
    Mstconfig,
}
