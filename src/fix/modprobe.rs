//! modprobe: lines that keep a module from loading, or options from reaching the driver, become comments; what they meant to
//! set, and what another line hides, is set in the file that is read last.
//!
//! kmod lets a later file win for the value of a parameter alone. A blacklist, an install line or an alias stays in force
//! wherever it stands, and so does a line for a name that nothing loads: those are taken out where they stand, and where
//! that is no administrator's file, in a copy that goes before it.

use std::collections::BTreeMap;

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use super::driver_loads::{DWORDS, DWORDS_PER_DEVICE, DriverLoads, change_word};
use super::drop_in::{self, Change};
use super::{initramfs, reload};
use crate::check::{Ctx, ground, ground::registry_keys as keys};
use crate::kmod::{self, edit, nvidia};
use crate::model::{Command, Directive, Fact};

pub const FIX: Fix = Fix {
    id: "modprobe",
    about: "No line of modprobe.d keeps the modules from loading, or their options from reaching the driver.",
    desired,
};

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let driver_loads = match DriverLoads::of(ctx) {
        Ok(driver_loads) => driver_loads,
        Err(why) => return DesiredState::refused(why),
    };
    let mut told = Vec::new();
    let refusing = refusing(ctx, &driver_loads, &mut told);
    let open = driver_loads.without(ctx, &refusing.lines);
    let mut out = refusing.lines;
    let lost = lost(ctx, &open, &mut told);
    out.extend(lost.iter().filter(|found| found.line > 0));
    let mut desired = DesiredState::default();
    let wanted = wanted(ctx, &open, &lost, &mut desired.warnings);
    let changes = changes(&driver_loads.without(ctx, &out), wanted, &mut told);

    let mut files: BTreeMap<&str, Vec<Directive>> = BTreeMap::new();
    for directive in out {
        files
            .entry(&directive.source)
            .or_default()
            .push(directive.clone());
    }
    for (source, directives) in files {
        take_out(&mut desired, source, directives);
    }
    let sets_options = !changes.is_empty();
    if sets_options {
        let path = drop_in::path(ctx);
        let names: Vec<&str> = changes
            .iter()
            .map(|(parameter, _)| parameter.as_str())
            .collect();
        let about = format!(
            "{path} sets {} for {}.",
            names.join(", "),
            open.names.join(" and ")
        );
        let changes = changes.into_iter().map(|(parameter, value)| {
            let change: Change = Box::new(move |_| value.clone());
            (parameter, change)
        });
        desired.desired_change(about, drop_in::setting(path, open.names, changes.collect()));
    }
    if desired.desired_changes.is_empty() {
        return match told.is_empty() {
            true => desired,
            false => DesiredState::refused(told.join(" ")),
        };
    }
    desired.warnings.append(&mut told);
    initramfs::rebuild(ctx, &mut desired);
    if !refusing.modules.is_empty() {
        desired.afterwards.push(format!(
            "Load what was kept out: modprobe -a {}; or reboot.",
            refusing.modules.join(" ")
        ));
    }
    if sets_options {
        desired.afterwards.push(reload::reload(ctx));
    }
    desired
}

/// What keeps modules from being loaded.
struct Refusing<'a> {
    /// The lines of files.
    lines: Vec<&'a Directive>,
    /// The modules that are not loaded now.
    modules: Vec<&'static str>,
}

/// The lines that keep modules from being loaded, also those that would once the first are out; words of the command line
/// are told.
fn refusing<'a>(
    ctx: &Ctx<'_>,
    driver_loads: &DriverLoads<'a>,
    told: &mut Vec<String>,
) -> Refusing<'a> {
    let mut found = Refusing {
        lines: Vec::new(),
        modules: Vec::new(),
    };
    loop {
        let left = driver_loads
            .config
            .iter()
            .filter(|line| !found.lines.contains(line));
        let refused = ground::refused(ctx, &kmod::Config::new(left));
        let before = found.lines.len();
        for (module, refusal) in refused {
            let directive = refusal.directive();
            if directive.line == 0 {
                let words = format!(
                    "The kernel's command line says {}, which keeps {module} from being loaded: take it off \
                     (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub or grub2-mkconfig; or grubby), and boot.",
                    ground::shown(directive)
                );
                if !told.contains(&words) {
                    told.push(words);
                }
                continue;
            }
            if !found.lines.contains(&directive) {
                found.lines.push(directive);
            }
            if !is_loaded(ctx, module) && !found.modules.contains(&module) {
                found.modules.push(module);
            }
        }
        if found.lines.len() == before {
            return found;
        }
    }
}

fn is_loaded(ctx: &Ctx<'_>, module: &str) -> bool {
    let listed = match &ctx.facts.kernel.modules {
        Fact::Known(modules) => modules.iter().any(|loaded| loaded.name == module),
        Fact::Unknown(_) => false,
    };
    listed || (module == nvidia::MODULE && ctx.facts.driver.version().present().is_some())
}

/// The lines whose options are lost for their name or for the name of a parameter; words of the command line are told.
fn lost<'a>(
    ctx: &Ctx<'_>,
    driver_loads: &DriverLoads<'a>,
    told: &mut Vec<String>,
) -> Vec<&'a Directive> {
    let mut lost = ground::unreached(&driver_loads.config, &driver_loads.load);
    for directive in lost.iter().filter(|directive| directive.line == 0) {
        told.push(format!(
            "The kernel's command line says {}, which reaches nothing: modprobe nvidia loads {}. Write it for that name \
             there.",
            ground::shown(directive),
            driver_loads.load.module
        ));
    }
    for found in ground::misspelt(ctx, &driver_loads.config) {
        let Some(meant) = found.meant else {
            continue;
        };
        if found.directive.line == 0 {
            told.push(format!(
                "The kernel's command line says {}: write {meant} there in place of {}.",
                ground::shown(found.directive),
                found.name
            ));
        }
        if !lost.contains(&found.directive) {
            lost.push(found.directive);
        }
    }
    lost
}

/// What every memory path should bring: what `modprobe nvidia` brings now, registry keys that a later string hides, and what the
/// lost lines meant to set.
fn wanted(
    ctx: &Ctx<'_>,
    driver_loads: &DriverLoads<'_>,
    lost: &[&Directive],
    warnings: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let spelt: BTreeMap<String, String> = ground::misspelt(ctx, &driver_loads.config)
        .into_iter()
        .filter_map(|found| Some((found.name, found.meant?)))
        .collect();
    let set = ground::next::set(&driver_loads.load);
    let strings = |name: &str| -> Vec<&str> {
        let own = set.iter().filter(|(set, ..)| set == name);
        own.map(|(_, text, _)| text.as_str()).collect()
    };
    let mut wanted: BTreeMap<String, String> = set
        .iter()
        .filter(|(name, ..)| !spelt.contains_key(name))
        .map(|(name, text, _)| (name.clone(), text.clone()))
        .collect();
    if let Some((last, earlier)) = strings(DWORDS).split_last() {
        let others = driver_loads.dwords();
        let earlier = earlier.iter().copied().chain([others.as_str()]);
        wanted.insert(DWORDS.to_owned(), keys::joined(last, earlier));
    }
    if let [_, _, ..] = strings(DWORDS_PER_DEVICE).as_slice() {
        // Each string names its GPUs; of a key that is there twice for one the last counts.
        let trimmed = strings(DWORDS_PER_DEVICE)
            .into_iter()
            .map(|text| text.trim_end_matches(';'));
        wanted.insert(
            DWORDS_PER_DEVICE.to_owned(),
            trimmed.collect::<Vec<_>>().join(";"),
        );
    }
    for directive in lost {
        let Command::Options { options, .. } = &directive.command else {
            continue;
        };
        for parameter in kmod::parameters(options) {
            let name = spelt.get(&parameter.name).unwrap_or(&parameter.name);
            let value = parameter.value.unwrap_or_default();
            match wanted.get_mut(name) {
                Some(text) if name == DWORDS => *text = keys::joined(text, [value.as_str()]),
                Some(_) => {}
                None => drop(wanted.insert(name.clone(), value)),
            }
        }
    }
    if let Some(text) = wanted.get_mut(DWORDS)
        && !keys::dropped(text).is_empty()
    {
        let (fixed, left) = keys::fixed(text);
        if !left.is_empty() {
            warnings.push(format!(
                "Of {DWORDS} '{}' sets nothing, and gdr cannot tell what it should: write it as Key=Value.",
                left.join("', '")
            ));
        }
        *text = fixed;
    }
    wanted
}

/// The values that a memory path would not bring without the lines that are taken out; what the command line sets is told.
fn changes(
    driver_loads: &DriverLoads<'_>,
    wanted: BTreeMap<String, String>,
    told: &mut Vec<String>,
) -> Vec<(String, String)> {
    let mut changes = Vec::new();
    for (parameter, value) in wanted {
        let shown = nvidia::shown_as(&parameter).unwrap_or(&parameter);
        let is_so = |text: &str| {
            let whole = parameter != DWORDS || keys::dropped(text).is_empty();
            whole && ground::next::same(shown, text, &value)
        };
        if driver_loads.all(&parameter, is_so) {
            continue;
        }
        match driver_loads
            .on_command_line(&parameter)
            .filter(|(text, _)| !is_so(text))
        {
            Some((_, from)) => told.push(change_word(from, &parameter, &value)),
            None => changes.push((parameter, value)),
        }
    }
    changes
}

/// The lines of a file become comments; where that is no file of the administrator's, in a copy that hides it.
fn take_out(desired: &mut DesiredState, source: &str, directives: Vec<Directive>) {
    let lines: Vec<String> = directives
        .iter()
        .map(|found| format!("line {} ({})", found.line, ground::shown(found)))
        .collect();
    let become_comments = match lines.len() {
        1 => "becomes a comment",
        _ => "become comments",
    };
    let lines = lines.join(", ");
    let (directory, name) = source.rsplit_once('/').unwrap_or(("", source));
    let hides = directory != drop_in::DIRECTORY;
    let path = format!("{}/{name}", drop_in::DIRECTORY);
    let from = source.to_owned();
    let content: super::desired::Edit = Box::new(move |text| {
        let text = text.ok_or_else(|| format!("{from} is not there"))?;
        edit::commented(text, &directives.iter().collect::<Vec<_>>())
    });
    match hides {
        false => desired.desired_change(
            format!("{path}: {lines} {become_comments}."),
            ChangeTarget::File {
                path: path.clone(),
                mode: 0o644,
                content,
            },
        ),
        true => desired.desired_change(
            format!("{path} takes the place of {source}; in it {lines} {become_comments}."),
            ChangeTarget::Mask {
                path: path.clone(),
                from: source.to_owned(),
                content,
            },
        ),
    }
}
