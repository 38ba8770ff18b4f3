//! Which checks a user wants: by id, by family (`pcie`, `pcie.*`), all but some.

use super::registry::{all, find};

/// A choice among the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    only: Vec<String>,
    skip: Vec<String>,
}

/// A name that no check and no family has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no check '{name}'{near}; gdr doctor --list names them all")]
pub struct NoSuchCheck {
    name: String,
    near: String,
}

impl Selection {
    /// Those that are named in `only`, all where it is empty, but for those that are named in `skip`.
    pub fn of(only: &[String], skip: &[String]) -> Result<Self, NoSuchCheck> {
        for name in only.iter().chain(skip) {
            if !all().any(|check| is_named(check.id, name)) {
                return Err(NoSuchCheck {
                    name: name.clone(),
                    near: nearest(name)
                        .map_or(String::new(), |id| format!(" (did you mean '{id}'?)")),
                });
            }
        }
        Ok(Self {
            only: only.to_vec(),
            skip: skip.to_vec(),
        })
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

/// The id that is most like a name, where one is like it at all.
fn nearest(name: &str) -> Option<&'static str> {
    let like = |id: &str| {
        let words = name.split(['.', '-', '_']).filter(|word| word.len() > 2);
        words.filter(|word| id.contains(word)).count()
    };
    let best = all().max_by_key(|check| like(check.id))?;
    find(best.id)
        .filter(|check| like(check.id) > 0)
        .map(|check| check.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(only: &[&str], skip: &[&str]) -> Result<Selection, NoSuchCheck> {
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
}
