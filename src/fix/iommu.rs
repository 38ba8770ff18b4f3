//! iommu: the IOMMU no longer translates the addresses of GPUs and NICs.
//!
//! The narrow way, where nothing uses the devices: their groups alone get another type, at once. Else the kernel is told to
//! pass all devices through from the next boot on.

use std::collections::BTreeMap;

use super::boot::{Parameter, Rest, tell};
use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use crate::check::{Ctx, ground};
use crate::kmod::words;
use crate::model::{Fact, IommuMember};

pub const FIX: Fix = Fix {
    id: "iommu",
    about: "The IOMMU leaves the addresses of GPUs and NICs as they are.",
    desired,
};

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::is_grace(ctx) {
        return DesiredState::refused(
            "On Grace and Vera the SMMU translates, and is to: GPU memory is reached over NVLink-C2C.",
        );
    }
    let groups = ground::translated(ctx);
    if groups.is_empty() {
        return DesiredState::default();
    }
    if ctx.facts.platform.is_guest() {
        return DesiredState::refused(
            "This is the guest's own IOMMU: start the guest without one, or put iommu=pt (aarch64: iommu.passthrough=1) on its \
             kernel's command line.",
        );
    }
    let mut desired = DesiredState::default();
    if groups.keys().all(|group| is_free(ctx, *group)) {
        for (group, kind) in &groups {
            desired.desired_change(
                format!("IOMMU group {group} no longer translates: {kind} becomes identity."),
                ChangeTarget::Attribute {
                    path: format!("/sys/kernel/iommu_groups/{group}/type"),
                    value: "identity".to_owned(),
                },
            );
        }
        desired.warnings.push(
            "The change is gone after a reboot. Made again with the drivers bound, this fix tells the kernel instead, which \
             lasts. Load the drivers only once it is made."
                .to_owned(),
        );
        return desired;
    }
    match by_kernel(&mut desired, ctx, &groups) {
        Ok(()) => desired,
        Err(why) => DesiredState::refused(why),
    }
}

/// Whether the kernel changes a group's type as it runs: no driver holds its devices, and it is one device, or the kernel
/// can do it for several (5.11: Documentation/ABI/testing/sysfs-kernel-iommu_groups; several: 6.4).
fn is_free(ctx: &Ctx<'_>, group: u32) -> bool {
    let release = ctx.facts.kernel.release.known();
    let kernel = release
        .and_then(|release| ground::kernel(release))
        .unwrap_or((0, 0));
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
) -> Result<(), String> {
    let (head, value, rest): (&str, &str, Rest) = match ctx.facts.platform.architecture.known() {
        Some(name) if name == "aarch64" => ("iommu.passthrough=", "1", without_passthrough),
        Some(name) if name == "x86_64" => ("iommu=", "pt", without_pt),
        _ => {
            return Err("Which processor this is, is not known: iommu=pt is x86's parameter, iommu.passthrough=1 that of aarch64.".to_owned());
        }
    };
    let word = format!("{head}{value}");
    let line = ctx.facts.kernel.command_line.known();
    if line.is_some_and(|line| words(line).contains(&word)) {
        let groups: Vec<String> = groups
            .iter()
            .map(|(group, kind)| format!("{group} ({kind})"))
            .collect();
        return Err(format!(
            "The kernel's command line has {word} already, and the IOMMU groups {} translate all the same: a later word undoes \
             it, or somebody gave the groups another type. Look at /proc/cmdline and at who writes \
             /sys/kernel/iommu_groups/*/type.",
            groups.join(", ")
        ));
    }
    desired.warnings.push(
        "No device is held to its own memory by the IOMMU then, those with faults or from outside included; virtual machines \
         still are. To change GPUs and NICs alone, unbind their drivers and make this fix then."
            .to_owned(),
    );
    tell(
        desired,
        ctx,
        &Parameter {
            fix: "iommu",
            head: head.to_owned(),
            value: value.to_owned(),
            rest,
        },
    )
}

/// What iommu=pt replaces of a word.
fn without_pt(word: &str) -> Option<String> {
    (!["iommu=pt", "iommu=nopt"].contains(&word)).then(|| word.to_owned())
}

/// What iommu.passthrough=1 replaces of a word.
fn without_passthrough(word: &str) -> Option<String> {
    (!word.starts_with("iommu.passthrough=")).then(|| word.to_owned())
}
