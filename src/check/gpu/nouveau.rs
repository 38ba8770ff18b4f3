//! gpu.nouveau: no GPU is bound to nouveau.
//!
//! Lines that block nouveau (`blacklist nouveau`, `install nouveau /bin/false`) are never a finding.

use super::present::bound;
use crate::check::{Check, Ctx, Hint, Judgement, unknown_if, words};
use crate::model::{ActionClass, Area, Fact, PciDevice, Severity, Why};

pub const CHECK: Check = Check {
    id: "gpu.nouveau",
    rule: "No GPU is bound to nouveau, the kernel's own driver.",
    sources: "driver links of /sys/bus/pci/devices, /proc/modules",
    severity: Severity::Error,
    why: "The NVIDIA driver cannot bind a GPU that nouveau drives: nvidia-smi and CUDA do not see it.",
    remedy: "Block nouveau with 'blacklist nouveau' in /etc/modprobe.d, rebuild the initramfs, and reboot.",
    action: ActionClass::Configure
        .drained("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/")
        .then(ActionClass::Reboot),
    references: &["https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"],
    hint: Some(Hint {
        cause: "Another driver, most often nouveau, holds the GPU.",
        words: "nouveau=6 driver=2 blacklist=1 missing=1 failure=1",
    }),
    judge: nouveau,
    ..Check::DEFAULT
};

/// One judgement for each GPU bound to nouveau, or one for the machine.
fn nouveau(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let gpus: Vec<&PciDevice> = ctx.facts.gpus().collect();
    if gpus.is_empty() {
        return vec![Judgement::skip("machine", "There is no NVIDIA GPU.")];
    }
    let held: Vec<&PciDevice> = gpus.iter().copied().filter(|gpu| is_held(ctx, gpu)).collect();
    if !held.is_empty() {
        return held.iter().map(|gpu| holds(ctx, gpu)).collect();
    }
    let loaded = ctx.facts.kernel.modules.as_ref().map(|modules| {
        let mut names = modules.iter().map(|module| module.name.as_str());
        names.any(|name| name == "nouveau")
    });
    let unread = gpus.iter().find_map(|gpu| Some((gpu, bound(ctx, gpu).why()?)));
    vec![match (loaded, unread) {
        // A built-in nouveau shows only in the driver links.
        (Fact::Known(true), None) => Judgement::info(
            "machine",
            "nouveau is loaded but bound to no GPU: it may bind one at the next boot.",
        )
        .evidence("/proc/modules", "nouveau")
        .advice(
            "Write 'blacklist nouveau' to a file of /etc/modprobe.d and rebuild the initramfs.",
        ),
        (_, Some((gpu, why))) => Judgement::unknown(
            words::device(ctx, gpu.bdf),
            why,
            Area::Sys,
            &format!("/sys/bus/pci/devices/{}/driver", gpu.bdf),
        ),
        (Fact::Known(false), None) => Judgement::pass("machine", "nouveau is not loaded.")
            .evidence("/proc/modules", "no nouveau"),
        // Another GPU may not be listed.
        (Fact::Unknown(_), None) if ctx.facts.partial => {
            Judgement::unknown("machine", Why::NotCovered, Area::Sys, "/sys/bus/pci/devices")
        }
        (Fact::Unknown(_), None) => Judgement::pass("machine", "nouveau is bound to no GPU.")
            .evidence("/sys/bus/pci/devices/*/driver", "none of them nouveau"),
    }]
}

fn is_held(ctx: &Ctx<'_>, gpu: &PciDevice) -> bool {
    bound(ctx, gpu).present().is_some_and(|driver| driver == "nouveau")
}

fn holds(ctx: &Ctx<'_>, gpu: &PciDevice) -> Judgement {
    Judgement::broken(
        words::device(ctx, gpu.bdf),
        "nouveau is bound to this GPU: the NVIDIA driver cannot bind it, and CUDA does not see it.",
    )
    .evidence(format!("/sys/bus/pci/devices/{}/driver", gpu.bdf), "nouveau")
    .advice(
        "Write 'blacklist nouveau' and 'options nouveau modeset=0' to a file of /etc/modprobe.d, \
                 rebuild the initramfs and reboot.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, GPU, assert_fix_says, bind, findings, gpu, machine, only, outcomes,
    };
    use crate::model::{Facts, Module, Outcome};

    fn load(facts: &mut Facts) {
        facts.kernel.modules =
            Fact::Known(vec![Module { name: "nouveau".to_owned(), users: Vec::new() }]);
    }

    #[test]
    fn names_only_gpus_held_by_nouveau() {
        let mut facts = machine();
        facts.add(gpu("0000:05:00.0"));
        bind(&mut facts, GPU, Some("nouveau"));
        load(&mut facts);
        let found = findings("gpu.nouveau", &facts, &[]);
        assert_eq!(outcomes(&found), [("GPU0 (0000:03:00.0)", Outcome::Fail)]);
        assert_fix_says(&found[0], "blacklist nouveau");
    }

    #[test]
    fn loaded_without_gpu() {
        let mut facts = machine();
        assert_eq!(only("gpu.nouveau", &facts).outcome, Outcome::Pass);
        load(&mut facts);
        assert_eq!(only("gpu.nouveau", &facts).outcome, Outcome::Info);
        facts.kernel.modules = Fact::Unknown(Why::Denied);
        assert_eq!(only("gpu.nouveau", &facts).outcome, Outcome::Pass, "the links are enough");
        facts.partial = true;
        assert_eq!(only("gpu.nouveau", &facts).outcome, Outcome::Unknown, "one device of many");
    }

    #[test]
    fn unread_driver_links() {
        let mut facts = machine();
        facts.device_mut(GPU).attributes = None;
        facts.driver.gpus = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("gpu.nouveau", &facts).outcome, Outcome::Unknown);
        facts.pci = Fact::Known(Vec::new());
        assert_eq!(only("gpu.nouveau", &facts).outcome, Outcome::Skip);
    }
}
