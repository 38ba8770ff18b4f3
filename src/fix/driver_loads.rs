//! The loads of the driver, by `modprobe nvidia` and by udev through the GPU's alias, with the options
//! of each. Pure.

use std::collections::BTreeMap;

use super::desired::NoChange;
use crate::check::{Ctx, ground};
use crate::kmod::edit::word;
use crate::kmod::{Config, Load, Parameter, nvidia};
use crate::model::{Command, Directive};

/// Registry keys for all GPUs.
pub const DWORDS: &str = "NVreg_RegistryDwords";
/// Registry keys for single GPUs.
pub const DWORDS_PER_DEVICE: &str = "NVreg_RegistryDwordsPerDevice";

pub struct DriverLoads<'a> {
    /// modprobe.d and the kernel command line.
    pub config: Config<'a>,
    /// `modprobe nvidia`.
    pub load: Load<'a>,
    /// The load by udev; `None` if no GPU's PCI ids are known.
    pub by_device: Option<Load<'a>>,
    /// The module names for which options reach the driver, as modprobe.d spells them.
    pub names: Vec<String>,
}

impl<'a> DriverLoads<'a> {
    /// The loads on this machine, or why they are unknown.
    pub fn of(ctx: &'a Ctx<'_>) -> Result<Self, NoChange> {
        match ground::next::config(ctx, "driver") {
            Ok(config) => Ok(Self::with(ctx, config)),
            Err(unknown) => Err(NoChange::from(unknown.as_ref())),
        }
    }

    /// The loads without these directives.
    pub fn without(&self, ctx: &Ctx<'_>, out: &[&Directive]) -> Self {
        let left = self.config.iter().filter(|found| !out.contains(found));
        Self::with(ctx, Config::new(left))
    }

    fn with(ctx: &Ctx<'_>, config: Config<'a>) -> Self {
        let load = config.load(nvidia::MODULE);
        // A GPU assigned to a guest may use another driver.
        let by_device =
            ground::for_device(ctx, &config, &load).filter(|load| is_driver(&load.module));
        let mut names = Vec::new();
        let ends = [Some(&load), by_device.as_ref()].into_iter().flatten();
        let ends = ends.map(|load| load.module.as_str()).filter(|name| is_driver(name));
        for name in std::iter::once(nvidia::MODULE).chain(ends) {
            let name = name.replace('_', "-");
            if !names.contains(&name) && reaches(ctx, &config, &name) {
                names.push(name);
            }
        }
        Self { config, load, by_device, names }
    }

    /// Per load, `modprobe nvidia` first: the last value of each parameter and its directive.
    pub fn last(&self) -> Vec<BTreeMap<String, (String, &'a Directive)>> {
        let loads = [Some(&self.load), self.by_device.as_ref()];
        loads.into_iter().flatten().map(ground::next::last).collect()
    }

    /// True if the predicate holds for the parameter's value in every load.
    pub fn all(&self, parameter: &str, is: impl Fn(&str) -> bool) -> bool {
        let driver_loads = self.last();
        driver_loads.iter().all(|last| is(last.get(parameter).map_or("", |(text, _)| text)))
    }

    /// The parameter's value in `modprobe nvidia`.
    pub fn value(&self, parameter: &str) -> Option<String> {
        ground::next::last(&self.load).remove(parameter).map(|(text, _)| text)
    }

    /// The registry keys of all loads merged; those of `modprobe nvidia` win.
    pub fn dwords(&self) -> String {
        let texts: Vec<String> = self
            .last()
            .into_iter()
            .map(|mut last| last.remove(DWORDS).map(|(text, _)| text).unwrap_or_default())
            .collect();
        match texts.split_first() {
            Some((first, rest)) => {
                ground::registry_keys::joined(first, rest.iter().map(String::as_str))
            }
            None => String::new(),
        }
    }

    /// The parameter's value in `modprobe nvidia`, if the kernel command line sets it.
    pub fn on_command_line(&self, parameter: &str) -> Option<(String, &'a Directive)> {
        let last = ground::next::last(&self.load).remove(parameter);
        last.filter(|(_, from)| from.line == 0)
    }
}

/// True if the module is the driver, under any distribution's name.
fn is_driver(module: &str) -> bool {
    module.starts_with(nvidia::MODULE)
}

/// True if options for this name reach the driver in some load.
fn reaches(ctx: &Ctx<'_>, config: &Config<'_>, name: &str) -> bool {
    let probe = Directive {
        source: String::new(),
        line: 1,
        command: Command::Options {
            module: name.replace('-', "_"),
            options: nvidia::PREFIX.to_owned(),
        },
    };
    let config = Config::new(config.iter().chain([&probe]));
    let load = config.load(nvidia::MODULE);
    let by_device = ground::for_device(ctx, &config, &load);
    let mut loads = std::iter::once(load).chain(by_device);
    loads.any(|load| load.options.iter().any(|found| std::ptr::eq(*found, &raw const probe)))
}

/// Advice to change a parameter on the kernel command line, which modprobe.d cannot override.
pub fn change_word(from: &Directive, parameter: &str, value: &str) -> String {
    let module = match &from.command {
        Command::Options { module, .. } => module.as_str(),
        _ => nvidia::MODULE,
    };
    let set = Parameter { name: parameter.to_owned(), value: Some(value.to_owned()) };
    format!(
        "The kernel command line has {}, which modprobe.d cannot override: change it to {module}.{} (GRUB_CMDLINE_LINUX in \
         /etc/default/grub, then update-grub or grub2-mkconfig; or grubby), and reboot.",
        ground::shown(from),
        word(&set)
    )
}
