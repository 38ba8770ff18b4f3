//! Finds profiles: shipped, of the machine, of the user, or from a file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use crate::check;
use crate::input;
use crate::model::Shares;
use crate::profile::{Expectations, Profile, ProfileError, Roles, SHIPPED};

/// Combines profiles with everything that they include.
pub fn expectations(names: &[String]) -> anyhow::Result<Expectations> {
    let mut profiles = Vec::new();
    let mut seen = Vec::new();
    for name in names {
        add(name, &mut seen, &mut profiles)?;
    }
    Ok(Expectations::of(&profiles))
}

fn add(name: &str, seen: &mut Vec<String>, profiles: &mut Vec<Profile>) -> anyhow::Result<()> {
    if seen.iter().any(|other| other == name) {
        return Ok(());
    }
    seen.push(name.to_owned());
    let known = |id: &str| check::find(id).is_some() || check::is_family(id);
    let profile = Profile::parse(name, &text(name)?, known).map_err(|error| match &error {
        ProfileError::Check { id, .. } => anyhow!("{error}{}", check::similar(id)),
        _ => error.into(),
    })?;
    for included in &profile.includes {
        add(included, seen, profiles)
            .with_context(|| format!("profile {name} includes {included}"))?;
    }
    // A profile that only includes others has no expectations of its own.
    let asks = !profile.checks.is_empty()
        || profile.probe != Shares::default()
        || !profile.expect.is_empty()
        || profile.roles != Roles::default();
    if profile.includes.is_empty() || asks {
        profiles.push(profile);
    }
    Ok(())
}

fn text(name: &str) -> anyhow::Result<String> {
    if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Ok((*text).to_owned());
    }
    let is_path = name.contains('/') || name.ends_with(".toml");
    let file = if is_path {
        Some(PathBuf::from(name))
    } else {
        directories()
            .into_iter()
            .map(|directory| directory.join(format!("{name}.toml")))
            .chain([PathBuf::from(name)])
            .find(|file| file.exists())
    };
    let Some(file) = file else {
        let shipped: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        let places: Vec<String> =
            directories().iter().map(|place| place.display().to_string()).collect();
        bail!(
            "unknown profile '{name}'{}: it is neither one of {}, nor a file, nor {name}.toml in {}",
            input::did_you_mean(name, shipped.iter().copied()),
            shipped.join(", "),
            places.join(" or ")
        );
    };
    read(&file)
}

/// Directories of profiles: of the user, then of the machine.
fn directories() -> Vec<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let user =
        config.filter(|config| config.is_absolute()).map(|config| config.join("gdr/profiles"));
    user.into_iter().chain([PathBuf::from("/etc/gdr/profiles")]).collect()
}

/// Reads a profile file of at most 1 MiB.
fn read(file: &Path) -> anyhow::Result<String> {
    const MOST: u64 = 1 << 20;
    let unreadable = || format!("cannot read profile {}", file.display());
    let opened = input::open(file).with_context(unreadable)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(opened, MOST + 1), &mut text)
        .with_context(unreadable)?;
    if text.len() as u64 > MOST {
        bail!("profile {} is larger than 1 MiB", file.display());
    }
    Ok(text)
}
