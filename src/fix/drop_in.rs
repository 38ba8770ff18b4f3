//! The file of modprobe.d that gdr writes: where it is, so that its values count, and what it says. Pure.

use std::collections::BTreeSet;

use super::desired::{ChangeTarget, DesiredState, FixRequest};
use super::{initramfs, reload};
use crate::check::Ctx;
use crate::kmod::{edit, nvidia};
use crate::model::Command;

/// Where an administrator's files are: those of every other directory give way to them.
pub const DIRECTORY: &str = "/etc/modprobe.d";

/// What our file begins with.
const HEAD: &str = "# Written by gdr: read after the other files, so that its values count.\n";

/// Our file: kmod reads it after every other that has options for the driver.
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

/// A name that kmod reads after these, each with the directory that it is in. Our own of an earlier repair is none of them.
fn name(others: &BTreeSet<(&str, &str)>) -> String {
    let is_last = |name: &str| {
        others
            .iter()
            .all(|(directory, other)| *other < name || (*other == name && *directory == DIRECTORY))
    };
    let plain = ["zz-gdr.conf", "zzz-gdr.conf", "zzzz-gdr.conf", "~~gdr.conf"];
    let plain = plain
        .into_iter()
        .find(|name| is_last(name))
        .map(str::to_owned);
    plain.unwrap_or_else(|| {
        let last = others
            .iter()
            .map(|(_, name)| *name)
            .max()
            .unwrap_or_default();
        format!("{}~gdr.conf", last.strip_suffix(".conf").unwrap_or(last))
    })
}

/// What a parameter becomes, by its value in our file.
pub type Change = Box<dyn Fn(Option<&str>) -> String>;

/// Our file with parameters set for each of these names.
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

/// Wishes for that file, for an initramfs that has it, and for a driver that is loaded anew. `what` it sets.
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
            let warning = format!("The options of the next load have it already. {reload}");
            desired.warnings.push(warning);
        }
        return desired;
    }
    let path = path(ctx);
    let about = format!(
        "{path} sets {what} for {}, beside the values there are.",
        names.join(" and ")
    );
    desired.desired_change(about, setting(path, names, changes));
    initramfs::rebuild(ctx, &mut desired);
    desired.afterwards.push(reload::reload(ctx));
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(want: &ChangeTarget, present: Option<&str>) -> String {
        match want {
            ChangeTarget::File { content, .. } => content(present).expect("a text"),
            _ => panic!("no file"),
        }
    }

    #[test]
    fn our_name_is_the_last() {
        for (others, want) in [
            (&[][..], "zz-gdr.conf"),
            (
                &[
                    ("/etc/modprobe.d", "nvidia.conf"),
                    ("/usr/lib/modprobe.d", "z.conf"),
                ],
                "zz-gdr.conf",
            ),
            // Our own, of an earlier repair; and somebody else's of that name, which ours would hide.
            (&[("/etc/modprobe.d", "zz-gdr.conf")], "zz-gdr.conf"),
            (&[("/usr/lib/modprobe.d", "zz-gdr.conf")], "zzz-gdr.conf"),
            (
                &[
                    ("/etc/modprobe.d", "zz-gdr.conf"),
                    ("/etc/modprobe.d", "zz-site.conf"),
                ],
                "zzz-gdr.conf",
            ),
            (&[("/etc/modprobe.d", "zzzz.conf")], "~~gdr.conf"),
            (&[("/etc/modprobe.d", "~~~.conf")], "~~~~gdr.conf"),
            (&[("/run/modprobe.d", "\u{e9}.conf")], "\u{e9}~gdr.conf"),
        ] {
            let name = name(&others.iter().copied().collect());
            assert_eq!(name, want);
            assert!(
                others.iter().all(|(_, other)| *other <= name.as_str()),
                "{name}"
            );
        }
    }

    #[test]
    fn two_fixes_share_a_line_for_each_name() {
        let names = || vec!["nvidia".to_owned(), "nvidia-current".to_owned()];
        let first: Change = Box::new(|present| format!("{}A=1;", present.unwrap_or("B=2;")));
        let once = text(
            &setting(String::new(), names(), vec![("X".to_owned(), first)]),
            None,
        );
        assert_eq!(
            once,
            format!("{HEAD}options nvidia X=\"B=2;A=1;\"\noptions nvidia-current X=\"B=2;A=1;\"\n")
        );
        let second: Change = Box::new(|_| "1".to_owned());
        let want = setting(String::new(), names(), vec![("Y".to_owned(), second)]);
        let twice = text(&want, Some(&once));
        assert_eq!(
            twice,
            format!(
                "{HEAD}options nvidia X=\"B=2;A=1;\" Y=1\noptions nvidia-current X=\"B=2;A=1;\" Y=1\n"
            )
        );
        assert_eq!(text(&want, Some(&twice)), twice);
    }
}
