//! initramfs: the image of the running kernel is made anew, so that what it carries of modprobe.d is what the disk says.

use super::draft::{Draft, Fix, Need, Want};
use crate::check::Ctx;
use crate::model::{Fact, Reversal};

/// The fix.
pub const FIX: Fix = Fix {
    id: "initramfs",
    about: "The initramfs carries the driver with the options that modprobe.d has now.",
    draft,
};

/// Keeps the image that is there; a copy that was cut short is never taken for it.
const KEEP: &str = "rm -f \"$1.gdr-sum\"; cp -p \"$1\" \"$1.gdr-part\" && mv -f \"$1.gdr-part\" \"$1.gdr-old\"";
/// Writes down what was made, so that an undo takes no later image for it.
const SUM: &str = "sha256sum < \"$1\" > \"$1.gdr-sum\"";
/// Puts the old image back where the present one is what was made, or half of it; made again, it does nothing.
const PUT_BACK: &str = "rm -f \"$1.gdr-part\"; [ -e \"$1.gdr-old\" ] || { rm -f \"$1.gdr-sum\"; exit 0; }; \
    if [ -e \"$1.gdr-sum\" ] && [ \"$(sha256sum < \"$1\")\" != \"$(cat \"$1.gdr-sum\")\" ]; \
    then echo \"$1 was made anew by somebody since: the image before is $1.gdr-old\"; exit 1; fi; \
    mv -f \"$1.gdr-old\" \"$1\" && rm -f \"$1.gdr-sum\"";

fn draft(need: &Need<'_>) -> Draft {
    let mut draft = Draft::default();
    if need.findings.is_empty() {
        return draft;
    }
    let Some(Fact::Known(Some(image))) = &need.ctx.facts.modprobe.initramfs else {
        return Draft::refused("There is no initramfs of the running kernel that gdr could read.");
    };
    let path = &image.path;
    let Some(argv) = tool(need.ctx).and_then(|tool| one(tool, path)) else {
        return Draft::refused(format!(
            "No program is there that makes {path}: neither update-initramfs, nor dracut, nor mkinitcpio. Make it anew by \
             the way of this distribution."
        ));
    };
    let shell = |script: &str| ["sh", "-c", script, "sh", path].map(str::to_owned).to_vec();
    draft.wish(
        format!("The present image is kept as {path}.gdr-old."),
        Want::Command {
            argv: shell(KEEP),
            undo: Reversal::Command(shell(PUT_BACK)),
            follows: false,
            expected: vec![0],
        },
    );
    draft.wish(
        format!("{path} is made anew of the files as they are."),
        Want::Command {
            argv,
            undo: Reversal::Nothing,
            follows: false,
            expected: vec![0],
        },
    );
    draft.wish(
        format!("What was made is written down in {path}.gdr-sum: an undo replaces nothing else."),
        Want::Command {
            argv: shell(SUM),
            undo: Reversal::Nothing,
            follows: false,
            expected: vec![0],
        },
    );
    draft.warnings.push(format!(
        "{path}.gdr-old takes as much of /boot as the image itself: take both files away once the machine has booted."
    ));
    draft.afterwards.push(
        "The options are in effect after a reboot. Images of other kernels are as they were: 'update-initramfs -u -k all', \
         'dracut -f --regenerate-all' or 'mkinitcpio -P' makes all of them."
            .to_owned(),
    );
    draft
}

/// What makes initramfs images on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    UpdateInitramfs,
    Dracut,
    Mkinitcpio,
}

/// Adds that every image is made anew where something has changed and it may carry that.
pub fn rebuild(ctx: &Ctx<'_>, draft: &mut Draft) {
    if !may_carry(ctx) {
        return;
    }
    let argv: &[&str] = match tool(ctx) {
        Some(Tool::UpdateInitramfs) => &["update-initramfs", "-u", "-k", "all"],
        Some(Tool::Dracut) => &["dracut", "-f", "--regenerate-all"],
        Some(Tool::Mkinitcpio) => &["mkinitcpio", "-P"],
        None => {
            draft.warnings.push(
                "No program that makes an initramfs is there (update-initramfs, dracut, mkinitcpio): if this machine boots \
                 with one, make it anew, since it may carry a copy of modprobe.d."
                    .to_owned(),
            );
            return;
        }
    };
    draft.wish(
        "The initramfs, which has a copy of modprobe.d, is made anew.",
        Want::rebuild(argv),
    );
}

/// Whether an image may hold a copy of what changes: where it was read, whether it has any of it.
fn may_carry(ctx: &Ctx<'_>) -> bool {
    match &ctx.facts.modprobe.initramfs {
        Some(Fact::Known(Some(image))) => {
            image.trouble.is_some() || !image.modules.is_empty() || !image.directives.is_empty()
        }
        Some(Fact::Known(None)) => false,
        Some(Fact::Unknown(_)) | None => true,
    }
}

/// The program that makes the image, by its name where several are there.
fn tool(ctx: &Ctx<'_>) -> Option<Tool> {
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
        "update-initramfs" => Tool::UpdateInitramfs,
        "dracut" => Tool::Dracut,
        _ => Tool::Mkinitcpio,
    })
}

/// The command that makes one image; none where its name does not tell the kernel that update-initramfs asks for.
fn one(tool: Tool, path: &str) -> Option<Vec<String>> {
    let release = || path.rsplit('/').next()?.strip_prefix("initrd.img-");
    let argv: Vec<&str> = match tool {
        Tool::UpdateInitramfs => vec!["update-initramfs", "-u", "-k", release()?],
        Tool::Dracut => vec!["dracut", "-f", path],
        Tool::Mkinitcpio => vec!["mkinitcpio", "-P"],
    };
    Some(argv.into_iter().map(str::to_owned).collect())
}
