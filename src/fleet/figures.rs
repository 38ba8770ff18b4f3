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

const MAX_OUTLIERS: usize = 100;
const WORST: usize = 10;

/// Between the ends of a link in the subject of a result.
const TO: &str = " > ";

/// Figures that are worse than those of the other nodes, the worst first.
pub fn outliers(fleet: &Fleet) -> Vec<FleetFigure> {
    let mut outliers: Vec<(f64, f64, u32, f64, &Series)> = Vec::new();
    for series in fleet.series.iter().filter(|series| series.values.len() >= FEWEST) {
        let mut values: Vec<f64> = series.values.iter().map(|(_, value)| *value).collect();
        let Some(middle) = median(&mut values) else {
            continue;
        };
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let spread = DEVIATION * median(&mut deviations).unwrap_or(0.0);
        let is_time = fleet.texts.text(series.unit) == MICROSECONDS;
        for (node, value) in &series.values {
            let worse = if is_time { value - middle } else { middle - value };
            if worse <= middle * LOSS || worse <= spread * DEVIATIONS {
                continue;
            }
            outliers.push((100.0 * worse / middle, middle, *node, *value, series));
        }
    }
    let name = |node: u32| fleet.nodes[node as usize].name.as_str();
    outliers.order_by(|(loss, _, node, ..), (other, _, of, ..)| {
        other.total_cmp(loss).then_with(|| natural(name(*node)).cmp(&natural(name(*of))))
    });
    outliers.truncate(MAX_OUTLIERS);
    let figure = |(loss, median, node, value, series): (f64, f64, u32, f64, &Series)| FleetFigure {
        node: name(node).to_owned(),
        subject: cut(fleet.texts.text(series.subject)),
        name: cut(fleet.texts.text(series.name)),
        bytes: series.bytes,
        unit: cut(fleet.texts.text(series.unit)),
        value,
        median,
        nodes: series.values.len(),
        loss,
    };
    outliers.into_iter().map(figure).collect()
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
