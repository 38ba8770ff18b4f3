//! The element of a GPU with its NVLinks.

use crate::model::{Facts, NcclElement, NvLink, Row};

/// What NCCL writes for an NVSwitch that a virtual machine does not see: the hidden address, cut to its field.
const HIDDEN: &str = "fffffff:ffff:ff";
/// The class that NCCL gives to a hidden NVSwitch.
const NVSWITCH: &str = "0x068000";

/// The GPU and its NVLinks by NVML; none if NVML did not list the GPU, an error without the NVLinks if one of them is unknown.
/// NCCL sets `rank` and `gdr` itself.
pub fn gpu(facts: &Facts, row: &Row) -> Result<Option<NcclElement>, NcclElement> {
    let Some(nvml) =
        facts.nvml().and_then(|nvml| nvml.gpus.iter().find(|gpu| Some(gpu.bdf) == row.bdf))
    else {
        return Ok(None);
    };
    let mut gpu = NcclElement::new("gpu");
    gpu.attributes.push(("dev".to_owned(), nvml.index.to_string()));
    let Some(links) = nvml.active_links.known() else {
        return Err(gpu);
    };
    let mut found: Vec<(String, Option<String>, usize)> = Vec::new();
    for link in links {
        let Some((target, class)) = remote(facts, link) else {
            return Err(gpu);
        };
        match found.iter_mut().find(|(known, ..)| *known == target) {
            Some((.., count)) => *count += 1,
            None => found.push((target, class, 1)),
        }
    }
    gpu.children =
        found.into_iter().map(|(target, class, count)| nvlink(target, count, class)).collect();
    Ok(Some(gpu))
}

/// Address and class of the other end.
fn remote(facts: &Facts, link: &NvLink) -> Option<(String, Option<String>)> {
    let is_switch = link.remote.known().is_some_and(|remote| remote == "switch");
    let Some(bdf) = link.remote_bdf.known() else {
        return is_switch.then(|| (HIDDEN.to_owned(), Some(NVSWITCH.to_owned())));
    };
    let ids = facts.device(*bdf).and_then(|device| device.ids.known());
    let class = match ids {
        Some(ids) => Some(format!("0x{:06x}", ids.class)),
        None => is_switch.then(|| NVSWITCH.to_owned()),
    };
    Some((bdf.to_string(), class))
}

fn nvlink(target: String, count: usize, class: Option<String>) -> NcclElement {
    let mut nvlink = NcclElement::new("nvlink");
    nvlink.attributes.push(("target".to_owned(), target));
    nvlink.attributes.push(("count".to_owned(), count.to_string()));
    nvlink.attributes.extend(class.map(|class| ("tclass".to_owned(), class)));
    nvlink
}
