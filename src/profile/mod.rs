//! What "ready" means: `profiles/*.toml` → expectations.
//!
//! A profile says which checks must be determined and how much each weighs. Unknown keys are errors that name the line.

mod firmware;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::input::toml_error;
use crate::model::{Severity, Shares};
pub use firmware::{Minimum, minimum_firmware};

/// The shipped profiles: name and text.
pub const SHIPPED: [(&str, &str); 6] = [
    ("rdma", include_str!("../../profiles/rdma.toml")),
    ("async", include_str!("../../profiles/async.toml")),
    ("gdrcopy", include_str!("../../profiles/gdrcopy.toml")),
    ("p2p", include_str!("../../profiles/p2p.toml")),
    ("mpi", include_str!("../../profiles/mpi.toml")),
    ("all", include_str!("../../profiles/all.toml")),
];

/// The profile that is meant where none is named.
pub const DEFAULT: &str = "rdma";

/// One profile, as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    /// What it is for: a title, a colon, and a sentence.
    pub about: String,
    /// Other profiles that it is made of, by name.
    #[serde(default)]
    pub includes: Vec<String>,
    /// What is ready or not.
    #[serde(default)]
    pub units: Units,
    /// What it asks of each check, by id, or by family as in `rdma.*`; an id goes before its family.
    #[serde(default)]
    pub checks: BTreeMap<String, Expectation>,
    /// What of a probe's figures is slow.
    #[serde(default)]
    pub probe: Shares,
}

/// What a profile finds ready or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    #[default]
    Gpu,
    /// Each GPU with the NIC that is best for it.
    GpuNic,
    /// Each pair of GPUs.
    GpuGpu,
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
    #[error("profile {name} is not one that gdr can use: {what}")]
    Text {
        /// The profile's name or file.
        name: String,
        what: String,
    },
    /// It asks something of a check that does not exist.
    #[error("profile {name}: there is no check '{id}'; gdr doctor --list names them all")]
    Check {
        /// The profile's name or file.
        name: String,
        id: String,
    },
    /// What it calls slow is no share.
    #[error("profile {name}: {key} = {share} in its table probe is no share: it goes from 0 to 1")]
    Share {
        /// The profile's name or file.
        name: String,
        key: &'static str,
        share: f64,
    },
}

impl Profile {
    /// Reads a profile. `known` tells whether a check of that id, or a family of that name, exists.
    pub fn parse(
        name: &str,
        text: &str,
        known: impl Fn(&str) -> bool,
    ) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Text {
            name: name.to_owned(),
            what: toml_error(&error, text),
        })?;
        if let Some((key, share)) = profile.probe.wrong() {
            return Err(ProfileError::Share {
                name: name.to_owned(),
                key,
                share,
            });
        }
        match profile.checks.keys().find(|id| !known(id)) {
            Some(id) => Err(ProfileError::Check {
                name: name.to_owned(),
                id: id.clone(),
            }),
            None => Ok(profile),
        }
    }

    /// What it is about, in a word or two.
    pub fn title(&self) -> &str {
        self.about
            .split_once(':')
            .map_or(&self.about, |(title, _)| title)
    }

    /// What it asks of a check; none where it says nothing of it.
    fn asks(&self, id: &str) -> Option<Expectation> {
        let family = || {
            let (family, _) = id.split_once('.')?;
            self.checks.get(&format!("{family}.*"))
        };
        self.checks.get(id).or_else(family).copied()
    }
}

/// What all profiles in force ask for together: of each check the greatest weight that any of them gives.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// The profiles' names, as they were asked for.
    pub names: Vec<String>,
    profiles: Vec<Profile>,
}

impl Expectations {
    pub fn of(profiles: &[Profile]) -> Self {
        Self {
            names: profiles
                .iter()
                .map(|profile| profile.name.clone())
                .collect(),
            profiles: profiles.to_vec(),
        }
    }

    /// The weight of a check whose own is `own`, in a case that the check itself weighs `case`. A profile may lower what
    /// the check found out about a case, and set the weight of what the check left open; what no profile speaks of stays
    /// as it is.
    pub fn weight(&self, id: &str, own: Severity, case: Option<Severity>) -> Severity {
        let weights = self.profiles.iter().map(|profile| {
            let asked = profile.asks(id).and_then(|asked| asked.severity);
            match (case, asked) {
                (Some(case), Some(asked)) => case.min(asked),
                (Some(case), None) => case,
                (None, asked) => asked.unwrap_or(own),
            }
        });
        weights.max().unwrap_or(case.unwrap_or(own))
    }

    /// Whether a profile requires a check to be determined.
    pub fn requires(&self, id: &str) -> bool {
        self.profiles
            .iter()
            .any(|profile| profile.asks(id).is_some_and(|asked| asked.required))
    }

    /// Below which shares of what a way carries a figure is slow: of each the largest.
    pub fn shares(&self) -> Shares {
        let shares = self.profiles.iter().map(|profile| profile.probe);
        shares.fold(Shares::default(), Shares::or_more)
    }

    /// Whether a profile of this name is in force.
    pub fn names(&self, profile: &str) -> bool {
        self.profiles.iter().any(|known| known.name == profile)
    }

    /// Each of the profiles in force.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
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
        let error = parse(text).expect_err("a misspelt key").to_string();
        assert!(
            error.contains("line 4, column 1: unknown key, expected `severity` or `required`"),
            "{error}"
        );
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
    fn a_profile_says_what_is_slow_and_the_strictest_counts() {
        let of = |text: &str| parse(&format!("name='a'\nabout=''\n[probe]\n{text}"));
        let (one, two) = (
            of("nvlink = 0.6\nmapping = 0.2"),
            of("nvlink = 0.7\npci-express = 0.5"),
        );
        let both = Expectations::of(&[one.expect("one"), two.expect("two")]).shares();
        assert_eq!(
            (both.mapping, both.pci_express, both.nvlink),
            (Some(0.2), Some(0.5), Some(0.7))
        );
        for wrong in ["nvlink = 60", "nvlink = -0.1", "nvlink = nan"] {
            let error = of(wrong).expect_err(wrong).to_string();
            assert!(error.contains("goes from 0 to 1"), "{error}");
        }
        assert!(of("nvlnk = 0.6").is_err());
        for (name, text) in SHIPPED {
            let shares = Profile::parse(name, text, |_| true)
                .expect("a profile")
                .probe;
            let says = shares != Shares::default();
            assert_eq!(
                says,
                ["gdrcopy", "mpi", "p2p", "rdma"].contains(&name),
                "{name}"
            );
        }
    }

    #[test]
    fn together_profiles_ask_the_most_that_any_asks() {
        let one =
            parse("name='a'\nabout=''\n[checks.\"gpu.bar1\"]\nseverity='info'\nrequired=true\n")
                .expect("one");
        let two =
            parse("name='b'\nabout=''\n[checks.\"gpu.bar1\"]\nseverity='warn'\n").expect("two");
        let both = Expectations::of(&[one.clone(), two]);
        assert_eq!(
            both.weight("gpu.bar1", Severity::Error, None),
            Severity::Warn
        );
        assert!(both.requires("gpu.bar1") && both.names("b") && !both.names("c"));
        // A profile that says nothing of a check leaves it its own weight, whatever another makes of it.
        let three = parse("name='c'\nabout=''\n").expect("three");
        let both = Expectations::of(&[one, three]);
        assert_eq!(
            both.weight("gpu.bar1", Severity::Error, None),
            Severity::Error
        );
        assert_eq!(
            both.weight("gpu.bar1", Severity::Info, Some(Severity::Warn)),
            Severity::Warn
        );
    }

    #[test]
    fn an_id_goes_before_its_family_and_a_case_may_only_be_lowered() {
        let text = "name='a'\nabout='Title: words'\n[checks]\n'gpu.*'={severity='info'}\n'gpu.bar1'={severity='warn'}\n";
        let profile = parse(text).expect("a profile");
        assert_eq!(profile.title(), "Title");
        let asked = Expectations::of(&[profile]);
        assert_eq!(
            asked.weight("gpu.mig", Severity::Error, None),
            Severity::Info
        );
        assert_eq!(
            asked.weight("gpu.bar1", Severity::Error, None),
            Severity::Warn
        );
        assert_eq!(
            asked.weight("gpu.bar1", Severity::Error, Some(Severity::Error)),
            Severity::Warn
        );
        assert_eq!(
            asked.weight("gpu.bar1", Severity::Error, Some(Severity::Info)),
            Severity::Info
        );
        assert_eq!(
            asked.weight("rdma.port", Severity::Warn, None),
            Severity::Warn
        );
    }
}
