//! peer-mapping: lets every process map a NIC's doorbell to the GPU (registry key `PeerMappingOverride=1`).

use super::desired::{DesiredState, Fix, FixRequest};
use super::driver_loads::{DWORDS, DWORDS_PER_DEVICE, DriverLoads, change_word};
use super::drop_in::{self, Change};
use crate::check::ground::registry_keys as keys;
use crate::kmod::nvidia;

pub const FIX: Fix = Fix {
    id: "peer-mapping",
    about: "Every process may map a NIC's doorbell to the GPU: PeerMappingOverride=1.",
    checks: &["param.peer-mapping", "gin.nvshmem"],
    requires: &[],
    desired,
};

const KEY: &str = "PeerMappingOverride";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let driver_loads = match DriverLoads::of(ctx) {
        Ok(driver_loads) => driver_loads,
        Err(why) => return DesiredState::none(why),
    };
    let is_on = |text: &str| keys::key(text, KEY).is_some_and(|value| value != 0);
    // A key for one GPU overrides the common key.
    let shuts = |text: &str| opened(text) != text;
    let (common, each) =
        (driver_loads.all(DWORDS, is_on), driver_loads.all(DWORDS_PER_DEVICE, |text| !shuts(text)));
    let mut desired = DesiredState::default();
    desired.warnings.push(
        "This opens peer mappings to all users, not only root: the driver restricts them because of CVE-2015-5053."
            .to_owned(),
    );
    let mut changes: Vec<(String, Change)> = Vec::new();
    if !common {
        if let Some((text, from)) =
            driver_loads.on_command_line(DWORDS).filter(|(text, _)| !is_on(text))
        {
            return DesiredState::refused(change_word(from, DWORDS, &keys::merged(&text, KEY, 1)));
        }
        let base = driver_loads.dwords();
        changes.push((
            DWORDS.to_owned(),
            Box::new(move |present| keys::merged(present.unwrap_or(&base), KEY, 1)),
        ));
    }
    if !each {
        if let Some((text, from)) =
            driver_loads.on_command_line(DWORDS_PER_DEVICE).filter(|(text, _)| shuts(text))
        {
            return DesiredState::refused(change_word(from, DWORDS_PER_DEVICE, &opened(&text)));
        }
        let base = driver_loads.value(DWORDS_PER_DEVICE).unwrap_or_default();
        changes.push((
            DWORDS_PER_DEVICE.to_owned(),
            Box::new(move |present| opened(present.unwrap_or(&base))),
        ));
    }
    let loaded = ctx.facts.driver.params.present();
    let loaded = loaded.and_then(|params| params.get(nvidia::shown_as(DWORDS)?));
    let kept = keys::effect(&driver_loads.dwords());
    let lost: Vec<String> = loaded
        .into_iter()
        .flat_map(|text| keys::tokens(text))
        .filter(|(key, _)| {
            !kept.contains_key(&key.to_ascii_lowercase()) && !key.eq_ignore_ascii_case(KEY)
        })
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !(changes.is_empty() || lost.is_empty()) {
        desired.warnings.push(format!(
            "The loaded driver has {}, which no file sets: the next load will not have it.",
            lost.join("; ")
        ));
    }
    drop_in::set(request, desired, driver_loads.names, &format!("{KEY}=1"), changes)
}

/// The keys for single GPUs without those that disable peer mappings.
fn opened(text: &str) -> String {
    let shuts = |token: &str| keys::key(token, KEY) == Some(0);
    if text.split(';').any(shuts) {
        text.split(';').filter(|token| !shuts(token)).collect::<Vec<_>>().join(";")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_keys_that_disable_peer_mapping() {
        assert_eq!(
            opened("pci=03:00;PeerMappingOverride=0;A=1;pci=05:00;peermappingoverride=1;"),
            "pci=03:00;A=1;pci=05:00;peermappingoverride=1;"
        );
        for text in ["", "A=1;;B=2", "pci=03:00;PeerMappingOverride=1"] {
            assert_eq!(opened(text), text);
        }
    }
}
