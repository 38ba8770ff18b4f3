//! The work of a child of `gdr probe async`.

use serde::{Deserialize, Serialize};

use crate::probe::depth::Terms;
use crate::probe::rdma::Port;
use crate::probe::target::Target;

/// Who is behind the queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HcaChoice {
    /// The software HCA: a thread of this process.
    Sim,
    /// This port of a NIC, whose queues the GPU drives itself.
    Mlx5(Port),
    /// A thread of this process that posts to this port.
    Proxy(Port),
}

impl HcaChoice {
    /// In the names of backends.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sim => "sim-hca",
            Self::Mlx5(_) => "mlx5",
            Self::Proxy(_) => "proxy",
        }
    }

    /// Which port it is, and who drives it.
    pub fn note(&self) -> Option<String> {
        let said = |Port { device, number, .. }: &Port, words: &str| {
            Some(words.replace("PORT", &format!("{device}:{number}")))
        };
        match self {
            Self::Sim => None,
            Self::Mlx5(port) => said(
                port,
                "The HCA is PORT itself: the GPU writes its doorbells and reads its completions.",
            ),
            Self::Proxy(port) => said(
                port,
                "The HCA is a proxy: a thread of the CPU reads the doorbells, posts what they ask for to PORT, and writes the completions.",
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// Who is behind the queues; without one, what needs queues is left out.
    pub hca: Option<HcaChoice>,
    /// How much, and how long.
    pub terms: Terms,
    /// Of the two processes of `async.pingpong` this one, and nothing else.
    pub pingpong: Option<Which>,
}

/// Which of the two processes of `async.pingpong`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Sends first, and measures.
    Local,
    /// Changes each message, and sends it back.
    Remote,
}
