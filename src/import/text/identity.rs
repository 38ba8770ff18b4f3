//! Outputs of one program that show other devices under the same names: UUIDs of GPUs, GUIDs of RDMA devices, platforms of OpenCL. Then they
//! are of several machines. What one of them leaves out says nothing: a command may show some devices.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{cut, machines};
use crate::import::find::{self, Words};

/// Limits of lists, and of devices in a list.
const MAX_LISTS: usize = 64;
const MOST: usize = 1024;

/// Which devices a list names, and by what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Naming {
    /// GPUs by the numbers of nvidia-smi.
    Number,
    /// GPUs by PCI address.
    Address,
    /// RDMA devices by name.
    Rdma,
    /// Platforms of OpenCL, whose numbers mean nothing.
    Platform,
}

/// A device: its name in the list, and what identifies it.
struct Device {
    of: Naming,
    name: String,
    id: String,
}

struct List {
    of: Naming,
    /// Where its first line stands.
    line: usize,
    devices: BTreeMap<String, String>,
}

impl List {
    fn lacks(&self, other: &Self) -> bool {
        other.devices.values().any(|id| !self.devices.values().any(|own| own == id))
    }

    /// The name under which both show other devices. Of a container, a list has some of its machine's GPUs under other numbers.
    fn contradicts(&self, other: &Self) -> Option<&str> {
        if self.of != other.of || !self.lacks(other) || !other.lacks(self) {
            return None;
        }
        if self.of == Naming::Platform {
            return Some("");
        }
        let differs = |(name, id): &(&String, &String)| {
            other.devices.get(*name).is_some_and(|known| known != *id)
        };
        self.devices.iter().find(differs).map(|(name, _)| name.as_str())
    }
}

/// Words that say which parts of the text contradict each other. `of_file` are the lines of the file, if the text has others.
pub fn found(bytes: &[u8], of_file: &[usize]) -> Option<String> {
    let lists = lists(bytes);
    for (at, a) in lists.iter().enumerate() {
        for b in &lists[at + 1..] {
            let Some(name) = a.contradicts(b) else { continue };
            let line = |line: usize| of_file.get(line).copied().unwrap_or(line + 1);
            let (first, second) = (line(a.line.min(b.line)), line(a.line.max(b.line)));
            let what = match a.of {
                Naming::Number => format!("GPU {name} has another UUID"),
                Naming::Address => format!("the GPU at {name} has another UUID"),
                Naming::Rdma => format!("{name} has another node GUID"),
                Naming::Platform => "OpenCL has other platforms".to_owned(),
            };
            return Some(format!(
                "{what} from line {second} than from line {first}: these may be several machines; give what one of them shows: {}",
                machines::one_of(first, second)
            ));
        }
    }
    None
}

/// A name that stands again begins another list. Ranks of a job may print to one stream, each behind a mark of its own.
fn lists(bytes: &[u8]) -> Vec<List> {
    let mut lists: Vec<List> = Vec::new();
    let mut current: BTreeMap<(Naming, String), usize> = BTreeMap::new();
    let mut head = Head::default();
    for (at, raw) in find::lines(bytes).enumerate().filter(|(_, raw)| raw.len() <= LONGEST) {
        let Ok(text) = str::from_utf8(raw) else { continue };
        if !may_identify(text) {
            continue;
        }
        let line = cut::clean(raw);
        let line = line.trim();
        if is_platforms(line) {
            current.remove(&(Naming::Platform, String::new()));
        }
        let Some((before, device)) = head.device(line) else { continue };
        let key = (device.of, before.to_owned());
        let goes_on = |list: &List| match list.devices.get(&device.name) {
            Some(id) => *id == device.id,
            None => list.devices.len() < MOST,
        };
        let known = current.get(&key).copied();
        let known = known.filter(|number| lists.get(*number).is_some_and(goes_on));
        let number = known.unwrap_or(lists.len());
        if known.is_none() {
            if lists.len() == MAX_LISTS {
                continue;
            }
            current.insert(key, number);
            lists.push(List { of: device.of, line: at, devices: BTreeMap::new() });
        }
        if let Some(list) = lists.get_mut(number) {
            list.devices.insert(device.name, device.id);
        }
    }
    lists
}

/// Longer lines are documents of one line.
const LONGEST: usize = 1024;

/// True if a line has a word that each line of interest has: a text may have a million lines.
fn may_identify(line: &str) -> bool {
    static FOUND: LazyLock<Words> = LazyLock::new(|| Words::new(WORDS));
    FOUND.has_any(line)
}

const WORDS: [&str; 12] = [
    "UUID",
    "<uuid>",
    "<gpu id",
    "GPU 0",
    "CA '",
    "hca_id",
    "node_guid",
    "Node GUID",
    "latform name",
    "latform Name",
    "of OpenCL platforms",
    "of platforms",
];

/// The device whose fields follow.
#[derive(Default)]
struct Head {
    address: String,
    rdma: String,
}

impl Head {
    /// The device that a line identifies, and what stands before its name.
    fn device<'a>(&mut self, line: &'a str) -> Option<(&'a str, Device)> {
        if let Some(found) = listed(line) {
            return Some(found);
        }
        if let Some(name) = rdma(line) {
            self.rdma = name.to_owned();
        }
        if let Some(address) = address(line) {
            self.address = address.to_owned();
            return None;
        }
        let of_xml = || line.strip_prefix("<uuid>")?.split_once("</uuid>").map(|(uuid, _)| uuid);
        let uuid = of_xml().or_else(|| field(line, "GPU UUID"));
        if let Some(id) = uuid.filter(|uuid| uuid.starts_with("GPU-")) {
            let name = std::mem::take(&mut self.address);
            let device = Device { of: Naming::Address, name, id: id.to_owned() };
            return Some(("", device)).filter(|(_, device)| !device.name.is_empty());
        }
        let name = || field(line, "Platform name").or_else(|| field(line, "Platform Name"));
        if let Some(id) = name() {
            return Some((
                "",
                Device { of: Naming::Platform, name: id.to_owned(), id: id.to_owned() },
            ));
        }
        let id = guid(line)?;
        let name = std::mem::take(&mut self.rdma);
        (!name.is_empty()).then_some(("", Device { of: Naming::Rdma, name, id }))
    }
}

/// `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)`, behind a name or a mark of the rank.
fn listed(line: &str) -> Option<(&str, Device)> {
    let (head, rest) = line.split_once(" (UUID: GPU-")?;
    let (before, rest_of_head) = head.split_at(head.find("GPU ")?);
    let (number, _) = rest_of_head.strip_prefix("GPU ")?.split_once(": ")?;
    number.parse::<usize>().ok()?;
    let id = rest.split(')').next()?;
    (id.len() >= 8).then(|| {
        (before.trim(), Device { of: Naming::Number, name: number.to_owned(), id: id.to_owned() })
    })
}

/// The address in `GPU 00000000:17:00.0` and `<gpu id="00000000:17:00.0">`, above the fields of a GPU.
fn address(line: &str) -> Option<&str> {
    let of_xml = || line.strip_prefix("<gpu id=\"")?.strip_suffix("\">");
    let address = of_xml().or_else(|| line.strip_prefix("GPU "))?;
    (address.len() == 16 && address.matches(':').count() == 2).then_some(address)
}

/// The device in `CA 'mlx5_0'`, `hca_id: mlx5_0` and `0: mlx5_0: node_type ca …`.
fn rdma(line: &str) -> Option<&str> {
    let of_stat = || line.strip_prefix("CA '")?.strip_suffix('\'');
    let of_link = || {
        let (number, rest) = line.split_once(": ")?;
        number.parse::<u32>().ok()?;
        rest.split_once(": node_type ").map(|(name, _)| name)
    };
    let of_devinfo = || line.strip_prefix("hca_id:").map(str::trim);
    let name = of_stat().or_else(of_devinfo).or_else(of_link)?;
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

/// The digits of a node GUID: `Node GUID: 0x0123456789abcdef`, `node_guid: 0123:4567:89ab:cdef`.
fn guid(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("Node GUID:").or_else(|| line.split_once("node_guid"))?;
    let word = rest.trim_start_matches([':', ' ', '\t']).split_ascii_whitespace().next()?;
    let word = word.strip_prefix("0x").unwrap_or(word);
    let digits: String = word.chars().filter(|c| *c != ':').collect::<String>().to_lowercase();
    let is_guid = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    // One that is not set is zero.
    (is_guid && digits.bytes().any(|byte| byte != b'0')).then_some(digits)
}

/// The value behind a key, which may stand in columns.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(key)?;
    let value = rest.trim_start_matches([' ', '\t']);
    let value = value.strip_prefix(':').unwrap_or(value).trim();
    (rest.starts_with([' ', ':', '\t']) && !value.is_empty()).then_some(value)
}

/// The first line of clinfo and of samples of OpenCL.
fn is_platforms(line: &str) -> bool {
    ["Number of platforms", "Number of OpenCL platforms"].iter().any(|head| line.starts_with(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(uuids: &[&str]) -> String {
        let line = |(at, id): (usize, &&str)| {
            format!("GPU {at}: NVIDIA L4 (UUID: GPU-{id}-0000-0000-0000-000000000000)\n")
        };
        uuids.iter().enumerate().map(line).collect()
    }

    fn ibstat(devices: &[(&str, &str)]) -> String {
        let of = |(name, guid): &(&str, &str)| format!("CA '{name}'\n\tNode GUID: 0x{guid}\n");
        devices.iter().map(of).collect()
    }

    #[test]
    fn other_devices_under_one_name_are_of_other_machines() {
        const A: &str = "0123456789abcd00";
        const B: &str = "0123456789abcd01";
        let block =
            |id: &str| format!("GPU 00000000:17:00.0\n    GPU UUID                  : GPU-{id}\n");
        for (text, words) in [
            (
                list(&["aaaaaaaa", "bbbbbbbb"]) + "\nthe other:\n" + &list(&["cccccccc"]),
                "GPU 0 has another UUID from line 5 than from line 1",
            ),
            (
                list(&["aaaaaaaa"]).replace("GPU 0", "n1: GPU 0")
                    + &list(&["cccccccc"]).replace("GPU 0", "n2: GPU 0"),
                "GPU 0 has another UUID",
            ),
            (block("aaaaaaaa") + &block("bbbbbbbb"), "the GPU at 00000000:17:00.0 has"),
            (ibstat(&[("mlx5_0", A)]) + &ibstat(&[("mlx5_0", B)]), "mlx5_0 has another node GUID"),
            (
                "Number of platforms  1\n  Platform Name   Intel(R) OpenCL\nNumber of platforms  1\n  Platform Name   NVIDIA CUDA\n"
                    .to_owned(),
                "OpenCL has other platforms",
            ),
        ] {
            let found = found(text.as_bytes(), &[]).expect(&text);
            assert!(found.contains(words), "{found}");
        }
        for text in [
            // A container sees some of the GPUs, and a driver for more platforms was installed.
            list(&["aaaaaaaa", "bbbbbbbb"]) + &list(&["bbbbbbbb"]),
            list(&["aaaaaaaa", "bbbbbbbb"]).repeat(2),
            // Names changed with a boot.
            ibstat(&[("mlx5_0", A), ("mlx5_1", B)]) + &ibstat(&[("mlx5_0", B), ("mlx5_1", A)]),
            ibstat(&[("mlx5_0", A)]) + "hca_id:\tmlx5_0\n\tnode_guid:\t\t0123:4567:89ab:cd00\n",
            "Number of platforms  1\n  Platform Name   Intel(R) OpenCL\nNumber of platforms  2\n  Platform Name   NVIDIA CUDA\n  \
             Platform Name   Intel(R) OpenCL\n"
                .to_owned(),
        ] {
            assert_eq!(found(text.as_bytes(), &[]), None, "{text}");
        }
    }
}
