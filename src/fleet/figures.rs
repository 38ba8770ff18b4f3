//! Figures and links of a fleet: those that are worse than the others.

use std::collections::{BTreeMap, HashMap};

use super::heat::share_map;
use super::isolation::median;
use super::merge::{Fleet, Series};
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
    let mut outliers = Vec::new();
    for series in fleet
        .series
        .iter()
        .filter(|series| series.values.len() >= FEWEST)
    {
        let mut values: Vec<f64> = series.values.iter().map(|(_, value)| *value).collect();
        let Some(middle) = median(&mut values) else {
            continue;
        };
        let mut deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        let spread = DEVIATION * median(&mut deviations).unwrap_or(0.0);
        let unit = fleet.texts.text(series.unit);
        for (node, value) in &series.values {
            let worse = if unit == MICROSECONDS {
                value - middle
            } else {
                middle - value
            };
            if worse <= middle * LOSS || worse <= spread * DEVIATIONS {
                continue;
            }
            outliers.push(FleetFigure {
                node: fleet.nodes[*node as usize].name.clone(),
                subject: fleet.texts.text(series.subject).to_owned(),
                name: fleet.texts.text(series.name).to_owned(),
                bytes: series.bytes,
                unit: unit.to_owned(),
                value: *value,
                median: middle,
                nodes: series.values.len(),
                loss: 100.0 * worse / middle,
            });
        }
    }
    outliers.order_by(|a, b| {
        b.loss
            .total_cmp(&a.loss)
            .then_with(|| natural(&a.node).cmp(&natural(&b.node)))
    });
    outliers.truncate(MAX_OUTLIERS);
    outliers
}

/// Bandwidths of links, of each the one with the most bytes.
fn links(fleet: &Fleet) -> Vec<(&Series, (&str, &str))> {
    let mut largest: HashMap<(u32, u32), &Series> = HashMap::new();
    let unit = |series: &&Series| fleet.texts.text(series.unit) == GIGABYTES_PER_SECOND;
    for series in fleet.series.iter().filter(unit) {
        let known = largest
            .entry((series.name, series.subject))
            .or_insert(series);
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

/// Every link with its bandwidth as a share of the usual: the median of all nodes, or of all links of the same name where a link
/// exists only once.
fn shares(fleet: &Fleet) -> Vec<FleetLink> {
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
        let Some(usual) = own.or_else(|| usual.get(&series.name).copied()) else {
            continue;
        };
        all.extend(series.values.iter().map(|(node, value)| FleetLink {
            node: fleet.nodes[*node as usize].name.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            name: fleet.texts.text(series.name).to_owned(),
            value: *value,
            median: usual,
            share: value / usual,
        }));
    }
    all
}

/// The worst links.
pub fn worst_links(fleet: &Fleet) -> Vec<FleetLink> {
    let mut all = shares(fleet);
    all.order_by(|a, b| a.share.total_cmp(&b.share));
    all.truncate(WORST);
    all
}

/// The worst share of each pair, as a matrix.
pub fn heat_map(fleet: &Fleet) -> Option<HeatMap> {
    let links = shares(fleet);
    let pairs = links
        .iter()
        .map(|link| (link.from.as_str(), link.to.as_str(), link.share));
    share_map(&pairs.collect::<Vec<_>>())
}
