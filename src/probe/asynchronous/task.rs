//! The task of a child of `gdr probe async`.

use gpu::Gpu;
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::probe::hca::HcaChoice;
use crate::probe::rdma::Port;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

impl HcaChoice {
    /// Its part of a backend's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sim => "sim-hca",
            Self::Mlx5(_) => "mlx5",
            Self::Auto(_) | Self::Proxy(_) => "proxy",
        }
    }

    /// The port, and what drives it.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Sim => None,
            Self::Mlx5(Port { device, number, .. }) => Some(format!(
                "The HCA is {device}:{number} itself: the GPU writes its doorbells and reads its completions."
            )),
            Self::Auto(Port { device, number, .. }) | Self::Proxy(Port { device, number, .. }) => {
                Some(format!(
                    "The HCA is a proxy: a thread of the CPU reads the doorbells, posts the WQEs to {device}:{number}, and writes the \
                 completions."
                ))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// `None`: parts that need queues are left out.
    pub hca: Option<HcaChoice>,
    pub terms: Terms,
    #[serde(default)]
    pub settings: Settings,
    /// Run only this process of `async.pingpong`.
    pub pingpong: Option<Side>,
}

impl Task {
    pub fn open(&self) -> Result<Gpu, gpu::Error> {
        self.target.open_with(self.settings.schedule.of_gpu())
    }
}

/// One of the two processes of `async.pingpong`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Sends first, and measures.
    Local,
    /// Changes each message, and sends it back.
    Remote,
}
