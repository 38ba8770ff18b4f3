//! Selects checks by id or by family (`pcie`, `pcie.*`).

use super::registry::all;
use crate::input::did_you_mean;

/// The checks to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    only: Vec<String>,
    skip: Vec<String>,
}

/// An invalid selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No check and no family has this name.
    #[error("there is no check '{name}'{near}; 'gdr doctor --list' lists all checks", near = similar(.name))]
    NoSuchCheck { name: String },
    /// Every check of `--only` is left out by `--skip`.
    #[error("no check is left to run: --skip leaves out {every}", every = if *.only { "every check of --only" } else { "every check" })]
    Nothing {
        /// True if `--only` was given.
        only: bool,
    },
}

impl Selection {
    /// Selects the checks in `only` (all if it is empty), except those in `skip`.
    pub fn of(only: &[String], skip: &[String]) -> Result<Self, SelectionError> {
        for name in only.iter().chain(skip) {
            if !all().any(|check| is_named(check.id, name)) {
                return Err(SelectionError::NoSuchCheck { name: name.clone() });
            }
        }
        let selection = Self { only: only.to_vec(), skip: skip.to_vec() };
        if all().any(|check| selection.has(check.id)) {
            Ok(selection)
        } else {
            Err(SelectionError::Nothing { only: !only.is_empty() })
        }
    }

    /// True if every check is selected.
    pub fn is_everything(&self) -> bool {
        self.only.is_empty() && self.skip.is_empty()
    }

    /// True if the check with this id is selected.
    pub fn has(&self, id: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| is_named(id, name));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// True if `name` is the id of the check or the name of its family.
fn is_named(id: &str, name: &str) -> bool {
    let family = name.strip_suffix(".*").unwrap_or(name);
    id == name || id.split_once('.').is_some_and(|(first, _)| first == family)
}

/// For an error: suggests the check or family most similar to an unknown name.
pub fn similar(name: &str) -> String {
    let families = all().filter_map(|check| check.id.split_once('.')).map(|(family, _)| family);
    did_you_mean(name, all().map(|check| check.id).chain(families))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(only: &[&str], skip: &[&str]) -> Result<Selection, SelectionError> {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Selection::of(&names(only), &names(skip))
    }

    #[test]
    fn selects_by_id_and_family() {
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
    fn rejects_unknown_names() {
        let error = of(&["bar1"], &[]).expect_err("no such check").to_string();
        assert!(error.contains("'bar1'") && error.contains("gpu.bar1"), "{error}");
        assert!(of(&[], &["zzz"]).is_err());
        assert!(of(&["gpu."], &[]).is_err());
    }

    #[test]
    fn rejects_empty_selection() {
        let error =
            of(&["pcie", "gpu.bar1"], &["gpu", "pcie.*"]).expect_err("nothing is left").to_string();
        assert_eq!(error, "no check is left to run: --skip leaves out every check of --only");
        let every: Vec<&str> = all().map(|check| check.id).collect();
        let error = of(&[], &every).expect_err("nothing is left").to_string();
        assert_eq!(error, "no check is left to run: --skip leaves out every check");
    }
}
