//! Whether the driver maps a coherent GPU's memory for a NIC over PCI Express: the forced PCIe mapping of a dma-buf.
//!
//! The default mapping goes over NVLink-C2C, and the driver allows it for every topology. The rules are those of
//! `nv_pci_is_valid_topology_for_direct_pci` in kernel-open/nvidia/nv-pci.c of NVIDIA/open-gpu-kernel-modules.

use super::classify::bridges_in_common;
use crate::model::{Area, Bdf, Fact, Facts, Ids, Missing, PciDevice, PciPath, Why};

const OPTION: &str = "GrdmaPciTopoCheckOverride";
const DEVICES: &str = "/sys/bus/pci/devices";
const PARAMS: &str = "/proc/driver/nvidia/params";
const VERSION: &str = "/sys/module/nvidia/version";

/// The driver's answer for one GPU and one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedPcie {
    Allowed,
    /// The attach or the mapping fails with ENOTSUPP (524).
    Denied,
    /// No published source of this driver says.
    Unproven,
}

/// Software that asks for the forced mapping, and the function that it registers the memory for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    pub by: &'static str,
    pub function: Bdf,
}

/// How a driver decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// 570.86.15 to 575.64.05: any override, or one IOMMU group.
    AnyOverride,
    /// 580.65.06 to 590.48.01: 1 allows, 2 denies, else one IOMMU group.
    Override,
    /// 595.44.02 to 595.45.04: one IOMMU group.
    Group,
    /// Later 595: NVIDIA/aicr issue 2439 says that a NIC in no group below the GPU's bridge is allowed too.
    GroupOrBridge,
    Unpublished,
}

/// The rule of a driver; none before CUDA could ask for the mapping.
fn rule(version: &str) -> Option<Rule> {
    let numbers: Vec<u32> = version.split('.').map_while(|n| n.parse().ok()).collect();
    match numbers.as_slice() {
        numbers if numbers < [570, 86, 15].as_slice() => None,
        numbers if numbers < [580, 65, 6].as_slice() => Some(Rule::AnyOverride),
        numbers if numbers < [595].as_slice() => Some(Rule::Override),
        numbers if numbers <= [595, 45, 4].as_slice() => Some(Rule::Group),
        [595, ..] => Some(Rule::GroupOrBridge),
        _ => Some(Rule::Unpublished),
    }
}

/// What the loaded driver answers for the memory of a coherent GPU; none if it has no such mapping.
pub fn forced_pcie(facts: &Facts, gpu: Bdf, function: Bdf) -> Result<Option<ForcedPcie>, Missing> {
    let version = match facts.driver.version() {
        Fact::Known(Some(version)) => version,
        Fact::Known(None) => return Ok(None),
        Fact::Unknown(why) => return Err(missing(why, VERSION)),
    };
    let Some(rule) = rule(&version) else {
        return Ok(None);
    };
    if matches!(rule, Rule::AnyOverride | Rule::Override)
        && let Some(answer) = overridden(facts, rule)?
    {
        return Ok(Some(answer));
    }
    let theirs = group(facts, gpu)?;
    let own = group(facts, function)?;
    Ok(Some(match rule {
        Rule::Unpublished => ForcedPcie::Unproven,
        // Pointers are compared: no group at both ends is one group.
        _ if own == theirs => ForcedPcie::Allowed,
        Rule::GroupOrBridge if own.is_none() && shares_bridge(facts, gpu, function)? => {
            ForcedPcie::Unproven
        }
        _ => ForcedPcie::Denied,
    }))
}

fn overridden(facts: &Facts, rule: Rule) -> Result<Option<ForcedPcie>, Missing> {
    let params = facts.driver.params.or_missing(Area::Proc, PARAMS)?;
    let value = params.as_ref().and_then(|params| params.get(OPTION));
    Ok(match (rule, value.map(String::as_str)) {
        (_, None | Some("0")) => None,
        (Rule::AnyOverride, Some(_)) | (_, Some("1")) => Some(ForcedPcie::Allowed),
        (_, Some("2")) => Some(ForcedPcie::Denied),
        (_, Some(_)) => None,
    })
}

fn group(facts: &Facts, bdf: Bdf) -> Result<Option<u32>, Missing> {
    let attributes = facts.device(bdf).and_then(|device| device.attributes.as_ref());
    match attributes.map(|attributes| &attributes.iommu_group) {
        Some(Fact::Known(group)) => Ok(*group),
        Some(Fact::Unknown(why)) => Err(missing(*why, &format!("{DEVICES}/{bdf}/iommu_group"))),
        None => Err(missing(Why::NotCovered, &format!("{DEVICES}/{bdf}/iommu_group"))),
    }
}

fn shares_bridge(facts: &Facts, gpu: Bdf, function: Bdf) -> Result<bool, Missing> {
    let place = |bdf| -> Fact<&PciPath> {
        let device = facts.device(bdf);
        device.map_or(Fact::Unknown(Why::NotCovered), |device| device.place.as_ref())
    };
    match (place(gpu), place(function)) {
        (Fact::Known(a), Fact::Known(b)) => Ok(bridges_in_common(a, b) > 0),
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Err(missing(why, DEVICES)),
    }
}

fn missing(why: Why, source: &str) -> Missing {
    Missing::new(why, Area::Sys, source)
}

/// True if NVreg_GrdmaPciTopoCheckOverride counts for coherent GPUs with the loaded driver.
pub fn has_override(facts: &Facts) -> bool {
    let version = facts.driver.version();
    let rule = version.present().and_then(|version| rule(version));
    matches!(rule, Some(Rule::AnyOverride | Rule::Override))
}

/// What makes a denied mapping possible, in one sentence.
pub fn remedy(facts: &Facts) -> &'static str {
    let params = facts.driver.params.present();
    let value = params.and_then(|params| params.get(OPTION));
    match (has_override(facts), value.map(String::as_str)) {
        (true, Some("2")) => {
            "Replace NVreg_GrdmaPciTopoCheckOverride=2 by 1 in modprobe.d, rebuild the initramfs and reload the driver."
        }
        (true, _) => {
            "Set NVreg_GrdmaPciTopoCheckOverride=1 for the module nvidia in modprobe.d, rebuild the initramfs and reload the driver."
        }
        (false, _) => {
            "Use driver 580 with NVreg_GrdmaPciTopoCheckOverride=1; since 595 the parameter does not count for coherent GPUs, and \
             NIC and GPU must be in one IOMMU group, or both in none."
        }
    }
}

/// True if a function is an Elastic Fabric Adapter, by its id or its driver.
pub fn is_efa(device: &PciDevice) -> bool {
    let attributes = device.attributes.as_ref();
    let driver = attributes.and_then(|attributes| attributes.driver.present());
    device.ids.known().is_some_and(Ids::is_efa) || driver.is_some_and(|driver| driver == "efa")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tags of NVIDIA/open-gpu-kernel-modules at which nv-pci.c was read.
    #[test]
    fn rules_change_at_these_releases() {
        for (version, expected) in [
            ("565.77", None),
            ("570.86.15", Some(Rule::AnyOverride)),
            ("575.64.05", Some(Rule::AnyOverride)),
            ("580.65.06", Some(Rule::Override)),
            ("590.48.01", Some(Rule::Override)),
            ("595.44.02", Some(Rule::Group)),
            ("595.45.04", Some(Rule::Group)),
            ("595.91.07", Some(Rule::GroupOrBridge)),
            ("610.12", Some(Rule::Unpublished)),
        ] {
            assert!(rule(version) == expected, "{version}");
        }
    }
}
