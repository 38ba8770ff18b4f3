//! Options that do not reach the driver: overridden, misspelt, or written for another module name.

use super::{DRIVER, for_device, shown};
use crate::check::param::next::{self, place};
use crate::check::param::registry_keys as keys;
use crate::check::{Ctx, Judgement};
use crate::kmod::{self, Config, Load, nvidia};
use crate::model::Order as _;
use crate::model::{Command, Directive};

pub(super) fn all(ctx: &Ctx<'_>, config: &Config<'_>, load: &Load<'_>) -> Vec<Judgement> {
    let mut found = Vec::new();
    for name in ["RegistryDwords", "RegistryDwordsPerDevice"] {
        found.extend(overridden(load, name));
    }
    found.extend(dropped(load));
    found.extend(without_effect(config, load));
    found.extend(lost_for_devices(ctx, config, load));
    found.extend(unknown_names(ctx, config));
    found
}

/// The strings that set one parameter, in order, each with its directive.
fn strings<'a>(load: &Load<'a>, name: &str) -> Vec<(String, &'a Directive)> {
    let full = nvidia::set_as(name);
    next::set(load)
        .into_iter()
        .filter(|(set, _, _)| *set == full)
        .map(|(_, text, from)| (text, from))
        .collect()
}

/// Registry keys of earlier strings that are missing from the last one, which alone counts.
fn overridden(load: &Load<'_>, name: &str) -> Option<Judgement> {
    let strings = strings(load, name);
    let ((last, by), earlier) = strings.split_last()?;
    let kept = keys::effect(last);
    let mut lost = Vec::new();
    for (text, from) in earlier {
        let tokens =
            keys::tokens(text).filter(|(key, _)| !kept.contains_key(&key.to_ascii_lowercase()));
        lost.extend(tokens.map(|(key, value)| (key, value, *from)));
    }
    let (key, value, from) = lost.first()?;
    let full = nvidia::set_as(name);
    let message = format!(
        "{full} is set {} times and the last one counts ({}): {key}={value} of {} is lost{}.",
        strings.len(),
        place(by),
        place(from),
        match lost.len() {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        }
    );
    let merged = keys::joined(last, earlier.iter().map(|(text, _)| text.as_str()));
    let judgement =
        strings.iter().fold(Judgement::broken(DRIVER, message), |judgement, (text, from)| {
            judgement.evidence(place(from), format!("{full}=\"{text}\""))
        });
    Some(judgement.fix("modprobe").advice(format!(
        "Replace them with one line: options nvidia {full}=\"{merged}\"; then rebuild the initramfs."
    )))
}

/// Tokens that the driver ignores silently.
fn dropped(load: &Load<'_>) -> Option<Judgement> {
    let strings = strings(load, "RegistryDwords");
    let (text, from) = strings.last()?;
    let dropped = keys::dropped(text);
    let first = dropped.first()?;
    let message = format!(
        "Ignored in NVreg_RegistryDwords: '{first}'. A setting is a key, one '=' and a value, and ';' \
         separates settings."
    );
    let judgement = Judgement::broken(DRIVER, message).evidence(place(from), text);
    Some(judgement.fix("modprobe").advice(format!(
        "Write it as \"Key=Value;Key=Value;\" in {}, then rebuild the initramfs.",
        from.source
    )))
}

/// Driver options for a module name that modprobe does not load.
pub fn unreached<'a>(config: &Config<'a>, load: &Load<'a>) -> Vec<&'a Directive> {
    let of_driver = |found: &&Directive| match &found.command {
        Command::Options { module, options } => {
            module.starts_with(nvidia::MODULE)
                && kmod::parameters(options).iter().any(|set| set.name.starts_with(nvidia::PREFIX))
        }
        _ => false,
    };
    let is_lost = |found: &&Directive| !load.options.contains(found);
    config.iter().filter(of_driver).filter(is_lost).collect()
}

fn without_effect(config: &Config<'_>, load: &Load<'_>) -> Vec<Judgement> {
    unreached(config, load)
        .into_iter()
        .map(|found| {
            let name = module_of(found);
            let message = format!(
                "Options for {name} have no effect: modprobe nvidia loads {}{}.",
                load.module,
                match load.by.first() {
                    Some(by) => format!(" ({})", place(by)),
                    None => String::new(),
                }
            );
            Judgement::broken(DRIVER, message)
                .evidence(place(found), shown(found))
                .fix("modprobe")
                .advice(format!("Write them for {} in {}.", load.module, found.source))
        })
        .collect()
}

/// Options that `modprobe nvidia` applies but udev, which loads the module by the GPU's alias, does not.
fn lost_for_devices(ctx: &Ctx<'_>, config: &Config<'_>, load: &Load<'_>) -> Option<Judgement> {
    if load.module == nvidia::MODULE || load.refused.is_some() {
        return None;
    }
    let by_device = for_device(ctx, config, load)?;
    // The last value of each parameter counts, for both.
    let (here, there) = (next::last(load), next::last(&by_device));
    let reaches = |name: &str, text: &str| {
        let shown = nvidia::shown_as(name).unwrap_or(name);
        there.get(name).is_some_and(|(to, _)| next::same(shown, to, text))
    };
    let mut lost: Vec<&Directive> = here
        .iter()
        .filter(|(name, (text, _))| !reaches(name, text))
        .map(|(_, (_, from))| *from)
        .collect();
    lost.order_by_key(|found| (&found.source, found.line));
    lost.dedup();
    let first = lost.first()?;
    let message = format!(
        "Options for {} reach the driver only by modprobe nvidia: udev loads {} by the GPU's alias, without them.",
        module_of(first),
        load.module
    );
    let judgement = lost.iter().fold(Judgement::broken(DRIVER, message), |judgement, found| {
        judgement.evidence(place(found), shown(found))
    });
    let both = match &first.command {
        Command::Options { options, .. } => {
            format!("options {} {}", load.module.replace('_', "-"), options.trim())
        }
        _ => String::new(),
    };
    Some(judgement.fix("modprobe").advice(format!(
        "Write them for both names: add the line '{both}' next to the existing one, then rebuild the initramfs."
    )))
}

/// An unknown parameter in an options line.
pub struct Misspelt<'a> {
    pub directive: &'a Directive,
    /// The parameter as written.
    pub name: String,
    /// The most similar parameter.
    pub meant: Option<String>,
}

/// Parameters that no driver has. The kernel only logs them and loads the module without them.
pub fn misspelt<'a>(ctx: &Ctx<'_>, config: &Config<'a>) -> Vec<Misspelt<'a>> {
    let params = ctx.facts.driver.params.present();
    let shown = || params.into_iter().flat_map(|params| params.keys().map(String::as_str));
    let of_driver = |found: &&Directive| {
        let module = module_of(found);
        module == nvidia::MODULE || module == "nvidia_current"
    };
    let mut all = Vec::new();
    for directive in config.iter().filter(of_driver) {
        let Command::Options { options, .. } = &directive.command else {
            continue;
        };
        for set in kmod::parameters(options) {
            if !nvidia::is_known(&set.name, shown()) {
                all.push(Misspelt {
                    directive,
                    meant: nvidia::nearest(&set.name, shown()),
                    name: set.name,
                });
            }
        }
    }
    all
}

fn unknown_names(ctx: &Ctx<'_>, config: &Config<'_>) -> Vec<Judgement> {
    misspelt(ctx, config)
        .into_iter()
        .map(|found| {
            let Misspelt { directive, name, meant } = found;
            let judgement = match meant {
                Some(meant) => Judgement::broken(
                    DRIVER,
                    format!("No parameter {name} in the driver, and the kernel ignores it: {meant} may be meant."),
                )
                .fix("modprobe")
                .advice(format!("Replace {name} with {meant} in {}.", directive.source)),
                // A driver newer than this list may have it.
                None => Judgement::info(
                    DRIVER,
                    format!(
                        "No driver that gdr knows has a parameter {name}: if the loaded driver has none, the kernel \
                         ignores it."
                    ),
                ),
            };
            judgement.evidence(place(directive), shown(directive))
        })
        .collect()
}

fn module_of(directive: &Directive) -> &str {
    match &directive.command {
        Command::Options { module, .. } => module,
        _ => "",
    }
}
