//! Output of `ibv_devinfo`, with or without `-v`, as files of `/sys/class/infiniband`.

use std::collections::BTreeSet;

use crate::model::Bdf;

pub const CLASS: &str = "/sys/class/infiniband";

/// ibv_devinfo's name of a number, and the content of the file with that number.
const STATES: [(&str, &str); 5] = [
    ("PORT_DOWN", "DOWN"),
    ("PORT_INIT", "INIT"),
    ("PORT_ARMED", "ARMED"),
    ("PORT_ACTIVE", "ACTIVE"),
    ("PORT_ACTIVE_DEFER", "ACTIVE_DEFER"),
];
const PHYSICAL_STATES: [(&str, &str); 6] = [
    ("SLEEP", "Sleep"),
    ("POLLING", "Polling"),
    ("DISABLED", "Disabled"),
    ("PORT_CONFIGURATION TRAINNING", "PortConfigurationTraining"),
    ("LINK_UP", "LinkUp"),
    ("LINK_ERROR_RECOVERY", "LinkErrorRecovery"),
];

/// The files, and the directories that hold all their entries.
#[derive(Default)]
pub struct Class {
    pub files: Vec<(String, String)>,
    pub directories: BTreeSet<String>,
    /// Devices, by their directories, and their PCI functions.
    pub links: Vec<(String, Bdf)>,
}

/// Reads the devices; empty if the output lists none.
pub fn class(output: &str) -> Class {
    let mut class = Class::default();
    let (mut device, mut port) = (String::new(), None);
    for line in output.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match (key.trim(), &port) {
            ("hca_id", _) if is_name(value) => {
                device = format!("{CLASS}/{value}");
                port = None;
                class.directories.insert(format!("{device}/ports"));
            }
            _ if device.is_empty() => {}
            ("port", _) if value.parse::<u32>().is_ok() => {
                port = Some(format!("{device}/ports/{value}"))
            }
            (key @ ("fw_ver" | "board_id"), None) => class.add(&device, key, value),
            ("link_layer", Some(port)) => class.add(port, "link_layer", value),
            ("state", Some(port)) => class.add_number(port, "state", value, &STATES),
            ("phys_state", Some(port)) => {
                class.add_number(port, "phys_state", value, &PHYSICAL_STATES)
            }
            _ => {}
        }
    }
    // It leaves out devices that it cannot open.
    let leaves_out = ["Failed to", "libibverbs: Warning"];
    if !device.is_empty() && !leaves_out.iter().any(|words| output.contains(words)) {
        class.directories.insert(CLASS.to_owned());
    }
    class
}

impl Class {
    /// The directory of a device; `None` for an invalid name.
    pub fn device(&mut self, name: &str) -> Option<String> {
        if !is_name(name) {
            return None;
        }
        let device = format!("{CLASS}/{name}");
        self.directories.insert(format!("{device}/ports"));
        self.directories.insert(CLASS.to_owned());
        Some(device)
    }

    /// The directory of a port.
    pub fn port(&mut self, device: &str, number: &str) -> Option<String> {
        let number: u8 = number.parse().ok()?;
        let port = format!("{device}/ports/{number}");
        self.directories.insert(port.clone());
        Some(port)
    }

    pub fn add_some(&mut self, directory: &str, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.add(directory, name, text);
        }
    }

    pub fn add(&mut self, directory: &str, name: &str, text: &str) {
        self.files.push((format!("{directory}/{name}"), format!("{text}\n")));
    }

    /// `PORT_ACTIVE (4)` → `4: ACTIVE`.
    fn add_number(&mut self, port: &str, name: &str, value: &str, words: &[(&str, &str)]) {
        let Some((word, number)) = value.strip_suffix(')').and_then(|value| value.split_once(" ("))
        else {
            return;
        };
        if let Some((_, text)) = words.iter().find(|(printed, _)| *printed == word) {
            self.add(port, name, &format!("{number}: {text}"));
        }
    }
}

/// Names of devices are components of paths.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
