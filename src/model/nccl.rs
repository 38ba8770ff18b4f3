//! NCCL's topology file as a tree of elements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One element, as in `<pci busid="0000:1b:00.0" class="0x030200">…</pci>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclElement {
    /// `system`, `cpu`, `pci`, `gpu`, `nvlink`, `xgmi` (RCCL), `c2c`, `nic`, `net` or `pcilink`.
    pub tag: String,
    /// Names and values, in the order of the file.
    pub attributes: Vec<(String, String)>,
    /// The elements inside.
    pub children: Vec<NcclElement>,
}

impl NcclElement {
    pub fn new(tag: &str) -> Self {
        Self { tag: tag.to_owned(), ..Self::default() }
    }

    /// The value of an attribute that is present and not empty.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut all = self.attributes.iter();
        let value = all.find(|(other, _)| other == name).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// The elements inside with this tag.
    pub fn of_tag<'a>(&'a self, tag: &'a str) -> impl Iterator<Item = &'a NcclElement> {
        self.children.iter().filter(move |child| child.tag == tag)
    }
}
