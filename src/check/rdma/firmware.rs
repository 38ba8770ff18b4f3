//! rdma.firmware: the NIC's firmware is not older than its known minimum.

use super::{CLASS, each_nic};
use crate::check::{Check, Ctx, Hint, Judgement};
use crate::model::{ActionClass, Area, Fact, RdmaDevice, Severity, Why};
use crate::profile::{Minimum, minimum_firmware};

pub const CHECK: Check = Check {
    id: "rdma.firmware",
    rule: "The NIC's firmware is not older than the oldest supported version.",
    sources: "/sys/class/infiniband/*/fw_ver, profiles/devices.toml",
    severity: Severity::Info,
    why: "Firmware older than a device's first public release was never meant for production.",
    remedy: "Update the firmware with the vendor's tool (mlxfwmanager, mstflint).",
    action: ActionClass::Firmware.drained("https://docs.nvidia.com/networking/display/connectx8firmwarev40440208/changes+and+new+features"),
    references: &[
        "docs: profiles/devices.toml names the source of each number",
        "https://docs.nvidia.com/networking/display/connectx8firmwarev40440208/changes+and+new+features",
    ],
    hint: Some(Hint {
        cause: "The NIC's firmware fails or is too old.",
        words: "firmware=4 mlx5=4 mismatch=2 rdma=1 failure=1 timeout=1",
    }),
    judge: firmware,
    ..Check::DEFAULT
};

/// One judgement for each NIC.
fn firmware(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each_nic(ctx, |nic| vec![judge(ctx, nic)])
}

fn judge(ctx: &Ctx<'_>, nic: &RdmaDevice) -> Judgement {
    let name = nic.name.clone();
    let source = format!("{CLASS}/{}/fw_ver", nic.name);
    let version = match &nic.firmware {
        Fact::Known(Some(version)) => version,
        Fact::Known(None) => {
            return Judgement::skip(name, "Its driver reports no firmware version.");
        }
        Fact::Unknown(why) => return Judgement::unknown(name, *why, Area::Sys, &source),
    };
    let ids = match nic
        .place
        .present()
        .and_then(|bdf| ctx.facts.device(*bdf))
        .map(|device| &device.ids)
    {
        Some(Fact::Known(ids)) => ids,
        Some(Fact::Unknown(why)) => {
            return Judgement::unknown(name, *why, Area::Sys, "the NIC's PCI ids");
        }
        None => return Judgement::unknown(name, Why::NotCovered, Area::Sys, "the NIC's PCI ids"),
    };
    // A virtual function has its physical function's firmware, which is judged there.
    let Some(minimum) = ids
        .device
        .and_then(|device| minimum_firmware(ids.vendor, device))
        .filter(|_| ctx.facts.virtual_function(nic).is_none())
    else {
        return Judgement::skip(
            name,
            format!("Firmware {version}; gdr knows no minimum for {ids}."),
        )
        .evidence(source, version);
    };
    compare(name, version, minimum).evidence(source, version)
}

fn compare(name: String, version: &str, minimum: &Minimum) -> Judgement {
    let (Some(have), Some(want)) = (numbers(version), numbers(&minimum.version)) else {
        return Judgement::undetermined(
            name,
            format!("Cannot determine: firmware version '{version}' has an unknown format."),
        )
        .needs("a version of three numbers");
    };
    let about = &minimum.about;
    if have >= want {
        Judgement::pass(
            name,
            format!("Firmware {version} is not older than {} ({about}).", minimum.version),
        )
    } else {
        Judgement::broken(
            name,
            format!("Firmware {version} is older than {} ({about}).", minimum.version),
        )
        .evidence("profiles/devices.toml", &minimum.source)
        .command("mlxfwmanager --online -u")
        .advice("Update the firmware with mlxfwmanager or mstflint.")
    }
}

/// Parses `28.43.2026`.
fn numbers(version: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, NIC, machine, only, set_device_id};
    use crate::model::{Facts, Outcome};

    fn connectx8(version: Fact<Option<String>>) -> Facts {
        let mut facts = machine();
        set_device_id(&mut facts, NIC, 0x1023);
        facts.nic_mut().firmware = version;
        facts
    }

    #[test]
    fn compares_versions_by_number() {
        let known = |version: &str| Fact::Known(Some(version.to_owned()));
        for (version, outcome) in [
            (known("40.44.0208"), Outcome::Pass),
            (known("40.100.9"), Outcome::Pass),
            (known("40.44.0207"), Outcome::Info),
            (known("40.9.9999"), Outcome::Info),
            (known("40.44"), Outcome::Unknown),
            (Fact::Known(None), Outcome::Skip),
            (Fact::Unknown(Why::Denied), Outcome::Unknown),
        ] {
            assert_eq!(
                only("rdma.firmware", &connectx8(version.clone())).outcome,
                outcome,
                "{version:?}"
            );
        }
        // No minimum is known for ConnectX-7.
        assert_eq!(only("rdma.firmware", &machine()).outcome, Outcome::Skip);
    }
}
