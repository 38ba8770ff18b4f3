//! param.conflict: lines of modprobe.d and words of the command line that conflict or block modules.

mod options;

use super::next::{self, place};
use crate::check::{Check, Ctx, Hint, Judgement, Source, nics, passthrough, words};
use crate::kmod::{Config, Load, NotLoaded, nvidia};
use crate::model::{ActionClass, Command, Directive, Fact, Severity};

pub use options::{Misspelt, misspelt, unreached};

const DRIVER: &str = "driver";

/// `NEEDED` and `NICS` are required; each module in `LOADS` serves one of several memory paths.
const LOADS: [&str; 3] = ["nvidia_peermem", "nv_peer_mem", "gdrdrv"];
const NEEDED: [&str; 2] = ["nvidia", "nvidia_uvm"];
const NICS: [&str; 4] = ["mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs"];

pub const CHECK: Check = Check {
    id: "param.conflict",
    rule: "No line of modprobe.d and no word of the kernel's command line keeps the modules from loading or their \
        options from reaching them.",
    sources: "modprobe.d, /proc/cmdline, /proc/driver/nvidia/params, /proc/modules",
    severity: Severity::Warn,
    why: "modprobe and the kernel do not report options that never reach the driver: of two NVreg_RegistryDwords \
        the last one counts, a misspelt parameter is ignored, options for a name that is not loaded have no effect, \
        and an install line may run any command.",
    remedy: "Put all registry keys into one NVreg_RegistryDwords, spell parameters as the driver does, write options \
        for the name that is loaded (for both where Debian loads nvidia-current), and remove conflicting \
        lines; then rebuild the initramfs.",
    action: ActionClass::Configure
        .drained("https://man7.org/linux/man-pages/man5/modprobe.d.5.html"),
    references: &[
        "https://man7.org/linux/man-pages/man5/modprobe.d.5.html",
        "docs: Linux, admin-guide/kernel-parameters: module_blacklist",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-reg.h",
    ],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "Options of the NVIDIA module, or a blacklist, contradict each other.",
        words: "blacklist=4 parameter=3 driver=2 missing=2 failure=1",
    }),
    judge: conflict,
    ..Check::DEFAULT
};

fn conflict(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let config = match next::config(ctx, DRIVER) {
        Ok(config) => config,
        Err(unknown) => return vec![*unknown],
    };
    if let Fact::Known(_) = ctx.facts.pci
        && ctx.facts.gpus().next().is_none()
        && !ctx.facts.partial
    {
        return vec![Judgement::skip(DRIVER, "There is no NVIDIA GPU to load a driver for.")];
    }
    let load = config.load(nvidia::MODULE);
    let mut found = errors(ctx, &config);
    found.extend(options::all(ctx, &config, &load));
    found.extend(hidden(ctx));
    if found.iter().all(|found| found.rule == crate::check::Rule::Noted) {
        let count = config.iter().count();
        let message = match count {
            0 => "Neither modprobe.d nor the kernel's command line mentions these modules.".to_owned(),
            _ => "Nothing in modprobe.d or on the kernel's command line blocks these modules or their options.".to_owned(),
        };
        let directories = ctx.facts.modprobe.directories.join(", ");
        found.insert(0, Judgement::pass(DRIVER, message).evidence(directories, lines(count)));
    }
    found
}

fn lines(count: usize) -> String {
    match count {
        1 => "1 line about these modules".to_owned(),
        count => format!("{count} lines about these modules"),
    }
}

/// False if every GPU is passed through.
fn is_wanted(ctx: &Ctx<'_>) -> bool {
    passthrough::own_gpus(ctx.facts).next().is_some()
}

fn is_loaded(ctx: &Ctx<'_>, module: &str) -> bool {
    let listed =
        ctx.facts.kernel.modules.known().into_iter().flatten().any(|loaded| loaded.name == module);
    // Debian's driver goes by another name.
    listed || (module == nvidia::MODULE && ctx.facts.driver.version().present().is_some())
}

/// Modules that cannot be loaded or are not loaded automatically.
fn errors(ctx: &Ctx<'_>, config: &Config<'_>) -> Vec<Judgement> {
    let mut found: Vec<Judgement> = needed(ctx)
        .filter_map(|module| blocked(ctx, config, module).map(|(judgement, _)| judgement))
        .collect();
    for module in LOADS {
        if let Some((judgement, block)) = blocked(ctx, config, module) {
            let optional = Judgement::info(
                judgement.subject.clone(),
                format!("{} Memory paths without this module still work.", judgement.message),
            );
            found.push(optional.evidence(place(block.directive()), shown(block.directive())));
        }
    }
    found
}

/// The modules that this machine needs.
fn needed(ctx: &Ctx<'_>) -> impl Iterator<Item = &'static str> {
    let has_nics = nics::nvidia_nics(ctx.facts).next().is_some();
    let nics = NICS.iter().filter(move |_| has_nics);
    let driver = NEEDED.iter().filter(move |_| is_wanted(ctx));
    driver.chain(nics).copied()
}

/// The needed modules that cannot be loaded, each with the directive that blocks it.
pub fn refused<'a>(ctx: &Ctx<'_>, config: &Config<'a>) -> Vec<(&'static str, NotLoaded<'a>)> {
    let is_broken = |judgement: &Judgement| judgement.rule == crate::check::Rule::Broken;
    needed(ctx)
        .filter_map(|module| {
            let (judgement, block) = blocked(ctx, config, module)?;
            is_broken(&judgement).then_some((module, block))
        })
        .collect()
}

fn blocked<'a>(
    ctx: &Ctx<'_>,
    config: &Config<'a>,
    module: &str,
) -> Option<(Judgement, NotLoaded<'a>)> {
    let load = config.load(module);
    let refused = load.refused.or_else(|| {
        let by_device = ["nvidia", "mlx5_core"].contains(&module);
        config.blacklisted(module).filter(|_| by_device).map(NotLoaded::Blacklist)
    })?;
    let directive = refused.directive();
    let (at, text) = (place(directive), shown(directive));
    let loaded = is_loaded(ctx, module);
    let message = match refused {
        NotLoaded::Install(_) => {
            format!("modprobe runs a command that loads nothing in place of {module}.")
        }
        NotLoaded::Off(_) => {
            format!("modprobe finds no module named {module}: an alias points it to 'off'.")
        }
        NotLoaded::Kernel(_) => format!("Kernel refuses to load {module}."),
        NotLoaded::Blacklist(_) if loaded => {
            format!(
                "{module} is blacklisted, and loaded all the same: a blacklist stops udev, not modprobe by name."
            )
        }
        NotLoaded::Blacklist(_) => {
            format!(
                "{module} is blacklisted and not loaded: udev does not load it at boot; modprobe {module} does."
            )
        }
    };
    let message = match (refused, loaded) {
        (NotLoaded::Blacklist(_), _) | (_, false) => message,
        (_, true) => format!("{message} It is loaded now, but the next load will fail."),
    };
    let judgement = match (refused, loaded) {
        (NotLoaded::Blacklist(_), true) => Judgement::info(module, message),
        // No file overrides the kernel's command line.
        _ if directive.line == 0 => Judgement::broken(module, message).advice(remedy(directive)),
        _ => Judgement::broken(module, message).fix("modprobe").advice(remedy(directive)),
    };
    Some((judgement.evidence(at, text), refused))
}

/// Describes the directive that blocks loading a module by name. The flag is true for a blacklist,
/// which blocks only the lists of modules loaded at boot, not modprobe.
pub fn keeps_out(ctx: &Ctx<'_>, module: &str) -> Option<(String, bool)> {
    let config = next::config(ctx, DRIVER).ok()?;
    let describe = |directive: &Directive| format!("'{}' ({})", shown(directive), place(directive));
    if let Some(refused) = config.load(module).refused {
        return Some((describe(refused.directive()), false));
    }
    config.blacklisted(module).map(|directive| (describe(directive), true))
}

/// How to remove a directive.
fn remedy(directive: &Directive) -> String {
    match directive.line {
        0 => format!(
            "Remove '{}' from the kernel's command line (/etc/default/grub: GRUB_CMDLINE_LINUX, then update-grub or grub2-mkconfig).",
            shown(directive)
        ),
        line => format!(
            "Remove '{}' from {} (line {line}), then rebuild the initramfs.",
            shown(directive),
            directive.source
        ),
    }
}

/// A directive as written in its source.
pub fn shown(directive: &Directive) -> String {
    let on_command_line = directive.line == 0;
    match &directive.command {
        Command::Options { module, options } if on_command_line => format!("{module}.{options}"),
        Command::Options { module, options } => format!("options {module} {}", options.trim()),
        Command::Blacklist { module } if on_command_line => format!("modprobe.blacklist={module}"),
        Command::Blacklist { module } => format!("blacklist {module}"),
        Command::Install { module, shell } => format!("install {module} {shell}"),
        Command::Alias { name, module } => format!("alias {name} {module}"),
        Command::Softdep { module, modules } => format!("softdep {module} {modules}"),
        Command::Refuse { module } => format!("module_blacklist={module}"),
    }
}

/// Files with lines about these modules that another file of the same name hides.
fn hidden(ctx: &Ctx<'_>) -> Option<Judgement> {
    let hidden = &ctx.facts.modprobe.hidden;
    let first = hidden.first()?;
    let message = format!(
        "{} is not read: {} has the same name and takes precedence.",
        words::list(hidden.iter().map(|file| file.path.as_str())),
        first.by
    );
    let judgement = Judgement::info(DRIVER, message);
    Some(hidden.iter().fold(judgement, |judgement, file| {
        judgement.evidence(&file.path, format!("hidden by {}", file.by))
    }))
}

/// The load that udev requests by the GPU's alias, which resolves to the same module as
/// `modprobe nvidia`; `None` if no GPU's ids are known.
pub fn for_device<'a>(ctx: &Ctx<'_>, config: &Config<'a>, load: &Load<'a>) -> Option<Load<'a>> {
    let ids = ctx.facts.gpus().find_map(|gpu| gpu.ids.known())?;
    let class = ids.class.to_be_bytes();
    let modalias = format!(
        "pci:v{:08X}d{:08X}sv{:08X}sd{:08X}bc{:02X}sc{:02X}i{:02X}",
        ids.vendor, ids.device?, ids.vendor, 0, class[1], class[2], class[3]
    );
    Some(config.load_for_device(&modalias, &load.module))
}

#[cfg(test)]
mod tests;
