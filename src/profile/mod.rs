//! Profiles (`profiles/*.toml`): which checks must be determined, and their severities. Unknown keys are errors.

mod expect;
mod firmware;
mod majority;
mod roles;
mod versions;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::input::toml_error;
use crate::model::{Severity, Shares};
pub use expect::{Comparison, Expect, Expected, KEYS, Key, Values, key_named, parts, toml_string};
pub use firmware::{Minimum, minimum_firmware};
pub use majority::{Majority, majority};
pub use roles::{NicRole, Roles};
pub use versions::{BadVersions, Component, Condition, bad_versions, version_numbers};

pub const SHIPPED: [(&str, &str); 8] = [
    ("rdma", include_str!("../../profiles/rdma.toml")),
    ("async", include_str!("../../profiles/async.toml")),
    ("gpu-initiated", include_str!("../../profiles/gpu-initiated.toml")),
    ("gdrcopy", include_str!("../../profiles/gdrcopy.toml")),
    ("p2p", include_str!("../../profiles/p2p.toml")),
    ("mpi", include_str!("../../profiles/mpi.toml")),
    ("nvlink-domain", include_str!("../../profiles/nvlink-domain.toml")),
    ("all", include_str!("../../profiles/all.toml")),
];

/// The default profile.
pub const DEFAULT: &str = "rdma";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    /// Title, colon, and a sentence.
    pub about: String,
    /// Profiles that it includes.
    #[serde(default)]
    pub includes: Vec<String>,
    /// The units whose readiness is reported.
    #[serde(default)]
    pub units: Units,
    /// Expectations by check id or family (`rdma.*`); an id takes precedence.
    #[serde(default)]
    pub checks: BTreeMap<String, Expectation>,
    /// Which probe results count as slow.
    #[serde(default)]
    pub probe: Shares,
    /// What the machine must have.
    #[serde(default)]
    pub expect: Expect,
    /// What NICs are for.
    #[serde(default)]
    pub roles: Roles,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    #[default]
    Gpu,
    /// Each GPU with its best NIC.
    GpuNic,
    /// Each pair of GPUs.
    GpuGpu,
}

/// A profile's expectation of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Overrides the check's own severity.
    pub severity: Option<Severity>,
    /// Must be determined; "unknown" is not enough.
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("invalid profile {name}: {what}")]
    Text {
        /// Name or file.
        name: String,
        what: String,
    },
    #[error("profile {name}: unknown check '{id}': see gdr doctor --list")]
    Check { name: String, id: String },
    #[error("profile {name}: invalid {key} = {share} in table probe: must be from 0 to 1")]
    Share { name: String, key: &'static str, share: f64 },
}

impl Profile {
    /// Parses a profile. `known`: whether a check or family exists.
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
            return Err(ProfileError::Share { name: name.to_owned(), key, share });
        }
        match profile.checks.keys().find(|id| !known(id)) {
            Some(id) => Err(ProfileError::Check { name: name.to_owned(), id: id.clone() }),
            None => Ok(profile),
        }
    }

    /// Its short title.
    pub fn title(&self) -> &str {
        self.about.split_once(':').map_or(&self.about, |(title, _)| title)
    }

    /// Its expectation of a check, if any.
    fn expectation(&self, id: &str) -> Option<Expectation> {
        let family = || {
            let (family, _) = id.split_once('.')?;
            self.checks.get(&format!("{family}.*"))
        };
        self.checks.get(id).or_else(family).copied()
    }
}

/// The combined expectations of all selected profiles; the greatest severity counts.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// The selected profiles.
    pub names: Vec<String>,
    profiles: Vec<Profile>,
    /// Of these profiles and others, by the profile's name: what a NIC is for does not depend on the profile that is judged.
    roles: Vec<(String, Roles)>,
}

impl Expectations {
    pub fn of(profiles: &[Profile]) -> Self {
        Self {
            names: profiles.iter().map(|profile| profile.name.clone()).collect(),
            profiles: profiles.to_vec(),
            roles: profiles.iter().map(|of| (of.name.clone(), of.roles.clone())).collect(),
        }
    }

    /// The expectations of one profile, with the roles of all these.
    pub fn of_one(&self, profile: &Profile) -> Self {
        Self { roles: self.roles.clone(), ..Self::of(std::slice::from_ref(profile)) }
    }

    /// What the NIC with one of these names is for, and the profile that says so.
    pub fn role(&self, names: &[&str]) -> Option<(&str, NicRole)> {
        let each = self.roles.iter();
        let mut known =
            each.filter_map(|(profile, roles)| Some((profile.as_str(), roles.of(names)?)));
        known.next()
    }

    /// The severity of a check with its own severity `own`, in a case with severity `case`. A profile may lower a case's
    /// severity and set that of a check without one.
    pub fn weight(&self, id: &str, own: Severity, case: Option<Severity>) -> Severity {
        let weights = self.profiles.iter().map(|profile| {
            let expected = profile.expectation(id).and_then(|expected| expected.severity);
            match (case, expected) {
                (Some(case), Some(expected)) => case.min(expected),
                (Some(case), None) => case,
                (None, expected) => expected.unwrap_or(own),
            }
        });
        weights.max().unwrap_or(case.unwrap_or(own))
    }

    /// Whether any profile requires the check.
    pub fn requires(&self, id: &str) -> bool {
        self.profiles
            .iter()
            .any(|profile| profile.expectation(id).is_some_and(|expected| expected.required))
    }

    /// The thresholds for slow results; of each the largest.
    pub fn shares(&self) -> Shares {
        let shares = self.profiles.iter().map(|profile| profile.probe);
        shares.fold(Shares::default(), Shares::or_more)
    }

    /// The tables `expect` of all profiles, each with its profile's name.
    pub fn expects(&self) -> impl Iterator<Item = (&str, &Expect)> {
        let tables = self.profiles.iter().map(|profile| (profile.name.as_str(), &profile.expect));
        tables.filter(|(_, expect)| !expect.is_empty())
    }

    pub fn names(&self, profile: &str) -> bool {
        self.profiles.iter().any(|known| known.name == profile)
    }

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
    fn unknown_key_is_error_with_line() {
        let text = "name = \"x\"\nabout = \"y\"\n[checks.\"gpu.present\"]\nsevrity = \"error\"\n";
        let error = parse(text).expect_err("a misspelt key").to_string();
        assert!(
            error.contains("line 4, column 1: unknown key, expected `severity` or `required`"),
            "{error}"
        );
    }

    #[test]
    fn unknown_check_is_error() {
        let text = "name = \"x\"\nabout = \"y\"\n[checks.\"gpv.present\"]\nrequired = true\n";
        assert!(parse(text).expect_err("no such check").to_string().contains("'gpv.present'"));
    }

    #[test]
    fn strictest_threshold_counts() {
        let of = |text: &str| parse(&format!("name='a'\nabout=''\n[probe]\n{text}"));
        let (one, two) = (of("nvlink = 0.6\nmapping = 0.2"), of("nvlink = 0.7\npci-express = 0.5"));
        let both = Expectations::of(&[one.expect("one"), two.expect("two")]).shares();
        assert_eq!(
            (both.mapping, both.pci_express, both.nvlink),
            (Some(0.2), Some(0.5), Some(0.7))
        );
        for wrong in ["nvlink = 60", "nvlink = -0.1", "nvlink = nan"] {
            let error = of(wrong).expect_err(wrong).to_string();
            assert!(error.contains("must be from 0 to 1"), "{error}");
        }
        assert!(of("nvlnk = 0.6").is_err());
        for (name, text) in SHIPPED {
            let shares = Profile::parse(name, text, |_| true).expect("a profile").probe;
            let is_set = shares != Shares::default();
            assert_eq!(is_set, ["gdrcopy", "mpi", "p2p", "rdma"].contains(&name), "{name}");
        }
    }

    #[test]
    fn greatest_severity_counts() {
        let one =
            parse("name='a'\nabout=''\n[checks.\"gpu.bar1\"]\nseverity='info'\nrequired=true\n")
                .expect("one");
        let two =
            parse("name='b'\nabout=''\n[checks.\"gpu.bar1\"]\nseverity='warn'\n").expect("two");
        let both = Expectations::of(&[one.clone(), two]);
        assert_eq!(both.weight("gpu.bar1", Severity::Error, None), Severity::Warn);
        assert!(both.requires("gpu.bar1") && both.names("b") && !both.names("c"));
        // A profile without an expectation keeps the check's own severity.
        let three = parse("name='c'\nabout=''\n").expect("three");
        let both = Expectations::of(&[one, three]);
        assert_eq!(both.weight("gpu.bar1", Severity::Error, None), Severity::Error);
        assert_eq!(both.weight("gpu.bar1", Severity::Info, Some(Severity::Warn)), Severity::Warn);
    }

    #[test]
    fn id_overrides_family_and_cases_only_get_lower() {
        let text = "name='a'\nabout='Title: words'\n[checks]\n'gpu.*'={severity='info'}\n'gpu.bar1'={severity='warn'}\n";
        let profile = parse(text).expect("a profile");
        assert_eq!(profile.title(), "Title");
        let expected = Expectations::of(&[profile]);
        assert_eq!(expected.weight("gpu.mig", Severity::Error, None), Severity::Info);
        assert_eq!(expected.weight("gpu.bar1", Severity::Error, None), Severity::Warn);
        assert_eq!(
            expected.weight("gpu.bar1", Severity::Error, Some(Severity::Error)),
            Severity::Warn
        );
        assert_eq!(
            expected.weight("gpu.bar1", Severity::Error, Some(Severity::Info)),
            Severity::Info
        );
        assert_eq!(expected.weight("rdma.port", Severity::Warn, None), Severity::Warn);
    }
}
