//! The topology that most nodes share, from the reports of topo.

use std::collections::{BTreeMap, BTreeSet};

use super::merge::Fleet;
use super::natural;
use crate::model::Order as _;
use crate::model::{FleetTopology, TopologyDevice, TopologyRow};

/// Most devices of a topology in the report.
const MAX_DEVICES: usize = 256;

impl Fleet {
    /// The devices and paths that most nodes have; none without reports of topo.
    pub(super) fn shared_topology(
        &self,
        majorities: &[Option<Option<u32>>],
    ) -> Option<FleetTopology> {
        let kind = self.kinds.iter().position(|kind| kind == "topo")?;
        let mut devices: Vec<TopologyDevice> = Vec::new();
        let mut paths: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        for (key, value) in self.keys.iter().zip(majorities) {
            let Some(value) = value.flatten().filter(|_| usize::from(key.kind) == kind) else {
                continue;
            };
            let (subject, value) = (self.texts.text(key.subject), self.texts.text(value));
            match self.texts.text(key.id) {
                "device" => devices.push(TopologyDevice {
                    name: subject.to_owned(),
                    description: value.to_owned(),
                }),
                "path" => {
                    if let Some((from, to)) = subject.split_once(" to ") {
                        paths.insert((from, to), value);
                    }
                }
                _ => {}
            }
        }
        devices.order_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        devices.truncate(MAX_DEVICES);
        let names: BTreeSet<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        paths.retain(|(from, to), _| names.contains(from) && names.contains(to));
        let class = |from: &str, to: &str| {
            if from == to {
                return Some("X".to_owned());
            }
            let found = paths.get(&(from, to)).or_else(|| paths.get(&(to, from)));
            found.map(|class| (*class).to_owned())
        };
        let row = |from: &TopologyDevice| TopologyRow {
            from: from.name.clone(),
            classes: devices.iter().map(|to| class(&from.name, &to.name)).collect(),
        };
        let matrix = devices.iter().map(row).collect();
        (!devices.is_empty()).then_some(FleetTopology { devices, matrix })
    }
}
