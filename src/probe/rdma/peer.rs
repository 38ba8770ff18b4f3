//! The other machine of a probe on the command line: host names, addresses, ports, NICs.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::options::{Named, RemoteEnd};
use crate::probe::arguments::UsageError;
use crate::probe::rendezvous::{
    DEFAULT_PORT, SECRET_VARIABLE, Secret, default_listen, from_environment, is_exposed,
};

/// Where the other end of a probe is, if on another machine.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Host that runs the same probe with --listen: NAME or ADDRESS, and :PORT if it is not 18516
    #[arg(value_name = "HOST")]
    pub peer: Option<PeerName>,

    /// Wait up to an hour for gdr on the other machine [default: all addresses, port 18516]
    ///
    /// Prints the command for the other machine, with a secret for one peer. Clients without the secret are rejected,
    /// and no memory is registered before.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, conflicts_with = "peer")]
    pub listen: Option<Option<ListenAt>>,

    /// Find the other process of a launcher: slurm, mpi, or a file that both machines see
    ///
    /// Not needed with srun -N2 and mpirun -n 2: the processes use a file of mode 0600 in their working directory.
    /// With srun they need no file if GDR_PROBE_SECRET is set for both.
    #[arg(long, value_name = "HOW", conflicts_with_all = ["peer", "listen"])]
    pub rendezvous: Option<Rendezvous>,

    /// Read the shared secret from this file of mode 0600 [default: the variable GDR_PROBE_SECRET]
    ///
    /// A secret is 64 hexadecimal digits, as printed by --listen or by openssl rand -hex 32. It is never an argument,
    /// because every local user can see arguments.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Use no secret, for two processes on the loopback address of this machine; any local user can connect
    #[arg(long, conflicts_with_all = ["secret_file", "rendezvous"])]
    pub no_secret: bool,
}

impl PeerArgs {
    /// The host that the user names.
    pub fn host(&self) -> Option<String> {
        Some(self.peer.as_ref()?.host_and_port(DEFAULT_PORT).0)
    }

    /// Location of the remote end.
    pub fn remote(&self, named_here: Option<&Named>) -> Result<RemoteEnd, UsageError> {
        if let Some(peer) = &self.peer {
            let (host, port) = peer.host_and_port(DEFAULT_PORT);
            let Some(secret) = self.secret()? else {
                return Err(format!(
                    "no secret for {host}: run the command that --listen printed there, or pass the \
                     secret in {SECRET_VARIABLE} or --secret-file FILE"
                )
                .into());
            };
            return Ok(RemoteEnd::At { host, port, secret });
        }
        if let Some(address) = &self.listen {
            let secret = self.secret()?;
            let any_address = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), DEFAULT_PORT);
            let address = match address {
                Some(address) => address.socket(DEFAULT_PORT),
                None if self.no_secret => default_listen(),
                None => any_address,
            };
            if secret.as_ref().is_some_and(|secret| is_exposed(address.ip(), secret)) {
                return Err(format!(
                    "--no-secret needs a loopback address, and {} is not one: omit --no-secret, or \
                     use --listen 127.0.0.1",
                    address.ip()
                )
                .into());
            }
            return Ok(RemoteEnd::Comes(address, secret));
        }
        let launched = match &self.rendezvous {
            Some(Rendezvous::Launcher) => Some(None),
            Some(Rendezvous::File(file)) => Some(Some(file.clone())),
            None if named_here.is_none() && has_launched_peer() => Some(None),
            None => None,
        };
        match launched {
            Some(_) if self.no_secret => {
                Err("the processes of a launcher need a secret: omit --no-secret".into())
            }
            Some(file) => Ok(RemoteEnd::Launched(file, self.secret()?)),
            None if self.no_secret || self.secret_file.is_some() => {
                Err("--secret-file and --no-secret need another process: add HOST, --listen or \
                 --rendezvous"
                    .into())
            }
            None => Ok(RemoteEnd::Here(named_here.cloned())),
        }
    }

    /// The secret from the options or the environment, valid or not; none without either.
    fn secret(&self) -> Result<Option<Secret>, UsageError> {
        if self.no_secret {
            return Ok(Some(Secret::none()));
        }
        match &self.secret_file {
            Some(file) => Ok(Some(Secret::from_file(file)?)),
            None => Ok(Secret::from_environment()?),
        }
    }
}

/// True if a launcher started at least two processes.
fn has_launched_peer() -> bool {
    let place = from_environment(&|name| std::env::var(name).ok());
    // Invalid variables are an error only with --rendezvous.
    place.is_ok_and(|place| place.is_some_and(|place| place.size.is_some_and(|size| size > 1)))
}

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

impl FromStr for Named {
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
        let nic = |port| Named { device: "mlx5_0".to_owned(), port };
        assert_eq!("mlx5_0".parse(), Ok(nic(None)));
        assert_eq!("mlx5_0:2".parse(), Ok(nic(Some(2))));
        for text in ["", ":1", "mlx5_0:0", "mlx5_0:x", "mlx5_0:1:2"] {
            assert!(text.parse::<Named>().is_err(), "{text}");
        }
    }
}
