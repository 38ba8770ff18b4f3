//! Names of machines, addresses, ports and NICs, as a user types them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// A machine, with a TCP port where one is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerName {
    host: String,
    port: Option<u16>,
}

impl PeerName {
    /// Both, with this port where none is named.
    pub fn host_and_port(&self, port: u16) -> (String, u16) {
        (self.host.clone(), self.port.unwrap_or(port))
    }
}

impl FromStr for PeerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = |host: &str| Self {
            host: host.to_owned(),
            port: None,
        };
        if text.parse::<IpAddr>().is_ok() {
            return Ok(bare(text));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (
                host,
                Some(
                    rest.strip_prefix(':')
                        .ok_or("after ']' comes :PORT or nothing")?,
                ),
            ),
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("it is the name or the address of a machine".to_owned());
        }
        match port.map(port_of) {
            None => Ok(bare(host)),
            Some(port) => Ok(Self {
                host: host.to_owned(),
                port: Some(port?),
            }),
        }
    }
}

/// An address of this machine, with a TCP port where one is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAt {
    address: IpAddr,
    port: Option<u16>,
}

impl ListenAt {
    /// Both, with this port where none is named.
    pub fn socket(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or(port))
    }
}

impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self {
                address,
                port: None,
            });
        }
        let socket: SocketAddr = text.parse().map_err(|_| {
            "it is an address of this machine, as in 10.0.0.1, 10.0.0.1:18516 or [fd00::1]:18516".to_owned()
        })?;
        Ok(Self {
            address: socket.ip(),
            port: Some(socket.port()),
        })
    }
}

/// How two processes meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendezvous {
    /// As the launcher says.
    Launcher,
    /// By a file.
    File(PathBuf),
}

impl FromStr for Rendezvous {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "slurm" | "mpi" => Self::Launcher,
            "" => return Err("it is slurm, mpi or a file".to_owned()),
            file => Self::File(PathBuf::from(file)),
        })
    }
}

/// A NIC, with its port where one is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePort {
    /// The NIC, as in `mlx5_0`.
    pub device: String,
    /// Its port, from 1.
    pub port: Option<u8>,
}

impl FromStr for DevicePort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (device, port) = match text.split_once(':') {
            Some((device, port)) => match port.parse() {
                Ok(0) | Err(_) => return Err("a NIC's port is a number from 1".to_owned()),
                Ok(port) => (device, Some(port)),
            },
            None => (text, None),
        };
        match device.is_empty() {
            true => Err("it is a NIC as in mlx5_0, or with its port as in mlx5_0:1".to_owned()),
            false => Ok(Self {
                device: device.to_owned(),
                port,
            }),
        }
    }
}

fn port_of(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a port is a number from 1 to 65535".to_owned()),
        Ok(port) => Ok(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_a_name_or_an_address_of_either_family_with_a_port_or_without() {
        for (text, host, port) in [
            ("node7", "node7", 1),
            ("node7:99", "node7", 99),
            ("10.0.0.2:99", "10.0.0.2", 99),
            ("fd00::2", "fd00::2", 1),
            ("[fd00::2]", "fd00::2", 1),
            ("[fd00::2]:99", "fd00::2", 99),
        ] {
            let peer: PeerName = text.parse().expect(text);
            assert_eq!(peer.host_and_port(1), (host.to_owned(), port), "{text}");
        }
        for text in [
            "",
            ":99",
            "node7:",
            "node7:0",
            "node7:70000",
            "node 7",
            "[fd00::2]99",
        ] {
            assert!(text.parse::<PeerName>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_listened_at_is_an_address() {
        for (text, socket) in [
            ("10.0.0.2", "10.0.0.2:1"),
            ("10.0.0.2:99", "10.0.0.2:99"),
            ("fd00::2", "[fd00::2]:1"),
            ("[fd00::2]:99", "[fd00::2]:99"),
        ] {
            let at: ListenAt = text.parse().expect(text);
            assert_eq!(at.socket(1).to_string(), socket);
        }
        assert!("node7".parse::<ListenAt>().is_err());
    }

    #[test]
    fn a_card_has_a_port_or_none() {
        let card = |port| DevicePort {
            device: "mlx5_0".to_owned(),
            port,
        };
        assert_eq!("mlx5_0".parse(), Ok(card(None)));
        assert_eq!("mlx5_0:2".parse(), Ok(card(Some(2))));
        for text in ["", ":1", "mlx5_0:0", "mlx5_0:x", "mlx5_0:1:2"] {
            assert!(text.parse::<DevicePort>().is_err(), "{text}");
        }
    }
}
