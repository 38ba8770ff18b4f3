//! iommu: stops the IOMMU from translating addresses of GPUs and NICs.
//!
//! If no driver uses the devices, changes the type of their groups at once. Otherwise a kernel
//! parameter passes all devices through from the next boot on.

use std::collections::BTreeMap;

use super::boot::{Parameter, Strip, set_parameter};
use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange};
use super::devices;
use crate::check::{Ctx, ground};
use crate::kmod::words;
use crate::model::{Fact, IommuMember};

pub const FIX: Fix = Fix {
    id: "iommu",
    about: "The IOMMU stops translating the addresses of GPUs and NICs.",
    checks: &["pcie.iommu"],
    requires: &[],
    desired,
};

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ctx.facts.is_grace() {
        return DesiredState::refused(
            "On Grace and Vera the SMMU has to translate: GPU memory is reached over NVLink-C2C.",
        );
    }
    if let Err(why) = devices::all_known(ctx) {
        return DesiredState::none(why);
    }
    let groups = ground::translated(ctx);
    if groups.is_empty() {
        return DesiredState::default();
    }
    if ctx.facts.platform.is_guest() {
        return DesiredState::refused(
            "This is the guest's own IOMMU: start the guest without one, or add iommu=pt (aarch64: iommu.passthrough=1) to its \
             kernel command line.",
        );
    }
    let mut desired = DesiredState::default();
    if groups.keys().all(|group| is_free(ctx, *group)) {
        for (group, kind) in &groups {
            desired.change(
                format!("Set IOMMU group {group} from {kind} to identity."),
                ChangeTarget::Attribute {
                    path: format!("/sys/kernel/iommu_groups/{group}/type"),
                    value: "identity".to_owned(),
                },
            );
        }
        desired.warnings.push(
            "A reboot reverts the change. Load the drivers only after it. With the drivers bound, this fix sets a kernel \
             parameter instead, which is permanent."
                .to_owned(),
        );
        return desired;
    }
    match by_kernel(&mut desired, ctx, &groups) {
        Ok(()) => desired,
        Err(why) => DesiredState::none(why),
    }
}

/// True if the kernel can change the group's type now: no driver is bound, and the kernel supports it
/// for one device (5.11: Documentation/ABI/testing/sysfs-kernel-iommu_groups) or for several (6.4).
fn is_free(ctx: &Ctx<'_>, group: u32) -> bool {
    let release = ctx.facts.kernel.release.known();
    let kernel = release.and_then(|release| ground::kernel(release)).unwrap_or((0, 0));
    let Some(Fact::Known(members)) = ctx.facts.kernel.iommu_members.get(&group) else {
        return false;
    };
    let unbound = |member: &IommuMember| member.driver == Fact::Known(None);
    let enough = if members.len() > 1 { (6, 4) } else { (5, 11) };
    !members.is_empty() && members.iter().all(unbound) && kernel >= enough
}

fn by_kernel(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    groups: &BTreeMap<u32, String>,
) -> Result<(), NoChange> {
    let (head, value, strip): (&str, &str, Strip) = match ctx.facts.platform.architecture.known() {
        Some(name) if name == "aarch64" => ("iommu.passthrough=", "1", without_passthrough),
        Some(name) if name == "x86_64" => ("iommu=", "pt", without_pt),
        _ => {
            return Err(NoChange::Unknown(
                "cannot determine the processor architecture; x86 needs iommu=pt on the kernel command line, aarch64 \
                 iommu.passthrough=1."
                    .to_owned(),
            ));
        }
    };
    let word = format!("{head}{value}");
    let line = ctx.facts.kernel.command_line.known();
    if line.is_some_and(|line| words(line).contains(&word)) {
        let groups: Vec<String> =
            groups.iter().map(|(group, kind)| format!("{group} ({kind})")).collect();
        return Err(NoChange::Refused(format!(
            "The kernel command line has {word} already, but the IOMMU groups {} still translate: a later parameter overrides it, \
             or a program changed the type of the groups. See /proc/cmdline and what writes \
             /sys/kernel/iommu_groups/*/type.",
            groups.join(", ")
        )));
    }
    desired.warnings.push(
        "The IOMMU then restricts no device of the host to its own memory, faulty and external ones included; virtual machines \
         stay isolated. To change GPUs and NICs only, unbind their drivers first."
            .to_owned(),
    );
    set_parameter(
        desired,
        ctx,
        &Parameter { fix: "iommu", head: head.to_owned(), value: value.to_owned(), strip },
    )
}

/// Strips what iommu=pt replaces.
fn without_pt(word: &str) -> Option<String> {
    (!["iommu=pt", "iommu=nopt"].contains(&word)).then(|| word.to_owned())
}

/// Strips what iommu.passthrough=1 replaces.
fn without_passthrough(word: &str) -> Option<String> {
    (!word.starts_with("iommu.passthrough=")).then(|| word.to_owned())
}
