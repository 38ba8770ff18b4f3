//! Texts that list what a machine has, such as the output of ibstat or lspci, and the ports in them.
//!
//! A listing is not a log: a port without a cable is down on a machine that works. It may come from another machine than the reader's.

use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::clean::shown;

/// Limit of the ports that are named.
const MAX_PORTS: usize = 256;

/// What a line of a listing begins with, and the program that prints it.
const PROGRAMS: [(&str, &str); 16] = [
    (r"^CA '[^']+'$", "ibstat"),
    (r"^hca_id:\s", "ibv_devinfo"),
    (r"^Infiniband device '[^']+' port \d+ status:", "ibstatus"),
    (r"^\S+ +port +\d+ +==> +\S+ +\((?:Up|Down)\)", "ibdev2netdev"),
    (r"^(?:link )?[a-z]\w+/\d+ .*\bstate (?:ACTIVE|DOWN|INIT|ARMED)\b", "rdma link"),
    (r"^DEV\s+PORT\s+INDEX\s+GID", "show_gids"),
    (r"^\| NVIDIA-SMI \d", "nvidia-smi"),
    (r"^=+NVSMI LOG=+$", "nvidia-smi -q"),
    (r"^\s*(?:\x1b\[4m)?\s*GPU0\s.*(?:CPU Affinity|GPU1|NIC0|mlx5_0)", "nvidia-smi topo -m"),
    (r"^\s*Link \d+: (?:<inactive>|\d+(?:\.\d+)? GB/s)", "nvidia-smi nvlink"),
    (r"^(?:[0-9a-f]{4,}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S", "lspci"),
    (r"^<!DOCTYPE topology ", "lstopo"),
    (r"^<system version=", "NCCL_TOPO_DUMP_FILE"),
    (r"^NIC statistics:$", "ethtool -S"),
    (r"^# (?:UCX library version|Library version: )|^#\s+Transport: ", "ucx_info"),
    (r"^Module\s+Size\s+Used by$", "lsmod"),
];

/// A port and what the listing says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// `mlx5_0/1`.
    pub name: String,
    pub is_active: bool,
    /// It has a link, but no subnet manager or peer made it active.
    is_linked: bool,
    /// Where it is listed, from 1.
    pub line: u64,
    /// What says so.
    pub state: String,
}

pub struct Listing {
    programs: RegexSet,
    device: Regex,
    port: Regex,
    state: Regex,
    of_one_line: Regex,
    physical: Regex,
    gpu: Regex,
    nvlink: Regex,
}

/// A line of a listing.
#[derive(Debug, Clone)]
pub struct Link {
    /// From 1.
    pub line: u64,
    pub text: String,
}

/// What was found so far.
#[derive(Debug, Default)]
pub struct Found {
    pub program: Option<&'static str>,
    pub ports: Vec<Port>,
    device: Option<String>,
    port: Option<String>,
    /// The first NVLink that is inactive on a GPU whose others are active. Without a bridge all are inactive.
    pub inactive_nvlink: Option<Link>,
    /// Of the GPU that is being read: a link that is active, and the first one that is not.
    has_active_nvlink: bool,
    inactive_of_gpu: Option<Link>,
}

impl Listing {
    pub fn new() -> Result<Self, regex::Error> {
        let regex = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        let patterns = PROGRAMS.iter().map(|(pattern, _)| pattern);
        Ok(Self {
            programs: RegexSetBuilder::new(patterns).unicode(false).build()?,
            device: regex(
                r"^(?:CA '([^']+)'|hca_id:\s+(\S+)|Infiniband device '([^']+)' port (\d+) status:)",
            )?,
            port: regex(r"^\s*[Pp]ort:?\s+(\d+):?\s*$")?,
            state: regex(r"^\s*[Ss]tate:\s+(?:\d: )?(?:PORT_)?(\w+)")?,
            of_one_line: regex(
                r"^(?:link )?([a-z]\w*)(?:/| +port +)(\d+) +(?:.*\bstate (\w+)|==> +\S+ +\((Up|Down)\))",
            )?,
            physical: regex(r"^\s*[Pp]hys(?:ical)?[_ ]state:\s")?,
            gpu: regex(r"^\s*GPU \d+: ")?,
            nvlink: regex(r"^\s*Link \d+: (?:(<inactive>)|\d+(?:\.\d+)? GB/s)")?,
        })
    }

    /// Reads a line. True if it says whether a port is up, which is not a failure in a listing.
    pub fn read(&self, raw: &[u8], line: u64, found: &mut Found) -> bool {
        if found.program.is_none() {
            // Most lines begin no listing, and this needs no memory.
            if !self.programs.is_match(raw) {
                return false;
            }
            let begun = self.programs.matches(raw).into_iter().next();
            match begun.and_then(|at| PROGRAMS.get(at)) {
                Some((_, name)) => found.program = Some(name),
                None => return false,
            }
        }
        self.read_nvlink(raw, line, found);
        if let Some(device) = self.device.captures(raw) {
            found.device = group(&device, &[1, 2, 3]);
            found.port = group(&device, &[4]);
            return false;
        }
        if let Some(port) = self.of_one_line.captures(raw) {
            let state = group(&port, &[3, 4]).unwrap_or_default();
            let name = [group(&port, &[1]), group(&port, &[2])];
            found.add(name, &state, line);
            return true;
        }
        if found.device.is_none() {
            return false;
        }
        if let Some(port) = self.port.captures(raw) {
            found.port = group(&port, &[1]);
            return false;
        }
        if let Some(state) = self.state.captures(raw) {
            let state = group(&state, &[1]).unwrap_or_default();
            found.add([found.device.clone(), found.port.clone()], &state, line);
            return true;
        }
        self.physical.is_match(raw)
    }

    fn read_nvlink(&self, raw: &[u8], line: u64, found: &mut Found) {
        if self.gpu.is_match(raw) {
            found.has_active_nvlink = false;
            found.inactive_of_gpu = None;
        } else if let Some(link) = self.nvlink.captures(raw) {
            match link.get(1) {
                Some(_) => {
                    let link = || Link { line, text: shown(raw) };
                    found.inactive_of_gpu.get_or_insert_with(link);
                }
                None => found.has_active_nvlink = true,
            }
            if found.has_active_nvlink && found.inactive_nvlink.is_none() {
                found.inactive_nvlink = found.inactive_of_gpu.take();
            }
        }
    }
}

impl Found {
    /// True if a program for GPUs or RDMA prints the listing; lspci lists every vendor's devices.
    pub fn names_subject(&self) -> bool {
        self.program.is_some_and(|program| program != "lspci")
    }

    fn add(&mut self, [device, port]: [Option<String>; 2], state: &str, line: u64) {
        let (Some(device), Some(port)) = (device, port) else {
            return;
        };
        let word = state.to_ascii_uppercase();
        let word = word.as_str();
        if self.ports.len() < MAX_PORTS {
            self.ports.push(Port {
                name: format!("{device}/{port}"),
                is_active: ["ACTIVE", "UP"].contains(&word),
                is_linked: ["INIT", "ARMED"].iter().any(|begin| word.starts_with(begin)),
                line,
                state: format!("{device} port {port}: {state}"),
            });
        }
    }

    /// The ports that have a link and are not active, else those that are down.
    pub fn inactive(&self) -> Vec<&Port> {
        let linked: Vec<&Port> = self.ports.iter().filter(|port| port.is_linked).collect();
        if linked.is_empty() {
            self.ports.iter().filter(|port| !port.is_active).collect()
        } else {
            linked
        }
    }

    /// True if some ports are active and the others are down: these may have no cable.
    pub fn may_lack_cables(&self) -> bool {
        let has = |is: fn(&Port) -> bool| self.ports.iter().any(is);
        has(|port| port.is_active) && !has(|port| port.is_linked)
    }
}

fn group(found: &Captures<'_>, groups: &[usize]) -> Option<String> {
    let bytes = groups.iter().find_map(|group| found.get(*group))?;
    Some(String::from_utf8_lossy(bytes.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Found, Vec<u64>) {
        let listing = Listing::new().expect("patterns");
        let mut found = Found::default();
        let mut states = Vec::new();
        for (line, raw) in (1..).zip(text.lines()) {
            if listing.read(raw.as_bytes(), line, &mut found) {
                states.push(line);
            }
        }
        (found, states)
    }

    #[test]
    fn names_ports_and_states() {
        for (program, text, ports, states) in [
            (
                "ibstat",
                "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\nCA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n",
                &[("mlx5_0/1", true), ("mlx5_1/1", false)][..],
                &[3, 4, 7, 8][..],
            ),
            (
                "ibv_devinfo",
                "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\tport:\t2\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n",
                &[("mlx5_0/1", false), ("mlx5_0/2", true)],
                &[3, 5],
            ),
            (
                "ibstatus",
                "Infiniband device 'mlx5_0' port 1 status:\n\tstate:\t\t 1: DOWN\n\tphys state:\t 3: Disabled\n",
                &[("mlx5_0/1", false)],
                &[2, 3],
            ),
            (
                "ibdev2netdev",
                "mlx5_0 port 1 ==> ens1f0np0 (Up)\nmlx5_1 port 1 ==> ens1f1np1 (Down)\n",
                &[("mlx5_0/1", true), ("mlx5_1/1", false)],
                &[1, 2],
            ),
            (
                "rdma link",
                "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1\nlink mlx5_1/1 state DOWN physical_state DISABLED netdev ens2\n",
                &[("mlx5_0/1", true), ("mlx5_1/1", false)],
                &[1, 2],
            ),
        ] {
            let (found, lines) = found(text);
            assert_eq!(found.program, Some(program));
            let named: Vec<(&str, bool)> =
                (found.ports.iter()).map(|port| (port.name.as_str(), port.is_active)).collect();
            assert_eq!(named, ports, "{program}");
            assert_eq!(lines, states, "{program}");
        }
    }

    #[test]
    fn log_is_no_listing() {
        let (found, states) = found(
            "mlx5_core 0000:3b:00.0: mlx5_0: Port: 1 Link DOWN\nPort 1:\nState: Down\n\
             Port number 1 state is Down. Couldn't set the link layer\n",
        );
        assert_eq!((found.program, found.ports.len()), (None, 0));
        assert!(states.is_empty(), "{states:?}");
    }
}
