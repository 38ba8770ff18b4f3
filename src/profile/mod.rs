//! What "ready" means: `profiles/*.toml` → expectations.
//!
//! A profile says which checks must be determined and how much each weighs. Unknown keys are errors that name the line.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::Severity;

/// The shipped profiles: name and text.
pub const SHIPPED: [(&str, &str); 4] = [
    ("rdma", include_str!("../../profiles/rdma.toml")),
    ("async", include_str!("../../profiles/async.toml")),
    ("gdrcopy", include_str!("../../profiles/gdrcopy.toml")),
    ("p2p", include_str!("../../profiles/p2p.toml")),
];

/// The profile that is meant where none is named.
pub const DEFAULT: &str = "rdma";

/// One profile, as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub about: String,
    /// What it asks of each check, by id.
    #[serde(default)]
    pub checks: BTreeMap<String, Expectation>,
}

/// What a profile asks of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Its weight, where it is not the check's own.
    pub severity: Option<Severity>,
    /// It must be determined: unknown is not good enough.
    #[serde(default)]
    pub required: bool,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The text is not a profile.
    #[error("profile {name} is not one that gdr can use")]
    Text {
        /// The profile's name or file.
        name: String,
        /// What and where.
        #[source]
        source: toml::de::Error,
    },
    /// It asks something of a check that does not exist.
    #[error("profile {name}: there is no check '{id}'; gdr doctor --list names them all")]
    Check {
        /// The profile's name or file.
        name: String,
        /// The id.
        id: String,
    },
}

impl Profile {
    /// Reads a profile. `known` tells whether a check of that id exists.
    pub fn parse(name: &str, text: &str, known: impl Fn(&str) -> bool) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|source| ProfileError::Text {
            name: name.to_owned(),
            source,
        })?;
        match profile.checks.keys().find(|id| !known(id)) {
            Some(id) => Err(ProfileError::Check {
                name: name.to_owned(),
                id: id.clone(),
            }),
            None => Ok(profile),
        }
    }
}

/// What all profiles in force ask for together: of each check the greatest weight any of them gives.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// The profiles' names.
    pub names: Vec<String>,
    checks: BTreeMap<String, Expectation>,
}

impl Expectations {
    /// Puts profiles together.
    pub fn of(profiles: &[Profile]) -> Self {
        let mut checks: BTreeMap<String, Expectation> = BTreeMap::new();
        for (id, asked) in profiles.iter().flat_map(|profile| &profile.checks) {
            let sum = checks.entry(id.clone()).or_default();
            sum.severity = sum.severity.max(asked.severity);
            sum.required |= asked.required;
        }
        Self {
            names: profiles.iter().map(|profile| profile.name.clone()).collect(),
            checks,
        }
    }

    /// The weight the profiles give a check; none leaves the check's own.
    pub fn severity(&self, id: &str) -> Option<Severity> {
        self.checks.get(id)?.severity
    }

    /// Whether a profile requires a check to be determined.
    pub fn requires(&self, id: &str) -> bool {
        self.checks.get(id).is_some_and(|asked| asked.required)
    }

    /// Whether a profile of this name is in force.
    pub fn names(&self, profile: &str) -> bool {
        self.names.iter().any(|name| name == profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Profile, ProfileError> {
        Profile::parse("test", text, |id| id.starts_with("gpu."))
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_line() {
        let text = "name = \"x\"\nabout = \"y\"\n[checks.\"gpu.present\"]\nsevrity = \"error\"\n";
        let error = parse(text).expect_err("a misspelt key");
        let error = std::error::Error::source(&error).expect("what and where").to_string();
        assert!(error.contains("line 4") && error.contains("sevrity"), "{error}");
    }

    #[test]
    fn a_check_that_does_not_exist_is_an_error() {
        let text = "name = \"x\"\nabout = \"y\"\n[checks.\"gpv.present\"]\nrequired = true\n";
        assert!(
            parse(text)
                .expect_err("no such check")
                .to_string()
                .contains("'gpv.present'")
        );
    }

    #[test]
    fn together_profiles_ask_the_most_that_any_asks() {
        let one = parse("name='a'\nabout=''\n[checks.\"gpu.bar1\"]\nseverity='info'\nrequired=true\n").expect("one");
        let two = parse("name='b'\nabout=''\n[checks.\"gpu.bar1\"]\nseverity='warn'\n").expect("two");
        let both = Expectations::of(&[one, two]);
        assert_eq!(both.severity("gpu.bar1"), Some(Severity::Warn));
        assert!(both.requires("gpu.bar1") && both.names("b") && !both.names("c"));
    }
}
