//! Which checks a user wants: by id, by family (`pcie`, `pcie.*`), all but some.

use super::registry::all;
use crate::input::did_you_mean;

/// A choice among the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    only: Vec<String>,
    skip: Vec<String>,
}

/// A choice that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No check and no family has this name.
    #[error("there is no check '{name}'{near}; 'gdr doctor --list' lists all checks", near = similar(.name))]
    NoSuchCheck {
        /// As it was typed.
        name: String,
    },
    /// Every check of `--only` is left out by `--skip`.
    #[error("no check is left to run: --skip leaves out {every}", every = if *.only { "every check of --only" } else { "every check" })]
    Nothing {
        /// Whether `--only` was given.
        only: bool,
    },
}

impl Selection {
    /// Those that are named in `only`, all where it is empty, but for those that are named in `skip`.
    pub fn of(only: &[String], skip: &[String]) -> Result<Self, SelectionError> {
        for name in only.iter().chain(skip) {
            if !all().any(|check| is_named(check.id, name)) {
                return Err(SelectionError::NoSuchCheck { name: name.clone() });
            }
        }
        let selection = Self {
            only: only.to_vec(),
            skip: skip.to_vec(),
        };
        match all().any(|check| selection.has(check.id)) {
            true => Ok(selection),
            false => Err(SelectionError::Nothing {
                only: !only.is_empty(),
            }),
        }
    }

    /// Whether no check is left out.
    pub fn is_everything(&self) -> bool {
        self.only.is_empty() && self.skip.is_empty()
    }

    /// Whether the check of this id is among them.
    pub fn has(&self, id: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| is_named(id, name));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// Whether a name means the check of this id: its id, or its family's name.
fn is_named(id: &str, name: &str) -> bool {
    let family = name.strip_suffix(".*").unwrap_or(name);
    id == name || id.split_once('.').is_some_and(|(first, _)| first == family)
}

/// What follows the name of no check in an error: the check or family that is most like it.
pub fn similar(name: &str) -> String {
    let families = all()
        .filter_map(|check| check.id.split_once('.'))
        .map(|(family, _)| family);
    did_you_mean(name, all().map(|check| check.id).chain(families))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(only: &[&str], skip: &[&str]) -> Result<Selection, SelectionError> {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        Selection::of(&names(only), &names(skip))
    }

    #[test]
    fn ids_and_families_choose() {
        let pcie = of(&["pcie"], &["pcie.acs"]).expect("a selection");
        assert!(
            pcie.has("pcie.link")
                && !pcie.has("pcie.acs")
                && pcie.has("pcie.acs-vm")
                && !pcie.has("gpu.bar1")
        );
        assert!(of(&["pcie.*"], &[]).expect("a selection").has("pcie.acs"));
        assert!(of(&[], &[]).expect("a selection").has("gpu.bar1"));
    }

    #[test]
    fn a_name_of_nothing_is_an_error_that_helps() {
        let error = of(&["bar1"], &[]).expect_err("no such check").to_string();
        assert!(
            error.contains("'bar1'") && error.contains("gpu.bar1"),
            "{error}"
        );
        assert!(of(&[], &["zzz"]).is_err());
        assert!(of(&["gpu."], &[]).is_err());
    }

    #[test]
    fn a_choice_of_no_check_is_an_error() {
        let error = of(&["pcie", "gpu.bar1"], &["gpu", "pcie.*"])
            .expect_err("nothing is left")
            .to_string();
        assert_eq!(
            error,
            "no check is left to run: --skip leaves out every check of --only"
        );
        let every: Vec<&str> = all().map(|check| check.id).collect();
        let error = of(&[], &every).expect_err("nothing is left").to_string();
        assert_eq!(
            error,
            "no check is left to run: --skip leaves out every check"
        );
    }
}
