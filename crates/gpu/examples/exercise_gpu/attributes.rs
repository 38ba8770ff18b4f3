//! What the GPUs are, asked without a context.

use gpu::{Attribute, Gpu, driver_version};

use crate::Outcome;

pub fn devices() -> Outcome {
    let mut words = format!("CUDA {}", driver_version()?);
    for device in gpu::devices()? {
        let pci = device
            .pci
            .map_or_else(|| "no PCI address".to_owned(), |pci| pci.to_string());
        words += &format!(
            "\n      {} {} {} {pci} {} bytes",
            device.ordinal, device.name, device.uuid, device.memory
        );
    }
    Ok(words)
}

pub fn of(gpu: &Gpu) -> Outcome {
    let mut words = String::new();
    for &(name, attribute) in Attribute::NAMED {
        let value = gpu.attribute(attribute)?;
        let value = value.map_or_else(
            || "unknown to the driver".to_owned(),
            |value| value.to_string(),
        );
        words += &format!("\n      {name} {value}");
    }
    let unknown = gpu.attribute(Attribute(100_000))?;
    crate::ensure(
        unknown.is_none(),
        "an attribute that does not exist has a value",
    )?;
    Ok(words)
}
