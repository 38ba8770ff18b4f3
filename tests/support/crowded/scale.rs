//! A recorded machine several times in one snapshot: the PCI functions of each copy are in domains of their own, and its
//! class devices have names of their own.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Input, LARGEST};

/// The most GPUs, NICs and NVMe controllers of which gdr says that it computes all pairs.
pub const MAX_ROWS: usize = 1_024;

/// Where devices have names that are not their addresses.
const CLASSES: [&str; 3] = ["/sys/class/infiniband", "/sys/class/net", "/sys/class/nvme"];

/// As many copies of a snapshot as have at most `rows` rows, and fit. The libraries' answers stay as they are.
pub fn scaled(name: &str, snapshot: &str, rows: usize) -> Input {
    let mut document: Value = serde_json::from_str(snapshot).expect("JSON");
    let Value::Object(files) = document["files"].take() else {
        panic!("a snapshot has files");
    };
    let names: BTreeSet<String> = CLASSES.iter().flat_map(|class| listed(&files, class)).collect();
    let of_one = listed(&files, "/proc/driver/nvidia/gpus").len()
        + listed(&files, CLASSES[0]).len()
        + listed(&files, CLASSES[2]).len();
    let mut all = files.clone();
    let mut size = snapshot.len();
    let mut copies = 1;
    while (copies + 1) * of_one.max(1) <= rows && copies < 0x1000 {
        let copy = Copy { names: &names, number: copies };
        let mut more = Vec::new();
        for (path, recorded) in &files {
            let here = copy.path(path);
            let recorded = copy.value(recorded);
            if here != *path || recorded["names"] != files[path]["names"] {
                more.push((here, recorded));
            }
        }
        size += more
            .iter()
            .map(|(path, value)| path.len() + value.to_string().len() + 4)
            .sum::<usize>();
        if size > LARGEST {
            break;
        }
        for (path, recorded) in more {
            match all.get_mut(&path) {
                Some(there) => extend(there, &files[&path], &recorded),
                None => {
                    all.insert(path, recorded);
                }
            }
        }
        copies += 1;
    }
    document["files"] = Value::Object(all);
    Input::new(&format!("{copies} x {name}"), document.to_string())
}

fn listed(files: &Map<String, Value>, directory: &str) -> Vec<String> {
    let names = files.get(directory).and_then(|recorded| recorded["names"].as_array());
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Adds the names that another copy's directory has and the recorded one has not.
fn extend(there: &mut Value, recorded: &Value, other: &Value) {
    let (Some(names), Some(own), Some(more)) =
        (there["names"].as_array_mut(), recorded["names"].as_array(), other["names"].as_array())
    else {
        return;
    };
    names.extend(more.iter().filter(|name| !own.contains(name)).cloned());
}

struct Copy<'a> {
    names: &'a BTreeSet<String>,
    number: usize,
}

impl Copy<'_> {
    /// A path, or the target of a link: each step by itself.
    fn path(&self, path: &str) -> String {
        let steps: Vec<String> = path.split('/').map(|step| self.name(step)).collect();
        steps.join("/")
    }

    fn name(&self, name: &str) -> String {
        let (head, rest) = match name.strip_prefix("pci") {
            Some(rest) => ("pci", rest),
            None => ("", name),
        };
        let domain = rest.get(..4).and_then(|domain| u32::from_str_radix(domain, 16).ok());
        match domain {
            Some(domain) if rest.get(4..5) == Some(":") => {
                format!("{head}{:04x}{}", domain | (self.number as u32) << 16, &rest[4..])
            }
            _ if self.names.contains(name) => format!("{name}k{}", self.number),
            _ => name.to_owned(),
        }
    }

    fn value(&self, recorded: &Value) -> Value {
        let mut recorded = recorded.clone();
        if let Some(link) = recorded["link"].as_str() {
            recorded["link"] = self.path(link).into();
        }
        if let Some(text) = recorded["text"].as_str() {
            let named = self.names.contains(text.trim());
            if named {
                recorded["text"] = format!("{}\n", self.name(text.trim())).into();
            }
        }
        if let Some(names) = recorded["names"].as_array() {
            let names = names.iter().filter_map(Value::as_str).map(|name| self.name(name).into());
            recorded["names"] = Value::Array(names.collect());
        }
        // What was only asked for is not there.
        if let Value::Object(fields) = &mut recorded {
            fields.retain(|_, value| !value.is_null());
        }
        recorded
    }
}
