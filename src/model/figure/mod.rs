//! What each probe measures, declared once: name, unit, heading, line in the chart, and what is expected of it. A name is a promise of
//! `gdr.probe/1`.

pub mod asynchronous;
pub mod copy;
pub mod host;
pub mod mp;
pub mod mpi;
pub mod p2p;
pub mod rdma;
pub mod transfer;

use std::fmt::Display;

use super::{GIGABYTES_PER_SECOND, MICROSECONDS, MILLIONS_PER_SECOND};

/// A kind of result with a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureKind {
    /// Name of the results.
    pub name: &'static str,
    /// Heading of the column or the matrix.
    pub heading: &'static str,
    pub unit: &'static str,
    /// Tables show its share of the link.
    pub of_link: bool,
    /// The line in the chart, from 1, or 0 for the ceiling, and its label; `None` if it is not drawn.
    pub line: Option<(usize, &'static str)>,
}

impl FigureKind {
    const fn of_link(self) -> Self {
        Self { of_link: true, ..self }
    }

    const fn drawn(self, line: usize, label: &'static str) -> Self {
        Self { line: Some((line, label)), ..self }
    }
}

const fn latency(name: &'static str, heading: &'static str) -> FigureKind {
    FigureKind { name, heading, unit: MICROSECONDS, of_link: false, line: None }
}

const fn bandwidth(name: &'static str, heading: &'static str) -> FigureKind {
    FigureKind { unit: GIGABYTES_PER_SECOND, ..latency(name, heading) }
}

const fn rate(name: &'static str, heading: &'static str) -> FigureKind {
    FigureKind { unit: MILLIONS_PER_SECOND, ..latency(name, heading) }
}

/// The result of verified bytes.
pub fn validated(what: impl Display) -> String {
    format!("{VALIDATED}.{what}")
}

/// The first word of results of verified bytes.
pub const VALIDATED: &str = "validate";

/// The direction of a copy between host and GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the GPU.
    ToGpu,
    /// From the GPU to the host.
    FromGpu,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::ToGpu, Self::FromGpu];

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::ToGpu => "to the GPU",
            Self::FromGpu => "from the GPU",
        }
    }

    /// In the names of `gdr probe host`, as CUDA has it.
    pub fn copied(self) -> &'static str {
        match self {
            Self::ToGpu => "h2d",
            Self::FromGpu => "d2h",
        }
    }

    /// In the names of `gdr probe copy`: what the CPU does.
    pub fn accessed(self) -> &'static str {
        match self {
            Self::ToGpu => "write",
            Self::FromGpu => "read",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn files(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.file_stem().and_then(|stem| stem.to_str()) {
                Some(stem) if stem.ends_with("tests") || stem == "sample" => {}
                _ if path.is_dir() => files(&path, found),
                _ => found.push(path),
            }
        }
    }

    /// Probes and their tables take the names of results from here.
    #[test]
    fn names_are_written_once() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        for directory in ["probe", "render/probe"] {
            files(&source.join(directory), &mut found);
        }
        for path in found {
            let text = fs::read_to_string(&path).expect("text");
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for probe in [
                "validate", "copy", "cuda", "api", "host", "p2p", "rdma", "async", "mp", "mpi",
                "transfer",
            ] {
                let name = format!("\"{probe}.");
                assert!(!product.contains(&name), "{}: {name}", path.display());
            }
        }
    }
}
