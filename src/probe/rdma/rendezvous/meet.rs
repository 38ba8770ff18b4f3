//! How the two processes of a launcher meet: over the file they were given, or at the port of their job.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Conditions;
use super::connect::connect;
use super::error::Error;
use super::file::meet_by_file;
use super::link::Link;
use super::listen::listen;
use super::place::Place;

/// Meets the other process of a launcher. Process 0 listens at `address`, which the other machine must reach: on the port
/// of the job where the launcher says both, else on one that is free, which the file tells.
pub fn meet<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    place: &Place,
    file: Option<&Path>,
    address: IpAddr,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    place.of_two()?;
    if let Some(path) = file {
        return meet_by_file(path, place.rank, place.job.as_deref(), address, terms, note);
    }
    let (Some(host), Some(port)) = (&place.host, place.port) else {
        return Err(Error::NoMeetingPoint {
            launcher: place.launcher,
        });
    };
    let terms = Conditions {
        token: place.job.clone(),
        ..terms.clone()
    };
    match place.rank {
        0 => listen(SocketAddr::new(address, port), &terms, note),
        _ => connect(host, port, &terms, note),
    }
}
