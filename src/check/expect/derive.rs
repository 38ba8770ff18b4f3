//! Derives the table `expect` of a profile from a good machine, and minimum bandwidths from its probes.

use std::collections::BTreeMap;

use super::judge::largest;
use super::observe::observe;
use crate::check::Ctx;
use crate::model::{Fact, ProbeResult, Why};
use crate::profile::{Comparison, Expect, Expected, KEYS, Key, Values, parts};

/// An expectation, and the keys that could not be read.
#[derive(Debug, Default)]
pub struct Derived {
    pub expect: Expect,
    pub unknown: Vec<UnknownKey>,
}

/// A key that could not be read.
#[derive(Debug)]
pub struct UnknownKey {
    pub key: &'static str,
    pub why: Why,
    /// The source that it needs, and what is wrong with it.
    pub sentence: String,
}

/// What this machine has. Keys that are unknown here are left out.
pub fn derive(ctx: &Ctx<'_>) -> Derived {
    let mut derived = Derived::default();
    for key in &KEYS {
        let mut each = BTreeMap::new();
        let found = observe(ctx, key.name);
        let mut unknown = None;
        for observation in found {
            match observation.found {
                Fact::Known(value) => {
                    each.insert(observation.device, values(key, &value));
                }
                Fact::Unknown(why) => {
                    unknown = Some(UnknownKey {
                        key: key.name,
                        why,
                        sentence: why.sentence(&observation.source),
                    });
                }
            }
        }
        match unknown {
            Some(unknown) => derived.unknown.push(unknown),
            None if each.is_empty() => {}
            None => {
                derived.expect.0.insert(key.name, joined(key, each));
            }
        }
    }
    derived
}

fn values(key: &Key, value: &str) -> Values {
    match key.comparison {
        Comparison::Set => Values(parts(value).map(str::to_owned).collect()),
        _ => Values::one(value),
    }
}

/// One value for all devices if they agree. Classes of pairs stay apart.
fn joined(key: &Key, each: BTreeMap<String, Values>) -> Expected {
    let first = each.values().next().cloned().unwrap_or_default();
    let agree = each.values().all(|values| *values == first);
    if agree && !key.name.starts_with("pairs.") {
        Expected::All(first)
    } else {
        Expected::Each(each)
    }
}

/// The bandwidths of a probe, less a tolerance (a share), as minimums. The slowest subject of each name counts.
pub fn derive_bandwidths(results: &[ProbeResult], tolerance: f64) -> Expect {
    let mut least: BTreeMap<String, f64> = BTreeMap::new();
    for result in largest(results) {
        let Some(median) = result.median else {
            continue;
        };
        let known = least.entry(result.name.clone()).or_insert(median);
        *known = known.min(median);
    }
    let mut expect = Expect::default();
    let each = least.into_iter().map(|(name, median)| {
        let value = format!("{:.2}", median * (1.0 - tolerance));
        (name, Values::one(value))
    });
    let each: BTreeMap<String, Values> = each.collect();
    if !each.is_empty() {
        expect.0.insert("bandwidth", Expected::Each(each));
    }
    expect
}
