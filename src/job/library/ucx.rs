//! UCX: the lanes of endpoints (`UCX_LOG_LEVEL=info`, src/ucp/core/ucp_worker.c) and the table of protocols (`UCX_PROTO_INFO=y`,
//! src/ucp/proto/proto_debug.c), as versions 1.9 to 1.22 write them.

use std::collections::BTreeMap;

use super::{Route, Statement, failed};
use crate::model::FailureKind;

pub const NAME: &str = "UCX";

/// What lanes of an endpoint are for. Keep-alive and atomics move no data.
const PURPOSES: [&str; 6] = ["tag", "rma", "rma_am", "am", "stream", "device"];

/// Functions in the heading of a table, and what they are.
const FUNCTIONS: [(&str, &str); 5] = [
    ("ucp_tag_send", "tag"),
    ("ucp_put", "put"),
    ("ucp_get", "get"),
    ("ucp_am_send", "am"),
    ("ucp_stream_send", "stream"),
];

/// Tables that are read at once, and lines that a table may take.
const MAX_TABLES: usize = 1_024;
const MAX_LINES: usize = 256;

pub fn read(line: &str) -> Vec<Statement> {
    if let Some((_, variables)) = line.split_once("UCX_* env variables: ") {
        let variables = variables.split_whitespace().filter_map(|word| word.split_once('='));
        let shown = |(name, value): (&str, &str)| {
            (name.starts_with("UCX_"))
                .then(|| Statement::Setting(name.to_owned(), value.to_owned()))
        };
        return variables.filter_map(shown).collect();
    }
    // `Version 1.15.0 (loaded from …)`, in older versions `UCX version is 1.9.0`.
    let version = line.split_once("UCX  INFO  Version ").map(|(_, rest)| rest);
    if let Some(version) = version.and_then(|rest| rest.split(' ').next()) {
        return vec![Statement::Version(version.to_owned())];
    }
    match failure(line) {
        Some(failure) => vec![failure],
        None => endpoint(line).into_iter().map(Statement::Path).collect(),
    }
}

/// `0x309e3070 intra-node cfg#5 tag(sysv/memory cuda_ipc/cuda)  rma(…)`; up to 1.11 `ep_cfg[1]: tag(…)`.
pub fn endpoint(line: &str) -> Vec<Route> {
    let Some((place, rest)) = line.split_once("cfg#").or_else(|| line.split_once("ep_cfg[")) else {
        return Vec::new();
    };
    let number = rest.bytes().take_while(u8::is_ascii_digit).count();
    let rest = rest[number..].trim_start_matches("]:");
    let Some(same_node) = node(place) else { return Vec::new() };
    let mut routes = Vec::new();
    let mut rest = rest;
    while let Some((name, after)) = rest.split_once('(') {
        // A line that is cut lacks the end of its lanes.
        let Some((lanes, more)) = after.split_once(')') else { break };
        rest = more;
        let (transports, devices) = split(lanes);
        if PURPOSES.contains(&name.trim()) && !transports.is_empty() {
            let purpose = name.trim().to_owned();
            routes.push(Route { same_node, purpose, transports, devices, ..Route::default() });
        }
    }
    routes
}

/// Whether both ends are on one node, if the text says it; `None` of an endpoint to the process itself.
#[expect(clippy::option_option, reason = "an endpoint to itself is not a path")]
fn node(place: &str) -> Option<Option<bool>> {
    let place = place.trim_end();
    if place.ends_with(" self") {
        None
    } else if place.ends_with("intra-node") {
        Some(Some(true))
    } else if place.ends_with("inter-node") {
        Some(Some(false))
    } else {
        Some(None)
    }
}

/// Names of transports and of devices, each once, in the order of the text: `rc_mlx5/mlx5_0:1/path0 cuda_ipc/cuda`.
fn split(lanes: &str) -> (Vec<String>, Vec<String>) {
    let (mut transports, mut devices) = (Vec::new(), Vec::new());
    for lane in lanes.split([' ', ',']).filter_map(|lane| lane.split_once('/')) {
        let device = lane.1.split('/').next().unwrap_or_default();
        if !super::is_name(lane.0) {
            continue;
        }
        if !transports.iter().any(|known| known == lane.0) {
            transports.push(lane.0.to_owned());
        }
        let is_network = !matches!(device, "memory" | "cuda" | "self" | "");
        if is_network && !devices.iter().any(|known| known == device) {
            devices.push(device.to_owned());
        }
    }
    (transports, devices)
}

fn failure(line: &str) -> Option<Statement> {
    // `ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 …`; up to 1.6 `Error on mlx5_3:1 QP 0x1 wqe[2]: …`
    if let Some((before, _)) = line.split_once(" (synd 0x") {
        let message = before.rsplit_once("  ").map_or(before, |(_, message)| message);
        return Some(failed(FailureKind::Completion, message));
    }
    // What ended the process: `UCX Fatal: transport error: Endpoint timeout`, `UCX  FATAL …`.
    let fatal = ["UCX Fatal: ", "UCX  FATAL "].iter().find_map(|mark| line.split_once(mark));
    if let Some((_, message)) = fatal {
        return Some(failed(super::kind_of(message), &format!("UCX: {message}")));
    }
    // A copy may have one blank for two.
    let (_, message) = line.split_once("UCX  ERROR ").or_else(|| line.split_once("UCX ERROR "))?;
    let has = |text: &str| message.contains(text);
    // `connect(fd=48, dest_addr=192.0.2.1:42887) failed: Connection refused`
    let is_refused = has("connect(fd=") && has(") failed: ");
    // `no usable transports/devices (asked rc on all devices)`
    // `no active messages transport to <no debug data>: …`, `mlx5dv_devx_obj_create(CQ) failed on mlx5_1, syndrome 0x2aac7c: Remote I/O error`
    let is_unusable = has("no usable transports/devices")
        || has("no active messages transport to ")
        || has("no remote registered memory access transport to ")
        || has("mlx5dv_devx_obj_create(") && has(") failed");
    let kind = if has("Too many open files") {
        FailureKind::OpenFiles
    } else if has("failed to register") || has("_reg_mr(") {
        FailureKind::MemoryRegistration
    } else if is_refused {
        FailureKind::ConnectionFailed
    } else if is_unusable {
        FailureKind::Library
    } else if super::is_fault(message) {
        return Some(failed(super::kind_of(message), &format!("UCX: {message}")));
    } else {
        return None;
    };
    Some(failed(kind, message))
}

/// A heading whose rows follow.
#[derive(Debug, Clone)]
struct Heading {
    what: Headed,
    left: usize,
}

#[derive(Debug, Clone)]
enum Headed {
    /// The first line of a heading of two lines.
    Place(String),
    Path(Route),
}

/// Transports between GPU and host memory, which a row of a staged copy names in its description alone.
const STAGING: [&str; 3] = ["cuda_copy", "gdr_copy", "rocm_copy"];

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub route: Route,
    /// It is about the longest messages, and the last of its table.
    pub is_longest: bool,
}

/// The tables that processes are writing, by what stands before their lines.
#[derive(Debug, Default)]
pub struct Tables {
    open: BTreeMap<String, Heading>,
}

impl Tables {
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    fn begin(&mut self, process: &str, what: Option<Headed>) {
        self.open.remove(process);
        if let Some(what) = what
            && self.open.len() < MAX_TABLES
        {
            self.open.insert(process.to_owned(), Heading { what, left: MAX_LINES });
        }
    }

    /// The path of the longest messages.
    pub fn line(&mut self, line: &str) -> Option<Route> {
        let Row { route, is_longest } = self.row(line)?;
        is_longest.then_some(route)
    }

    /// The path that a row shows.
    pub fn row(&mut self, line: &str) -> Option<Row> {
        self.open.retain(|_, heading| {
            heading.left -= 1;
            heading.left > 0
        });
        let at = line.find('|')?;
        let process = process(&line[..at]);
        let cells: Vec<&str> =
            line[at..].trim().trim_matches('|').split('|').map(str::trim).collect();
        match cells.as_slice() {
            [place, what] if place.contains("cfg") => {
                self.begin(process, heading(place, what).map(Headed::Path));
                None
            }
            // From UCX 1.22 on in two lines.
            [place] if place.contains("cfg#") => {
                self.begin(process, Some(Headed::Place((*place).to_owned())));
                None
            }
            [what] => {
                if let Some(Headed::Place(place)) = self.open.get(process).map(|open| &open.what) {
                    let path = heading(place, what);
                    self.begin(process, path.map(Headed::Path));
                }
                None
            }
            [range, how, lanes] if range.contains("..") => {
                let is_longest = range.ends_with("inf");
                let Headed::Path(route) = &self.open.get(process)?.what else { return None };
                let mut route = route.clone();
                if is_longest {
                    self.open.remove(process);
                }
                (route.transports, route.devices) = split(lanes);
                let how = how.trim_start_matches("(?) ");
                if route.transports.is_empty() {
                    let words: Vec<&str> = how.split([' ', ',']).collect();
                    let staging = STAGING.into_iter().filter(|name| words.contains(name));
                    route.transports = staging.map(str::to_owned).collect();
                }
                route.protocol = (!how.is_empty()).then(|| how.to_owned());
                (!route.transports.is_empty()).then_some(Row { route, is_longest })
            }
            _ => None,
        }
    }
}

/// `[host:pid:thread]`, which each line of one process has; its times differ.
fn process(before: &str) -> &str {
    let end = before.rfind(']').map_or(0, |at| at + 1);
    before[..end].rfind('[').map_or("", |start| &before[start..end])
}

/// `ucp_context_0 intra-node cfg#1`, `remote memory write by ucp_put*(fast-completion) from host memory to cuda/dev[0]`
fn heading(place: &str, what: &str) -> Option<Route> {
    let place = place.split("cfg").next()?.trim_end_matches("ep_");
    let same_node = node(place)?;
    let (_, purpose) = FUNCTIONS.iter().find(|(function, _)| what.contains(function))?;
    let (_, memory) = what.split_once(" from ").or_else(|| what.split_once(" into "))?;
    let kinds = memory.split_whitespace().filter(|word| *word != "memory");
    let kinds: Vec<&str> = kinds.filter_map(|word| word.split(['/', '[']).next()).collect();
    let purpose = (*purpose).to_owned();
    Some(Route { same_node, purpose, memory: Some(kinds.join(" ")), ..Route::default() })
}
