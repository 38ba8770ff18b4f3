//! The HCA of `gdr probe async` and `gdr probe mp`: its options, and the choice for a GPU.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::arguments::UsageError;
use super::children::Children;
use super::machine::{Machine, ProbedNic};
use super::rdma::{self, Named, Port};
use super::scope::ProbeError;
use super::target::Target;

/// Provider of the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HcaProvider {
    /// The GPU drives an mlx5 NIC, and a proxy any other.
    #[value(skip)]
    Auto,
    /// An mlx5 NIC (ConnectX, BlueField); the GPU rings its doorbells.
    Mlx5,
    /// A CPU thread that posts to any RDMA device, for machines where the GPU cannot ring doorbells.
    Proxy,
    /// A software HCA in a CPU thread; every output says so.
    Sim,
}

/// Its NIC.
#[derive(Debug, Args)]
pub struct NicArgs {
    /// NIC for mlx5 and proxy, such as mlx5_0 or mlx5_0:1 [default: the best NIC of each GPU]
    #[arg(long, short, value_name = "DEVICE")]
    pub device: Option<Named>,

    /// GID index at the port of the NIC [default: prefers RoCE v2 with an IPv4 address]
    #[arg(long, value_name = "INDEX")]
    pub gid_index: Option<u8>,
}

impl NicArgs {
    /// The HCA of this provider.
    pub fn of(&self, provider: HcaProvider) -> Result<HcaOption, UsageError> {
        if provider == HcaProvider::Sim && (self.device.is_some() || self.gid_index.is_some()) {
            let why = "--device and --gid-index need a NIC: add --hca mlx5 or --hca proxy";
            return Err(why.into());
        }
        Ok(HcaOption { provider, device: self.device.clone(), gid: self.gid_index })
    }
}

/// The HCA of the queues, from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HcaOption {
    pub provider: HcaProvider,
    /// `None`: the nearest device of each GPU.
    device: Option<Named>,
    /// GID index at the port.
    gid: Option<u8>,
}

impl HcaOption {
    /// The NICs to choose from. `None` if the probe cannot continue.
    pub fn nics(
        &self,
        machine: &Machine,
        children: &mut Children<'_>,
    ) -> Result<Option<Vec<ProbedNic>>, ProbeError> {
        match self.provider {
            HcaProvider::Sim => Ok(Some(Vec::new())),
            _ => rdma::served(machine, children),
        }
    }

    /// The HCA for a GPU; the error says why it has no port.
    pub fn choice(&self, target: &Target, nics: &[ProbedNic]) -> Result<HcaChoice, String> {
        let port = || rdma::port_of(target, nics, self.device.as_ref(), self.gid);
        Ok(match self.provider {
            HcaProvider::Sim => HcaChoice::Sim,
            HcaProvider::Auto => HcaChoice::Auto(port()?),
            HcaProvider::Mlx5 => HcaChoice::Mlx5(port()?),
            HcaProvider::Proxy => HcaChoice::Proxy(port()?),
        })
    }
}

/// The HCA of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HcaChoice {
    /// A software HCA: a thread of this process.
    Sim,
    /// The GPU drives an mlx5 NIC, and a proxy any other.
    Auto(Port),
    /// A port of an mlx5 NIC whose queues the GPU drives itself.
    Mlx5(Port),
    /// A thread of this process that posts to a port.
    Proxy(Port),
}

impl HcaChoice {
    pub fn port(&self) -> Option<&Port> {
        match self {
            Self::Sim => None,
            Self::Auto(port) | Self::Mlx5(port) | Self::Proxy(port) => Some(port),
        }
    }
}
