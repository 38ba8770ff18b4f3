//! Connects the two processes of a launcher: at the port of their job with a shared secret, or through a file.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mp::launcher::LaunchedProcess;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::Conditions;
use super::connect::connect;
use super::error::Error;
use super::file::connect_by_file;
use super::link::Link;
use super::listen::listen;
use super::secret::Secret;

/// Connects to the other process of a launcher. Process 0 listens at `address`, which the other machine must reach: on the port
/// of the job if the launcher names its host and both have a secret, else on a free port that the file names.
pub fn meet<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    place: &LaunchedProcess,
    file: Option<&Path>,
    address: IpAddr,
    given: Option<&Secret>,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    of_two(place)?;
    if let (None, Some(secret), Some(host), Some(port)) = (file, given, &place.host, place.port) {
        return match place.rank {
            0 => listen(SocketAddr::new(address, port), secret, conditions, note),
            _ => connect(host, port, secret, conditions, note),
        };
    }
    let default = rendezvous_file(place);
    let path = file.unwrap_or(&default);
    let job = place.job.as_deref();
    connect_by_file(path, (place.rank, job), address, given, conditions, note)
}

/// The default rendezvous file, in the working directory, which most clusters share.
fn rendezvous_file(place: &LaunchedProcess) -> PathBuf {
    PathBuf::from(match place.job_name() {
        None => "gdr-rendezvous".to_owned(),
        Some(job) => format!("gdr-rendezvous-{job}"),
    })
}

/// Checks that this is one of two processes.
fn of_two(place: &LaunchedProcess) -> Result<(), Error> {
    match (place.size, place.rank) {
        (None | Some(2), 0 | 1) => Ok(()),
        (None | Some(2), rank) => Err(Error::Rank { rank }),
        (Some(size), _) => Err(Error::Size { size }),
    }
}

#[cfg(test)]
mod tests {
    use mp::launcher::Launcher;

    use super::*;

    fn place(rank: u32, size: Option<u32>, job: Option<&str>) -> LaunchedProcess {
        LaunchedProcess {
            launcher: Launcher::Pmi,
            rank,
            size,
            host: None,
            port: None,
            job: job.map(str::to_owned),
        }
    }

    #[test]
    fn accepts_two_processes() {
        let of_two = |rank, size| of_two(&place(rank, size, None));
        assert_eq!(of_two(0, Some(2)), Ok(()));
        assert_eq!(of_two(1, None), Ok(()));
        assert_eq!(of_two(0, Some(1)), Err(Error::Size { size: 1 }));
        assert_eq!(of_two(3, Some(4)), Err(Error::Size { size: 4 }));
        assert_eq!(of_two(2, None), Err(Error::Rank { rank: 2 }));
    }

    #[test]
    fn names_the_file_after_the_job() {
        for (job, file) in [
            (None, "gdr-rendezvous"),
            (Some("slurm-7.0"), "gdr-rendezvous-slurm-7.0"),
            (Some("prterun-a/17@1"), "gdr-rendezvous-prterun-a_17_1"),
        ] {
            assert_eq!(rendezvous_file(&place(0, None, job)), Path::new(file));
        }
    }
}
