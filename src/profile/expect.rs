//! Table `expect` of a profile: what a good machine has, by key, and by device where devices differ. It compares values and
//! reads no machine.

use crate::model::Order as _;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};

/// How a found value is compared with the expected ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// It is one of them. An expected value that begins with `>=` is the oldest version or the smallest number.
    OneOf,
    /// It is a list of exactly these.
    Set,
    /// It is a number that is not smaller.
    AtLeast,
}

/// A fact that a profile may expect.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// As in the file: `SECTION.NAME`, or `NAME`.
    pub name: &'static str,
    /// Opens a sentence: `{words}: 8 expected, 7 found`.
    pub words: &'static str,
    /// Unit of its numbers.
    pub unit: Option<&'static str>,
    pub comparison: Comparison,
}

const fn key(name: &'static str, words: &'static str) -> Key {
    Key { name, words, unit: None, comparison: Comparison::OneOf }
}

const fn measured(name: &'static str, words: &'static str, unit: &'static str) -> Key {
    Key { unit: Some(unit), ..key(name, words) }
}

/// Every key, in the order of the file.
pub const KEYS: [Key; 27] = [
    key("driver", "NVIDIA driver"),
    Key { comparison: Comparison::AtLeast, ..key("bandwidth", "Bandwidth") },
    key("gpus.count", "GPUs"),
    Key { comparison: Comparison::Set, ..key("gpus.addresses", "GPUs") },
    key("gpus.model", "GPU model"),
    key("gpus.id", "PCI ID"),
    measured("gpus.memory", "GPU memory", "MiB"),
    measured("gpus.bar1", "BAR1", "MiB"),
    key("gpus.mig", "MIG mode"),
    key("gpus.link", "PCIe link"),
    key("gpus.numa", "NUMA node"),
    key("memory-path.dma-buf", "Memory path dma-buf"),
    key("memory-path.peermem", "Memory path peermem"),
    key("nics.count", "NICs"),
    Key { comparison: Comparison::Set, ..key("nics.names", "NICs") },
    key("nics.id", "PCI ID"),
    key("nics.chip", "NIC chip"),
    key("nics.board", "NIC board"),
    key("nics.firmware", "NIC firmware"),
    key("nics.link", "PCIe link"),
    key("nics.numa", "NUMA node"),
    key("pairs.gpu-gpu", "pairs of GPUs"),
    key("pairs.gpu-nic", "pairs of a GPU and a NIC"),
    key("pairs.nvlinks", "pairs"),
    key("ports.active", "Active ports"),
    key("ports.layer", "Link layer"),
    measured("ports.rate", "Port rate", "Gb/s"),
];

impl Key {
    /// What has the value: a class of pairs has a name of its own.
    pub fn subject(&self, device: &str) -> String {
        match self.name {
            "pairs.nvlinks" if device == "0" => "Pairs of GPUs without NVLinks".to_owned(),
            // As in the matrix of gdr topo.
            "pairs.nvlinks" => format!("NV{device} {}", self.words),
            name if name.starts_with("pairs.") => format!("{device} {}", self.words),
            _ => self.words.to_owned(),
        }
    }

    /// A value with its unit.
    pub fn with_unit(&self, value: &str) -> String {
        match self.unit {
            Some(unit) => format!("{value} {unit}"),
            None => value.to_owned(),
        }
    }
}

/// The key with this name.
pub fn key_named(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// What a profile expects, by the name of the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expect(pub BTreeMap<&'static str, Expected>);

/// The expected values of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Of every device.
    All(Values),
    /// Of each device by its name, of each class of pairs, of each result of a probe.
    Each(BTreeMap<String, Values>),
}

/// The accepted values, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(pub Vec<String>);

impl Values {
    pub fn one(value: impl Into<String>) -> Self {
        Self(vec![value.into()])
    }

    /// True if a found value is as expected.
    pub fn accept(&self, comparison: Comparison, found: &str) -> bool {
        match comparison {
            Comparison::OneOf => self.0.iter().any(|value| match value.strip_prefix(">=") {
                Some(least) => numbers(found) >= numbers(least) && !numbers(found).is_empty(),
                None => value == found,
            }),
            Comparison::Set => {
                let found: Vec<&str> = parts(found).collect();
                found.len() == self.0.len() && self.0.iter().all(|v| found.contains(&v.as_str()))
            }
            Comparison::AtLeast => {
                let number = |text: &str| text.parse::<f64>().ok();
                let least = self.0.iter().filter_map(|value| number(value));
                let least = least.reduce(f64::min);
                // An expectation without a number accepts nothing.
                least.zip(number(found)).is_some_and(|(least, found)| found >= least)
            }
        }
    }

    /// Adds the values of another good machine.
    fn extend(&mut self, other: &Self) {
        let new = other.0.iter().filter(|value| !self.0.contains(value));
        let new: Vec<String> = new.cloned().collect();
        self.0.extend(new);
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" or "))
    }
}

/// The elements of a list as text.
pub fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(", ").filter(|part| !part.is_empty())
}

/// The numbers of a version, to be compared in order.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

impl Expect {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the expectation of another good machine. What differs is accepted either way, the smaller of two bandwidths, and
    /// named in the result; lists of devices that differ are left out.
    pub fn merge(&mut self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for key in &KEYS {
            let (Some(mine), Some(theirs)) = (self.0.get_mut(key.name), other.0.get(key.name))
            else {
                if let Some(theirs) = other.0.get(key.name) {
                    self.0.insert(key.name, theirs.clone());
                }
                continue;
            };
            if mine == theirs {
                continue;
            }
            let words = format!("{}: {mine}, and {theirs}", key.name);
            if key.comparison == Comparison::Set {
                differences.push(format!("{words}: left out"));
                self.0.remove(key.name);
                continue;
            }
            mine.add(key.comparison, theirs);
            if key.comparison == Comparison::OneOf {
                differences.push(format!("{words}: both are accepted"));
            }
        }
        differences
    }
}

impl Expected {
    /// The values for one device, if it is expected.
    pub fn of(&self, device: &str) -> Option<&Values> {
        match self {
            Self::All(values) => Some(values),
            Self::Each(each) => each.get(device),
        }
    }

    fn add(&mut self, comparison: Comparison, other: &Self) {
        match (self, other) {
            (Self::All(mine), Self::All(theirs)) => mine.extend(theirs),
            (Self::Each(mine), Self::Each(theirs)) => {
                for (device, theirs) in theirs {
                    let mine = mine.entry(device.clone()).or_default();
                    mine.extend(theirs);
                    if comparison == Comparison::AtLeast {
                        mine.0.order_by_key(|value| value.parse::<f64>().map_or(0, f64::to_bits));
                        mine.0.truncate(1);
                    }
                }
            }
            (Self::Each(mine), Self::All(theirs)) => {
                mine.values_mut().for_each(|mine| mine.extend(theirs));
            }
            (mine, Self::Each(theirs)) => {
                let before = std::mem::replace(mine, Self::Each(theirs.clone()));
                mine.add(comparison, &before);
            }
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(values) => values.fmt(f),
            Self::Each(each) => {
                let each = each.iter().map(|(device, values)| format!("{device} {values}"));
                f.write_str(&each.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The table `expect`, as it stands in a profile.
impl Expect {
    pub fn to_toml(&self) -> String {
        let (mut page, mut section) = ("[expect]\n".to_owned(), "");
        // Values of the table itself come before its sections.
        let sections = [false, true].into_iter().flat_map(|inner| {
            let has = move |key: &&Key| is_section(key, self.0.get(key.name)) == inner;
            KEYS.iter().filter(has)
        });
        for key in sections {
            let Some(expected) = self.0.get(key.name) else {
                continue;
            };
            let (inside, name) = match (key.name.split_once('.'), expected) {
                (Some((inside, name)), _) => (inside, name),
                (None, Expected::Each(each)) => {
                    page.push_str(&format!("\n[expect.{}]\n", key.name));
                    for (device, values) in each {
                        page.push_str(&format!(
                            "{} = {}\n",
                            toml_string(device),
                            toml_values(values)
                        ));
                    }
                    continue;
                }
                (None, Expected::All(_)) => ("", key.name),
            };
            if inside != section {
                page.push_str(&format!("\n[expect.{inside}]\n"));
                section = inside;
            }
            page.push_str(&format!("{name} = {}\n", toml_expected(expected)));
        }
        page
    }
}

fn is_section(key: &Key, expected: Option<&Expected>) -> bool {
    key.name.contains('.') || matches!(expected, Some(Expected::Each(_)))
}

fn toml_expected(expected: &Expected) -> String {
    match expected {
        Expected::All(values) => toml_values(values),
        Expected::Each(each) => {
            let each = each.iter();
            let each = each.map(|(device, values)| {
                format!("{} = {}", toml_string(device), toml_values(values))
            });
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

fn toml_values(values: &Values) -> String {
    match values.0.as_slice() {
        [value] => toml_value(value),
        values => {
            let values: Vec<String> = values.iter().map(|value| toml_value(value)).collect();
            format!("[{}]", values.join(", "))
        }
    }
}

/// A number or a truth value if it reads back as the same text, else a string.
fn toml_value(value: &str) -> String {
    let is_number = value.parse::<i64>().is_ok_and(|number| number.to_string() == value)
        || value
            .parse::<f64>()
            .is_ok_and(|number| number.to_string() == value && number.is_finite());
    if is_number || value == "true" || value == "false" {
        value.to_owned()
    } else {
        toml_string(value)
    }
}

/// A text as TOML writes it.
pub fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Raw {
    Values(RawValues),
    Table(BTreeMap<String, Self>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawValues {
    One(RawValue),
    Many(Vec<RawValue>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawValue {
    Truth(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl From<RawValues> for Values {
    fn from(raw: RawValues) -> Self {
        let text = |value| match value {
            RawValue::Truth(truth) => truth.to_string(),
            RawValue::Whole(number) => number.to_string(),
            RawValue::Number(number) => number.to_string(),
            RawValue::Text(text) => text,
        };
        Self(match raw {
            RawValues::One(value) => vec![text(value)],
            RawValues::Many(values) => values.into_iter().map(text).collect(),
        })
    }
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = BTreeMap::<String, Raw>::deserialize(deserializer)?;
        let mut expect = Self::default();
        for (name, raw) in table {
            let is_section = KEYS
                .iter()
                .any(|key| key.name.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.')));
            match raw {
                Raw::Table(table) if is_section => {
                    for (inner, raw) in table {
                        expect.add(&format!("{name}.{inner}"), raw)?;
                    }
                }
                raw => expect.add(&name, raw)?,
            }
        }
        Ok(expect)
    }
}

impl Expect {
    fn add<E: serde::de::Error>(&mut self, name: &str, raw: Raw) -> Result<(), E> {
        let names = KEYS.map(|key| key.name);
        let Some(key) = key_named(name) else {
            return Err(E::custom(format!(
                "unknown field `{name}`, expected one of {}",
                names.join(", ")
            )));
        };
        let expected = match raw {
            Raw::Values(values) => Expected::All(values.into()),
            Raw::Table(table) => {
                let each = table.into_iter().map(|(device, raw)| match raw {
                    // The crate toml gives a date as a table with such a key.
                    Raw::Values(values) if !device.starts_with("$__toml") => {
                        Ok((device, values.into()))
                    }
                    _ => {
                        Err(E::custom(format!("invalid type: {name}, expected a value or a list")))
                    }
                });
                Expected::Each(each.collect::<Result<_, E>>()?)
            }
        };
        self.0.insert(key.name, expected);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[expect]
driver = [\"580.65.06\", \">=580.95\"]

[expect.bandwidth]
\"host.write\" = 40.5

[expect.gpus]
count = 8
addresses = [\"0000:18:00.0\", \"0000:19:00.0\"]
mig = false
link = \"32GT/s x16\"

[expect.ports]
rate = { \"mlx5_0\" = 400, \"mlx5_9\" = [100, 200] }
";

    #[derive(Deserialize)]
    struct Page {
        expect: Expect,
    }

    fn parse(text: &str) -> Expect {
        toml::from_str::<Page>(text).expect("a table").expect
    }

    #[test]
    fn file_reads_back() {
        let expect = parse(TEXT);
        assert_eq!(expect.to_toml(), TEXT);
        let rate = &expect.0["ports.rate"];
        assert_eq!(rate.of("mlx5_9"), Some(&Values(vec!["100".into(), "200".into()])));
        assert_eq!(rate.of("mlx5_1"), None);
        assert_eq!(expect.0["gpus.count"].of("anything"), Some(&Values::one("8")));
    }

    #[test]
    fn wrong_files_are_errors() {
        for text in [
            "expect.gpu.count = 8",
            "expect.gpus.cuont = 8",
            "expect.gpus = 8",
            "expect.driver = { a = { b = 1 } }",
            "expect.ports.rate = { mlx5_0 = { x = 1 } }",
            "expect.driver = 2020-01-01",
            "expect = 1",
        ] {
            assert!(toml::from_str::<Page>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn compares_values() {
        let accepts = |values: &[&str], comparison, found| {
            let values = Values(values.iter().map(|value| (*value).to_owned()).collect());
            values.accept(comparison, found)
        };
        use Comparison::{AtLeast, OneOf, Set};
        assert!(accepts(&["a", "b"], OneOf, "b") && !accepts(&["a", "b"], OneOf, "c"));
        for (found, accepted) in [
            ("580.65.06", true),
            ("580.100", true),
            ("580.9.1", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(accepts(&[">=580.65"], OneOf, found), accepted, "{found}");
        }
        assert!(accepts(&["a", "b"], Set, "b, a"));
        assert!(!accepts(&["a", "b"], Set, "a") && !accepts(&["a"], Set, "a, b"));
        assert!(accepts(&["40.5"], AtLeast, "40.5") && !accepts(&["40.5"], AtLeast, "40.4"));
        assert!(!accepts(&["fast"], AtLeast, "40") && !accepts(&["4"], AtLeast, "NaN"));
    }

    #[test]
    fn machines_are_merged() {
        let mut both = parse(TEXT);
        let other = TEXT.replace("40.5", "39.5").replace("0000:19", "0000:1a").replace("x16", "x8");
        let differences = both.merge(&parse(&other));
        let want = [
            "gpus.addresses: 0000:18:00.0 or 0000:19:00.0, and 0000:18:00.0 or 0000:1a:00.0: left out",
            "gpus.link: 32GT/s x16, and 32GT/s x8: both are accepted",
        ];
        assert_eq!(differences, want);
        assert_eq!(both.0["bandwidth"].of("host.write"), Some(&Values::one("39.5")));
        assert!(!both.0.contains_key("gpus.addresses"));
        let mixed = parse("expect.ports.rate = 400");
        both.merge(&mixed);
        let rates = both.0["ports.rate"].of("mlx5_9").expect("values").clone();
        assert_eq!(rates.0, ["100", "200", "400"]);
    }
}
