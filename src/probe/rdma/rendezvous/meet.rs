//! Connects the two processes of a launcher: at the port of their job with a shared secret, or through a file.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::Conditions;
use super::connect::connect;
use super::error::Error;
use super::file::connect_by_file;
use super::link::Link;
use super::listen::listen;
use super::place::Place;
use super::secret::Secret;

/// Connects to the other process of a launcher. Process 0 listens at `address`, which the other machine must reach: on the port
/// of the job if the launcher names its host and both have a secret, else on a free port that the file names.
pub fn meet<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    place: &Place,
    file: Option<&Path>,
    address: IpAddr,
    given: Option<&Secret>,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    place.of_two()?;
    if let (None, Some(secret), Some(host), Some(port)) = (file, given, &place.host, place.port) {
        return match place.rank {
            0 => listen(SocketAddr::new(address, port), secret, conditions, note),
            _ => connect(host, port, secret, conditions, note),
        };
    }
    let default = place.rendezvous_file();
    let path = file.unwrap_or(&default);
    let job = place.job.as_deref();
    connect_by_file(path, (place.rank, job), address, given, conditions, note)
}
