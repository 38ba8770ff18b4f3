//! Figures and links of a fleet: those that are worse than the others.

use std::collections::{BTreeMap, HashMap};

use super::heat::share_map;
use super::isolation::median;
use super::merge::{Fleet, Series};
use super::names::cut;
use super::natural;
use crate::model::Order as _;
use crate::model::{FleetFigure, FleetLink, GIGABYTES_PER_SECOND, HeatMap, MICROSECONDS};

/// Figures of fewer nodes are not compared.
const FEWEST: usize = 4;
/// A figure is an outlier if it is worse by this share of the median, and by this many robust standard deviations.
const LOSS: f64 = 0.1;
const DEVIATIONS: f64 = 4.0;
/// Standard deviations of normal noise per median absolute deviation.
const DEVIATION: f64 = 1.4826;

/// A node is slow with so many outliers, or with one that is worse by this percentage.
const SEVERAL: usize = 3;
const VERY_LOW: f64 = 25.0;
/// If more than this share of the nodes are outliers, they are nodes of another kind.
const FREQUENT: f64 = 0.2;

const MAX_OUTLIERS: usize = 100;
const WORST: usize = 10;

/// Between the ends of a link in the subject of a result.
const TO: &str = " > ";

/// A figure that is worse than those of the other nodes.
pub struct Worse {
    node: u32,
    value: f64,
    median: f64,
    /// In percent of the median.
    loss: f64,
    /// Number of its series.
    series: usize,
    /// So many nodes have it that they are rather nodes of another kind.
    is_frequent: bool,
}

/// A node whose figures are well below those of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlowNode {
    /// Number of figures that are worse.
    count: usize,
    /// The smallest and the largest loss, in percent of the median.
    least: f64,
    most: f64,
    /// The subject of all these figures, if it is one.
    subject: Option<String>,
    /// One of the figures is a time.
    has_time: bool,
}

impl SlowNode {
    pub fn words(&self) -> String {
        let figures =
            if self.count == 1 { "1 figure".to_owned() } else { format!("{} figures", self.count) };
        let of = self.subject.as_ref().map_or(String::new(), |subject| format!(" of {subject}"));
        let (least, most) = (self.least.round(), self.most.round());
        let range = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let than = if self.has_time { "worse than" } else { "below" };
        format!("{figures}{of}, {range} % {than} the median")
    }
}

/// The figures that are worse than those of the other nodes.
pub fn worse(fleet: &Fleet) -> Vec<Worse> {
    let mut all = Vec::new();
    let compared = |(_, series): &(usize, &Series)| series.values.len() >= FEWEST;
    for (number, series) in fleet.series.iter().enumerate().filter(compared) {
        let mut values: Vec<f64> = series.values.iter().map(|(_, value)| *value).collect();
        let Some(middle) = median(&mut values) else {
            continue;
        };
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let spread = DEVIATION * median(&mut deviations).unwrap_or(0.0);
        let is_time = fleet.texts.text(series.unit) == MICROSECONDS;
        let before = all.len();
        for (node, value) in &series.values {
            let worse = if is_time { value - middle } else { middle - value };
            if worse <= middle * LOSS || worse <= spread * DEVIATIONS {
                continue;
            }
            all.push(Worse {
                node: *node,
                value: *value,
                median: middle,
                loss: 100.0 * worse / middle,
                series: number,
                is_frequent: false,
            });
        }
        let count = all.len() - before;
        let is_frequent = count > 1 && count as f64 > FREQUENT * series.values.len() as f64;
        all[before..].iter_mut().for_each(|worse| worse.is_frequent = is_frequent);
    }
    all
}

/// The nodes that are slow: with several such figures, or with a very low one. One figure in many may be low by chance.
pub fn slow_nodes(fleet: &Fleet, worse: &[Worse]) -> BTreeMap<usize, SlowNode> {
    let mut nodes: BTreeMap<usize, Vec<&Worse>> = BTreeMap::new();
    for worse in worse.iter().filter(|worse| !worse.is_frequent) {
        nodes.entry(worse.node as usize).or_default().push(worse);
    }
    let slow = |of_node: Vec<&Worse>| {
        let losses = of_node.iter().map(|worse| worse.loss);
        let (least, most) = (losses.clone().fold(f64::MAX, f64::min), losses.fold(0.0, f64::max));
        if of_node.len() < SEVERAL && most < VERY_LOW {
            return None;
        }
        let subject = |worse: &Worse| fleet.series[worse.series].subject;
        let first = subject(of_node.first()?);
        let is_one = of_node.iter().all(|worse| subject(worse) == first);
        let unit = |worse: &Worse| fleet.texts.text(fleet.series[worse.series].unit);
        Some(SlowNode {
            count: of_node.len(),
            least,
            most,
            subject: is_one.then(|| cut(fleet.texts.text(first))),
            has_time: of_node.iter().any(|worse| unit(worse) == MICROSECONDS),
        })
    };
    nodes.into_iter().filter_map(|(node, worse)| Some((node, slow(worse)?))).collect()
}

/// The worst of these figures, the worst first.
pub fn outliers(fleet: &Fleet, mut worse: Vec<Worse>) -> Vec<FleetFigure> {
    let name = |node: u32| fleet.nodes[node as usize].name.as_str();
    worse.order_by(|a, b| {
        let names = || natural(name(a.node)).cmp(&natural(name(b.node)));
        b.loss.total_cmp(&a.loss).then_with(names)
    });
    worse.truncate(MAX_OUTLIERS);
    let figure = |worse: Worse| {
        let series = &fleet.series[worse.series];
        FleetFigure {
            node: name(worse.node).to_owned(),
            subject: cut(fleet.texts.text(series.subject)),
            name: cut(fleet.texts.text(series.name)),
            bytes: series.bytes,
            unit: cut(fleet.texts.text(series.unit)),
            value: worse.value,
            median: worse.median,
            nodes: series.values.len(),
            loss: worse.loss,
        }
    };
    worse.into_iter().map(figure).collect()
}

/// Bandwidths of links, of each the one with the most bytes.
fn links(fleet: &Fleet) -> Vec<(&Series, (&str, &str))> {
    let mut largest: HashMap<(u32, u32), &Series> = HashMap::new();
    let unit = |series: &&Series| fleet.texts.text(series.unit) == GIGABYTES_PER_SECOND;
    for series in fleet.series.iter().filter(unit) {
        let known = largest.entry((series.name, series.subject)).or_insert(series);
        if known.bytes < series.bytes {
            *known = series;
        }
    }
    let mut links: Vec<(&Series, (&str, &str))> = largest
        .into_values()
        .filter_map(|series| Some((series, fleet.texts.text(series.subject).split_once(TO)?)))
        .collect();
    links.order_by_key(|(series, _)| (series.name, series.subject));
    links
}

/// A link of a node.
struct Link<'a> {
    node: u32,
    from: &'a str,
    to: &'a str,
    name: u32,
    value: f64,
    median: f64,
}

impl Link<'_> {
    fn share(&self) -> f64 {
        self.value / self.median
    }
}

/// Every link with the usual bandwidth: the median of all nodes, or of all links of the same name where a link exists only once.
fn shares(fleet: &Fleet) -> Vec<Link<'_>> {
    let links = links(fleet);
    let mut by_name: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (series, _) in &links {
        let values = series.values.iter().map(|(_, value)| *value);
        by_name.entry(series.name).or_default().extend(values);
    }
    let usual: BTreeMap<u32, f64> = by_name
        .into_iter()
        .filter_map(|(name, mut values)| Some((name, median(&mut values)?)))
        .collect();
    let mut all = Vec::new();
    for (series, (from, to)) in links {
        let mut values: Vec<f64> = series.values.iter().map(|(_, value)| *value).collect();
        let own = median(&mut values).filter(|_| series.values.len() >= FEWEST);
        let Some(median) = own.or_else(|| usual.get(&series.name).copied()) else {
            continue;
        };
        all.extend(series.values.iter().map(|(node, value)| Link {
            node: *node,
            from,
            to,
            name: series.name,
            value: *value,
            median,
        }));
    }
    all
}

/// The worst links.
pub fn worst_links(fleet: &Fleet) -> Vec<FleetLink> {
    let mut all = shares(fleet);
    all.order_by(|a, b| a.share().total_cmp(&b.share()));
    all.truncate(WORST);
    let link = |link: Link<'_>| FleetLink {
        node: fleet.nodes[link.node as usize].name.clone(),
        from: cut(link.from),
        to: cut(link.to),
        name: cut(fleet.texts.text(link.name)),
        value: link.value,
        median: link.median,
        share: link.share(),
    };
    all.into_iter().map(link).collect()
}

/// The worst share of each pair, as a matrix.
pub fn heat_map(fleet: &Fleet) -> Option<HeatMap> {
    let links = shares(fleet);
    let pairs = links.iter().map(|link| (link.from, link.to, link.share()));
    share_map(&pairs.collect::<Vec<_>>())
}
