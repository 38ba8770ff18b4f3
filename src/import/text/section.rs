//! A section cut out of `nvidia-smi -q`, as text or XML: clocks, temperatures, ECC, lines of grep. It shows a GPU, not which one.

use super::query::is_version;
use super::summary::is_model;
use super::{Kind, Starts};
use crate::model::ListedGpu;

pub const SECTION: Kind = Kind {
    name: "a part of nvidia-smi -q without the GPU's address",
    starts: Starts::Line,
    begins: is_field,
    yields: "that there is a GPU, if no other part shows one; its model",
    example: "    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
    Max Customer Boost Clocks
        Graphics                          : 1980 MHz
",
    read: |text, recording| {
        if !recording.shows_gpus() {
            recording.listed(gpus(text));
        }
        Ok(())
    },
};

/// A GPU for each model, as of grep; one if the text names none.
fn gpus(text: &str) -> Vec<ListedGpu> {
    let models = text.lines().filter_map(|line| {
        let line = line.trim();
        let of_xml = line.strip_prefix("<product_name>").and_then(|rest| rest.split('<').next());
        of_xml.or_else(|| field(line).filter(|(key, _)| *key == "Product Name").map(|pair| pair.1))
    });
    let of_model =
        |model: &str| ListedGpu { model: Some(model.to_owned()), ..ListedGpu::default() };
    let gpus: Vec<ListedGpu> = models.filter(|model| is_model(model)).map(of_model).collect();
    if gpus.is_empty() { vec![ListedGpu::default()] } else { gpus }
}

/// `Product Name                          : NVIDIA H100`: the key and the value, which stand in columns.
fn field(line: &str) -> Option<(&str, &str)> {
    const LONGEST: usize = 128;
    let (key, value) = line.split_once("  : ").filter(|_| line.len() <= LONGEST)?;
    Some((key.trim_end(), value.trim()))
}

/// True for a line that only nvidia-smi prints: other programs have such names too, not with such values.
fn is_field(line: &str) -> bool {
    const MEGAHERTZ: [&str; 2] = ["Graphics", "SM"];
    const CELSIUS: [&str; 5] = [
        "GPU Current Temp",
        "GPU Shutdown Temp",
        "GPU Slowdown Temp",
        "GPU Max Operating Temp",
        "Memory Current Temp",
    ];
    const WATTS: [&str; 5] = [
        "Default Power Limit",
        "Enforced Power Limit",
        "Current Power Limit",
        "Requested Power Limit",
        "Average Power Draw",
    ];
    const COUNTS: [&str; 4] = [
        "SRAM Correctable",
        "DRAM Correctable",
        "DRAM Uncorrectable",
        "Remapping Failure Occurred",
    ];
    if line.starts_with('<') {
        return is_element(line);
    }
    let Some((key, value)) = field(line) else { return false };
    let number = |unit: &str| {
        let number = value.strip_suffix(unit).map(str::trim_end);
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    match key {
        "Product Name" => is_model(value),
        "GPU UUID" => value.starts_with("GPU-"),
        "Driver Version" => is_version(value),
        "Performance State" => value.strip_prefix('P').is_some_and(|n| n.parse::<u8>().is_ok()),
        "Used GPU Memory" => number("MiB"),
        _ if MEGAHERTZ.contains(&key) => number("MHz"),
        _ if CELSIUS.contains(&key) => number("C"),
        _ if WATTS.contains(&key) => number("W"),
        _ if COUNTS.contains(&key) => number("") || matches!(value, "No" | "Yes"),
        _ => false,
    }
}

/// Elements of `nvidia-smi -q -x` that no other program writes.
fn is_element(line: &str) -> bool {
    const ELEMENTS: [&str; 9] = [
        "<gpu_temp>",
        "<fan_speed>",
        "<performance_state>P",
        "<retired_pages>",
        "<bar1_memory_usage>",
        "<fb_memory_usage>",
        "<graphics_clock>",
        "<gpu_power_readings>",
        "<product_name>NVIDIA ",
    ];
    ELEMENTS.iter().any(|element| line.starts_with(element))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_nvidia_smi() {
        for line in [
            "Graphics                    : 1987 MHz",
            "GPU Current Temp                  : 31 C",
            "Default Power Limit               : 700.00 W",
            "DRAM Uncorrectable                : 0",
            "Product Name                      : NVIDIA A100-SXM4-80GB",
            "<gpu_temp>42 C</gpu_temp>",
        ] {
            assert!(is_field(line), "{line}");
        }
        for line in [
            "Graphics: 1987 MHz",
            "Graphics       User specified frequency of graphics (shader) clock.",
            "Memory                      : 3200 MHz",
            "Graphics                    : N/A",
            "Product Name                      : PowerEdge R750xa",
            "<temperature>42</temperature>",
        ] {
            assert!(!is_field(line), "{line}");
        }
    }

    #[test]
    fn a_section_shows_one_gpu() {
        assert_eq!(gpus(SECTION.example), [ListedGpu::default()]);
        let models = "    Product Name                      : NVIDIA L4\n".repeat(2);
        assert_eq!(gpus(&models).len(), 2);
        assert_eq!(gpus(&models)[1].model.as_deref(), Some("NVIDIA L4"));
    }
}
