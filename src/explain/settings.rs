//! The environment variables that a text shows: those of the program that printed it, not those of gdr.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexBuilder};

/// Limit of the variables that are kept.
const MAX_SETTINGS: usize = 256;

/// Variables of the libraries that move GPU memory.
const NAME: &str =
    r"\b((?:NCCL|UCX|NVSHMEM|OMPI|MPICH|MPIR|MV2|CUDA|PYTORCH|EP|FI|PSM3|GDRCOPY)_[A-Za-z0-9_]+)";

const VALUE: &str = r#"["']?([^\s"';]*[^\s"',;.])"#;

/// A variable of the program that printed the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub value: String,
    /// From 1.
    pub line: u64,
}

pub struct Settings {
    /// NCCL's `NAME set by environment to VALUE`.
    reported: Regex,
    /// `NAME=VALUE` in a command. In a sentence it is what somebody advises or tried.
    assigned: Regex,
    name: Regex,
}

impl Settings {
    pub fn new() -> Result<Self, regex::Error> {
        let regex = |between: &str| {
            RegexBuilder::new(&[NAME, between, VALUE].concat()).unicode(false).build()
        };
        Ok(Self {
            reported: regex(" set (?:by environment )?to ")?,
            assigned: regex(" ?= ?")?,
            name: RegexBuilder::new(NAME).unicode(false).build()?,
        })
    }

    /// True if a line has the name of a variable.
    pub fn are_in(&self, raw: &[u8]) -> bool {
        self.name.is_match(raw)
    }

    /// Adds the variables of a line. The last value counts, as in a shell.
    pub fn read(
        &self,
        raw: &[u8],
        line: u64,
        is_command: bool,
        found: &mut BTreeMap<String, Setting>,
    ) {
        let regex = if is_command { &self.assigned } else { &self.reported };
        for setting in regex.captures_iter(raw) {
            let (Some(name), Some(value)) = (setting.get(1), setting.get(2)) else {
                continue;
            };
            let [name, value] =
                [name, value].map(|group| String::from_utf8_lossy(group.as_bytes()).into_owned());
            if found.len() < MAX_SETTINGS || found.contains_key(&name) {
                found.insert(name, Setting { value, line });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_variables_as_programs_and_people_write_them() {
        for (is_command, line, name, value) in [
            (
                false,
                "node1:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.",
                "NCCL_P2P_DISABLE",
                "1",
            ),
            (false, "NCCL INFO NCCL_IB_HCA set to mlx5_0", "NCCL_IB_HCA", "mlx5_0"),
            (true, "export NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE", "1"),
            (true, "mpirun -np 2 -x UCX_TLS=rc,cuda ./a", "UCX_TLS", "rc,cuda"),
            (
                true,
                "export PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"",
                "PYTORCH_CUDA_ALLOC_CONF",
                "expandable_segments:True",
            ),
        ] {
            let mut found = BTreeMap::new();
            let settings = Settings::new().expect("patterns");
            settings.read(line.as_bytes(), 3, is_command, &mut found);
            let setting = found.get(name).unwrap_or_else(|| panic!("{line}: {found:?}"));
            assert_eq!((setting.value.as_str(), setting.line), (value, 3), "{line}");
        }
    }

    #[test]
    fn ignores_other_assignments() {
        let mut found = BTreeMap::new();
        let settings = Settings::new().expect("patterns");
        for line in ["PATH=/usr/bin", "x = 3", "NCCL_DEBUG", "MY_NCCL_P2P=1"] {
            settings.read(line.as_bytes(), 1, true, &mut found);
        }
        let advice = "You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.";
        settings.read(advice.as_bytes(), 1, false, &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
