//! The parameters of NVIDIA's main kernel module: their names, how `/proc/driver/nvidia/params` shows them, and the
//! defaults of those that GPUDirect rests on.

pub const MODULE: &str = "nvidia";

/// What stands before a parameter's name when it is set.
pub const PREFIX: &str = "NVreg_";

/// The names of parameters, without their prefix: nv-reg.h of the open kernel modules 515.43.04 to 595.45.04, and two
/// that only proprietary drivers before them had. The list of a loaded driver lacks some of its own.
pub const NAMES: [&str; 54] = [
    "CoherentGPUMemoryMode",
    "CreateImexChannel0",
    "DeviceFileGID",
    "DeviceFileMode",
    "DeviceFileUID",
    "DmaRemapPeerMmio",
    "DynamicPowerManagement",
    "DynamicPowerManagementVideoMemoryThreshold",
    "EnableBacklightHandler",
    "EnableDbgBreakpoint",
    "EnableGpuFirmware",
    "EnableGpuFirmwareLogs",
    "EnableMSI",
    "EnableNonblockingOpen",
    "EnablePCIERelaxedOrderingMode",
    "EnablePCIeGen3",
    "EnableResizableBar",
    "EnableS0ixPowerManagement",
    "EnableStreamMemOPs",
    "EnableSystemMemoryPools",
    "EnableUserNUMAManagement",
    "ExcludeAllGpus",
    "ExcludedGpus",
    "GpuBlacklist",
    "GpuInitOnProbe",
    "GrdmaPciTopoCheckOverride",
    "IgnoreMMIOCheck",
    "ImexChannelCount",
    "InitializeSystemMemoryAllocations",
    "KMallocHeapMaxSize",
    "MapRegistersEarly",
    "MemoryPoolSize",
    "ModifyDeviceFiles",
    "NvLinkDisable",
    "OpenRmEnableUnsupportedGpus",
    "PreserveVideoMemoryAllocations",
    "RegisterForACPIEvents",
    "RegisterPCIDriver",
    "RegisterPlatformDeviceDriver",
    "RegistryDwords",
    "RegistryDwordsPerDevice",
    "ResmanDebugLevel",
    "RestrictProfilingToAdminUsers",
    "RmLogonRC",
    "RmMsg",
    "RmNvlinkBandwidth",
    "RmNvlinkBandwidthLinkCount",
    "S0ixPowerManagementVideoMemoryThreshold",
    "TCEBypassMode",
    "TegraGpuPgMask",
    "TemporaryFilePath",
    "UseKernelSuspendNotifiers",
    "UsePageAttributeTable",
    "VMallocHeapMaxSize",
];

/// Parameters without the prefix, the kernel's own for every module among them.
const WITHOUT_PREFIX: [&str; 5] = [
    "NvSwitchBlacklist",
    "NvSwitchRegDwords",
    "async_probe",
    "dyndbg",
    "rm_firmware_active",
];

/// Parameters on which GPUDirect rests, as the driver shows them, with their defaults (nv-reg.h).
pub const DEFAULTS: [(&str, &str); 8] = [
    ("CoherentGPUMemoryMode", ""),
    ("DmaRemapPeerMmio", "1"),
    ("EnablePCIERelaxedOrderingMode", "0"),
    ("EnableResizableBar", "0"),
    ("EnableStreamMemOPs", "0"),
    ("GrdmaPciTopoCheckOverride", "0"),
    ("RegistryDwords", ""),
    ("RegistryDwordsPerDevice", ""),
];

/// The name under which the driver shows a parameter that is set as `NVreg_…`; none where it is no such parameter.
pub fn shown_as(set: &str) -> Option<&str> {
    match set.strip_prefix(PREFIX)? {
        "RestrictProfilingToAdminUsers" => Some("RmProfilingAdminOnly"),
        name => Some(name),
    }
}

/// The name by which a parameter that the driver shows is set.
pub fn set_as(shown: &str) -> String {
    match shown {
        "RmProfilingAdminOnly" => format!("{PREFIX}RestrictProfilingToAdminUsers"),
        name => format!("{PREFIX}{name}"),
    }
}

/// Whether a parameter's name is one that some driver knows. `-` and `_` are the same to the kernel.
pub fn is_known<'n>(name: &str, shown: impl IntoIterator<Item = &'n str>) -> bool {
    known(shown).any(|known| known == name)
}

/// The known name nearest to one that is not known; none where none is near enough to be meant.
pub fn nearest<'n>(name: &str, shown: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let core = |name: &str| {
        let name = name.to_ascii_lowercase();
        let name = name
            .strip_prefix("nvreg_")
            .or_else(|| name.strip_prefix("nvreg"))
            .map(str::to_owned)
            .unwrap_or(name);
        name.replace('_', "")
    };
    let wanted = core(name);
    if wanted.len() > 64 {
        return None;
    }
    let far = |known: &String| distance(&wanted, &core(known));
    known(shown)
        .map(|known| (far(&known), known))
        .filter(|(far, _)| *far <= 2.max(wanted.len() / 5) && *far < wanted.len())
        .min_by_key(|(far, _)| *far)
        .map(|(_, known)| known)
}

fn known<'n>(shown: impl IntoIterator<Item = &'n str>) -> impl Iterator<Item = String> {
    let prefixed = NAMES.iter().map(|name| format!("{PREFIX}{name}"));
    let shown: Vec<String> = shown.into_iter().map(set_as).collect();
    prefixed
        .chain(shown)
        .chain(WITHOUT_PREFIX.iter().map(|name| (*name).to_owned()))
}

/// How many characters must be put in, taken out or changed (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_the_one_that_was_meant() {
        for (wrong, meant) in [
            ("NVreg_RegisteryDwords", Some("NVreg_RegistryDwords")),
            ("NVreg_RegistryDWords", Some("NVreg_RegistryDwords")),
            ("RegistryDwords", Some("NVreg_RegistryDwords")),
            ("NVReg_EnableStreamMemOPs", Some("NVreg_EnableStreamMemOPs")),
            ("NVreg_EnableStreamMemOps", Some("NVreg_EnableStreamMemOPs")),
            (
                "NVreg_EnableResizeableBar",
                Some("NVreg_EnableResizableBar"),
            ),
            ("NVreg_Enable_PCIe_Gen3", Some("NVreg_EnablePCIeGen3")),
            ("NVreg_SomethingElse", None),
            ("modeset", None),
            ("x", None),
        ] {
            assert_eq!(nearest(wrong, []).as_deref(), meant, "{wrong}");
            assert!(!is_known(wrong, []));
        }
    }

    #[test]
    fn what_the_driver_shows_is_known_too() {
        assert!(is_known("NVreg_NewInR700", ["NewInR700"]));
        assert!(is_known("NVreg_RestrictProfilingToAdminUsers", []));
        assert!(is_known("NVreg_VMallocHeapMaxSize", []) && is_known("async_probe", []));
        assert_eq!(
            shown_as("NVreg_RestrictProfilingToAdminUsers"),
            Some("RmProfilingAdminOnly")
        );
        assert_eq!(
            set_as("RmProfilingAdminOnly"),
            "NVreg_RestrictProfilingToAdminUsers"
        );
    }

    #[test]
    fn distances() {
        for (a, b, far) in [
            ("", "", 0),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(a, b), far, "{a} {b}");
        }
    }
}
