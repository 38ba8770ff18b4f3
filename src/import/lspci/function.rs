//! One function of a dump, from its own lines and bytes. Whether a missing line means absence depends on
//! the dump's other functions and is decided later.

use super::blocks::Block;
use super::bytes;
use super::capabilities::{self, Listed};
use super::head::{Head, Numbers};
use super::lines::Line;
use super::regions;
use crate::model::config::{Class, HeaderKind, PortType};
use crate::model::{Bdf, Config, Fact, Resource, Why};
use crate::pci::PciNumbers;

pub(super) struct Function {
    pub line: usize,
    pub bdf: Bdf,
    pub numbers: Numbers,
    /// The bus below a bridge.
    pub secondary: Option<u8>,
    /// The last bus below a bridge.
    pub subordinate: Option<u8>,
    pub port: Option<PortType>,
    /// Everything that `-v` prints is there.
    pub complete: bool,
    /// Everything that `-v` prints before the regions is there: NUMA node, IOMMU group.
    pub has_head: bool,
    pub numa: Option<u32>,
    pub group: Option<u32>,
    pub driver: Option<String>,
    pub resources: Fact<Vec<Resource>>,
    pub config: Config,
    pub beyond: bool,
    /// It may have extended capabilities but lists none: there are none, or they are unreadable.
    pub maybe_beyond: bool,
    pub manages: bool,
    pub names_rdma: bool,
    /// Remarks with their lines.
    pub failure: Vec<(usize, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    /// None, or too little is left to know.
    None,
    /// `-v`: flags in one line.
    Flags,
    /// `-vv` or more: registers.
    Registers,
}

impl Function {
    /// Reads a function.
    pub fn read(head: &Head<'_>, block: &Block<'_>, numbers: &PciNumbers<'_>) -> Self {
        let at = block.lines.iter().position(|line| capabilities::title(line).is_some());
        let (upper, lower) = block.lines.split_at(at.unwrap_or(block.lines.len()));
        let find = |name: &str| upper.iter().find_map(|line| line.text.strip_prefix(name));
        let lower_kernel =
            |name: &str| block.lines.iter().find_map(|line| line.text.strip_prefix(name));
        let driver = lower_kernel("Kernel driver in use: ").map(str::to_owned);
        let verbosity = verbosity(upper);
        // The end may be cut too: only lspci's last line proves that it is complete.
        let has_end = !block.bytes.is_empty()
            || block.lines.last().is_some_and(|line| line.text.starts_with("Kernel "));
        let whole = verbosity != Verbosity::None && block.whole;
        let complete = whole && has_end;
        let behind = |names: &[&str]| {
            let is_behind = |line: &Line<'_>| names.iter().any(|name| line.text.starts_with(name));
            whole && (has_end || at.is_some() || upper.iter().any(is_behind))
        };
        let has_head = behind(&["Flags: ", "Region ", "Expansion ROM ", "Bus: "]);
        let has_windows = behind(&["Expansion ROM ", "Bus: "]);
        let flags = find("Flags: ").unwrap_or_default();
        let flag = |name: &str| {
            flags.split(", ").find_map(|flag| flag.strip_prefix(name)?.trim().parse().ok())
        };
        let line_or_flag = |line: &str, name: &str| {
            find(line).and_then(|text| text.trim().parse().ok()).or_else(|| flag(name))
        };
        let mut function = Self {
            line: block.first.number,
            bdf: head.bdf,
            numbers: head.numbers(numbers),
            secondary: find("Bus: ").and_then(|text| bus_number(text, "secondary=")),
            subordinate: find("Bus: ").and_then(|text| bus_number(text, "subordinate=")),
            port: None,
            complete,
            has_head,
            numa: line_or_flag("NUMA node: ", "NUMA node "),
            group: line_or_flag("IOMMU group: ", "IOMMU group "),
            driver,
            resources: Fact::default(),
            config: Config::default(),
            beyond: false,
            maybe_beyond: false,
            manages: false,
            names_rdma: head.names_rdma(),
            failure: block.failure.clone(),
        };
        function.add_capabilities(capabilities::listed(lower), verbosity, upper, whole);
        if has_windows && verbosity == Verbosity::Registers {
            function.resources = regions::resources(upper, &mut function.failure);
        }
        function.add_bytes(&block.bytes);
        function
    }

    fn add_capabilities(
        &mut self,
        mut listed: Listed,
        verbosity: Verbosity,
        upper: &[Line<'_>],
        whole: bool,
    ) {
        let unknown_header =
            upper.iter().any(|line| line.text.starts_with("!!! Unknown header type"));
        // This bit is valid whatever is missing after it.
        let says_none = upper.iter().any(|line| line.text.starts_with("Status: Cap-"));
        let has_none = verbosity == Verbosity::Flags && listed.legacy == 0;
        let denied = upper.iter().any(|line| line.text.starts_with("<access denied"));
        // Complete too if the extended list begins.
        let is_complete = (self.complete && (has_none || listed.legacy > 0))
            || (whole && listed.legacy > 0 && listed.beyond > 0);
        let absent = if unknown_header {
            Err(Why::Broken)
        } else if listed.denied || denied {
            Err(Why::Denied)
        } else if listed.broken {
            Err(Why::Broken)
        } else if says_none || is_complete {
            Ok(())
        } else {
            Err(Why::NotCovered)
        };
        let host_bridge = self.numbers.class.is_none_or(|class| Class(class).is_host_bridge());
        let absent_beyond = if listed.denied || unknown_header || !(self.complete || says_none) {
            absent.and(Err(Why::NotCovered))
        } else if listed.illegible {
            Err(Why::NotCovered)
        } else if listed.broken_beyond {
            Err(Why::Broken)
        } else if listed.beyond > 0 {
            Ok(())
        } else if listed.may_go_beyond || host_bridge {
            Err(Why::NotCovered)
        } else {
            absent
        };
        self.beyond = listed.beyond > 0;
        self.maybe_beyond = listed.may_go_beyond && !self.beyond && !listed.denied && self.complete;
        self.port = listed.port;
        self.manages = listed.manages;
        listed.settle(absent, absent_beyond);
        self.config = listed.config;
    }

    /// Hex bytes override text.
    fn add_bytes(&mut self, raw: &[u8]) {
        let Some(config) = bytes::decode(raw) else {
            return;
        };
        for message in &config.failure {
            self.failure.push((self.line, message.clone()));
        }
        if let Some(header) = config.header.known() {
            // A virtual function's vendor and device read as ones; sysfs takes them from the physical function.
            if header.vendor != 0xffff {
                self.numbers = Numbers {
                    class: Some(header.class.0),
                    vendor: Some(header.vendor),
                    device: Some(header.device),
                };
            }
            if let HeaderKind::Bridge { secondary, subordinate, .. }
            | HeaderKind::CardBus { secondary, subordinate, .. } = header.kind
            {
                self.secondary = Some(secondary);
                self.subordinate = Some(subordinate);
            }
        }
        if let Some(express) = config.express.present() {
            self.port = Some(express.port);
        }
        let text = std::mem::take(&mut self.config);
        self.config = bytes::over(config, text);
    }
}

fn verbosity(upper: &[Line<'_>]) -> Verbosity {
    let has = |name: &str| upper.iter().any(|line| line.text.starts_with(name));
    if has("Control: ") && has("Status: ") {
        Verbosity::Registers
    } else if has("Flags: ") {
        Verbosity::Flags
    } else {
        Verbosity::None
    }
}

/// Reads `primary=00, secondary=01, subordinate=01, sec-latency=0`.
fn bus_number(text: &str, name: &str) -> Option<u8> {
    let bus = text.split(", ").find_map(|part| part.strip_prefix(name))?;
    u8::from_str_radix(bus, 16).ok()
}
