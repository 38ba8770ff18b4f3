//! Opens the HCA of a rank: an RDMA device, by the GPU or by the proxy, or a software HCA.

use std::sync::Arc;
use std::time::Duration;

use gdsync::Allocator;
use gdsync::hca::mlx5::Mlx5Hca;
use gdsync::hca::port::{self, Options as Port};
use gdsync::hca::proxy::ProxyHca;
use gdsync::hca::{Hca, Request};
use verbs::Context;

use crate::bootstrap::Bootstrap;
use crate::connect::agree;
use crate::{Error, Software};

/// The HCA of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HcaKind {
    /// By device: an mlx5 NIC whose doorbells the GPU rings, else the proxy. Never a software HCA.
    #[default]
    Auto,
    /// An mlx5 NIC whose doorbells the GPU rings.
    Mlx5,
    /// A CPU thread that posts to any RDMA device.
    Proxy,
    /// A software HCA, linked to those of the other ranks on this machine. It simulates a NIC.
    Software,
}

/// Which HCA to open.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The kind.
    pub kind: HcaKind,
    /// A device, or a part of its name, and a port: `mlx5_0`, `mlx5_0:2`. The first device with an active port if `None`.
    pub device: Option<String>,
    /// GID index. The best one if `None`.
    pub gid_index: Option<u8>,
}

/// An open HCA.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The HCA.
    pub hca: Arc<dyn Hca>,
    /// Its kind, never [`HcaKind::Auto`].
    pub kind: HcaKind,
    /// What it is, for people: `proxy of mlx5_0:1`.
    pub name: String,
    /// Why the GPU does not ring the doorbells of an mlx5 NIC, if it was to.
    pub fallback: Option<String>,
}

impl Selection {
    /// Opens the HCA. Every rank calls it.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`], [`Error::Queue`], [`Error::Bootstrap`]; on every rank if one fails.
    pub fn open(
        &self,
        bootstrap: &mut dyn Bootstrap,
        allocator: &Allocator,
        timeout: Duration,
    ) -> Result<Opened, Error> {
        if self.kind == HcaKind::Software {
            let hca = Software::connect(bootstrap, allocator.clone(), timeout)?;
            return Ok(Opened {
                hca,
                kind: self.kind,
                name: "software HCA (SIMULATED)".to_owned(),
                fallback: None,
            });
        }
        let opened = self.open_device(allocator);
        let (opened, _) = agree(bootstrap, timeout, opened, |_| Vec::new())?;
        Ok(opened)
    }

    fn open_device(&self, allocator: &Allocator) -> Result<Opened, Error> {
        let names = verbs::device_names().map_err(|error| no_device(gpu::sentence(&error)))?;
        let (wanted, port) = self.wanted()?;
        let mut why = match wanted {
            Some(wanted) => format!("{wanted:?} is not among {}", names.join(", ")),
            None => "none was found".to_owned(),
        };
        for name in candidates(&names, wanted) {
            match self.open_one(name, port, allocator) {
                Ok(opened) => return Ok(opened),
                Err(error) => why = gpu::sentence(&error),
            }
        }
        Err(no_device(why))
    }

    /// The device's name or a part of it, and the port.
    fn wanted(&self) -> Result<(Option<&str>, u8), Error> {
        let Some(text) = self.device.as_deref() else {
            return Ok((None, 1));
        };
        match text.split_once(':') {
            None => Ok((Some(text), 1)),
            Some((name, port)) => match port.parse() {
                Ok(port) => Ok((Some(name), port)),
                Err(_) => {
                    Err(no_device(format!("invalid device {text:?}: expected NAME or NAME:PORT")))
                }
            },
        }
    }

    fn open_one(&self, name: &str, number: u8, allocator: &Allocator) -> Result<Opened, Error> {
        let context = Context::open(name);
        let context = context.map_err(|error| no_device(gpu::sentence(&error)))?;
        let options = Port { port: number, gid_index: self.gid_index, ..Port::default() };
        let mut fallback = None;
        let is_driven = match self.kind {
            HcaKind::Auto => context.is_mlx5(),
            kind => kind == HcaKind::Mlx5,
        };
        if is_driven {
            let hca = Mlx5Hca::open(allocator.clone(), &context, options)?;
            // Whether the GPU's driver maps the doorbell shows with the first queue pair.
            let tried = hca.create(&Request::default());
            match tried {
                Err(gdsync::Error::Device(error @ port::Error::Register { .. }))
                    if self.kind == HcaKind::Auto =>
                {
                    fallback = Some(gpu::sentence(&error));
                }
                tried => {
                    drop(tried?);
                    return Ok(Opened {
                        hca: Arc::new(hca),
                        kind: HcaKind::Mlx5,
                        name: format!("{name}:{number}, driven by the GPU"),
                        fallback: None,
                    });
                }
            }
        }
        Ok(Opened {
            hca: Arc::new(ProxyHca::open(allocator.clone(), &context, options)?),
            kind: HcaKind::Proxy,
            name: format!("proxy of {name}:{number}"),
            fallback,
        })
    }
}

/// The devices to try: the named one, those whose names contain the text, or all.
fn candidates<'a>(names: &'a [String], wanted: Option<&str>) -> Vec<&'a str> {
    let Some(wanted) = wanted else {
        return names.iter().map(String::as_str).collect();
    };
    let exact: Vec<&str> =
        names.iter().filter(|name| *name == wanted).map(String::as_str).collect();
    if exact.is_empty() {
        names.iter().filter(|name| name.contains(wanted)).map(String::as_str).collect()
    } else {
        exact
    }
}

fn no_device(why: String) -> Error {
    Error::NoDevice { why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_devices_by_name() {
        let names = ["mlx5_1", "mlx5_10", "rxe0"].map(str::to_owned);
        assert_eq!(candidates(&names, None), ["mlx5_1", "mlx5_10", "rxe0"]);
        assert_eq!(candidates(&names, Some("mlx5_1")), ["mlx5_1"]);
        assert_eq!(candidates(&names, Some("mlx5")), ["mlx5_1", "mlx5_10"]);
        assert_eq!(candidates(&names, Some("e0")), ["rxe0"]);
        assert!(candidates(&names, Some("hfi")).is_empty());
        let wanted = |device: &str| {
            let device = Some(device.to_owned());
            let selection = Selection { device, ..Selection::default() };
            selection.wanted().map(|(name, port)| (name.map(str::to_owned), port)).ok()
        };
        assert_eq!(wanted("rxe0"), Some((Some("rxe0".to_owned()), 1)));
        assert_eq!(wanted("rxe0:2"), Some((Some("rxe0".to_owned()), 2)));
        assert_eq!(wanted("rxe0:x"), None);
    }
}
