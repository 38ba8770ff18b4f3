//! One run of lspci. Its functions together show whether a missing line means absence or an lspci that does
//! not print it.

use std::collections::BTreeMap;

use super::bytes::known;
use super::function::Function;
use super::head::Numbers;
use super::{ParseNotes, bytes};
use crate::model::config::{Acs, Ats, Express, PortType};
use crate::model::{Attributes, Bdf, Config, Fact, LinkState, Why};

/// A function as seen in one or more runs.
pub(super) struct MergedFunction {
    pub line: usize,
    pub numbers: Numbers,
    pub secondary: Option<u8>,
    pub subordinate: Option<u8>,
    pub port: Option<PortType>,
    pub manages: bool,
    pub names_rdma: bool,
    pub numa: Fact<Option<u32>>,
    pub config: Config,
    pub attributes: Attributes,
}

pub(super) type Functions = BTreeMap<Bdf, MergedFunction>;

/// Resolves missing lines with the help of the run's other functions.
pub(super) fn settle(functions: Vec<Function>, failure: &mut ParseNotes) -> Functions {
    let numa = functions.iter().any(|function| function.numa.is_some());
    let group = functions.iter().any(|function| function.group.is_some());
    let driver = functions.iter().any(|function| function.driver.is_some());
    // Extended space is mapped per bus range: if a higher bus of the domain has it, this one has too.
    let mut reached: BTreeMap<u32, u8> = BTreeMap::new();
    for function in functions.iter().filter(|function| function.beyond) {
        let highest = reached.entry(function.bdf.domain).or_default();
        *highest = function.bdf.bus.max(*highest);
    }
    let merged = functions.into_iter().map(|function| {
        let Function {
            line,
            bdf,
            numbers,
            secondary,
            subordinate,
            port,
            complete,
            has_head,
            manages,
            names_rdma,
            ..
        } = function;
        for (line, message) in function.failure {
            failure.add(line, format!("{bdf}: {message}"));
        }
        let mut config = function.config;
        if function.maybe_beyond
            && reached.get(&bdf.domain).is_some_and(|highest| bdf.bus <= *highest)
        {
            config = bytes::over(config, none_beyond());
        }
        let attributes = Attributes {
            driver: known_or_absent(function.driver, driver && complete),
            iommu_group: known_or_absent(function.group, group && has_head),
            resources: function.resources,
            link: link(&config),
            ..Attributes::default()
        };
        let merged = MergedFunction {
            line,
            numbers,
            secondary,
            subordinate,
            port,
            manages,
            names_rdma,
            numa: known_or_absent(function.numa, numa && has_head),
            config,
            attributes,
        };
        (bdf, merged)
    });
    merged.collect()
}

/// A line's value; if missing, absent only if it would have been printed.
fn known_or_absent<T>(value: Option<T>, would_be_there: bool) -> Fact<Option<T>> {
    match value {
        None if !would_be_there => Fact::Unknown(Why::NotCovered),
        value => Fact::Known(value),
    }
}

fn none_beyond() -> Config {
    Config {
        acs: Fact::Known(None),
        ats: Fact::Known(None),
        sriov: Fact::Known(None),
        serial_number: Fact::Known(None),
        ..Config::default()
    }
}

fn link(config: &Config) -> Fact<Option<LinkState>> {
    config.express.as_ref().map(|express| {
        let link = express.as_ref().and_then(|express| express.link.as_ref());
        link.filter(|link| link.current.is_up())
            .map(|link| LinkState { current: link.current, max: link.max })
    })
}

/// Lines of each run at which they disagree in what a running machine does not change.
pub(super) fn contradiction(one: &Functions, other: &Functions) -> Option<(usize, usize)> {
    let is_fewer = one.len() < other.len();
    let (few, many) = if is_fewer { (one, other) } else { (other, one) };
    few.iter().find_map(|(bdf, a)| {
        let b = many.get(bdf)?;
        let differ = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a != b);
        let disagree = differ(a.numbers.vendor.map(u32::from), b.numbers.vendor.map(u32::from))
            || differ(a.numbers.device.map(u32::from), b.numbers.device.map(u32::from))
            || differ(
                a.numbers.class.map(|class| class >> 8),
                b.numbers.class.map(|class| class >> 8),
            )
            || differ(a.secondary.map(u32::from), b.secondary.map(u32::from));
        let lines = if is_fewer { (a.line, b.line) } else { (b.line, a.line) };
        disagree.then_some(lines)
    })
}

/// Merges a later run of the same machine. Differing values become unknown.
pub(super) fn add(mut all: Functions, later: Functions, failure: &mut ParseNotes) -> Functions {
    for (bdf, mut later) in later {
        let merged = match all.remove(&bdf) {
            Some(mut earlier) => {
                let differ = forget_differences(&mut earlier, &mut later);
                if !differ.is_empty() {
                    let message = format!(
                        "{bdf}: contradicts line {} on its {}, which is unknown now",
                        earlier.line,
                        differ.join(", ")
                    );
                    failure.add(later.line, message);
                }
                both(earlier, later)
            }
            None => later,
        };
        all.insert(bdf, merged);
    }
    all
}

/// Makes differing changeable values unknown, and returns their names.
fn forget_differences(one: &mut MergedFunction, other: &mut MergedFunction) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut note = |name, differ: bool| {
        if differ {
            found.push(name);
        }
        differ
    };
    let acs = |acs: &Acs| (acs.capable, acs.control);
    if note("access control", differ(&one.config.acs, &other.config.acs, acs)) {
        (one.config.acs, other.config.acs) = Default::default();
    }
    if note(
        "address translation",
        differ(&one.config.ats, &other.config.ats, |ats: &Ats| ats.enabled),
    ) {
        (one.config.ats, other.config.ats) = Default::default();
    }
    let express = |express: &Express| {
        let link = express.link.as_ref().map(|link| (link.current, link.max));
        (express.max_payload, express.max_read_request, express.relaxed_ordering, link)
    };
    if note("link and limits", differ(&one.config.express, &other.config.express, express)) {
        (one.config.express, other.config.express) = Default::default();
        (one.attributes.link, other.attributes.link) = Default::default();
    }
    let (a, b) = (&mut one.attributes, &mut other.attributes);
    if note("driver", differ(&a.driver, &b.driver, String::clone)) {
        (a.driver, b.driver) = Default::default();
    }
    if note("IOMMU group", differ(&a.iommu_group, &b.iommu_group, |group: &u32| *group)) {
        (a.iommu_group, b.iommu_group) = Default::default();
    }
    if note("NUMA node", differ(&one.numa, &other.numa, |node: &u32| *node)) {
        (one.numa, other.numa) = Default::default();
    }
    found
}

/// Whether both are known and differ in this part.
fn differ<T, P: PartialEq>(
    one: &Fact<Option<T>>,
    other: &Fact<Option<T>>,
    part: impl Fn(&T) -> P,
) -> bool {
    match (one, other) {
        (Fact::Known(one), Fact::Known(other)) => {
            one.as_ref().map(&part) != other.as_ref().map(&part)
        }
        _ => false,
    }
}

fn both(earlier: MergedFunction, later: MergedFunction) -> MergedFunction {
    // A class without programming interface is less precise.
    let class = match (earlier.numbers.class, later.numbers.class) {
        (Some(earlier), Some(later)) if earlier & 0xff != 0 && later & 0xff == 0 => Some(earlier),
        (earlier, later) => later.or(earlier),
    };
    MergedFunction {
        line: later.line,
        numbers: Numbers {
            class,
            vendor: later.numbers.vendor.or(earlier.numbers.vendor),
            device: later.numbers.device.or(earlier.numbers.device),
        },
        secondary: later.secondary.or(earlier.secondary),
        subordinate: later.subordinate.or(earlier.subordinate),
        port: later.port.or(earlier.port),
        manages: later.manages || earlier.manages,
        names_rdma: later.names_rdma || earlier.names_rdma,
        numa: known(later.numa, earlier.numa),
        config: bytes::over(later.config, earlier.config),
        attributes: Attributes {
            driver: known(later.attributes.driver, earlier.attributes.driver),
            resources: known(later.attributes.resources, earlier.attributes.resources),
            iommu_group: known(later.attributes.iommu_group, earlier.attributes.iommu_group),
            link: known(later.attributes.link, earlier.attributes.link),
            ..Attributes::default()
        },
    }
}
