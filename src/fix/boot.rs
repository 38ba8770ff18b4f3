//! A word on the kernel's command line of the boots to come, by the boot loader that is there: GRUB, GRUB with the entries
//! that grubby keeps, or systemd-boot.
//!
//! Each reads the word with other eyes. GRUB's configuration is a script in which `;` ends a command, so that a value with
//! one is quoted there; the kernel and systemd-boot take quotes for a part of the value, so that there they are not.

use super::desired::{ChangeTarget, DesiredState, Edit};
use crate::check::Ctx;
use crate::kmod::words;
use crate::model::{Boot, Fact, GrubMkconfig, Invalid, Operation};

/// What is left of a word of the command line; none where it goes.
pub type Rest = fn(&str) -> Option<String>;

/// A word that the kernel is to be told.
pub struct Parameter {
    /// The fix that wants it.
    pub fix: &'static str,
    /// The word up to its value, as in `pci=config_acs=`.
    pub head: String,
    pub value: String,
    /// What is left of a word that stands there: all of one that has nothing to do with it.
    pub rest: Rest,
}

impl Parameter {
    fn word(&self) -> String {
        format!("{}{}", self.head, self.value)
    }

    fn quoted(&self) -> String {
        match self.value.contains(';') {
            true => format!("{}\"{}\"", self.head, self.value),
            false => self.word(),
        }
    }

    /// Words without what is replaced, and this one after them.
    fn on(&self, line: &str, drop: fn(&str) -> bool) -> String {
        let there = words(line)
            .into_iter()
            .filter(|word| !word.is_empty() && !drop(word));
        let rest = there.filter_map(|word| (self.rest)(&word));
        rest.chain([self.word()]).collect::<Vec<_>>().join(" ")
    }
}

/// A kernel takes so many bytes of command line (COMMAND_LINE_SIZE of x86 and arm64), the zero at its end included.
const LONGEST: usize = 2048;

/// Adds what it takes to a draft; an error is why that cannot be done here.
pub fn tell(
    desired: &mut DesiredState,
    ctx: &Ctx<'_>,
    parameter: &Parameter,
) -> Result<(), String> {
    let boot = &ctx.facts.boot;
    let word = parameter.word();
    if let Some(line) = ctx.facts.kernel.command_line.known() {
        let long = parameter.on(line, |_| false).len();
        if long >= LONGEST {
            return Err(format!(
                "The kernel's command line would have {long} bytes, and the kernel reads {}.",
                LONGEST - 1
            ));
        }
    }
    if boot.ostree == Fact::Known(true) {
        return Err(format!(
            "The system is an image whose command line is changed with it: rpm-ostree kargs --append='{word}'."
        ));
    }
    let started_by = boot.loader.present().map_or("", String::as_str);
    if !started_by.is_empty()
        && !["systemd-boot", "GRUB"]
            .iter()
            .any(|name| started_by.starts_with(name))
    {
        return Err(format!(
            "{started_by} starts this machine, which gdr cannot tell. Put {word} on the kernel's command line by hand, and reboot."
        ));
    }
    let is_there = |tool: &str| matches!(ctx.facts.tools.get(tool), Some(Fact::Known(Some(_))));
    // It always says that it was it, where the firmware can be asked.
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
    match rebuild {
        Some(rebuild) => grub(desired, ctx, parameter, rebuild),
        None => Err(format!(
            "No boot loader was found that gdr knows to tell (update-grub, grub-mkconfig, grubby, systemd-boot). Put {word} on \
             the kernel's command line by hand, and reboot."
        )),
    }
}

/// A line for GRUB's settings. What stands in GRUB_CMDLINE_LINUX_DEFAULT comes last on the command line, where it replaces
/// what else sets the same; gdr's file is the last that is read.
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
) -> Result<(), String> {
    let (fix, line) = (parameter.fix, line(parameter));
    let (path, content): (String, Edit) = match &ctx.facts.boot.grub_drop_ins {
        Fact::Known(true) => {
            let text = format!(
                "# Made by gdr for its fix '{fix}'; 'gdr undo' takes it back. Other files may set more: this one is read last.\n\
                 {line}\n"
            );
            (Boot::drop_in(fix), Box::new(move |_| Ok(text.clone())))
        }
        Fact::Known(false) => {
            let path = "/etc/default/grub".to_owned();
            (
                path,
                Box::new(move |there| lined(there, &line, &Boot::mark(fix))),
            )
        }
        Fact::Unknown(why) => {
            return Err(format!(
                "Whether GRUB reads /etc/default/grub.d here is not known: {}.",
                why.phrase()
            ));
        }
    };
    desired.desired_change(
        format!("GRUB has the kernel told {}.", parameter.word()),
        ChangeTarget::File {
            path,
            mode: 0o644,
            content,
        },
    );
    desired.run("GRUB's configuration is made again.", rebuild);
    then_reboot(desired, parameter);
    Ok(())
}

/// A text with one more line, which is marked as ours: the line that bears the mark already is replaced.
fn lined(there: Option<&str>, line: &str, mark: &str) -> Result<String, String> {
    let Some(there) = there else {
        return Err("/etc/default/grub is not there, and GRUB reads no other settings".to_owned());
    };
    let mut text: String = there
        .split_inclusive('\n')
        .filter(|line| !line.trim_end().ends_with(mark))
        .collect();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(format!("{text}{line} {mark}\n"))
}

fn grubby(desired: &mut DesiredState, ctx: &Ctx<'_>, parameter: &Parameter) -> Result<(), String> {
    if parameter.value.contains(';') {
        return Err(format!(
            "grubby keeps the command line in boot loader entries, /etc/default/grub and /etc/kernel/cmdline alike, and \
             {}{} has a ';', which each of them wants written otherwise: an update of the kernel would cut the command line \
             off there.",
            parameter.head, parameter.value
        ));
    }
    let Fact::Known(now) = &ctx.facts.kernel.command_line else {
        return Err("The kernel's command line cannot be read.".to_owned());
    };
    // grubby knows words, and some of its releases take all that begin alike for one: so a word is replaced as a whole.
    let old = words(now)
        .into_iter()
        .find(|word| (parameter.rest)(word).as_deref() != Some(word));
    let list = words(now)
        .into_iter()
        .find(|word| parameter.head.starts_with("pci=") && word.starts_with("pci="));
    let old = old.or(list);
    let new = match old.as_deref().and_then(parameter.rest) {
        Some(rest) => format!("{rest},{}", parameter.word().trim_start_matches("pci=")),
        None => parameter.word(),
    };
    let entries = ctx.facts.boot.entries.known();
    let has_it = |options: &String| options.split_ascii_whitespace().any(|word| word == new);
    if entries.is_some_and(|entries| !entries.is_empty() && entries.values().all(has_it)) {
        return Ok(());
    }
    // A word that is there already is no change.
    if old.as_ref() != Some(&new) {
        desired.run(
            format!("Every boot loader entry has {new}."),
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
) -> Result<(), String> {
    const PATH: &str = "/etc/kernel/cmdline";
    let unknown = |what: &str, why: &str| {
        format!("systemd-boot starts this machine, and {what} is not known: {why}.")
    };
    if matches!(
        ctx.facts.tools.get("kernel-install"),
        Some(Fact::Known(None))
    ) {
        return Err(format!(
            "systemd-boot starts this machine, and kernel-install, which makes its entries, is not installed. Put {} into the \
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
    if texts
        .into_iter()
        .flatten()
        .next()
        .is_some_and(|text| is_open(text))
    {
        return Err(unknown(
            "what the kernel is told",
            "a quote stays open in it",
        ));
    }
    let there = match &boot.kernel_install {
        Fact::Known(Some((_, text))) => parameter.on(text, |_| false),
        // What kernel-install gives to entries where no file says it.
        Fact::Known(None) => match &ctx.facts.kernel.command_line {
            Fact::Known(line) => parameter.on(line, |word| {
                ["BOOT_IMAGE=", "initrd="]
                    .iter()
                    .any(|start| word.starts_with(start))
            }),
            Fact::Unknown(why) => return Err(unknown("the kernel's command line", why.phrase())),
        },
        Fact::Unknown(why) => return Err(unknown(PATH, why.phrase())),
    };
    let kernels = match &boot.kernels {
        Fact::Known(kernels) if !kernels.is_empty() => kernels,
        Fact::Known(_) => {
            return Err(unknown(
                "which kernels are installed",
                "no image in /boot or /lib/modules",
            ));
        }
        Fact::Unknown(why) => return Err(unknown("which kernels are installed", why.phrase())),
    };
    let same = boot.kernel_install.present().is_some_and(|(path, text)| {
        let has_it = words(text).iter().any(|word| *word == parameter.word());
        path == PATH && has_it
    });
    if !same {
        desired.desired_change(
            format!("Boot loader entries get {}.", parameter.word()),
            ChangeTarget::file(PATH, format!("{there}\n")),
        );
        for (release, image) in kernels {
            desired.run(
                format!("The entry of {release} is made again."),
                Operation::add_kernel_entry(release, image),
            );
        }
        then_reboot(desired, parameter);
    }
    Ok(())
}

fn then_reboot(desired: &mut DesiredState, parameter: &Parameter) {
    desired.afterwards.push(format!(
        "Reboot. Then /proc/cmdline has {}; 'gdr doctor' says so where it has not.",
        parameter.word()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(value: &str) -> Parameter {
        Parameter {
            fix: "acs",
            head: "pci=config_acs=".to_owned(),
            value: value.to_owned(),
            rest: |word| crate::kmod::acs::without(word, "config_acs"),
        }
    }

    #[test]
    fn a_list_is_quoted_for_grub_as_rdma_topo_quotes_it() {
        assert_eq!(
            line(&parameter("xx111x0@0008:00:00.0;xx110x1@0008:02:00.0")),
            r#"GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT pci=config_acs=\"xx111x0@0008:00:00.0;xx110x1@0008:02:00.0\"""#
        );
        assert!(line(&parameter("x0@01:00.0")).ends_with(" pci=config_acs=x0@01:00.0\""));
    }

    #[test]
    fn other_words_and_lines_stay() {
        let on = parameter("x0@02:00.0").on(
            "BOOT_IMAGE=/vmlinuz ro  pci=realloc,config_acs=x0@01:00.0 quiet",
            |word| word.starts_with("BOOT_IMAGE="),
        );
        assert_eq!(on, "ro pci=realloc quiet pci=config_acs=x0@02:00.0");
        let once = lined(Some("A=1\n# x\nB='2'"), "C=3", "# gdr: acs").expect("a text");
        assert_eq!(once, "A=1\n# x\nB='2'\nC=3 # gdr: acs\n");
        assert_eq!(lined(Some(&once), "C=3", "# gdr: acs").as_ref(), Ok(&once));
        assert!(lined(None, "C=3", "# gdr: acs").is_err());
    }
}
