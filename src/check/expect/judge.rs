//! Compares a machine, or the results of a probe, with the tables `expect` of the profiles.

use std::collections::{BTreeMap, BTreeSet};

use super::observe::{Observation, observe};
use crate::check::roles::Roles;
use crate::check::{CheckAction, Ctx, Judgement, words};
use crate::model::{
    ActionClass, Fact, GIGABYTES_PER_SECOND, ProbeReport, ProbeResult, ProbeVerdict,
};
use crate::profile::{Comparison, Expect, Expectations, Expected, Key, Values, key_named, parts};

/// Judges these keys of every profile: one judgement per difference, and one for all that is as expected.
pub fn judge(ctx: &Ctx<'_>, keys: &[&str]) -> Vec<Judgement> {
    let mut judgements = Vec::new();
    let roles = Roles::new(ctx);
    for (profile, expect) in ctx.expectations.expects() {
        let mut good: Vec<(String, String)> = Vec::new();
        for key in keys.iter().filter_map(|name| key_named(name)) {
            let Some(expected) = expect.0.get(key.name) else {
                continue;
            };
            let found = observe(ctx, key.name);
            if key.name.ends_with(".count") && is_list_broken(ctx, expect, key) {
                // The list names the devices that the number lacks.
                continue;
            }
            for observation in &found {
                match compare(key, expected, observation, profile) {
                    Some(judgement) if key.name.starts_with("ports.") => {
                        let judgement = acted(judgement, key);
                        judgements.push(roles.expected(&observation.device, judgement));
                    }
                    Some(judgement) => judgements.push(acted(judgement, key)),
                    None => good.push((source(profile, key), expected.to_string())),
                }
            }
            let absent = absent(key, expected, &found, profile);
            judgements.extend(absent.into_iter().map(|judgement| acted(judgement, key)));
        }
        good.dedup();
        if !good.is_empty() {
            let pass = Judgement::pass("machine", format!("As profile {profile} expects."));
            judgements.push(
                good.into_iter().fold(pass, |pass, (source, value)| pass.evidence(source, value)),
            );
        }
    }
    judgements
}

/// The action of a key, where the keys of a check need different ones.
fn acted(judgement: Judgement, key: &Key) -> Judgement {
    const SOURCE: &str = super::SOURCE;
    let action: CheckAction = match key.name {
        "gpus.bar1" | "gpus.numa" | "nics.numa" => ActionClass::Firmware.drained(SOURCE),
        "gpus.mig" => ActionClass::Configure.drained(SOURCE),
        "ports.layer" => ActionClass::Firmware.drained(SOURCE),
        "pairs.nvlinks" => ActionClass::ResetGpu.drained(SOURCE).then(ActionClass::CallVendor),
        _ => return judgement,
    };
    judgement.action(action)
}

/// True if the profile also lists the devices of this number, and the machine has others.
fn is_list_broken(ctx: &Ctx<'_>, expect: &Expect, count: &Key) -> bool {
    let list = ["gpus.addresses", "nics.names"].into_iter().find(|list| {
        let section = |name: &str| name.split('.').next().map(str::to_owned);
        section(list) == section(count.name)
    });
    let Some((list, Expected::All(values))) =
        list.and_then(|list| Some((list, expect.0.get(list)?)))
    else {
        return false;
    };
    observe(ctx, list).iter().any(|observation| {
        let found = observation.found.known();
        found.is_some_and(|found| !values.accept(Comparison::Set, found))
    })
}

fn source(profile: &str, key: &Key) -> String {
    format!("expected by profile {profile}: {}", key.name)
}

/// The judgement of one device that is not as expected.
fn compare(
    key: &Key,
    expected: &Expected,
    observation: &Observation,
    profile: &str,
) -> Option<Judgement> {
    // Nothing is expected of a device that the profile does not name.
    let nothing = Values(Vec::new());
    let values = match (expected.of(&observation.device), &observation.found) {
        (Some(values), _) => values,
        // Which devices there are is unknown, so those that the profile names may not be as expected.
        (None, Fact::Unknown(_)) if observation.device == "machine" => &nothing,
        // A class of pairs that should not be there.
        (None, _) if key.name.starts_with("pairs.") => &nothing,
        (None, _) => return None,
    };
    match &observation.found {
        Fact::Known(found) if values.accept(key.comparison, found) => None,
        Fact::Known(found) => Some(broken(key, values, observation, found, profile)),
        Fact::Unknown(why) => {
            let unknown = Judgement::unknown(
                &observation.subject,
                *why,
                observation.area,
                &observation.source,
            );
            Some(unknown.evidence(source(profile, key), expected.to_string()))
        }
    }
}

fn broken(
    key: &Key,
    values: &Values,
    observation: &Observation,
    found: &str,
    profile: &str,
) -> Judgement {
    let expected =
        if values.0.is_empty() { "none".to_owned() } else { key.with_unit(&values.to_string()) };
    let message = match key.comparison {
        Comparison::Set => differences(key, values, found),
        _ => format!(
            "{}: {expected} expected, {} found.",
            key.subject(&observation.device),
            key.with_unit(found)
        ),
    };
    Judgement::broken(&observation.subject, message)
        .evidence(source(profile, key), expected)
        .evidence(&observation.source, found)
}

/// What a list lacks and what it has beyond the expected.
fn differences(key: &Key, values: &Values, found: &str) -> String {
    let found: BTreeSet<&str> = parts(found).collect();
    let expected: BTreeSet<&str> = values.0.iter().map(String::as_str).collect();
    let missing: Vec<&str> = expected.difference(&found).copied().collect();
    let more: Vec<&str> = found.difference(&expected).copied().collect();
    let (words, more_names) = (key.words, more.join(", "));
    if missing.is_empty() {
        return format!("{} {words} not expected: {more_names}.", more.len());
    }
    let (count, of, names) = (missing.len(), expected.len(), missing.join(", "));
    let extra =
        if more.is_empty() { String::new() } else { format!("; not expected: {more_names}") };
    format!("{count} of {of} {words} missing: {names}{extra}.")
}

/// Devices or classes that the profile names and the machine does not have.
fn absent(key: &Key, expected: &Expected, found: &[Observation], profile: &str) -> Vec<Judgement> {
    let Expected::Each(each) = expected else {
        return Vec::new();
    };
    let is_known = found.iter().all(|observation| {
        observation.device != "machine" || matches!(observation.found, Fact::Known(_))
    });
    let names: BTreeSet<&str> =
        found.iter().map(|observation| observation.device.as_str()).collect();
    let missing = each.iter().filter(|(name, _)| is_known && !names.contains(name.as_str()));
    let missing = missing.map(|(name, values)| {
        let (subject, expected) = (key.subject(name), key.with_unit(&values.to_string()));
        let message = if key.name.starts_with("pairs.") {
            format!("{subject}: {expected} expected, none found.")
        } else {
            format!("{name} missing ({subject}: {expected} expected).")
        };
        Judgement::broken("machine", message)
            .evidence(source(profile, key), format!("{name}: {values}"))
            .evidence("this machine", "none")
    });
    missing.collect()
}

/// Judges the bandwidths of a probe: of each result that the profiles name, the one with the most bytes per subject.
pub fn bandwidths(expectations: &Expectations, report: &ProbeReport) -> Vec<Judgement> {
    let Some(key) = key_named("bandwidth") else {
        return Vec::new();
    };
    let mut judgements = Vec::new();
    for (profile, expect) in expectations.expects() {
        let Some(expected) = expect.0.get(key.name) else {
            continue;
        };
        for result in largest(&report.results) {
            let values = match expected {
                Expected::Each(each) => each.get(&result.name),
                Expected::All(_) => None,
            };
            let (Some(values), Some(median)) = (values, result.median) else {
                continue;
            };
            let found = format!("{median:.2}");
            let size = result.bytes.map_or("any size".to_owned(), words::size);
            let of = format!("{} with {size}", result.name);
            let judgement = if values.accept(key.comparison, &median.to_string()) {
                Judgement::pass(
                    &result.subject,
                    format!("{of}: {found} {} is as expected.", result.unit),
                )
            } else {
                Judgement::broken(
                    &result.subject,
                    format!(
                        "{of}: at least {values} {unit} expected, {found} {unit} found.",
                        unit = result.unit
                    ),
                )
            };
            judgements.push(
                judgement
                    .evidence(source(profile, key), values.to_string())
                    .evidence(format!("gdr probe {}", report.probe.name()), found),
            );
        }
    }
    judgements
}

/// Of each bandwidth, subject and backend the result with the most bytes.
pub fn largest(results: &[ProbeResult]) -> impl Iterator<Item = &ProbeResult> {
    let measured = results.iter().filter(|result| {
        result.median.is_some()
            && result.unit == GIGABYTES_PER_SECOND
            && matches!(result.verdict, ProbeVerdict::Ok | ProbeVerdict::Slow)
    });
    let mut largest: BTreeMap<_, &ProbeResult> = BTreeMap::new();
    for result in measured {
        let key = (&result.name, &result.subject, &result.backend, result.numa);
        let known = largest.entry(key).or_insert(result);
        if known.bytes < result.bytes {
            *known = result;
        }
    }
    largest.into_values()
}
