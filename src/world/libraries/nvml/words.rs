//! Words of nvml.h for its numbers; `unknown 7` for one that it does not name, as in a driver that is newer.

/// `nvmlGpuFabricState_t`.
pub fn fabric_state(number: u32) -> String {
    word(number, &["not_supported", "not_started", "in_progress", "completed"])
}

/// `healthSummary` of `nvmlGpuFabricInfo_v3_t`.
pub fn fabric_health(number: u32) -> String {
    word(number, &["not_supported", "healthy", "unhealthy", "limited_capacity"])
}

/// `nvmlGpuVirtualizationMode_t`.
pub fn virtualization(number: u32) -> String {
    word(number, &["none", "passthrough", "vgpu", "host_vgpu", "host_vsga"])
}

/// `nvmlDeviceArchitecture_t`, which begins with 2.
pub fn architecture(number: u32) -> String {
    const NAMES: [&str; 11] = [
        "",
        "",
        "kepler",
        "maxwell",
        "pascal",
        "volta",
        "turing",
        "ampere",
        "ada",
        "hopper",
        "blackwell",
    ];
    word(number, &NAMES)
}

/// `nvmlIntNvLinkDeviceType_t`.
pub fn remote_device(number: u32) -> String {
    word(number, &["gpu", "npu", "switch"])
}

/// `multiGpuMode` of `nvmlSystemConfComputeSettings_v1_t`.
pub fn protected_links(number: u32) -> String {
    word(number, &["none", "protected_pcie", "nvle"])
}

fn word(number: u32, names: &[&str]) -> String {
    let name = usize::try_from(number).ok().and_then(|at| names.get(at).copied());
    match name.filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("unknown {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_table_are_unknown() {
        assert_eq!(
            [1, 2, 10, 11].map(architecture),
            ["unknown 1", "kepler", "blackwell", "unknown 11"]
        );
        assert_eq!(remote_device(255), "unknown 255");
    }
}
