//! The type of the default IOMMU domain, from the kernel's log of its boot.

use std::collections::BTreeSet;

use crate::model::{Fact, Facts, Why};

/// What the log says. Lines of several boots may differ; then it is unknown.
#[derive(Debug, Default)]
pub(super) struct DefaultDomain {
    translates: Option<bool>,
    differs: bool,
}

impl DefaultDomain {
    /// `iommu: Default domain type: Translated`, and what set it.
    pub fn read(&mut self, line: &str) {
        let translates = match line.split_once("iommu: Default domain type: ") {
            Some((_, kind)) if kind.starts_with("Translated") => true,
            Some((_, kind)) if kind.starts_with("Passthrough") => false,
            _ => return,
        };
        self.differs |= self.translates.is_some_and(|known| known != translates);
        self.translates = Some(translates);
    }

    /// Gives the type to the groups of the listed functions, unless it is known of a group.
    pub fn add_to(&self, facts: &mut Facts) {
        let Some(translates) = self.translates.filter(|_| !self.differs) else {
            return;
        };
        let kind = if translates { "DMA" } else { "identity" };
        let devices = facts.pci.known().into_iter().flatten();
        let groups: BTreeSet<u32> = devices
            .filter_map(|device| *device.attributes.as_ref()?.iommu_group.known()?)
            .collect();
        for group in groups {
            let known = facts.kernel.iommu_groups.entry(group).or_default();
            if known.why() == Some(Why::NotCovered) {
                *known = Fact::Known(format!("{kind} (the default, says the kernel log)"));
            }
        }
    }
}
