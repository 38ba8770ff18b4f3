//! The software HCA of each rank, linked to those of the other ranks on this machine by sockets.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gdsync::hca::sim::SimHca;
use gdsync::hca::sim::socket::{self, Connection};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::wire::Datagram;
use gdsync::{Allocator, MappedMemory};

use crate::Error;
use crate::bootstrap::{self, Bootstrap};
use crate::connect::agree;
use crate::peer::pause;

/// The software HCA of a rank. It simulates a NIC by threads of the CPU; ranks are processes (or threads) of one machine and one user.
#[derive(Debug)]
pub struct Software {
    // Dropped first: they use the HCA.
    _links: BTreeMap<u32, Connection>,
    hca: SimHca,
}

impl Software {
    /// Creates a software HCA, and links it to those of all other ranks, which call this too. The LID of a rank is its number plus one.
    ///
    /// # Errors
    ///
    /// On every rank if one fails. [`Error::Bootstrap`], [`Error::Queue`].
    pub fn connect(
        bootstrap: &mut dyn Bootstrap,
        allocator: Allocator,
        timeout: Duration,
    ) -> Result<Arc<Self>, Error> {
        let options = socket::Options { timeout, ..socket::Options::default() };
        let (rank, size) = (bootstrap.rank(), bootstrap.size());
        let ready = lid(rank).and_then(|lid| {
            let hca = SimHca::with_lid(allocator, lid)?;
            let (listener, name) = listen()?;
            Ok((hca, listener, name))
        });
        let name = |ready: &(SimHca, UnixListener, String)| ready.2.clone().into_bytes();
        let ((hca, listener, _), names) = agree(bootstrap, timeout, ready, name)?;
        let linked = link(&hca, &listener, &names, (rank, size), options);
        let (links, _) = agree(bootstrap, timeout, linked, |_| Vec::new())?;
        Ok(Arc::new(Self { _links: links, hca }))
    }
}

fn lid(rank: u32) -> Result<u16, Error> {
    let lid = u16::try_from(rank + 1).ok();
    lid.ok_or_else(|| {
        bootstrap::Error::Value {
            what: format!("rank {rank}"),
            why: "the software HCA links at most 65535 ranks".to_owned(),
        }
        .into()
    })
}

/// Connects to the ranks before this one, then accepts those after it.
fn link(
    hca: &SimHca,
    listener: &UnixListener,
    names: &[Vec<u8>],
    (rank, size): (u32, u32),
    options: socket::Options,
) -> Result<BTreeMap<u32, Connection>, Error> {
    let start = Instant::now();
    let mut links = BTreeMap::new();
    for (name, other) in names.iter().zip(0..rank) {
        let address = SocketAddr::from_abstract_name(name);
        let stream = address.and_then(|address| UnixStream::connect_addr(&address));
        let stream = stream.map_err(|source| bootstrap::Error::Io {
            what: format!(
                "reach the software HCA of rank {other}, which must be a process of this machine, in the same network namespace"
            ),
            source,
        })?;
        let link = socket::join(hca, stream, options).map_err(gdsync::Error::from)?;
        links.insert(other, link);
    }
    while links.len() + 1 < size as usize {
        match listener.accept() {
            Ok((stream, _)) => {
                let stream = stream.set_nonblocking(false).map(|()| stream);
                let stream = stream.map_err(io("accept a software HCA"))?;
                // A stranger's connection ends here; a rank's is missed below.
                if let Ok(link) = socket::join(hca, stream, options) {
                    links.insert(u32::from(link.lid()) - 1, link);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let waited = start.elapsed();
                if waited >= options.timeout {
                    let who = format!("{} ranks", size as usize - 1 - links.len());
                    let timeout = options.timeout;
                    return Err(bootstrap::Error::TimedOut { who, timeout }.into());
                }
                pause(waited);
            }
            Err(error) => return Err(io("accept a software HCA")(error)),
        }
    }
    Ok(links)
}

fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| {
        let what = what.to_owned();
        bootstrap::Error::Io { what, source }.into()
    }
}

/// Listens at a random name that needs no file. [`socket::join`] rejects other users.
fn listen() -> Result<(UnixListener, String), Error> {
    let random = RandomState::new().build_hasher().finish();
    let name = format!("gdr-mp-{}-{random:016x}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name);
    let bound = address.and_then(|address| UnixListener::bind_addr(&address));
    let listener = bound.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    Ok((listener.map_err(io("listen for software HCAs"))?, name))
}

impl Hca for Software {
    fn create(&self, request: &Request) -> Result<QueuePair, gdsync::Error> {
        self.hca.create(request)
    }

    fn connect(
        &self,
        local: Endpoint,
        peer: Endpoint,
        policy: RetryPolicy,
    ) -> Result<(), gdsync::Error> {
        self.hca.connect(local, peer, policy)
    }

    fn stop(&self, local: Endpoint) -> Result<(), gdsync::Error> {
        self.hca.stop(local)
    }

    fn datagram(
        &self,
        local: Endpoint,
        remote: Endpoint,
        key: u32,
    ) -> Result<Datagram, gdsync::Error> {
        self.hca.datagram(local, remote, key)
    }

    fn register(
        &self,
        place: &MappedMemory,
        access: Access,
    ) -> Result<MemoryRegion, gdsync::Error> {
        self.hca.register(place, access)
    }
}
