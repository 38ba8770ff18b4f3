//! initramfs: rebuilds the image of the running kernel, so that its copy of modprobe.d matches the disk.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange};
use crate::check::Ctx;
use crate::model::{Fact, ImageBuild, InitramfsBuilder, Operation};

pub const FIX: Fix = Fix {
    id: "initramfs",
    about: "The initramfs has the driver options of the present modprobe.d.",
    checks: &["param.drift"],
    requires: &[],
    desired,
};

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let mut desired = DesiredState::default();
    if request.findings.is_empty() {
        return desired;
    }
    let image = match &request.ctx.facts.modprobe.initramfs {
        Some(Fact::Known(Some(image))) => image,
        Some(Fact::Unknown(why)) => {
            return DesiredState::none(NoChange::unread("the initramfs in /boot", *why));
        }
        Some(Fact::Known(None)) | None => {
            return DesiredState::refused("There is no initramfs of the running kernel in /boot.");
        }
    };
    let path = &image.path;
    let Some(build) = tool(request.ctx).and_then(|builder| one(builder, path)) else {
        return DesiredState::refused(format!(
            "No program that builds {path} is installed (update-initramfs, dracut, mkinitcpio). Rebuild it with this \
             distribution's tool."
        ));
    };
    let build_all = build.builder == InitramfsBuilder::Mkinitcpio;
    desired.change(
        format!(
            "Rebuild {path} from the files on disk; the present image is kept as {}.",
            build.kept()
        ),
        ChangeTarget::Image(build),
    );
    desired.warnings.push(format!(
        "{path}.gdr-old takes as much space in /boot as the image: remove it after the next boot."
    ));
    if build_all {
        desired.warnings.push(format!(
            "mkinitcpio builds the images of all presets; an undo restores {path} alone."
        ));
    }
    desired.afterwards.push(
        "The options take effect after a reboot. Images of other kernels are unchanged: 'update-initramfs -u -k all', 'dracut -f \
         --regenerate-all' or 'mkinitcpio -P' rebuilds all."
            .to_owned(),
    );
    desired
}

/// Adds a rebuild of all images if they may contain what changes.
pub fn rebuild(ctx: &Ctx<'_>, desired: &mut DesiredState) {
    if !may_carry(ctx) {
        return;
    }
    let Some(builder) = tool(ctx) else {
        desired.warnings.push(
            "No program that builds an initramfs is installed (update-initramfs, dracut, mkinitcpio). If this machine uses an \
             initramfs, rebuild it: it may contain a copy of modprobe.d."
                .to_owned(),
        );
        return;
    };
    desired.change(
        "Rebuild the initramfs, which contains a copy of modprobe.d.",
        ChangeTarget::Run(Operation::RebuildInitramfs { builder }),
    );
}

/// True if an image may contain a copy of modprobe.d or of the modules.
fn may_carry(ctx: &Ctx<'_>) -> bool {
    match &ctx.facts.modprobe.initramfs {
        Some(Fact::Known(Some(image))) => {
            image.failure.is_some() || !image.modules.is_empty() || !image.directives.is_empty()
        }
        Some(Fact::Known(None)) => false,
        Some(Fact::Unknown(_)) | None => true,
    }
}

/// The program that builds the image; its name decides if several are installed.
fn tool(ctx: &Ctx<'_>) -> Option<InitramfsBuilder> {
    let is_there = |name: &str| matches!(ctx.facts.tools.get(name), Some(Fact::Known(Some(_))));
    let arch = match &ctx.facts.modprobe.initramfs {
        Some(Fact::Known(Some(image))) => image.path.contains("/initramfs-linux"),
        _ => false,
    };
    let order = if arch {
        ["mkinitcpio", "dracut", "update-initramfs"]
    } else {
        ["update-initramfs", "dracut", "mkinitcpio"]
    };
    let found = order.into_iter().find(|name| is_there(name))?;
    Some(match found {
        "update-initramfs" => InitramfsBuilder::UpdateInitramfs,
        "dracut" => InitramfsBuilder::Dracut,
        _ => InitramfsBuilder::Mkinitcpio,
    })
}

/// The build of one image; `None` if update-initramfs is used and the name does not give the kernel.
fn one(builder: InitramfsBuilder, path: &str) -> Option<ImageBuild> {
    let release = match builder {
        InitramfsBuilder::UpdateInitramfs => {
            let name = path.rsplit('/').next()?;
            Some(name.strip_prefix("initrd.img-")?.try_into().ok()?)
        }
        InitramfsBuilder::Dracut | InitramfsBuilder::Mkinitcpio => None,
    };
    Some(ImageBuild { path: path.try_into().ok()?, builder, release })
}
