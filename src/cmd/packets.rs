//! The options of `gdr probe rdma` about packets, as the probe has them.

use anyhow::{Context as _, bail};

use crate::cli::{DevicePort, Ordering, Packets};
use crate::probe::rdma::{MTUS, Named, RelaxedOrdering, STATIC_RATES, Settings, flow_label_of};

/// How packets are addressed and retried.
pub fn settings(wanted: &Packets) -> anyhow::Result<Settings> {
    let default = Settings::default();
    let mtu = wanted.mtu;
    if let Some(mtu) = mtu.filter(|mtu| !MTUS.contains(mtu)) {
        let known = MTUS.map(|mtu| mtu.to_string()).join(", ");
        bail!("--mtu {mtu} is not the payload of an InfiniBand packet: use one of {known}");
    }
    Ok(Settings {
        traffic_class: wanted.traffic_class.unwrap_or(default.traffic_class),
        service_level: wanted.service_level.unwrap_or(default.service_level),
        hop_limit: wanted.hop_limit.unwrap_or(default.hop_limit),
        flow_label: match (wanted.flow_label, wanted.source_port) {
            (Some(label), _) => label,
            (None, Some(port)) => flow_label_of(port),
            (None, None) => default.flow_label,
        },
        static_rate: match wanted.static_rate {
            Some(rate) => static_rate(rate)?,
            None => default.static_rate,
        },
        mtu,
        timeout: wanted.ack_timeout.unwrap_or(default.timeout),
        retries: wanted.retries.unwrap_or(default.retries),
        receiver_retries: wanted.rnr_retries.unwrap_or(default.receiver_retries),
        receiver_timer: wanted.rnr_timer.unwrap_or(default.receiver_timer),
    })
}

fn static_rate(rate: f64) -> anyhow::Result<u8> {
    let found = STATIC_RATES.iter().find(|(known, _)| *known == rate);
    let known = || STATIC_RATES.map(|(rate, _)| rate.to_string()).join(", ");
    let (_, number) = found.with_context(|| {
        format!("--static-rate {rate} is not a rate of InfiniBand: use one of {}", known())
    })?;
    Ok(*number)
}

pub fn relaxed_ordering(wanted: Option<Ordering>) -> RelaxedOrdering {
    match wanted {
        None | Some(Ordering::On) => RelaxedOrdering::On,
        Some(Ordering::Off) => RelaxedOrdering::Off,
        Some(Ordering::Both) => RelaxedOrdering::Both,
    }
}

/// True if any was given.
pub fn is_any(wanted: &Packets) -> bool {
    let Packets {
        traffic_class,
        service_level,
        hop_limit,
        flow_label,
        source_port,
        mtu,
        ack_timeout,
        retries,
        rnr_retries,
        rnr_timer,
        static_rate,
        relaxed_ordering,
    } = wanted;
    let bytes =
        [traffic_class, service_level, hop_limit, ack_timeout, retries, rnr_retries, rnr_timer];
    bytes.iter().any(|given| given.is_some())
        || flow_label.is_some()
        || source_port.is_some()
        || mtu.is_some()
        || static_rate.is_some()
        || relaxed_ordering.is_some()
}

/// A NIC, or one of its ports.
pub fn named(name: &DevicePort) -> Named {
    Named { device: name.device.clone(), port: name.port }
}
