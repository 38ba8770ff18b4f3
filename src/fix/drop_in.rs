//! The file that gdr writes to modprobe.d: its name, so that its values count, and its content.

use std::collections::BTreeSet;

use super::desired::{ChangeTarget, DesiredState, FixRequest};
use super::{initramfs, reload};
use crate::check::Ctx;
use crate::kmod::{edit, nvidia};
use crate::model::Command;

/// Files here override those of the same name in other directories.
pub const DIRECTORY: &str = "/etc/modprobe.d";

const HEAD: &str = "# Written by gdr. kmod reads this file last, so its values count.\n";

/// A path that kmod reads after every other file with options for the driver.
pub fn path(ctx: &Ctx<'_>) -> String {
    let mut others: BTreeSet<(&str, &str)> = BTreeSet::new();
    for found in ctx.facts.modprobe.directives.known().into_iter().flatten() {
        let of_driver = matches!(&found.command, Command::Options { module, .. } if module.starts_with(nvidia::MODULE));
        if let (true, Some(place)) = (of_driver, found.source.rsplit_once('/')) {
            others.insert(place);
        }
    }
    format!("{DIRECTORY}/{}", name(&others))
}

/// A name that sorts after these, given with their directories; gdr's own file may be among them.
fn name(others: &BTreeSet<(&str, &str)>) -> String {
    let is_last = |name: &str| {
        others
            .iter()
            .all(|(directory, other)| *other < name || (*other == name && *directory == DIRECTORY))
    };
    let plain = ["zz-gdr.conf", "zzz-gdr.conf", "zzzz-gdr.conf", "~~gdr.conf"];
    let plain = plain.into_iter().find(|name| is_last(name)).map(str::to_owned);
    plain.unwrap_or_else(|| {
        let last = others.iter().map(|(_, name)| *name).max().unwrap_or_default();
        format!("{}~gdr.conf", last.strip_suffix(".conf").unwrap_or(last))
    })
}

/// Maps a parameter's value in gdr's file to its new value.
pub type Change = Box<dyn Fn(Option<&str>) -> String>;

/// A change of gdr's file: sets the parameters for each module name.
pub fn setting(path: String, names: Vec<String>, changes: Vec<(String, Change)>) -> ChangeTarget {
    ChangeTarget::File {
        path,
        mode: 0o644,
        content: Box::new(move |text| {
            let mut text = text.unwrap_or(HEAD).to_owned();
            for name in &names {
                for (parameter, change) in &changes {
                    let value = change(edit::value_in(&text, name, parameter)?.as_deref());
                    text = edit::with_value(&text, name, parameter, &value)?;
                }
            }
            Ok(text)
        }),
    }
}

/// Sets parameters in gdr's file, rebuilds the initramfs if needed, and explains how to reload the driver.
pub fn set(
    request: &FixRequest<'_>,
    mut desired: DesiredState,
    names: Vec<String>,
    what: &str,
    changes: Vec<(String, Change)>,
) -> DesiredState {
    let ctx = request.ctx;
    if changes.is_empty() {
        if !request.findings.is_empty() {
            let reload = reload::reload(ctx);
            let warning = format!("The next load of the driver has the options already. {reload}");
            desired.warnings.push(warning);
        }
        return desired;
    }
    let path = path(ctx);
    let about = format!("{path} sets {what} for {} and keeps other values.", names.join(" and "));
    desired.change(about, setting(path, names, changes));
    initramfs::rebuild(ctx, &mut desired);
    desired.afterwards.push(reload::reload(ctx));
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(target: &ChangeTarget, present: Option<&str>) -> String {
        match target {
            ChangeTarget::File { content, .. } => content(present).expect("a text"),
            _ => panic!("no file"),
        }
    }

    #[test]
    fn file_name_sorts_last() {
        for (others, expected) in [
            (&[][..], "zz-gdr.conf"),
            (
                &[("/etc/modprobe.d", "nvidia.conf"), ("/usr/lib/modprobe.d", "z.conf")],
                "zz-gdr.conf",
            ),
            // gdr's own file of an earlier repair; a package's file of that name, which gdr's would hide.
            (&[("/etc/modprobe.d", "zz-gdr.conf")], "zz-gdr.conf"),
            (&[("/usr/lib/modprobe.d", "zz-gdr.conf")], "zzz-gdr.conf"),
            (
                &[("/etc/modprobe.d", "zz-gdr.conf"), ("/etc/modprobe.d", "zz-site.conf")],
                "zzz-gdr.conf",
            ),
            (&[("/etc/modprobe.d", "zzzz.conf")], "~~gdr.conf"),
            (&[("/etc/modprobe.d", "~~~.conf")], "~~~~gdr.conf"),
            (&[("/run/modprobe.d", "\u{e9}.conf")], "\u{e9}~gdr.conf"),
        ] {
            let name = name(&others.iter().copied().collect());
            assert_eq!(name, expected);
            assert!(others.iter().all(|(_, other)| *other <= name.as_str()), "{name}");
        }
    }

    #[test]
    fn two_fixes_share_one_line_per_module() {
        let names = || vec!["nvidia".to_owned(), "nvidia-current".to_owned()];
        let first: Change = Box::new(|present| format!("{}A=1;", present.unwrap_or("B=2;")));
        let once = text(&setting(String::new(), names(), vec![("X".to_owned(), first)]), None);
        assert_eq!(
            once,
            format!("{HEAD}options nvidia X=\"B=2;A=1;\"\noptions nvidia-current X=\"B=2;A=1;\"\n")
        );
        let second: Change = Box::new(|_| "1".to_owned());
        let target = setting(String::new(), names(), vec![("Y".to_owned(), second)]);
        let twice = text(&target, Some(&once));
        assert_eq!(
            twice,
            format!(
                "{HEAD}options nvidia X=\"B=2;A=1;\" Y=1\noptions nvidia-current X=\"B=2;A=1;\" Y=1\n"
            )
        );
        assert_eq!(text(&target, Some(&twice)), twice);
    }
}
