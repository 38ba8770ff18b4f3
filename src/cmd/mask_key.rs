//! `--mask-key`: reads the file, and masks what a command reports.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::input;
use crate::model::{ExplainReport, Facts, MaskKey, ProbeReport};
use crate::snapshot::{Known, Masks};

/// More bytes than a key may have.
const MOST: u64 = 1 << 16;

pub fn read(file: Option<&Path>) -> anyhow::Result<Option<MaskKey>> {
    let Some(file) = file else { return Ok(None) };
    let unusable = || format!("--mask-key {}", file.display());
    let mut content = Vec::new();
    input::open(file)
        .with_context(unusable)?
        .take(MOST)
        .read_to_end(&mut content)
        .with_context(unusable)?;
    Ok(Some(MaskKey::new(&content).with_context(unusable)?))
}

/// Names of users that files and paths may have.
pub fn known_users() -> Known {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let users = ["USER", "LOGNAME", "SUDO_USER"].map(variable);
    let home = variable("HOME");
    let home = home.rsplit('/').next().unwrap_or_default();
    let users = users.iter().map(String::as_str).chain([home]);
    // root identifies no person.
    let users = users.filter(|user| !user.is_empty() && *user != "root");
    Known { users: users.map(str::to_owned).collect(), ..Known::default() }
}

/// What a command masks; without a key it reports everything as it is.
pub struct Masked(Option<Known>);

impl Masked {
    pub fn by(file: Option<&Path>) -> anyhow::Result<Self> {
        let key = read(file)?;
        Ok(Self(key.map(|key| Known { key: Some(key), ..known_users() })))
    }

    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The same with names that the caller knows to be of hosts.
    pub fn with_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        if let Some(known) = &mut self.0 {
            known.hosts.extend(hosts);
        }
        self
    }

    pub fn facts(&self, facts: Facts) -> anyhow::Result<Facts> {
        self.apply(facts, |masks, facts| masks.facts(facts))
    }

    pub fn probe(&self, report: ProbeReport) -> anyhow::Result<ProbeReport> {
        self.apply(report, |masks, report| masks.probe(report))
    }

    pub fn explain(&self, report: ExplainReport) -> anyhow::Result<ExplainReport> {
        self.apply(report, |masks, report| masks.explain(report))
    }

    fn apply<T>(
        &self,
        value: T,
        mask: impl FnOnce(&Masks<'_>, &T) -> Option<T>,
    ) -> anyhow::Result<T> {
        match &self.0 {
            Some(known) => mask(&Masks::new(known), &value).context("--mask-key: cannot mask"),
            None => Ok(value),
        }
    }
}
