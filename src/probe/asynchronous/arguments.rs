//! The command line of `gdr probe async`.

use clap::Args;

use super::parent::Options;
use super::settings::{Order, Schedule, Settings, Transport};
use crate::probe::arguments::{Arguments, ByteSize, ScopeArguments, UsageError};
use crate::probe::hca::{HcaProvider, NicArgs};
use crate::probe::scope::Scope;

/// `gdr probe async`.
#[derive(Debug, Args)]
pub struct AsyncProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,

    /// Provider of the queues; without one, doorbells and completions are left out, and with --sim a software HCA is
    /// used
    #[arg(long, value_name = "HCA", value_enum)]
    pub hca: Option<HcaProvider>,

    /// The NIC.
    #[command(flatten)]
    pub nic: NicArgs,

    /// Messages that are queued together, 1 to 100
    // CUDA queues about a thousand kernels per stream, and two batches are in flight, of up to four kernels per message.
    #[arg(long, value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub batch: u32,

    /// A further kernel after each message writes this many bytes, such as 128KiB
    #[arg(long, value_name = "SIZE")]
    pub compute: Option<ByteSize>,

    /// Let kernels drive queues too: they build WQEs in GPU memory, ring the doorbell and poll the CQ, beside streams and the CPU
    ///
    /// This is what NVSHMEM's IBGDA, NCCL's GIN and DeepEP do. One thread, a warp or a block per queue pair, one queue pair and
    /// many, inline data, BlueFlame; then with a doorbell that the CPU rings, and with --hca mlx5 by the proxy.
    #[arg(long)]
    pub kernel: bool,

    /// No kernels write and compare the messages of the loop; the CPU does, outside the measured time
    #[arg(long)]
    pub no_kernel: bool,

    /// How CPU threads wait for the GPU
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Schedule::Auto)]
    pub schedule: Schedule,

    /// The order in which streams wait for the messages of a batch
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Order::InOrder)]
    pub receive: Order,

    /// Transports, separated by commas
    #[arg(long, value_name = "TRANSPORT", value_enum, value_delimiter = ',', default_value = "rc")]
    pub transport: Vec<Transport>,
}

impl Arguments for AsyncProbe {
    type Probe = Options;
    // No bandwidth limits latencies: there is no threshold.
    const PROFILE: &'static str = "gdrcopy";

    fn scope(&self) -> &ScopeArguments {
        &self.scope
    }

    fn probe(&self, scope: Scope, _: bool) -> Result<Options, UsageError> {
        // --sim also simulates the HCA.
        let provider = self.hca.or(scope.sim.then_some(HcaProvider::Sim));
        // Without a provider there is no NIC either.
        let hca = self.nic.of(provider.unwrap_or(HcaProvider::Sim))?;
        Ok(Options { settings: self.settings(), hca: provider.map(|_| hca), scope })
    }
}

impl AsyncProbe {
    fn settings(&self) -> Settings {
        let mut transports = Vec::new();
        for transport in &self.transport {
            if !transports.contains(transport) {
                transports.push(*transport);
            }
        }
        Settings {
            batch: self.batch,
            kernels: !self.no_kernel,
            by_kernel: self.kernel,
            // Kernels write whole words.
            compute: self.compute.map(|size| size.0.next_multiple_of(16)),
            schedule: self.schedule,
            transports,
            order: self.receive,
        }
    }
}
