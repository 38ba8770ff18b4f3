//! Host names, addresses, ports and NICs on the command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// A host, with an optional TCP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerName {
    host: String,
    port: Option<u16>,
}

impl PeerName {
    /// Host and port, with a default port.
    pub fn host_and_port(&self, port: u16) -> (String, u16) {
        (self.host.clone(), self.port.unwrap_or(port))
    }
}

impl FromStr for PeerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = |host: &str| Self { host: host.to_owned(), port: None };
        if text.parse::<IpAddr>().is_ok() {
            return Ok(bare(text));
        }
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => {
                (host, Some(rest.strip_prefix(':').ok_or("expected nothing or :PORT after ']'")?))
            }
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("expected a host name or an address".to_owned());
        }
        match port.map(port_of) {
            None => Ok(bare(host)),
            Some(port) => Ok(Self { host: host.to_owned(), port: Some(port?) }),
        }
    }
}

/// A local address, with an optional TCP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAt {
    /// With the interface of a link-local address.
    address: SocketAddr,
    has_port: bool,
}

impl ListenAt {
    /// Address and port, with a default port.
    pub fn socket(self, port: u16) -> SocketAddr {
        let mut socket = self.address;
        if !self.has_port {
            socket.set_port(port);
        }
        socket
    }
}

impl FromStr for ListenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let with_port = |text: &str| text.parse::<SocketAddr>().ok();
        let without = match text.parse() {
            Ok(ip) => Some(SocketAddr::new(ip, 0)),
            Err(_) => with_port(&format!("[{text}]:0")),
        };
        let given = match without {
            Some(address) => Some((address, false)),
            None => with_port(text).map(|address| (address, true)),
        };
        let (address, has_port) = given.ok_or(
            "expected a local address, as in 10.0.0.1, 10.0.0.1:18516, [fd00::1]:18516, or fe80::1%2 with the number of an interface",
        )?;
        Ok(Self { address, has_port })
    }
}

/// How two processes find each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendezvous {
    /// With the variables of the launcher.
    Launcher,
    /// With a rendezvous file.
    File(PathBuf),
}

impl FromStr for Rendezvous {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "slurm" | "mpi" => Self::Launcher,
            "" => return Err("expected slurm, mpi or a file".to_owned()),
            file => Self::File(PathBuf::from(file)),
        })
    }
}

/// A NIC, with an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePort {
    /// The NIC, as in `mlx5_0`.
    pub device: String,
    /// Port number, from 1.
    pub port: Option<u8>,
}

impl FromStr for DevicePort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (device, port) = match text.split_once(':') {
            Some((device, port)) => match port.parse() {
                Ok(0) | Err(_) => return Err("expected a port number from 1".to_owned()),
                Ok(port) => (device, Some(port)),
            },
            None => (text, None),
        };
        if device.is_empty() {
            Err("expected a NIC as in mlx5_0, or with its port as in mlx5_0:1".to_owned())
        } else {
            Ok(Self { device: device.to_owned(), port })
        }
    }
}

fn port_of(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a port number from 1 to 65535".to_owned()),
        Ok(port) => Ok(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_host_and_port() {
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
        for text in ["", ":99", "node7:", "node7:0", "node7:70000", "node 7", "[fd00::2]99"] {
            assert!(text.parse::<PeerName>().is_err(), "{text}");
        }
    }

    #[test]
    fn parses_listen_address() {
        for (text, socket) in [
            ("10.0.0.2", "10.0.0.2:1"),
            ("10.0.0.2:99", "10.0.0.2:99"),
            ("fd00::2", "[fd00::2]:1"),
            ("[fd00::2]:99", "[fd00::2]:99"),
            ("fe80::2%3", "[fe80::2%3]:1"),
            ("[fe80::2%3]:99", "[fe80::2%3]:99"),
        ] {
            let at: ListenAt = text.parse().expect(text);
            assert_eq!(at.socket(1).to_string(), socket);
        }
        assert!("node7".parse::<ListenAt>().is_err());
    }

    #[test]
    fn parses_device_and_port() {
        let nic = |port| DevicePort { device: "mlx5_0".to_owned(), port };
        assert_eq!("mlx5_0".parse(), Ok(nic(None)));
        assert_eq!("mlx5_0:2".parse(), Ok(nic(Some(2))));
        for text in ["", ":1", "mlx5_0:0", "mlx5_0:x", "mlx5_0:1:2"] {
            assert!(text.parse::<DevicePort>().is_err(), "{text}");
        }
    }
}
