//! param.drift: what is loaded, what the next load will use, and what the initramfs carries are three copies.

use std::collections::BTreeMap;

use super::PARAMS;
use super::next::{self, Value, place, same};
use crate::check::{Ctx, Judgement};
use crate::kmod::{Load, nvidia};
use crate::model::{Fact, Initramfs};

const DRIVER: &str = "driver";
const IMAGE: &str = "initramfs";

/// The loaded driver against modprobe.d, and the initramfs against modprobe.d.
pub fn drift(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let config = match next::config(ctx, DRIVER) {
        Ok(config) => config,
        Err(unknown) => return vec![*unknown],
    };
    let load = config.load(nvidia::MODULE);
    let image = image(ctx, &load);
    let loaded = loaded(ctx, &load);
    [Some(loaded), image].into_iter().flatten().collect()
}

/// A difference: a parameter, what one copy has and what the other.
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
                "The NVIDIA driver is not loaded: there is one copy alone.",
            );
        }
        Fact::Unknown(why) => return Judgement::unknown(DRIVER, *why, PARAMS),
    };
    let values = next::values(load);
    let differences = differences(params, &values);
    if differences.is_empty() {
        let message = match values.len() {
            0 => "The driver has its defaults, and nothing sets them otherwise at the next load."
                .to_owned(),
            count => format!(
                "The driver has what its next load will use: {}.",
                parameters(count)
            ),
        };
        let judgement = Judgement::pass(DRIVER, message);
        return evidence_of_values(judgement.evidence(PARAMS, "as set"), &values);
    }
    let first = &differences[0];
    let message = format!(
        "The loaded driver has {}, and the next load will use {}{}{}.",
        shown(&first.name, &first.one),
        wanted(first),
        more(differences.len()),
        match is_from_the_image(ctx, params) {
            true => ": it was loaded from the initramfs, which carries another copy",
            false => "",
        }
    );
    let keep: Vec<String> = differences
        .iter()
        .map(|found| format!("{}=\"{}\"", nvidia::set_as(&found.name), found.one))
        .collect();
    let advice = format!(
        "To have what is written, reboot, or unload and load the driver (nvidia_uvm, nvidia_drm, nvidia_modeset, nvidia); \
         to keep what is loaded, write 'options nvidia {}' to a file of /etc/modprobe.d.",
        keep.join(" ")
    );
    evidence(Judgement::broken(DRIVER, message), PARAMS, &differences).advice(advice)
}

/// What differs between the loaded driver and the next load: what that sets, and what it leaves at its default.
fn differences<'a>(
    params: &BTreeMap<String, String>,
    values: &BTreeMap<String, Value<'a>>,
) -> Vec<Difference<'a>> {
    let set = values.iter().filter_map(|(name, value)| {
        let one = params
            .get(name)
            .filter(|one| !same(name, one, &value.text))?;
        Some((name.as_str(), one, Some(value.clone())))
    });
    let left = nvidia::DEFAULTS.iter().filter_map(|(name, default)| {
        let one = params.get(*name).filter(|one| !same(name, one, default))?;
        (!values.contains_key(*name)).then_some((*name, one, None))
    });
    set.chain(left)
        .map(|(name, one, other)| Difference {
            name: name.to_owned(),
            one: one.clone(),
            other,
        })
        .collect()
}

/// Whether the loaded driver has what the initramfs carries.
fn is_from_the_image(ctx: &Ctx<'_>, params: &BTreeMap<String, String>) -> bool {
    let Some(Fact::Known(Some(image))) = &ctx.facts.modprobe.initramfs else {
        return false;
    };
    let config = next::config_of(ctx, image);
    carries(image) && differences(params, &next::values(&config.load(nvidia::MODULE))).is_empty()
}

/// The image against the next load; none where no option is set that it could carry.
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
        let message = format!("cannot determine what {} carries: {failure}", image.path);
        let judgement = Judgement::undetermined(IMAGE, message).evidence(&image.path, packing);
        return Some(judgement.needs(format!(
            "its list: lsinitramfs -l {0}, or lsinitrd {0}",
            image.path
        )));
    }
    if !carries(image) {
        let judgement = Judgement::pass(
            IMAGE,
            "The initramfs carries no NVIDIA module: the driver is loaded later, with the options of the disk.",
        );
        return Some(judgement.evidence(&image.path, format!("no nvidia.ko; {packing}")));
    }
    Some(carried(ctx, image, load))
}

/// The module itself, under whatever name the distribution gives it, not those beside it.
fn carries(image: &Initramfs) -> bool {
    image.modules.iter().any(|path| {
        let name = path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .split(".ko")
            .next()
            .unwrap_or_default();
        let name = name.replace('-', "_");
        ["_uvm", "_drm", "_modeset", "_peermem", "_fs"]
            .iter()
            .all(|beside| !name.ends_with(beside))
    })
}

fn carried(ctx: &Ctx<'_>, image: &Initramfs, load: &Load<'_>) -> Judgement {
    let config = next::config_of(ctx, image);
    let (there, here) = (
        next::values(&config.load(nvidia::MODULE)),
        next::values(load),
    );
    let text = |values: &BTreeMap<String, Value<'_>>, name: &str| {
        values.get(name).map(|value| value.text.clone())
    };
    let default = |name: &str| {
        nvidia::DEFAULTS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
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
                "The initramfs carries the driver, and the same options for it: {}.",
                parameters(here.len())
            ),
        );
        return judgement.evidence(&image.path, module);
    };
    let message = format!(
        "The initramfs carries the driver and loads it with {} at the next boot, where modprobe.d says {}{}: the \
         initramfs wins.",
        shown(&first.name, &first.one),
        wanted(first),
        more(differences.len()),
    );
    let judgement = Judgement::broken(IMAGE, message).evidence(&image.path, module);
    evidence(judgement, &image.path, &differences)
        .fix("initramfs")
        .command(rebuild(&image.path))
}

/// The command that makes the image anew, by the name that its distribution gives it.
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
    const MOST: usize = 8;
    differences
        .iter()
        .take(MOST)
        .fold(judgement, |judgement, found| {
            let judgement = judgement.evidence(format!("{source}: {}", found.name), &found.one);
            match &found.other {
                Some(value) => {
                    judgement.evidence(place(value.from), shown(&found.name, &value.text))
                }
                None => judgement.evidence(
                    next::MODPROBE,
                    format!("nothing sets {}", nvidia::set_as(&found.name)),
                ),
            }
        })
}

fn evidence_of_values(judgement: Judgement, values: &BTreeMap<String, Value<'_>>) -> Judgement {
    const MOST: usize = 8;
    if values.is_empty() {
        return judgement.evidence(next::MODPROBE, "no options for nvidia");
    }
    values
        .iter()
        .take(MOST)
        .fold(judgement, |judgement, (name, value)| {
            judgement.evidence(place(value.from), shown(name, &value.text))
        })
}

fn wanted(found: &Difference<'_>) -> String {
    match &found.other {
        Some(value) => format!(
            "{} ({})",
            shown(&found.name, &value.text),
            place(value.from)
        ),
        None => "its default, which nothing sets otherwise".to_owned(),
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
