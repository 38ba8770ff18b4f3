//! param.drift: the options as loaded, as configured for the next load, and in the initramfs.

use std::collections::BTreeMap;

use super::PARAMS;
use super::next::{self, Value, place, same};
use crate::check::{Check, Ctx, Hint, Judgement, Source};
use crate::kmod::{Load, nvidia};
use crate::model::{ActionClass, Area, Fact, Initramfs, Severity};

const DRIVER: &str = "driver";
const IMAGE: &str = "initramfs";

pub const CHECK: Check = Check {
    id: "param.drift",
    rule: "The loaded driver, modprobe.d with the kernel's command line, and the initramfs have the same options.",
    sources: "/proc/driver/nvidia/params, modprobe.d, /proc/cmdline, the initramfs of the running kernel",
    severity: Severity::Warn,
    why: "A parameter takes effect when the driver is loaded. Later changes to files are not in effect, values set by \
        hand are lost after a reboot, and an initramfs that contains the driver loads it with the options from the day \
        it was built.",
    remedy: "Write the options into one file of /etc/modprobe.d, rebuild the initramfs (update-initramfs -u, \
        dracut -f, mkinitcpio -P), and reboot or reload the driver.",
    action: ActionClass::Reboot.drained("https://man7.org/linux/man-pages/man5/modprobe.d.5.html"),
    references: &[
        "https://man7.org/linux/man-pages/man5/modprobe.d.5.html",
        "docs: Linux, filesystems/ramfs-rootfs-initramfs, driver-api/early-userspace/buffer-format",
        "https://github.com/kmod-project/kmod",
    ],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "Options of the NVIDIA module are written and not in effect.",
        words: "parameter=4 blacklist=2 missing=1 failure=1",
    }),
    judge: drift,
    ..Check::DEFAULT
};

/// Compares the loaded driver and the initramfs with modprobe.d.
fn drift(ctx: &Ctx<'_>) -> Vec<Judgement> {
    // If an option may be set, the initramfs may have another.
    let config = match next::config(ctx, "driver, initramfs") {
        Ok(config) => config,
        Err(unknown) => return vec![*unknown],
    };
    let load = config.load(nvidia::MODULE);
    let image = image(ctx, &load);
    let loaded = loaded(ctx, &load);
    [Some(loaded), image].into_iter().flatten().collect()
}

/// A parameter that differs between two copies.
struct Difference<'a> {
    name: String,
    one: String,
    other: Option<Value<'a>>,
}

fn loaded(ctx: &Ctx<'_>, load: &Load<'_>) -> Judgement {
    let params = match &ctx.facts.driver.params {
        Fact::Known(Some(params)) => params,
        Fact::Known(None) => {
            return Judgement::skip(
                DRIVER,
                "The NVIDIA driver is not loaded: there is nothing to compare.",
            );
        }
        Fact::Unknown(why) => return Judgement::unknown(DRIVER, *why, Area::Proc, PARAMS),
    };
    let values = next::values(load);
    let differences = differences(params, &values);
    if differences.is_empty() {
        let message = match values.len() {
            0 => {
                "The driver has its defaults, and nothing changes them at the next load.".to_owned()
            }
            count => format!("The driver has what its next load will use: {}.", parameters(count)),
        };
        let judgement = Judgement::pass(DRIVER, message);
        return evidence_of_values(judgement.evidence(PARAMS, "as set"), &values);
    }
    let first = &differences[0];
    let message = format!(
        "Next load has other parameters: the loaded driver has {}, and the next load will use {}{}{}.",
        shown(&first.name, &first.one),
        wanted(first),
        more(differences.len()),
        if is_from_image(ctx, params) {
            ": it was loaded from the initramfs, which contains another copy"
        } else {
            ""
        }
    );
    let keep: Vec<String> = differences
        .iter()
        .map(|found| format!("{}=\"{}\"", nvidia::set_as(&found.name), found.one))
        .collect();
    let advice = format!(
        "To apply the files, reboot, or unload and load the driver (nvidia_uvm, nvidia_drm, nvidia_modeset, nvidia); \
         to keep the loaded values, write 'options nvidia {}' to a file of /etc/modprobe.d.",
        keep.join(" ")
    );
    evidence(Judgement::broken(DRIVER, message), PARAMS, &differences).advice(advice)
}

/// Differences between the loaded driver and the next load, with its defaults.
fn differences<'a>(
    params: &BTreeMap<String, String>,
    values: &BTreeMap<String, Value<'a>>,
) -> Vec<Difference<'a>> {
    let set = values.iter().filter_map(|(name, value)| {
        let one = params.get(name).filter(|one| !same(name, one, &value.text))?;
        Some((name.as_str(), one, Some(value.clone())))
    });
    let left = nvidia::DEFAULTS.iter().filter_map(|(name, default)| {
        let one = params.get(*name).filter(|one| !same(name, one, default))?;
        (!values.contains_key(*name)).then_some((*name, one, None))
    });
    set.chain(left)
        .map(|(name, one, other)| Difference { name: name.to_owned(), one: one.clone(), other })
        .collect()
}

/// True if the loaded driver has the options in the initramfs.
fn is_from_image(ctx: &Ctx<'_>, params: &BTreeMap<String, String>) -> bool {
    let Some(Fact::Known(Some(image))) = &ctx.facts.modprobe.initramfs else {
        return false;
    };
    let config = next::config_of(ctx, image);
    contains_driver(image)
        && differences(params, &next::values(&config.load(nvidia::MODULE))).is_empty()
}

/// Compares the initramfs with the next load; `None` if it was not read.
fn image(ctx: &Ctx<'_>, load: &Load<'_>) -> Option<Judgement> {
    let image = match ctx.facts.modprobe.initramfs.as_ref()? {
        Fact::Known(Some(image)) => image,
        Fact::Known(None) => {
            return Some(Judgement::skip(
                IMAGE,
                "There is no initramfs of the running kernel in /boot or on the EFI system partition.",
            ));
        }
        Fact::Unknown(why) => return Some(next::unread(IMAGE, *why)),
    };
    let packing = format!("packed with {}", image.packing.join(", "));
    if let Some(failure) = &image.failure {
        let message = format!("cannot determine the contents of {}: {failure}", image.path);
        let judgement = Judgement::undetermined(IMAGE, message).evidence(&image.path, packing);
        return Some(
            judgement.needs(format!("its list: lsinitramfs -l {0}, or lsinitrd {0}", image.path)),
        );
    }
    if !contains_driver(image) {
        let judgement = Judgement::pass(
            IMAGE,
            "The initramfs contains no NVIDIA module: the driver is loaded later, with the options on disk.",
        );
        return Some(judgement.evidence(&image.path, format!("no nvidia.ko; {packing}")));
    }
    Some(compare_image(ctx, image, load))
}

/// True if the image has the nvidia module itself, whatever name the distribution gives it.
fn contains_driver(image: &Initramfs) -> bool {
    image.modules.iter().any(|path| {
        let name =
            path.rsplit('/').next().unwrap_or_default().split(".ko").next().unwrap_or_default();
        let name = name.replace('-', "_");
        ["_uvm", "_drm", "_modeset", "_peermem", "_fs"].iter().all(|suffix| !name.ends_with(suffix))
    })
}

fn compare_image(ctx: &Ctx<'_>, image: &Initramfs, load: &Load<'_>) -> Judgement {
    let config = next::config_of(ctx, image);
    let (there, here) = (next::values(&config.load(nvidia::MODULE)), next::values(load));
    let text = |values: &BTreeMap<String, Value<'_>>, name: &str| {
        values.get(name).map(|value| value.text.clone())
    };
    let default = |name: &str| {
        nvidia::DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    };
    let names: std::collections::BTreeSet<&String> = there.keys().chain(here.keys()).collect();
    let differences: Vec<Difference<'_>> = names
        .into_iter()
        .filter_map(|name| {
            let (one, other) = (text(&there, name), text(&here, name));
            let or_default =
                |text: &Option<String>| text.as_deref().or(default(name)).map(str::to_owned);
            let alike = match (or_default(&one), or_default(&other)) {
                (Some(one), Some(other)) => same(name, &one, &other),
                (one, other) => one == other,
            };
            (!alike).then(|| Difference {
                name: name.clone(),
                one: or_default(&one).unwrap_or_else(|| "its default".to_owned()),
                other: here.get(name).cloned(),
            })
        })
        .collect();
    let module = image.modules.first().map_or("", String::as_str);
    let Some(first) = differences.first() else {
        let judgement = Judgement::pass(
            IMAGE,
            format!(
                "The initramfs contains the driver with the same options: {}.",
                parameters(here.len())
            ),
        );
        return judgement.evidence(&image.path, module);
    };
    let message = format!(
        "Initramfs and modprobe.d differ: the next boot loads the initramfs's driver with {}, modprobe.d has {}{}, and the \
         initramfs wins.",
        shown(&first.name, &first.one),
        wanted(first),
        more(differences.len()),
    );
    let judgement = Judgement::broken(IMAGE, message).evidence(&image.path, module);
    evidence(judgement, &image.path, &differences).fix("initramfs").command(rebuild(&image.path))
}

/// The command that rebuilds the image, by the file name that each distribution uses.
fn rebuild(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.strip_prefix("initrd.img-") {
        Some(release) => format!("update-initramfs -u -k {release}"),
        None if name.starts_with("initramfs-linux") || name == "arch-linux.efi" => {
            "mkinitcpio -P".to_owned()
        }
        None if name.ends_with(".efi") || (name == "initrd" && !path.starts_with("/usr/")) => {
            "kernel-install add \"$(uname -r)\" \"/usr/lib/modules/$(uname -r)/vmlinuz\"".to_owned()
        }
        None => format!("dracut -f {path}"),
    }
}

fn evidence(judgement: Judgement, source: &str, differences: &[Difference<'_>]) -> Judgement {
    const MAX: usize = 8;
    differences.iter().take(MAX).fold(judgement, |judgement, found| {
        let judgement = judgement.evidence(format!("{source}: {}", found.name), &found.one);
        match &found.other {
            Some(value) => judgement.evidence(place(value.from), shown(&found.name, &value.text)),
            None => judgement
                .evidence(next::MODPROBE, format!("nothing sets {}", nvidia::set_as(&found.name))),
        }
    })
}

fn evidence_of_values(judgement: Judgement, values: &BTreeMap<String, Value<'_>>) -> Judgement {
    const MAX: usize = 8;
    if values.is_empty() {
        return judgement.evidence(next::MODPROBE, "no options for nvidia");
    }
    values.iter().take(MAX).fold(judgement, |judgement, (name, value)| {
        judgement.evidence(place(value.from), shown(name, &value.text))
    })
}

fn wanted(found: &Difference<'_>) -> String {
    match &found.other {
        Some(value) => format!("{} ({})", shown(&found.name, &value.text), place(value.from)),
        None => "its default, which nothing changes".to_owned(),
    }
}

/// A parameter and its value, text in quotes.
fn shown(name: &str, value: &str) -> String {
    match crate::kmod::unsigned(value) {
        Some(_) => format!("{name}={value}"),
        None if value == "its default" => format!("the default of {name}"),
        None => format!("{name}=\"{value}\""),
    }
}

fn more(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        2 => ", and one more differs".to_owned(),
        count => format!(", and {} more differ", count - 1),
    }
}

fn parameters(count: usize) -> String {
    match count {
        1 => "1 parameter".to_owned(),
        count => format!("{count} parameters"),
    }
}

#[cfg(test)]
mod tests;
