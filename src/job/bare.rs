//! Paths in lines of NCCL without their start: two processes wrote at once, or a terminal cut it off. Such a line says nothing of a pair
//! that whole lines state.

use std::collections::HashSet;

use super::collector::Collector;
use super::header::Line;
use super::message::{self, Event};
use super::paths::NO_RANK;

/// Lines that are kept.
const MAX_LINES: usize = 4_096;

#[derive(Debug, Default)]
pub struct Bare {
    /// With their numbers.
    lines: Vec<(String, u64)>,
}

impl Bare {
    /// A line without the prefixes of launchers.
    pub fn line(&mut self, text: &str, number: u64) {
        let text = text.trim_ascii();
        let is_begun = ["Channel ", "Ring "].iter().any(|start| text.starts_with(start));
        if is_begun && self.lines.len() < MAX_LINES {
            self.lines.push((text.to_owned(), number));
        }
    }

    /// The log has ended.
    pub fn end(&mut self, collector: &mut Collector) {
        let pairs = collector.paths.keys().map(|key| (key.from, key.to));
        let known: HashSet<(u32, u32)> = pairs.collect();
        for (text, number) in std::mem::take(&mut self.lines) {
            let Some(Event::Path(path)) = message::parse(&text, false) else { continue };
            if !known.contains(&(path.from, path.to.unwrap_or(NO_RANK))) {
                let line = Line { header: "", is_warning: false, message: &text };
                collector.parsed(&line, &text, number);
            }
        }
    }
}
