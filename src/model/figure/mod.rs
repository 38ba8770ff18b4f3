//! What each probe measures, declared once: the probe measures under its name, tables and charts show it under its heading and label. A
//! name is a promise of `gdr.probe/1`.

pub mod asynchronous;
pub mod copy;
pub mod host;
pub mod mp;
pub mod mpi;
pub mod p2p;
pub mod rdma;
pub mod transfer;

use super::{GIGABYTES_PER_SECOND, MICROSECONDS, MILLIONS_PER_SECOND};

/// A kind of result with a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureKind {
    /// Name of the results.
    pub name: &'static str,
    /// Heading of the column or the matrix.
    pub heading: &'static str,
    /// Tables show its share of the link.
    pub of_link: bool,
    /// The line in the chart, from 1, and its label; none if it is not drawn.
    pub line: Option<(usize, &'static str)>,
}

impl FigureKind {
    const fn new(name: &'static str, heading: &'static str) -> Self {
        Self { name, heading, of_link: false, line: None }
    }

    const fn of_link(self) -> Self {
        Self { of_link: true, ..self }
    }

    /// Name and heading.
    pub fn column(self) -> (&'static str, &'static str) {
        (self.name, self.heading)
    }

    const fn drawn(self, line: usize, label: &'static str) -> Self {
        Self { line: Some((line, label)), ..self }
    }

    /// The unit, which the name says.
    pub fn unit(self) -> &'static str {
        match self.name {
            name if name.contains(".bandwidth") => GIGABYTES_PER_SECOND,
            name if name.ends_with(".rate") => MILLIONS_PER_SECOND,
            _ => MICROSECONDS,
        }
    }
}

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
