//! initramfs: the image of the running kernel is made anew, so that what it carries of modprobe.d is what the disk says.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use crate::check::Ctx;
use crate::model::{Fact, ImageBuild, InitramfsBuilder, Operation};

pub const FIX: Fix = Fix {
    id: "initramfs",
    about: "The initramfs carries the driver with the options that modprobe.d has now.",
    desired,
};

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let mut desired = DesiredState::default();
    if request.findings.is_empty() {
        return desired;
    }
    let Some(Fact::Known(Some(image))) = &request.ctx.facts.modprobe.initramfs else {
        return DesiredState::refused(
            "There is no initramfs of the running kernel that gdr could read.",
        );
    };
    let path = &image.path;
    let Some(build) = tool(request.ctx).and_then(|builder| one(builder, path)) else {
        return DesiredState::refused(format!(
            "No program is there that makes {path}: neither update-initramfs, nor dracut, nor mkinitcpio. Make it anew by \
             the way of this distribution."
        ));
    };
    desired.desired_change(
        format!(
            "{path} is built again from the files on the disk; the present image is kept as {}.",
            build.kept()
        ),
        ChangeTarget::Image(build),
    );
    desired.warnings.push(format!(
        "{path}.gdr-old takes as much of /boot as the image itself: remove it once the machine has booted."
    ));
    desired.afterwards.push(
        "The options are in effect after a reboot. Images of other kernels are as they were: 'update-initramfs -u -k all', \
         'dracut -f --regenerate-all' or 'mkinitcpio -P' makes all of them."
            .to_owned(),
    );
    desired
}

/// Adds that every image is made anew where something has changed and it may carry that.
pub fn rebuild(ctx: &Ctx<'_>, desired: &mut DesiredState) {
    if !may_carry(ctx) {
        return;
    }
    let Some(builder) = tool(ctx) else {
        desired.warnings.push(
            "No program that builds an initramfs is there (update-initramfs, dracut, mkinitcpio): if this machine boots \
             with one, build it again, since it may carry a copy of modprobe.d."
                .to_owned(),
        );
        return;
    };
    desired.desired_change(
        "The initramfs, which has a copy of modprobe.d, is made anew.",
        ChangeTarget::Run(Operation::RebuildInitramfs { builder }),
    );
}

/// Whether an image may hold a copy of what changes: where it was read, whether it has any of it.
fn may_carry(ctx: &Ctx<'_>) -> bool {
    match &ctx.facts.modprobe.initramfs {
        Some(Fact::Known(Some(image))) => {
            image.failure.is_some() || !image.modules.is_empty() || !image.directives.is_empty()
        }
        Some(Fact::Known(None)) => false,
        Some(Fact::Unknown(_)) | None => true,
    }
}

/// The program that makes the image, by its name where several are there.
fn tool(ctx: &Ctx<'_>) -> Option<InitramfsBuilder> {
    let is_there = |name: &str| matches!(ctx.facts.tools.get(name), Some(Fact::Known(Some(_))));
    let arch = match &ctx.facts.modprobe.initramfs {
        Some(Fact::Known(Some(image))) => image.path.contains("/initramfs-linux"),
        _ => false,
    };
    let order = match arch {
        true => ["mkinitcpio", "dracut", "update-initramfs"],
        false => ["update-initramfs", "dracut", "mkinitcpio"],
    };
    let found = order.into_iter().find(|name| is_there(name))?;
    Some(match found {
        "update-initramfs" => InitramfsBuilder::UpdateInitramfs,
        "dracut" => InitramfsBuilder::Dracut,
        _ => InitramfsBuilder::Mkinitcpio,
    })
}

/// How one image is built; `None` where its name does not say the kernel that update-initramfs asks for.
fn one(builder: InitramfsBuilder, path: &str) -> Option<ImageBuild> {
    let release = match builder {
        InitramfsBuilder::UpdateInitramfs => {
            let name = path.rsplit('/').next()?;
            Some(name.strip_prefix("initrd.img-")?.try_into().ok()?)
        }
        InitramfsBuilder::Dracut | InitramfsBuilder::Mkinitcpio => None,
    };
    Some(ImageBuild {
        path: path.try_into().ok()?,
        builder,
        release,
    })
}
