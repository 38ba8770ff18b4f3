//! What most machines of a fleet have, as an expectation.

use std::collections::BTreeMap;

use super::expect::{Comparison, Expect, Expected, KEYS, Values};
use crate::model::Order as _;

/// The expectation of most machines, and in words where machines differ from it.
#[derive(Debug, Default)]
pub struct Majority {
    pub expect: Expect,
    pub differences: Vec<String>,
}

/// Of each key the value that more than half of the machines with a value have; of each bandwidth the median. A key without a
/// majority is left out.
pub fn majority(machines: &[(String, Expect)]) -> Majority {
    let mut found = Majority::default();
    for key in &KEYS {
        let values: Vec<(&str, &Expected)> = machines
            .iter()
            .filter_map(|(name, expect)| Some((name.as_str(), expect.0.get(key.name)?)))
            .collect();
        if key.comparison == Comparison::AtLeast {
            if let Some(medians) = medians(&values) {
                found.expect.0.insert(key.name, medians);
            }
            continue;
        }
        let count = |value: &Expected| values.iter().filter(|(_, other)| *other == value).count();
        let Some((_, most)) = values.iter().max_by_key(|(_, value)| count(value)) else {
            continue;
        };
        if 2 * count(most) <= values.len() {
            found.differences.push(format!("{}: no value has a majority: left out", key.name));
            continue;
        }
        let others = values.iter().filter(|(_, value)| value != most);
        let others = others
            .map(|(name, value)| format!("{name}: {}: {value}, and most have {most}", key.name));
        found.differences.extend(others);
        found.expect.0.insert(key.name, (*most).clone());
    }
    found
}

/// The median of each number by name.
fn medians(values: &[(&str, &Expected)]) -> Option<Expected> {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (_, expected) in values {
        let Expected::Each(each) = expected else { continue };
        for (name, values) in each {
            let numbers = values.0.iter().filter_map(|value| value.parse::<f64>().ok());
            all.entry(name).or_default().extend(numbers);
        }
    }
    let medians = all.into_iter().filter_map(|(name, mut numbers)| {
        numbers.order_by(f64::total_cmp);
        // Of an even number the lower one: an expectation should not be too high.
        let middle = numbers.get(numbers.len().checked_sub(1)? / 2)?;
        Some((name.to_owned(), Values::one(format!("{middle:.2}"))))
    });
    let medians: BTreeMap<String, Values> = medians.collect();
    (!medians.is_empty()).then_some(Expected::Each(medians))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, driver: &str, bandwidth: f64) -> (String, Expect) {
        let bandwidth = [("p2p.copy".to_owned(), Values::one(bandwidth.to_string()))];
        let expect = BTreeMap::from([
            ("driver", Expected::All(Values::one(driver))),
            ("bandwidth", Expected::Each(bandwidth.into_iter().collect())),
        ]);
        (name.to_owned(), Expect(expect))
    }

    #[test]
    fn most_machines_decide() {
        let machines =
            [machine("a", "580", 100.0), machine("b", "570", 40.0), machine("c", "580", 98.0)];
        let found = majority(&machines);
        assert_eq!(found.expect.0["driver"], Expected::All(Values::one("580")));
        assert_eq!(found.expect.0["bandwidth"].of("p2p.copy"), Some(&Values::one("98.00")));
        assert_eq!(found.differences, ["b: driver: 570, and most have 580"]);
        let found = majority(&machines[..2]);
        assert_eq!(found.expect.0.get("driver"), None);
        assert_eq!(found.differences, ["driver: no value has a majority: left out"]);
    }
}
