//! One function of a dump: what its lines and bytes tell by themselves. What only the other functions of the dump can
//! tell is left open: whether a line that is missing would have been printed.

use super::blocks::Block;
use super::bytes;
use super::capabilities::{self, Listed};
use super::head::{Head, Numbers};
use super::lines::Line;
use super::regions;
use crate::model::config::{Class, HeaderKind, PortType};
use crate::model::{Bdf, Config, Fact, Resource, Why};
use crate::pci::PciNumbers;

/// What is told of one function.
pub(super) struct Function {
    /// The line of its address.
    pub line: usize,
    pub bdf: Bdf,
    pub numbers: Numbers,
    /// The bus below it, of a bridge.
    pub secondary: Option<u8>,
    /// The last bus below it, of a bridge.
    pub subordinate: Option<u8>,
    pub port: Option<PortType>,
    /// All that `-v` prints is there, from the first line to the last.
    pub complete: bool,
    /// All that `-v` prints up to the windows is there: NUMA node, IOMMU group.
    pub begun: bool,
    pub numa: Option<u32>,
    pub group: Option<u32>,
    pub driver: Option<String>,
    pub resources: Fact<Vec<Resource>>,
    pub config: Config,
    /// It lists capabilities in extended space.
    pub beyond: bool,
    /// It may have capabilities in extended space, and none is listed: there are none, or that space cannot be read.
    pub maybe_beyond: bool,
    /// It manages a switch.
    pub manages: bool,
    /// What is wrong, each with its line.
    pub failure: Vec<(usize, String)>,
}

/// How much `-v` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    /// None, or so little is left that it cannot be told.
    None,
    /// `-v`: flags in one line.
    Flags,
    /// `-vv` and more: registers.
    Registers,
}

impl Function {
    /// Reads one, whose first line is this.
    pub fn read(head: &Head<'_>, block: &Block<'_>, numbers: &PciNumbers<'_>) -> Self {
        let at = block
            .lines
            .iter()
            .position(|line| capabilities::title(line).is_some());
        let (upper, lower) = block.lines.split_at(at.unwrap_or(block.lines.len()));
        let find = |name: &str| upper.iter().find_map(|line| line.text.strip_prefix(name));
        let lower_kernel = |name: &str| {
            block
                .lines
                .iter()
                .find_map(|line| line.text.strip_prefix(name))
        };
        let driver = lower_kernel("Kernel driver in use: ").map(str::to_owned);
        let verbosity = verbosity(upper);
        // Lines go missing at the end as well: only what lspci prints last tells that they did not.
        let has_end = !block.bytes.is_empty()
            || block
                .lines
                .last()
                .is_some_and(|line| line.text.starts_with("Kernel "));
        let whole = verbosity != Verbosity::None && block.whole;
        let complete = whole && has_end;
        let behind = |names: &[&str]| {
            let is_behind = |line: &Line<'_>| names.iter().any(|name| line.text.starts_with(name));
            whole && (has_end || at.is_some() || upper.iter().any(is_behind))
        };
        let begun = behind(&["Flags: ", "Region ", "Expansion ROM ", "Bus: "]);
        let has_windows = behind(&["Expansion ROM ", "Bus: "]);
        let flags = find("Flags: ").unwrap_or_default();
        let flag = |name: &str| {
            flags
                .split(", ")
                .find_map(|flag| flag.strip_prefix(name)?.trim().parse().ok())
        };
        let line_or_flag = |line: &str, name: &str| {
            find(line)
                .and_then(|text| text.trim().parse().ok())
                .or_else(|| flag(name))
        };
        let mut function = Self {
            line: block.first.number,
            bdf: head.bdf,
            numbers: head.numbers(numbers),
            secondary: find("Bus: ").and_then(|text| bus_number(text, "secondary=")),
            subordinate: find("Bus: ").and_then(|text| bus_number(text, "subordinate=")),
            port: None,
            complete,
            begun,
            numa: line_or_flag("NUMA node: ", "NUMA node "),
            group: line_or_flag("IOMMU group: ", "IOMMU group "),
            driver,
            resources: Fact::default(),
            config: Config::default(),
            beyond: false,
            maybe_beyond: false,
            manages: false,
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
        let unknown_header = upper
            .iter()
            .any(|line| line.text.starts_with("!!! Unknown header type"));
        // The bit says so, whatever is missing behind it.
        let says_none = upper
            .iter()
            .any(|line| line.text.starts_with("Status: Cap-"));
        let has_none = verbosity == Verbosity::Flags && listed.legacy == 0;
        let absent = match () {
            () if unknown_header => Err(Why::Broken),
            () if listed.denied
                || upper
                    .iter()
                    .any(|line| line.text.starts_with("<access denied")) =>
            {
                Err(Why::Denied)
            }
            () if listed.broken => Err(Why::Broken),
            () if says_none => Ok(()),
            () if self.complete && (has_none || listed.legacy > 0) => Ok(()),
            // The list goes on beyond: the first part of it is whole.
            () if whole && listed.legacy > 0 && listed.beyond > 0 => Ok(()),
            () => Err(Why::NotCovered),
        };
        let host_bridge = self
            .numbers
            .class
            .is_none_or(|class| Class(class).is_host_bridge());
        let absent_beyond = match () {
            () if listed.denied || unknown_header || !(self.complete || says_none) => {
                absent.and(Err(Why::NotCovered))
            }
            () if listed.illegible => Err(Why::NotCovered),
            () if listed.broken_beyond => Err(Why::Broken),
            () if listed.beyond > 0 => Ok(()),
            () if listed.may_go_beyond || host_bridge => Err(Why::NotCovered),
            () => absent,
        };
        self.beyond = listed.beyond > 0;
        self.maybe_beyond = listed.may_go_beyond && !self.beyond && !listed.denied && self.complete;
        self.port = listed.port;
        self.manages = listed.manages;
        listed.settle(absent, absent_beyond);
        self.config = listed.config;
    }

    /// Where there are bytes, they count for more than words.
    fn add_bytes(&mut self, raw: &[u8]) {
        let Some(config) = bytes::decode(raw) else {
            return;
        };
        for message in &config.failure {
            self.failure.push((self.line, message.clone()));
        }
        if let Some(header) = config.header.known() {
            // A virtual function's vendor and device read as ones; the kernel knows them from its physical function.
            if header.vendor != 0xffff {
                self.numbers = Numbers {
                    class: Some(header.class.0),
                    vendor: Some(header.vendor),
                    device: Some(header.device),
                };
            }
            if let HeaderKind::Bridge {
                secondary,
                subordinate,
                ..
            }
            | HeaderKind::CardBus {
                secondary,
                subordinate,
                ..
            } = header.kind
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
    match () {
        () if has("Control: ") && has("Status: ") => Verbosity::Registers,
        () if has("Flags: ") => Verbosity::Flags,
        () => Verbosity::None,
    }
}

/// `primary=00, secondary=01, subordinate=01, sec-latency=0`.
fn bus_number(text: &str, name: &str) -> Option<u8> {
    let bus = text.split(", ").find_map(|part| part.strip_prefix(name))?;
    u8::from_str_radix(bus, 16).ok()
}
