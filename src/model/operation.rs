//! What a program of the machine does for a fix. A journal holds this, and no command line: the program and its arguments
//! follow from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, FilePath, Invalid, KernelRelease, KernelWord, ModuleName, UnitName};

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// systemd reads its units again.
    ReloadUnits,
    /// A unit is started at every boot.
    EnableUnit { unit: UnitName },
    /// A unit is no longer started at boot.
    DisableUnit { unit: UnitName },
    /// A unit is started now.
    StartUnit { unit: UnitName },
    /// A unit is stopped now.
    StopUnit { unit: UnitName },
    /// A unit is stopped and started again.
    RestartUnit { unit: UnitName },
    /// udevd reads its rules again.
    ReloadUdevRules,
    /// A kernel module is loaded, with the modules that it needs.
    LoadModule { module: ModuleName },
    /// A kernel module is removed from the kernel.
    UnloadModule { module: ModuleName },
    /// The initramfs images of all kernels are built again.
    RebuildInitramfs {
        /// The program that builds them.
        builder: InitramfsBuilder,
    },
    /// `update-grub` writes GRUB's configuration again.
    UpdateGrub,
    /// GRUB's configuration is written to a file again.
    MakeGrubConfig {
        /// The program that writes it.
        program: GrubMkconfig,
        path: FilePath,
    },
    /// kernel-install makes the boot loader entry of a kernel again.
    AddKernelEntry {
        /// The kernel's release.
        release: KernelRelease,
        image: FilePath,
    },
    /// grubby replaces a word on the command line of every installed kernel.
    SetKernelParameter {
        /// The word that goes; absent where none does.
        old: Option<KernelWord>,
        /// The word that comes; absent where none does.
        new: Option<KernelWord>,
    },
    /// The firmware of an mlx5 NIC offers its first BAR as memory that is not prefetchable, or no longer, from its next reset on.
    SetNonPrefetchable {
        /// The program that talks to the firmware.
        program: FirmwareTool,
        /// The NIC.
        device: Bdf,
        /// On or off.
        on: bool,
    },
    /// The driver keeps a GPU's state while nobody uses the GPU, or no longer.
    SetPersistenceMode {
        gpu: Bdf,
        /// On or off.
        on: bool,
    },
    /// gdrcopy's device node is made.
    MakeNode(DeviceNode),
    /// gdrcopy's device node is removed.
    RemoveNode(DeviceNode),
    /// The permissions of gdrcopy's device node change.
    SetNodeMode {
        /// The permissions before.
        old: u32,
        /// The permissions after.
        new: u32,
    },
}

impl Operation {
    /// Starts a unit at every boot.
    pub fn enable_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::EnableUnit {
            unit: unit.try_into()?,
        })
    }

    /// No longer starts a unit at boot.
    pub fn disable_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::DisableUnit {
            unit: unit.try_into()?,
        })
    }

    /// Starts a unit now.
    pub fn start_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::StartUnit {
            unit: unit.try_into()?,
        })
    }

    /// Stops a unit and starts it again.
    pub fn restart_unit(unit: &str) -> Result<Self, Invalid> {
        Ok(Self::RestartUnit {
            unit: unit.try_into()?,
        })
    }

    /// Loads a kernel module.
    pub fn load_module(module: &str) -> Result<Self, Invalid> {
        Ok(Self::LoadModule {
            module: module.try_into()?,
        })
    }

    /// Writes GRUB's configuration to a file again.
    pub fn make_grub_config(program: GrubMkconfig, path: &str) -> Result<Self, Invalid> {
        Ok(Self::MakeGrubConfig {
            program,
            path: path.try_into()?,
        })
    }

    /// Makes the boot loader entry of a kernel again.
    pub fn add_kernel_entry(release: &str, image: &str) -> Result<Self, Invalid> {
        Ok(Self::AddKernelEntry {
            release: release.try_into()?,
            image: image.try_into()?,
        })
    }

    /// Replaces a word on the command line of every installed kernel.
    pub fn set_kernel_parameter(old: Option<&str>, new: &str) -> Result<Self, Invalid> {
        Ok(Self::SetKernelParameter {
            old: old.map(KernelWord::try_from).transpose()?,
            new: Some(new.try_into()?),
        })
    }
}

/// gdrcopy's device node, `/dev/gdrdrv`: a character device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceNode {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permissions.
    pub mode: u32,
}

impl DeviceNode {
    /// Where gdrcopy's library looks for it.
    pub const PATH: &str = "/dev/gdrdrv";
}

/// A program that builds initramfs images.
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

/// A program that writes GRUB's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrubMkconfig {
    /// By its name on Red Hat and SUSE.
    Grub2Mkconfig,
    /// By its name elsewhere.
    GrubMkconfig,
}

/// A program that sets an mlx5 NIC's firmware parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirmwareTool {
    /// Of NVIDIA's MFT.
    Mlxconfig,
    /// Of the package mstflint.
    Mstconfig,
}
