//! Devices that most nodes have and a node lacks. The facts about them, and the lists in which they would stand, differ because of
//! that, so they are counted and not listed.

use std::collections::BTreeSet;

use super::merge::{Fleet, Node};
use super::names::cut;

/// What a node lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Lacking {
    devices: Vec<String>,
    /// Number of differences that follow.
    facts: usize,
}

impl Lacking {
    pub fn words(&self) -> String {
        let facts = if self.facts == 1 { "fact follows" } else { "facts follow" };
        cut(&format!("{} ({} {facts})", self.devices.join(", "), self.facts))
    }
}

impl Fleet {
    /// Removes from the differences of each node those that follow from devices that it lacks.
    pub(super) fn fold_lacking(
        &self,
        majorities: &[Option<Option<u32>>],
        differences: &mut [Vec<(u32, Option<u32>)>],
    ) -> Vec<Option<Lacking>> {
        let nodes = self.nodes.iter().zip(differences);
        nodes.map(|(node, differences)| self.lacking(node, majorities, differences)).collect()
    }

    fn lacking(
        &self,
        node: &Node,
        majorities: &[Option<Option<u32>>],
        differences: &mut Vec<(u32, Option<u32>)>,
    ) -> Option<Lacking> {
        if differences.iter().all(|(_, value)| value.is_some()) {
            return None;
        }
        let subject = |key: u32| self.texts.text(self.keys[key as usize].subject);
        let here: BTreeSet<&str> =
            node.facts.iter().flat_map(|(key, _)| words(subject(*key))).collect();
        // A fact about one device alone; a port of a switch and a pair have other facts.
        let of_device = |key: u32| {
            let id = self.texts.text(self.keys[key as usize].id);
            let is_own = id == "device" || (self.is_of_one_device)(id);
            let mut names = devices(subject(key));
            names.next().filter(|_| is_own && names.next().is_none())
        };
        let absent = differences.iter().filter(|(_, value)| value.is_none());
        let mut absent: BTreeSet<&str> = absent
            .filter_map(|(key, _)| of_device(*key))
            .filter(|device| !here.contains(device))
            .collect();
        // GPU7 of eight is missing whichever of them is gone.
        if absent.iter().any(|device| !is_numbered(device)) {
            absent.retain(|device| !is_numbered(device));
        }
        let before = differences.len();
        differences.retain(|(key, value)| {
            // A list that lacks a device, or has one more, is another subject.
            let is_about_devices = if absent.is_empty() {
                subject(*key).contains(", ")
            } else {
                devices(subject(*key)).next().is_some()
            };
            let is_only_here = majorities[*key as usize] == Some(None);
            let follows = match value {
                None => is_about_devices,
                Some(value) => is_about_devices && is_only_here && !self.is_fault(*key, *value),
            };
            !follows
        });
        let facts = before - differences.len();
        let devices: Vec<String> = absent.into_iter().map(str::to_owned).collect();
        (!devices.is_empty()).then_some(Lacking { devices, facts })
    }

    /// True if the fact is a failure, a warning or something required and unknown.
    fn is_fault(&self, key: u32, value: u32) -> bool {
        self.rank(key, value).is_some()
    }
}

/// The names of devices in a subject: the PCI addresses, if it has any.
fn devices(subject: &str) -> impl Iterator<Item = &str> {
    let has_addresses = words(subject).any(is_address);
    words(subject).filter(move |word| !has_addresses || is_address(word))
}

fn words(subject: &str) -> impl Iterator<Item = &str> {
    let words = subject.split(|c: char| c.is_whitespace() || "(),>".contains(c));
    words.filter(|word| is_device(word))
}

fn is_device(word: &str) -> bool {
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    !word.starts_with('/')
        && has(char::is_ascii_digit)
        && (has(char::is_ascii_alphabetic) || is_address(word))
}

/// A name by gdr's own count, as in GPU7.
fn is_numbered(word: &str) -> bool {
    ["GPU", "NIC"].iter().any(|kind| word.starts_with(kind))
}

/// As in 0000:3b:00.0.
fn is_address(word: &str) -> bool {
    word.matches(':').count() == 2 && word.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_subjects() {
        let names = |subject| devices(subject).collect::<Vec<_>>().join(" ");
        assert_eq!(names("GPU3 (0000:3b:00.0)"), "0000:3b:00.0");
        assert_eq!(names("GPU2 > GPU3"), "GPU2 GPU3");
        assert_eq!(names("mlx5_1 port 1"), "mlx5_1");
        assert_eq!(names("0000:17:00.0, 0000:18:00.0"), "0000:17:00.0 0000:18:00.0");
        assert_eq!(names("machine"), "");
        assert_eq!(names("/dev/nvidia0"), "");
    }
}
