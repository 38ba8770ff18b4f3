//! Adds a kernel parameter for the next boots: through GRUB, grubby or systemd-boot.
//!
//! GRUB's configuration is a script in which `;` ends a command, so such a value is quoted there. The
//! kernel and systemd-boot treat quotes as part of the value, so there it is not.

use super::desired::{ChangeTarget, DesiredState, Edit, NoChange};
use crate::check::Ctx;
use crate::kmod::words;
use crate::model::{Boot, Fact, GrubMkconfig, Invalid, Operation};

/// Removes our parameter from a word of the command line; `None` if nothing is left.
pub type Strip = fn(&str) -> Option<String>;

pub struct Parameter {
    /// The id of the fix that needs it.
    pub fix: &'static str,
    /// The word up to its value, such as `pci=config_acs=`.
    pub head: String,
    pub value: String,
    /// Strips this parameter from an existing word.
    pub strip: Strip,
}

impl Parameter {
    fn word(&self) -> String {
        format!("{}{}", self.head, self.value)
    }

    fn quoted(&self) -> String {
        if self.value.contains(';') {
            format!("{}\"{}\"", self.head, self.value)
        } else {
            self.word()
        }
    }

    /// The line with this parameter at its end, without the words it replaces and those of `drop`.
    fn appended_to(&self, line: &str, drop: fn(&str) -> bool) -> String {
        let there = words(line).into_iter().filter(|word| !word.is_empty() && !drop(word));
        let rest = there.filter_map(|word| (self.strip)(&word));
        rest.chain([self.word()]).collect::<Vec<_>>().join(" ")
    }
}

/// COMMAND_LINE_SIZE of x86 and arm64, including the terminating zero.
const LONGEST: usize = 2048;

/// Adds the changes that set a parameter, for the boot loader that this machine uses.
pub fn set_parameter(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    parameter: &Parameter,
) -> Result<(), NoChange> {
    let boot = &ctx.facts.boot;
    let word = parameter.word();
    if let Some(line) = ctx.facts.kernel.command_line.known() {
        let long = parameter.appended_to(line, |_| false).len();
        if long >= LONGEST {
            return refused(format!(
                "The kernel's command line would have {long} bytes; the kernel reads at most {}.",
                LONGEST - 1
            ));
        }
    }
    if boot.ostree == Fact::Known(true) {
        return refused(format!(
            "This system is managed by rpm-ostree: run rpm-ostree kargs --append='{word}'."
        ));
    }
    let started_by = boot.loader.present().map_or("", String::as_str);
    if !started_by.is_empty()
        && !["systemd-boot", "GRUB"].iter().any(|name| started_by.starts_with(name))
    {
        return refused(format!(
            "gdr cannot configure the boot loader {started_by}. Add {word} to the kernel command line by hand, and reboot."
        ));
    }
    let is_there = |tool: &str| matches!(ctx.facts.tools.get(tool), Some(Fact::Known(Some(_))));
    // systemd-boot always reports itself, if the firmware's variables can be read.
    let laid_out = boot.loader.known().is_none() && boot.loader_conf == Fact::Known(true);
    if started_by.starts_with("systemd-boot") || laid_out {
        return systemd_boot(desired, ctx, parameter);
    }
    if is_there("grubby") {
        return grubby(desired, ctx, parameter);
    }
    let make = |program, path| Some(Operation::make_grub_config(program, path));
    let rebuild = match boot.grub_cfg.present().map(String::as_str) {
        _ if is_there("update-grub") => Some(Ok(Operation::UpdateGrub)),
        Some(path) if is_there("grub2-mkconfig") => make(GrubMkconfig::Grub2Mkconfig, path),
        Some(path) if is_there("grub-mkconfig") => make(GrubMkconfig::GrubMkconfig, path),
        _ => None,
    };
    let unread = ["update-grub", "grub-mkconfig", "grub2-mkconfig", "grubby"]
        .into_iter()
        .find_map(|tool| Some((tool, ctx.facts.tools.get(tool)?.why()?)));
    match (rebuild, unread) {
        (Some(rebuild), _) => grub(desired, ctx, parameter, rebuild),
        (None, Some((tool, why))) => {
            Err(NoChange::unread(&format!("{tool} in /usr/sbin, /usr/bin, /sbin and /bin"), why))
        }
        (None, None) => refused(format!(
            "No supported boot loader found (update-grub, grub-mkconfig, grubby, systemd-boot). Add {word} to the kernel command \
             line by hand, and reboot."
        )),
    }
}

/// The line for GRUB's settings. GRUB_CMDLINE_LINUX_DEFAULT ends the command line and so overrides the
/// rest, and gdr's file is read last.
fn line(parameter: &Parameter) -> String {
    const VARIABLE: &str = "GRUB_CMDLINE_LINUX_DEFAULT";
    let mut word = String::new();
    for c in parameter.quoted().chars() {
        if "\"\\$`".contains(c) {
            word.push('\\');
        }
        word.push(c);
    }
    format!("{VARIABLE}=\"${VARIABLE} {word}\"")
}

fn grub(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    parameter: &Parameter,
    rebuild: Result<Operation, Invalid>,
) -> Result<(), NoChange> {
    let (fix, line) = (parameter.fix, line(parameter));
    let (path, content): (String, Edit) = match &ctx.facts.boot.grub_drop_ins {
        Fact::Known(true) => {
            let text = format!(
                "# Made by gdr for its fix '{fix}'; 'gdr undo' removes it. This file is read last.\n\
                 {line}\n"
            );
            (Boot::drop_in(fix), Box::new(move |_| Ok(text.clone())))
        }
        Fact::Known(false) => {
            let path = "/etc/default/grub".to_owned();
            (path, Box::new(move |there| with_line(there, &line, &Boot::mark(fix))))
        }
        Fact::Unknown(why) => {
            return Err(NoChange::unread(
                "/usr/sbin/grub-mkconfig, which says whether GRUB reads /etc/default/grub.d,",
                *why,
            ));
        }
    };
    desired.change(
        format!("Add {} to the kernel command line in GRUB's settings.", parameter.word()),
        ChangeTarget::File { path, mode: 0o644, content },
    );
    desired.run("Regenerate GRUB's configuration.", rebuild);
    then_reboot(desired, parameter);
    Ok(())
}

/// Appends a marked line, replacing the line with the same mark.
fn with_line(there: Option<&str>, line: &str, mark: &str) -> Result<String, String> {
    let Some(there) = there else {
        return Err("/etc/default/grub does not exist, and GRUB reads no other settings".to_owned());
    };
    let mut text: String =
        there.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(mark)).collect();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(format!("{text}{line} {mark}\n"))
}

fn grubby(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    parameter: &Parameter,
) -> Result<(), NoChange> {
    if parameter.value.contains(';') {
        return refused(format!(
            "grubby writes the command line to boot loader entries, /etc/default/grub and /etc/kernel/cmdline, which quote ';' \
             differently, and {}{} contains one: a kernel update would truncate the command line.",
            parameter.head, parameter.value
        ));
    }
    let now = match &ctx.facts.kernel.command_line {
        Fact::Known(now) => now,
        Fact::Unknown(why) => return Err(NoChange::unread("/proc/cmdline", *why)),
    };
    // Some releases of grubby match words by prefix, so a word is replaced as a whole.
    let old = words(now).into_iter().find(|word| (parameter.strip)(word).as_deref() != Some(word));
    let list = words(now)
        .into_iter()
        .find(|word| parameter.head.starts_with("pci=") && word.starts_with("pci="));
    let old = old.or(list);
    let new = match old.as_deref().and_then(parameter.strip) {
        Some(rest) => format!("{rest},{}", parameter.word().trim_start_matches("pci=")),
        None => parameter.word(),
    };
    let entries = ctx.facts.boot.entries.known();
    let has_it = |options: &String| options.split_ascii_whitespace().any(|word| word == new);
    if entries.is_some_and(|entries| !entries.is_empty() && entries.values().all(has_it)) {
        return Ok(());
    }
    if old.as_ref() != Some(&new) {
        desired.run(
            format!("Set {new} in every boot loader entry."),
            Operation::set_kernel_parameter(old.as_deref(), &new),
        );
    }
    then_reboot(desired, parameter);
    Ok(())
}

fn systemd_boot(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    parameter: &Parameter,
) -> Result<(), NoChange> {
    const PATH: &str = "/etc/kernel/cmdline";
    if matches!(ctx.facts.tools.get("kernel-install"), Some(Fact::Known(None))) {
        return refused(format!(
            "This machine uses systemd-boot, but kernel-install, which writes its entries, is not installed. Add {} to the \
             options of its entries by hand.",
            parameter.word()
        ));
    }
    let boot = &ctx.facts.boot;
    let is_open = |text: &str| text.matches('"').count() % 2 == 1;
    let texts = [
        boot.kernel_install.present().map(|(_, text)| text),
        ctx.facts.kernel.command_line.known(),
    ];
    if texts.into_iter().flatten().next().is_some_and(|text| is_open(text)) {
        return refused(
            "The kernel command line has an unclosed quote: close it in /etc/kernel/cmdline."
                .to_owned(),
        );
    }
    let there = match &boot.kernel_install {
        Fact::Known(Some((_, text))) => parameter.appended_to(text, |_| false),
        // Without that file kernel-install uses the present command line.
        Fact::Known(None) => match &ctx.facts.kernel.command_line {
            Fact::Known(line) => parameter.appended_to(line, |word| {
                ["BOOT_IMAGE=", "initrd="].iter().any(|start| word.starts_with(start))
            }),
            Fact::Unknown(why) => return Err(NoChange::unread("/proc/cmdline", *why)),
        },
        Fact::Unknown(why) => return Err(NoChange::unread(PATH, *why)),
    };
    let kernels = match &boot.kernels {
        Fact::Known(kernels) if !kernels.is_empty() => kernels,
        Fact::Known(_) => {
            return refused(
                "This machine uses systemd-boot, but there is no kernel image in /boot or /lib/modules."
                    .to_owned(),
            );
        }
        Fact::Unknown(why) => return Err(NoChange::unread("/boot or /lib/modules", *why)),
    };
    let same = boot.kernel_install.present().is_some_and(|(path, text)| {
        let has_it = words(text).iter().any(|word| *word == parameter.word());
        path == PATH && has_it
    });
    if !same {
        desired.change(
            format!("Add {} to the boot loader entries.", parameter.word()),
            ChangeTarget::file(PATH, format!("{there}\n")),
        );
        for (release, image) in kernels {
            desired.run(
                format!("Regenerate the entry of {release}."),
                Operation::add_kernel_entry(release, image),
            );
        }
        then_reboot(desired, parameter);
    }
    Ok(())
}

fn then_reboot(desired: &mut DesiredState, parameter: &Parameter) {
    desired.afterwards.push(format!(
        "Reboot. Then /proc/cmdline has {}; 'gdr doctor' checks it.",
        parameter.word()
    ));
}

fn refused<T>(why: String) -> Result<T, NoChange> {
    Err(NoChange::Refused(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(value: &str) -> Parameter {
        Parameter {
            fix: "acs",
            head: "pci=config_acs=".to_owned(),
            value: value.to_owned(),
            strip: |word| crate::kmod::acs::without(word, "config_acs"),
        }
    }

    #[test]
    fn grub_quoting_matches_rdma_topo() {
        assert_eq!(
            line(&parameter("xx111x0@0008:00:00.0;xx110x1@0008:02:00.0")),
            r#"GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=config_acs=\"xx111x0@0008:00:00.0;xx110x1@0008:02:00.0\"""#
        );
        assert!(line(&parameter("x0@01:00.0")).ends_with(" pci=config_acs=x0@01:00.0\""));
    }

    #[test]
    fn keeps_other_words_and_lines() {
        let line = parameter("x0@02:00.0").appended_to(
            "BOOT_IMAGE=/vmlinuz ro  pci=realloc,config_acs=x0@01:00.0 quiet",
            |word| word.starts_with("BOOT_IMAGE="),
        );
        assert_eq!(line, "ro pci=realloc quiet pci=config_acs=x0@02:00.0");
        let once = with_line(Some("A=1\n# x\nB='2'"), "C=3", "# gdr: acs").expect("a text");
        assert_eq!(once, "A=1\n# x\nB='2'\nC=3 # gdr: acs\n");
        assert_eq!(with_line(Some(&once), "C=3", "# gdr: acs").as_ref(), Ok(&once));
        assert!(with_line(None, "C=3", "# gdr: acs").is_err());
    }
}
