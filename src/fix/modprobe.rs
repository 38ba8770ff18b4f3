//! modprobe: comments out lines that keep a module from loading or options from reaching the driver, and sets the intended
//! options in a file that kmod reads last.
//!
//! In kmod a later file overrides parameter values only. Blacklist, install and alias lines work wherever they are, so
//! they are commented out in place, or, in a package's file, in a copy that overrides it.

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
    about: "No line in modprobe.d blocks the modules or their options.",
    checks: &["param.conflict"],
    requires: &[],
    desired,
};

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let driver_loads = match DriverLoads::of(ctx) {
        Ok(driver_loads) => driver_loads,
        Err(why) => return DesiredState::none(why),
    };
    let mut notes = Vec::new();
    let blocking = blocking(ctx, &driver_loads, &mut notes);
    let open = driver_loads.without(ctx, &blocking.lines);
    let mut removed = blocking.lines;
    let ineffective = ineffective(ctx, &open, &mut notes);
    removed.extend(ineffective.iter().filter(|found| found.line > 0));
    let mut desired = DesiredState::default();
    let values = values(ctx, &open, &ineffective, &mut desired.warnings);
    let changes = changes(&driver_loads.without(ctx, &removed), values, &mut notes);

    let mut files: BTreeMap<&str, Vec<Directive>> = BTreeMap::new();
    for directive in removed {
        files.entry(&directive.source).or_default().push(directive.clone());
    }
    for (source, directives) in files {
        comment_out(&mut desired, source, directives);
    }
    let sets_options = !changes.is_empty();
    if sets_options {
        let path = drop_in::path(ctx);
        let names: Vec<&str> = changes.iter().map(|(parameter, _)| parameter.as_str()).collect();
        let about = format!("{path} sets {} for {}.", names.join(", "), open.names.join(" and "));
        let changes = changes.into_iter().map(|(parameter, value)| {
            let change: Change = Box::new(move |_| value.clone());
            (parameter, change)
        });
        desired.change(about, drop_in::setting(path, open.names, changes.collect()));
    }
    if desired.changes.is_empty() {
        return if notes.is_empty() { desired } else { DesiredState::refused(notes.join(" ")) };
    }
    desired.warnings.append(&mut notes);
    initramfs::rebuild(ctx, &mut desired);
    if !blocking.modules.is_empty() {
        desired.afterwards.push(format!(
            "Load the blocked modules: modprobe -a {}; or reboot.",
            blocking.modules.join(" ")
        ));
    }
    if sets_options {
        desired.afterwards.push(reload::reload(ctx));
    }
    desired
}

/// What blocks modules from loading.
struct Blocking<'a> {
    lines: Vec<&'a Directive>,
    /// The blocked modules that are not loaded now.
    modules: Vec<&'static str>,
}

/// Finds the lines that block modules, including those that would once the first are removed. The
/// kernel command line cannot be edited here: `notes` says what to change there.
fn blocking<'a>(
    ctx: &Ctx<'_>,
    driver_loads: &DriverLoads<'a>,
    notes: &mut Vec<String>,
) -> Blocking<'a> {
    let mut found = Blocking { lines: Vec::new(), modules: Vec::new() };
    loop {
        let left = driver_loads.config.iter().filter(|line| !found.lines.contains(line));
        let refused = ground::refused(ctx, &kmod::Config::new(left));
        let before = found.lines.len();
        for (module, block) in refused {
            let directive = block.directive();
            if directive.line == 0 {
                let words = format!(
                    "The kernel command line has {}, which blocks {module}: remove it (GRUB_CMDLINE_LINUX in /etc/default/grub, \
                     then update-grub or grub2-mkconfig; or grubby), and reboot.",
                    ground::shown(directive)
                );
                if !notes.contains(&words) {
                    notes.push(words);
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

/// Finds lines whose module or parameter name is wrong, so that their options have no effect.
fn ineffective<'a>(
    ctx: &Ctx<'_>,
    driver_loads: &DriverLoads<'a>,
    notes: &mut Vec<String>,
) -> Vec<&'a Directive> {
    let mut ineffective = ground::unreached(&driver_loads.config, &driver_loads.load);
    for directive in ineffective.iter().filter(|directive| directive.line == 0) {
        notes.push(format!(
            "The kernel command line has {}, which has no effect: modprobe nvidia loads {}. Use that name there.",
            ground::shown(directive),
            driver_loads.load.module
        ));
    }
    for found in ground::misspelt(ctx, &driver_loads.config) {
        let Some(meant) = found.meant else {
            continue;
        };
        if found.directive.line == 0 {
            notes.push(format!(
                "The kernel command line has {}: write {meant} in place of {}.",
                ground::shown(found.directive),
                found.name
            ));
        }
        if !ineffective.contains(&found.directive) {
            ineffective.push(found.directive);
        }
    }
    ineffective
}

/// The values every load should have: those of `modprobe nvidia` now, registry keys that a later string
/// hides, and those of lines with wrong names.
fn values(
    ctx: &Ctx<'_>,
    driver_loads: &DriverLoads<'_>,
    ineffective: &[&Directive],
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
    let mut values: BTreeMap<String, String> = set
        .iter()
        .filter(|(name, ..)| !spelt.contains_key(name))
        .map(|(name, text, _)| (name.clone(), text.clone()))
        .collect();
    if let Some((last, earlier)) = strings(DWORDS).split_last() {
        let others = driver_loads.dwords();
        let earlier = earlier.iter().copied().chain([others.as_str()]);
        values.insert(DWORDS.to_owned(), keys::joined(last, earlier));
    }
    if let [_, _, ..] = strings(DWORDS_PER_DEVICE).as_slice() {
        // Each string names its GPUs; the last value of a repeated key counts.
        let trimmed = strings(DWORDS_PER_DEVICE).into_iter().map(|text| text.trim_end_matches(';'));
        values.insert(DWORDS_PER_DEVICE.to_owned(), trimmed.collect::<Vec<_>>().join(";"));
    }
    for directive in ineffective {
        let Command::Options { options, .. } = &directive.command else {
            continue;
        };
        for parameter in kmod::parameters(options) {
            let name = spelt.get(&parameter.name).unwrap_or(&parameter.name);
            let value = parameter.value.unwrap_or_default();
            match values.get_mut(name) {
                Some(text) if name == DWORDS => *text = keys::joined(text, [value.as_str()]),
                Some(_) => {}
                None => drop(values.insert(name.clone(), value)),
            }
        }
    }
    if let Some(text) = values.get_mut(DWORDS)
        && !keys::dropped(text).is_empty()
    {
        let (fixed, left) = keys::fixed(text);
        if !left.is_empty() {
            warnings.push(format!(
                "In {DWORDS}, '{}' has no effect: write it as Key=Value.",
                left.join("', '")
            ));
        }
        *text = fixed;
    }
    values
}

/// The values that some load would lack once the lines are gone; `notes` gets those of the command line.
fn changes(
    driver_loads: &DriverLoads<'_>,
    values: BTreeMap<String, String>,
    notes: &mut Vec<String>,
) -> Vec<(String, String)> {
    let mut changes = Vec::new();
    for (parameter, value) in values {
        let shown = nvidia::shown_as(&parameter).unwrap_or(&parameter);
        let is_so = |text: &str| {
            let whole = parameter != DWORDS || keys::dropped(text).is_empty();
            whole && ground::next::same(shown, text, &value)
        };
        if driver_loads.all(&parameter, is_so) {
            continue;
        }
        match driver_loads.on_command_line(&parameter).filter(|(text, _)| !is_so(text)) {
            Some((_, from)) => notes.push(change_word(from, &parameter, &value)),
            None => changes.push((parameter, value)),
        }
    }
    changes
}

/// Comments out lines of a file, or of a copy that overrides it if it is not in /etc.
fn comment_out(desired: &mut DesiredState, source: &str, directives: Vec<Directive>) {
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
        let text = text.ok_or_else(|| format!("{from} does not exist"))?;
        edit::commented(text, &directives.iter().collect::<Vec<_>>())
    });
    if hides {
        desired.change(
            format!("{path} overrides {source}; in it {lines} {become_comments}."),
            ChangeTarget::Mask { path: path.clone(), from: source.to_owned(), content },
        )
    } else {
        desired.change(
            format!("{path}: {lines} {become_comments}."),
            ChangeTarget::File { path: path.clone(), mode: 0o644, content },
        )
    }
}
