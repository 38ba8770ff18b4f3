//! The task of a child: one of two ranks.

use mp::{HcaKind, Selection};
use serde::{Deserialize, Serialize};

use crate::probe::hca::HcaChoice;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

impl HcaChoice {
    pub fn selection(&self) -> Selection {
        let port = self.port();
        let kind = match self {
            Self::Sim => HcaKind::Software,
            Self::Auto(_) => HcaKind::Auto,
            Self::Mlx5(_) => HcaKind::Mlx5,
            Self::Proxy(_) => HcaKind::Proxy,
        };
        Selection {
            kind,
            device: port.map(|port| format!("{}:{}", port.device, port.number)),
            gid_index: port.and_then(|port| port.gid),
        }
    }
}

/// Which of the two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Rank 0: chooses the steps, measures and reports.
    Client,
    /// Rank 1: follows.
    Server,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The name of its results.
    pub subject: String,
    pub target: Target,
    pub hca: HcaChoice,
    pub terms: Terms,
    pub side: Side,
    /// True if the other rank is on another machine, which has a report of its own.
    pub is_across: bool,
    /// Bytes for the messages of one direction.
    pub room: usize,
}
