//! Options of `gdr probe async`.

use anyhow::bail;

use super::packets::named;
use crate::cli::{AsyncHca, AsyncProbe, AsyncReceive, AsyncSchedule, AsyncTransport};
use crate::probe::asynchronous;
use crate::probe::scope::Scope;

pub fn async_options(scope: Scope, wanted: &AsyncProbe) -> anyhow::Result<asynchronous::Options> {
    let driver = match wanted.hca {
        None | Some(AsyncHca::Sim) => None,
        Some(AsyncHca::Mlx5) => Some(asynchronous::Driver::Gpu),
        Some(AsyncHca::Proxy) => Some(asynchronous::Driver::Proxy),
    };
    if driver.is_none() && (wanted.device.is_some() || wanted.gid_index.is_some()) {
        bail!("--device and --gid-index need a NIC: add --hca mlx5 or --hca proxy");
    }
    Ok(asynchronous::Options {
        settings: async_settings(wanted),
        hca: match (wanted.hca, driver) {
            // --sim also simulates the HCA.
            (None, _) if scope.sim => asynchronous::HcaOption::Sim,
            (None, _) => asynchronous::HcaOption::None,
            (Some(_), None) => asynchronous::HcaOption::Sim,
            (Some(_), Some(driver)) => asynchronous::HcaOption::Device {
                driver,
                device: wanted.device.as_ref().map(named),
                gid: wanted.gid_index,
            },
        },
        scope,
    })
}

fn async_settings(wanted: &AsyncProbe) -> asynchronous::Settings {
    let mut transports = Vec::new();
    for transport in &wanted.transport {
        let transport = match transport {
            AsyncTransport::Rc => asynchronous::Transport::Rc,
            AsyncTransport::Ud => asynchronous::Transport::Ud,
        };
        if !transports.contains(&transport) {
            transports.push(transport);
        }
    }
    asynchronous::Settings {
        batch: wanted.batch,
        kernels: !wanted.no_kernel,
        by_kernel: wanted.kernel,
        // Kernels write whole words.
        compute: wanted.compute.map(|size| size.0.next_multiple_of(16)),
        schedule: match wanted.schedule {
            AsyncSchedule::Auto => asynchronous::Schedule::Auto,
            AsyncSchedule::Spin => asynchronous::Schedule::Spin,
            AsyncSchedule::Yield => asynchronous::Schedule::Yield,
            AsyncSchedule::Blocking => asynchronous::Schedule::Blocking,
        },
        transports,
        order: match wanted.receive {
            AsyncReceive::InOrder => asynchronous::Order::InOrder,
            AsyncReceive::OutOfOrder => asynchronous::Order::OutOfOrder,
        },
    }
}
