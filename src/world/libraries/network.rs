//! Network interfaces and counters of RDMA ports through `verbs::nic`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use verbs::nic::{self, APP_DSCP, Dcb, Port, Reading};

use super::NetworkQuery;
use crate::model::{
    CounterGrowth, Fact, LinkPause, Network, NetworkInterface, Priorities, Why, counter, risen,
};

/// Time between two readings: longer than drivers keep values (mlx5: ethtool's once a second at least).
const INTERVAL: Duration = Duration::from_secs(2);
/// Most ports to read; representors of virtual functions are ports too.
const MAX_PORTS: usize = 1024;

pub fn read(query: NetworkQuery) -> Network {
    let ports = nic::ports(Path::new("/"));
    let ports: Vec<Port<'_>> = ports
        .iter()
        .take(MAX_PORTS)
        .map(|(device, number)| Port { root: Path::new("/"), device, number: *number })
        .collect();
    let start = Instant::now();
    let before = reading(&ports);
    let interfaces = ports.iter().flat_map(|port| {
        let name = format!("{}:{}", port.device, port.number);
        let interface = |interface: String| {
            let read = interface_of(&interface, name.clone(), before.get(&interface));
            (interface, read)
        };
        port.interfaces().into_iter().map(interface).collect::<Vec<_>>()
    });
    Network {
        interfaces: interfaces.collect(),
        growth: (query.twice && !ports.is_empty()).then(|| growth(&ports, &before, start)),
    }
}

/// Reduces an answer to what was queried.
pub fn reduce(mut answer: Network, query: NetworkQuery) -> Network {
    if !query.twice {
        answer.growth = None;
    }
    answer
}

fn reading(ports: &[Port<'_>]) -> Reading {
    ports.iter().flat_map(|port| port.reading(&port.functions())).collect()
}

/// Reads again after the interval.
fn growth(ports: &[Port<'_>], before: &Reading, start: Instant) -> CounterGrowth {
    std::thread::sleep(INTERVAL.saturating_sub(start.elapsed()));
    let seconds = start.elapsed().as_secs_f64();
    let rises = reading(ports).into_iter().filter_map(|(of, after)| {
        let before = before.get(&of)?;
        let is_known = after.keys().any(|name| counter(name).is_some());
        is_known.then(|| (of, risen(before, &after)))
    });
    CounterGrowth {
        // Tenths are enough.
        seconds: (seconds * 10.0).round() / 10.0,
        rises: rises.collect(),
    }
}

fn interface_of(
    interface: &str,
    port: String,
    statistics: Option<&BTreeMap<String, u64>>,
) -> NetworkInterface {
    let known: BTreeMap<String, u64> = statistics
        .into_iter()
        .flatten()
        .filter(|(name, _)| counter(name).is_some())
        .map(|(name, count)| (name.clone(), *count))
        .collect();
    let nonzero = |known: BTreeMap<String, u64>| known.into_iter().filter(|(_, count)| *count > 0);
    NetworkInterface {
        port,
        counters: Fact::Known((!known.is_empty()).then(|| nonzero(known).collect())),
        priorities: fact(nic::dcb(interface)).map(|dcb| dcb.map(priorities)),
        pause: fact(nic::pause(interface))
            .map(|pause| pause.map(|(receives, sends)| LinkPause { receives, sends })),
    }
}

/// `None` if the driver or the kernel does not know the request.
fn fact<T>(answer: io::Result<T>) -> Fact<Option<T>> {
    const EINVAL: i32 = 22;
    const ENODEV: i32 = 19;
    const EOPNOTSUPP: i32 = 95;
    match answer {
        Ok(value) => Fact::Known(Some(value)),
        Err(error) => match (error.raw_os_error(), error.kind()) {
            (Some(EINVAL | EOPNOTSUPP), _) => Fact::Known(None),
            // The interface is in another network namespace.
            (Some(ENODEV), _) => Fact::Unknown(Why::NotCovered),
            (_, io::ErrorKind::PermissionDenied) => Fact::Unknown(Why::Denied),
            (_, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Fact::Unknown(Why::TimedOut)
            }
            _ => Fact::Unknown(Why::Broken),
        },
    }
}

fn priorities(dcb: Dcb) -> Priorities {
    let with = |mask: u8| (0..8).filter(|bit| mask & (1 << bit) != 0).collect();
    let dscp = dcb.apps.iter().filter(|app| app.selector == APP_DSCP);
    let dscp: BTreeMap<u8, u8> =
        dscp.filter_map(|app| Some((u8::try_from(app.protocol).ok()?, app.priority))).collect();
    Priorities {
        pfc: dcb.pfc.map(with),
        // Drivers without a table of trust (mlx5) trust the DSCP while an entry of one exists.
        trusts_dscp: match dcb.trust {
            Some(trusted) => trusted.contains(&APP_DSCP),
            None => !dscp.is_empty(),
        },
        dscp,
        classes: dcb.classes.map(|classes| classes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbs::nic::App;

    #[test]
    fn priorities_of_dcb() {
        let mut dcb = Dcb {
            pfc: Some(0b1_1000),
            apps: vec![App { selector: APP_DSCP, protocol: 26, priority: 3 }],
            ..Dcb::default()
        };
        let found = priorities(dcb.clone());
        assert_eq!(found.pfc, Some(vec![3, 4]));
        assert_eq!((found.trusts_dscp, found.dscp[&26]), (true, 3));
        // A table of trust decides.
        dcb.trust = Some(Vec::new());
        assert!(!priorities(dcb).trusts_dscp);
        assert_eq!(priorities(Dcb::default()), Priorities::default());
    }

    #[test]
    fn errors_of_the_kernel() {
        let error = |errno| fact::<()>(Err(io::Error::from_raw_os_error(errno)));
        assert_eq!(error(95), Fact::Known(None));
        assert_eq!(error(19), Fact::Unknown(Why::NotCovered));
        assert_eq!(error(1), Fact::Unknown(Why::Denied));
        assert_eq!(error(11), Fact::Unknown(Why::TimedOut));
        assert_eq!(error(5), Fact::Unknown(Why::Broken));
    }
}
