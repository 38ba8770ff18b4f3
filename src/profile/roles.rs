//! Table `roles` of a profile: what each NIC is for.

use serde::Deserialize;

/// What a NIC is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NicRole {
    /// Traffic of GPUs.
    Compute,
    Storage,
    /// Logins, monitoring, the network of the site.
    Management,
}

impl NicRole {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Storage => "storage",
            Self::Management => "management",
        }
    }
}

/// NICs by RDMA name, network interface or PCI address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roles {
    compute: Vec<String>,
    storage: Vec<String>,
    management: Vec<String>,
}

impl Roles {
    /// The role of the NIC with one of these names.
    pub fn of(&self, names: &[&str]) -> Option<NicRole> {
        let lists = [
            (NicRole::Compute, &self.compute),
            (NicRole::Storage, &self.storage),
            (NicRole::Management, &self.management),
        ];
        let has = |list: &[String]| list.iter().any(|name| names.contains(&name.as_str()));
        lists.into_iter().find(|(_, list)| has(list)).map(|(role, _)| role)
    }
}
