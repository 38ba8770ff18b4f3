//! Versions with a known fault, from `profiles/versions.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::model::Severity;

const VERSIONS: &str = include_str!("../../profiles/versions.toml");

/// A range of versions with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadVersions {
    pub component: Component,
    /// The first with the fault; none if it was always there.
    from: Option<String>,
    /// The first without it.
    pub good: String,
    /// Where it matters: all of these hold.
    #[serde(default)]
    pub when: Vec<Condition>,
    pub severity: Option<Severity>,
    /// A clause for a sentence.
    pub breaks: String,
    /// URLs.
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// The NVIDIA driver.
    Driver,
    Nccl,
    /// NCCL's network plugin for libfabric.
    AwsOfiNccl,
    Ucx,
    /// Amazon's kernel module; that of the kernel's tree has no version.
    Efa,
    Gdrdrv,
    /// The kernel modules of MLNX_OFED.
    Ofed,
}

impl Component {
    pub const ALL: [Self; 7] = [
        Self::Driver,
        Self::Nccl,
        Self::AwsOfiNccl,
        Self::Ucx,
        Self::Efa,
        Self::Gdrdrv,
        Self::Ofed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "NVIDIA driver",
            Self::Nccl => "NCCL",
            Self::AwsOfiNccl => "aws-ofi-nccl",
            Self::Ucx => "UCX",
            Self::Efa => "Amazon's module efa",
            Self::Gdrdrv => "gdrdrv",
            Self::Ofed => "MLNX_OFED",
        }
    }
}

/// A property of the machine on which a fault depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    RdmaNic,
    Efa,
    EfaWithoutDmaBuf,
    #[serde(rename = "driver-555")]
    Driver555,
    #[serde(rename = "driver-580")]
    Driver580,
    GpuBeforeTuring,
    CoherentGpu,
    Cdmm,
    Nvlink,
    /// A peer memory module is loaded.
    Peermem,
    /// nvidia-peermem is the only memory path, and the RDMA stack does not list it.
    PeermemWithoutListedClient,
    #[serde(rename = "ofed-before-5.5")]
    OfedBefore55,
    /// UCX uses gdrcopy.
    UcxGdrcopy,
}

impl BadVersions {
    pub fn has(&self, version: &str) -> bool {
        let version = version_numbers(version);
        !version.is_empty()
            && version < version_numbers(&self.good)
            && self.from.as_ref().is_none_or(|from| version >= version_numbers(from))
    }
}

/// The numbers of a version such as `2.17.2g`, `5.4-1.0.3` or `1.12.1-aws`.
pub fn version_numbers(version: &str) -> Vec<u32> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter(|part| !part.is_empty()).map_while(|part| part.parse().ok()).collect()
}

/// All of them. A test checks that the list is valid.
static BAD: LazyLock<Vec<BadVersions>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Table {
        bad: Vec<BadVersions>,
    }
    toml::from_str(VERSIONS).map_or_else(|_| Vec::new(), |table: Table| table.bad)
});

/// The known faults of a component.
pub fn bad_versions(component: Component) -> impl Iterator<Item = &'static BadVersions> {
    BAD.iter().filter(move |bad| bad.component == component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_valid_and_has_sources() {
        assert!(BAD.len() >= 12);
        for bad in &*BAD {
            assert!(bad.source.starts_with("https://"), "{bad:?}");
            assert!(!bad.breaks.ends_with('.'), "{bad:?}");
            if let Some(from) = &bad.from {
                assert!(version_numbers(from) < version_numbers(&bad.good), "{bad:?}");
            }
        }
        for component in Component::ALL {
            assert!(bad_versions(component).next().is_some(), "{component:?}");
        }
    }

    #[test]
    fn ranges_begin_and_end() {
        let faults = |component, version| {
            bad_versions(component)
                .filter(|bad| bad.has(version))
                .map(|bad| bad.good.as_str())
                .collect::<Vec<_>>()
        };
        for (component, version, good) in [
            (Component::Driver, "384.81", &[][..]),
            (Component::Driver, "390.48", &["396.26"][..]),
            (Component::Driver, "396.26", &[]),
            (Component::Driver, "580.159.04", &[]),
            (Component::Nccl, "2.10.3", &["2.12.7", "2.23.4"]),
            (Component::Nccl, "2.18.1", &["2.18.3", "2.23.4"]),
            (Component::Nccl, "2.18.3", &["2.23.4"]),
            (Component::Nccl, "2.28.3", &["2.28.7"]),
            (Component::Nccl, "2.28.7", &["2.28.9"]),
            (Component::Nccl, "2.29.7", &[]),
            (Component::Nccl, "2.30.7", &["2.31.2"]),
            (Component::AwsOfiNccl, "1.12.0-aws", &["1.12.1"]),
            (Component::AwsOfiNccl, "1.17.3", &[]),
            (Component::AwsOfiNccl, "1.18.0", &["1.20.0"]),
            (Component::AwsOfiNccl, "1.21.1", &[]),
            (Component::Efa, "2.17.2g", &["2.17.3"]),
            (Component::Efa, "2.17.3g", &[]),
            (Component::Gdrdrv, "2.3.1", &["2.4", "2.4.2", "2.4.4", "2.5.1"]),
            (Component::Gdrdrv, "2.5", &["2.5.1"]),
            (Component::Gdrdrv, "2.6", &[]),
            (Component::Ofed, "5.4-1.0.3", &["5.4-3"]),
            (Component::Ofed, "5.4-3.0.3", &[]),
            (Component::Ofed, "24.10-1.1.4", &[]),
            (Component::Ucx, "1.20.0", &["1.20.1"]),
            (Component::Ucx, "1.18.1", &[]),
            (Component::Ucx, "unknown", &[]),
        ] {
            assert_eq!(faults(component, version), good, "{component:?} {version}");
        }
    }
}
