//! What the log says of a library beside NCCL: its versions and its paths.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{JobLibrary, LibraryPath, Quote};

/// Paths of a library that are kept.
const MAX_PATHS: usize = 256;

/// A path as a library names it. What it does not tell is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Route {
    pub same_node: Option<bool>,
    /// `tag`, `put`, `btl`, …
    pub purpose: String,
    pub memory: Option<String>,
    pub transports: Vec<String>,
    pub devices: Vec<String>,
    pub protocol: Option<String>,
}

/// What the log says of a library.
#[derive(Debug, Default)]
pub struct LibraryLog {
    pub versions: BTreeSet<String>,
    /// With their first lines and their numbers of lines.
    pub routes: BTreeMap<Route, (Quote, u64)>,
}

impl LibraryLog {
    pub fn add(&mut self, route: Route, quote: Quote) {
        if let Some((_, count)) = self.routes.get_mut(&route) {
            *count += 1;
        } else if self.routes.len() < MAX_PATHS {
            self.routes.insert(route, (quote, 1));
        }
    }

    pub fn report(&self, name: &str) -> JobLibrary {
        let path = |(route, (line, count)): (&Route, &(Quote, u64))| LibraryPath {
            purpose: route.purpose.clone(),
            transports: route.transports.clone(),
            devices: route.devices.clone(),
            memory: route.memory.clone(),
            protocol: route.protocol.clone(),
            same_node: route.same_node,
            count: *count,
            line: line.clone(),
        };
        JobLibrary {
            name: name.to_owned(),
            versions: self.versions.iter().cloned().collect(),
            paths: self.routes.iter().map(path).collect(),
        }
    }
}
