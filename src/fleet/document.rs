//! The parts of a doctor's, a topology's or a probe's JSON that a fleet report uses, one at a time: no list is held. Texts are borrowed from
//! the document where possible.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::model::limited::list;
use crate::model::{
    ActionClass, Outcome, ProbeKind, ProbeVerdict, Readings, ReadyState, RequiredAction, Severity,
};

/// Most evidence of a finding: one for each device of the largest machine that doctor judges, many times.
const MAX_EVIDENCE: usize = 16_384;

/// Most bytes of a name that stands in many facts: of a host, of a device.
const MAX_NAME: usize = 255;

/// What a report says of itself.
#[derive(Debug, Deserialize)]
pub struct Head<'a> {
    #[serde(borrow, default)]
    pub schema: Cow<'a, str>,
    #[serde(borrow, default)]
    pub gdr: Cow<'a, str>,
    #[serde(borrow, default)]
    pub taken: Cow<'a, str>,
    #[serde(borrow, default)]
    pub host: Host<'a>,
    pub probe: Option<ProbeKind>,
    #[serde(default)]
    pub simulated: bool,
    #[serde(default = "yes")]
    pub complete: bool,
}

/// A part of a report.
pub enum Part<'p> {
    Host(&'p Host<'p>),
    Readiness(Readiness<'p>),
    Readings(Box<Readings>),
    /// A problem that an earlier report had too: its check, its devices, and since when it is known.
    Still(Still),
    Root(Root<'p>),
    Step(Step<'p>),
    Finding(Finding<'p>),
    Figure(Figure<'p>),
    Device(Device<'p>),
    /// Two devices, and the class of the path between them.
    Path(&'p str, &'p str, &'p str),
    Change(Change<'p>),
}

/// Passes each part of a report on, in the order of the text.
pub fn parts(json: &[u8], take: &mut dyn FnMut(Part<'_>)) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    reader.deserialize_map(Report(take))?;
    reader.end()
}

/// The report's own keys.
struct Report<'t>(&'t mut dyn FnMut(Part<'_>));

impl<'de> Visitor<'de> for Report<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let take = self.0;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "readiness" => map.next_value_seed(each(|part| take(Part::Readiness(part))))?,
                "roots" => map.next_value_seed(each(|part| take(Part::Root(part))))?,
                "next_steps" => map.next_value_seed(each(|part| take(Part::Step(part))))?,
                "findings" => map.next_value_seed(each(|part| take(Part::Finding(part))))?,
                "results" => map.next_value_seed(each(|part| take(Part::Figure(part))))?,
                "comparison" => map.next_value_seed(Differences(&mut *take))?,
                "readings" => take(Part::Readings(map.next_value()?)),
                "devices" => map.next_value_seed(each(|part| take(Part::Device(part))))?,
                "matrix" => map.next_value_seed(Matrix(&mut *take))?,
                "baseline" => map.next_value_seed(Baseline(&mut *take))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// A list whose values are passed on.
struct Each<F, T>(F, PhantomData<T>);

fn each<'de, T: Deserialize<'de>, F: FnMut(T)>(take: F) -> Each<F, T> {
    Each(take, PhantomData)
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Each<F, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<F, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element()? {
            (self.0)(value);
        }
        Ok(())
    }
}

/// Rows by name.
struct Matrix<'t>(&'t mut dyn FnMut(Part<'_>));

impl<'de> DeserializeSeed<'de> for Matrix<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, matrix: D) -> Result<(), D::Error> {
        matrix.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Matrix<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rows of a matrix")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(from) = rows.next_key::<String>()? {
            named::<A::Error>(&from)?;
            rows.next_value_seed(Row(&from, &mut *self.0))?;
        }
        Ok(())
    }
}

/// Classes by name: the paths from one device.
struct Row<'r, 't>(&'r str, &'t mut dyn FnMut(Part<'_>));

impl<'de> DeserializeSeed<'de> for Row<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, row: D) -> Result<(), D::Error> {
        row.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row of a matrix")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut row: A) -> Result<(), A::Error> {
        while let Some((to, class)) = row.next_entry::<String, String>()? {
            named::<A::Error>(&to)?;
            (self.1)(Part::Path(self.0, &to, &class));
        }
        Ok(())
    }
}

/// The changes since a baseline; null without one.
struct Baseline<'t>(&'t mut dyn FnMut(Part<'_>));

impl<'de> DeserializeSeed<'de> for Baseline<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, baseline: D) -> Result<(), D::Error> {
        baseline.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Baseline<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a comparison with a baseline")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, baseline: D) -> Result<(), D::Error> {
        baseline.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "changes" => map.next_value_seed(each(|part| (self.0)(Part::Change(part))))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

/// The problems that are still there of a comparison with an earlier report.
struct Differences<'t>(&'t mut dyn FnMut(Part<'_>));

impl<'de> DeserializeSeed<'de> for Differences<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, comparison: D) -> Result<(), D::Error> {
        comparison.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Differences<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a comparison with an earlier report")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "differences" => map.next_value_seed(each(|part| (self.0)(Part::Still(part))))?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

fn named<E: serde::de::Error>(name: &str) -> Result<(), E> {
    if name.len() > MAX_NAME {
        Err(E::custom(format!("more than {MAX_NAME} bytes in a name")))
    } else {
        Ok(())
    }
}

fn name<'a, 'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
    let name = String::deserialize(deserializer)?;
    named::<D::Error>(&name)?;
    Ok(name.into())
}

fn host_name<'a, 'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    let name: Option<String> = Option::deserialize(deserializer)?;
    name.as_deref().map_or(Ok(()), named::<D::Error>)?;
    Ok(name.map(Cow::from))
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
pub struct Host<'a> {
    #[serde(default, deserialize_with = "host_name")]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub os: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub kernel: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub cpu: Option<Cow<'a, str>>,
    pub cpus: Option<u64>,
    pub memory: Option<u64>,
    #[serde(borrow)]
    pub booted: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
pub struct Readiness<'a> {
    #[serde(borrow)]
    pub profile: Cow<'a, str>,
    pub state: ReadyState,
}

/// A failure or warning that nothing else explains.
#[derive(Debug, Deserialize)]
pub struct Root<'a> {
    #[serde(borrow)]
    pub check: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "list::<MAX_EVIDENCE, _, _>")]
    pub subjects: Vec<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "list::<MAX_EVIDENCE, _, _>")]
    pub explains: Vec<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
pub struct Step<'a> {
    #[serde(borrow)]
    pub command: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub advice: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
pub struct Finding<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    pub outcome: Outcome,
    pub severity: Severity,
    #[serde(borrow)]
    pub subject: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "list::<MAX_EVIDENCE, _, _>")]
    pub evidence: Vec<Evidence<'a>>,
    #[serde(borrow, default)]
    pub fix: Option<Fix<'a>>,
    #[serde(default)]
    pub action: Option<RequiredAction>,
}

/// The repair of a finding; without an id gdr has none.
#[derive(Debug, Deserialize)]
pub struct Fix<'a> {
    #[serde(borrow, default)]
    pub id: Option<Cow<'a, str>>,
}

/// An action that no report names.
pub fn required(
    class: ActionClass,
    then: Option<ActionClass>,
    drain: bool,
    source: &str,
) -> RequiredAction {
    RequiredAction { class, then, drain, source: source.to_owned() }
}

#[derive(Debug, Deserialize)]
pub struct Evidence<'a> {
    #[serde(borrow)]
    pub source: Cow<'a, str>,
    #[serde(borrow)]
    pub value: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
pub struct Still {
    pub what: String,
    #[serde(default, deserialize_with = "list::<MAX_EVIDENCE, _, _>")]
    pub devices: Vec<String>,
    pub since: Option<String>,
}

/// A row of a topology.
#[derive(Debug, Deserialize)]
pub struct Device<'a> {
    #[serde(deserialize_with = "name")]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub bdf: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub label: Cow<'a, str>,
    pub numa: Option<u32>,
    pub nvlinks: Option<u32>,
}

/// A result of a probe.
#[derive(Debug, Deserialize)]
pub struct Figure<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub subject: Cow<'a, str>,
    pub bytes: Option<u64>,
    #[serde(borrow, default)]
    pub unit: Cow<'a, str>,
    pub median: Option<f64>,
    pub verdict: ProbeVerdict,
    #[serde(borrow)]
    pub reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, Deserialize)]
pub struct Change<'a> {
    #[serde(borrow)]
    pub area: Cow<'a, str>,
    #[serde(borrow)]
    pub fact: Cow<'a, str>,
    #[serde(borrow)]
    pub a: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub b: Option<Cow<'a, str>>,
    pub figure: Option<FigureChange>,
}

#[derive(Debug, Deserialize)]
pub struct FigureChange {
    pub regression: bool,
}
