//! Many processes of a launcher: rank 0 listens for all others. Where it listens they know from the launcher and a shared secret, or
//! from a file that has both.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::Conditions;
use super::connect::connect;
use super::error::Error;
use super::file::{
    RendezvousFile, WrittenFile, generate, host_name, privacy, to_token, wait_for_file,
};
use super::link::Link;
use super::listen::Listener;
use super::secret::Secret;

/// Where rank 0 listens.
#[derive(Debug, Clone)]
pub struct Meeting<'a> {
    /// Host and port of rank 0, if the launcher names them.
    pub host: Option<(&'a str, u16)>,
    /// The file that names them otherwise.
    pub file: &'a Path,
    /// The launcher's name of this run.
    pub job: Option<&'a str>,
    /// The shared secret; without one, the file has a new one.
    pub secret: Option<&'a Secret>,
}

/// Rank 0, listening. The file is removed on drop.
pub struct Host {
    listener: Listener,
    _file: Option<WrittenFile>,
}

impl<'a> Meeting<'a> {
    fn direct(&self) -> Option<(&'a str, u16, &'a Secret)> {
        let (host, port) = self.host?;
        Some((host, port, self.secret?))
    }

    /// Rank 0: listens, and writes the file if there is no other way.
    pub fn host(&self, address: IpAddr) -> Result<Host, Error> {
        if let Some((_, port, secret)) = self.direct() {
            return Ok(Host {
                listener: Listener::bind(SocketAddr::new(address, port), secret)?,
                _file: None,
            });
        }
        let secret = match self.secret {
            Some(secret) => secret.clone(),
            None => generate()?,
        };
        let listener = Listener::bind(SocketAddr::new(address, 0), &secret)?;
        let host = if address.is_unspecified() { host_name()? } else { address.to_string() };
        let meeting = RendezvousFile {
            host,
            port: listener.address().port(),
            secret: self.secret.is_none().then_some(secret),
            job: self.job.map(to_token),
        };
        let file = WrittenFile::new(self.file, meeting.text(), privacy(self.secret));
        let file = file.map_err(|error| Error::File {
            path: self.file.to_owned(),
            why: format!("it cannot be written ({error})"),
        })?;
        Ok(Host { listener, _file: Some(file) })
    }

    /// Another rank: connects to rank 0. Returns the secret of all too.
    pub fn reach<'c, M: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        conditions: &Conditions<'c>,
        note: &mut dyn FnMut(String),
    ) -> Result<(Link<'c, M>, Secret), Error> {
        match self.direct() {
            Some((host, port, secret)) => {
                connect(host, port, secret, conditions, note).map(|link| (link, secret.clone()))
            }
            None => {
                let job = self.job.map(to_token);
                wait_for_file(self.file, job.as_deref(), self.secret, conditions, note)
            }
        }
    }
}

impl Host {
    /// Takes every process that proves the secret, until the deadline or until `take` returns false.
    pub fn accept_each<'a, M: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        conditions: &Conditions<'a>,
        note: &mut dyn FnMut(String),
        take: &mut dyn FnMut(Link<'a, M>) -> bool,
    ) -> Result<(), Error> {
        self.listener.accept_each(conditions, note, take)
    }
}
