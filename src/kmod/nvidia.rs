//! Parameters of NVIDIA's main kernel module: names, their form in `/proc/driver/nvidia/params`, and
//! defaults of those that GPUDirect depends on.

pub const MODULE: &str = "nvidia";

/// Prefix of a parameter's name when it is set.
pub const PREFIX: &str = "NVreg_";

/// Parameter names without prefix: nv-reg.h of the open kernel modules 515.43.04 to 595.45.04, and two
/// of older proprietary drivers. A loaded driver does not list all its parameters.
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

/// Parameters without prefix, including those that every module has.
const WITHOUT_PREFIX: [&str; 5] =
    ["NvSwitchBlacklist", "NvSwitchRegDwords", "async_probe", "dyndbg", "rm_firmware_active"];

/// Parameters that GPUDirect depends on, as the driver shows them, with defaults (nv-reg.h).
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

/// The name under which the driver shows an `NVreg_…` parameter.
pub fn shown_as(set: &str) -> Option<&str> {
    match set.strip_prefix(PREFIX)? {
        "RestrictProfilingToAdminUsers" => Some("RmProfilingAdminOnly"),
        name => Some(name),
    }
}

/// The name that sets a parameter shown by the driver.
pub fn set_as(shown: &str) -> String {
    match shown {
        "RmProfilingAdminOnly" => format!("{PREFIX}RestrictProfilingToAdminUsers"),
        name => format!("{PREFIX}{name}"),
    }
}

/// True if some driver has this parameter; `-` and `_` are equal, as in the kernel.
pub fn is_known<'n>(name: &str, shown: impl IntoIterator<Item = &'n str>) -> bool {
    known(shown).any(|known| known == name)
}

/// The most similar known name, if it is similar enough to be meant.
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
    let name_core = core(name);
    if name_core.len() > 64 {
        return None;
    }
    let distance_to = |known: &String| distance(&name_core, &core(known));
    known(shown)
        .map(|known| (distance_to(&known), known))
        .filter(|(distance_to, _)| {
            *distance_to <= 2.max(name_core.len() / 5) && *distance_to < name_core.len()
        })
        .min_by_key(|(distance_to, _)| *distance_to)
        .map(|(_, known)| known)
}

fn known<'n>(shown: impl IntoIterator<Item = &'n str>) -> impl Iterator<Item = String> {
    let prefixed = NAMES.iter().map(|name| format!("{PREFIX}{name}"));
    let shown: Vec<String> = shown.into_iter().map(set_as).collect();
    prefixed.chain(shown).chain(WITHOUT_PREFIX.iter().map(|name| (*name).to_owned()))
}

/// Levenshtein distance.
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
    fn finds_nearest_name() {
        for (wrong, meant) in [
            ("NVreg_RegisteryDwords", Some("NVreg_RegistryDwords")),
            ("NVreg_RegistryDWords", Some("NVreg_RegistryDwords")),
            ("RegistryDwords", Some("NVreg_RegistryDwords")),
            ("NVReg_EnableStreamMemOPs", Some("NVreg_EnableStreamMemOPs")),
            ("NVreg_EnableStreamMemOps", Some("NVreg_EnableStreamMemOPs")),
            ("NVreg_EnableResizeableBar", Some("NVreg_EnableResizableBar")),
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
    fn knows_names_shown_by_driver() {
        assert!(is_known("NVreg_NewInR700", ["NewInR700"]));
        assert!(is_known("NVreg_RestrictProfilingToAdminUsers", []));
        assert!(is_known("NVreg_VMallocHeapMaxSize", []) && is_known("async_probe", []));
        assert_eq!(shown_as("NVreg_RestrictProfilingToAdminUsers"), Some("RmProfilingAdminOnly"));
        assert_eq!(set_as("RmProfilingAdminOnly"), "NVreg_RestrictProfilingToAdminUsers");
    }

    #[test]
    fn distances() {
        for (a, b, distance_to) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a, b), distance_to, "{a} {b}");
        }
    }
}
