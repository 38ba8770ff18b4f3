//! The interfaces that carry the traffic of network storage: those that lead to the server of a mount or of an NVMe controller, or that a
//! client's configuration names. Addresses of servers are private: none is kept.

use std::cell::RefCell;
use std::net::IpAddr;

use crate::collect::read;
use crate::model::{Fact, Note};
use crate::world::Files;

const MOUNTS: &str = "/proc/self/mounts";
const NVME: &str = "/sys/class/nvme";
/// Directory of BeeGFS's configuration.
const BEEGFS: &str = "/etc/beegfs/";

/// A server, and the kind of the storage, as in `nfs4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub address: IpAddr,
    pub kind: String,
}

/// What the machine mounts over a network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    pub servers: Vec<Server>,
    /// Interfaces that a client's configuration names, with the kind of the storage.
    pub interfaces: Vec<(String, String)>,
}

pub fn storage(files: &dyn Files) -> Fact<Storage> {
    // Without them a role of a NIC may be unknown, and nothing else.
    let mut notes = Vec::new();
    let servers = RefCell::new(Vec::new());
    let keep = |text: &str| {
        let (found, kept) = of_mounts(text);
        servers.borrow_mut().extend(found);
        kept
    };
    let kept = read::kept_if_there(files, MOUNTS, keep, &mut notes);
    let Fact::Known(Some(kept)) = kept else {
        return kept.map(|_| Storage::default());
    };
    let mut found = Storage { servers: servers.into_inner(), interfaces: Vec::new() };
    let configurations = kept.lines().filter_map(|line| line.strip_prefix("beegfs "));
    for file in configurations {
        let names = beegfs_interfaces(files, file, &mut notes);
        found.interfaces.extend(names.into_iter().map(|name| (name, "beegfs".to_owned())));
    }
    let controllers = read::names(files, NVME, &mut notes);
    for controller in controllers.present().into_iter().flatten() {
        fabrics(files, controller, &mut found, &mut notes);
    }
    Fact::Known(found)
}

/// The servers of the mounts, and what is kept: the kinds, and the configuration of BeeGFS. A line with one or two words was reduced before.
fn of_mounts(text: &str) -> (Vec<Server>, String) {
    let (mut servers, mut kept) = (Vec::new(), String::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (device, kind, options) = match fields.as_slice() {
            [kind] => ("", *kind, ""),
            ["beegfs", file] => ("", "beegfs", *file),
            [device, _, kind, options, ..] => (*device, *kind, *options),
            _ => continue,
        };
        let option = |name: &str| options.split(',').find_map(|option| option.strip_prefix(name));
        // fs/nfs/super.c: nfs_show_options; fs/smb/client/cifsfs.c: cifs_show_address.
        let by_option = || option("addr=").filter(|server| option("clientaddr=") != Some(server));
        let addresses: Vec<&str> = match kind {
            "nfs" | "nfs4" | "cifs" | "smb3" => by_option().into_iter().collect(),
            // NIDs of the management servers: ADDRESS@NETWORK, between commas and colons.
            "lustre" => device
                .split([':', ','])
                .filter_map(|nid| nid.split_once('@'))
                .map(|(address, _)| address)
                .collect(),
            "beegfs" => {
                let file = option("cfgFile=").unwrap_or(options);
                let file = if file.starts_with(BEEGFS) { file } else { "" };
                kept.push_str(format!("beegfs {file}").trim_end());
                kept.push('\n');
                continue;
            }
            _ => continue,
        };
        kept.push_str(kind);
        kept.push('\n');
        let parsed = addresses.iter().filter_map(|address| address.parse().ok());
        let remote = parsed.filter(|address: &IpAddr| !address.is_loopback());
        servers.extend(remote.map(|address| Server { address, kind: kind.to_owned() }));
    }
    (servers, kept)
}

/// The interfaces of BeeGFS's client: one a line in the file that its setting connInterfacesFile names.
fn beegfs_interfaces(files: &dyn Files, file: &str, notes: &mut Vec<Note>) -> Vec<String> {
    let setting = |text: &str| {
        let lines = text.lines().filter(|line| {
            line.split_once('=').is_some_and(|(name, _)| name.trim() == "connInterfacesFile")
        });
        lines.map(|line| format!("{line}\n")).collect()
    };
    let setting = read::kept_if_there(files, file, setting, notes);
    let named =
        setting.present().and_then(|line| line.split_once('=')).map(|(_, file)| file.trim());
    let Some(list) = named.filter(|list| list.starts_with(BEEGFS)) else { return Vec::new() };
    let list = read::lines_if_there(files, list, notes);
    let lines = list.present().into_iter().flat_map(|text| text.lines()).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The target of an NVMe controller over RDMA or TCP, and the interface that it is bound to. drivers/nvme/host/fabrics.c: nvmf_get_address.
fn fabrics(files: &dyn Files, controller: &str, found: &mut Storage, notes: &mut Vec<Note>) {
    let base = format!("{NVME}/{controller}");
    let transport = read::text(files, &format!("{base}/transport"), notes);
    let transport = transport.known().map(|text| text.trim()).unwrap_or_default();
    if !["rdma", "tcp"].contains(&transport) {
        return;
    }
    let kind = format!("nvme-{transport}");
    let server = RefCell::new(None);
    let keep = |text: &str| {
        let part = |name: &str| text.trim().split(',').find_map(|part| part.strip_prefix(name));
        *server.borrow_mut() = part("traddr=").and_then(|address| address.parse().ok());
        part("host_iface=").map_or(String::new(), |name| format!("host_iface={name}\n"))
    };
    let kept = read::kept_if_there(files, &format!("{base}/address"), keep, notes);
    let interface = kept.present().and_then(|line| line.trim().strip_prefix("host_iface="));
    match (interface, server.into_inner()) {
        (Some(interface), _) => found.interfaces.push((interface.to_owned(), kind)),
        (None, Some(address)) => found.servers.push(Server { address, kind }),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_and_no_address_is_kept() {
        let text = "proc /proc proc rw 0 0\n\
            10.20.0.5:/export /data nfs4 rw,vers=4.2,proto=rdma,clientaddr=10.20.0.77,local_lock=none,addr=10.20.0.5 0 0\n\
            fs:/home /home nfs rw,addr=fd00::5 0 0\n\
            10.30.0.1@o2ib:10.30.0.2@o2ib,10.31.0.2@tcp1:/scratch /scratch lustre rw,flock 0 0\n\
            127.0.0.1:/x /x nfs4 rw,clientaddr=127.0.0.1,addr=127.0.0.1 0 0\n\
            10.20.0.77:/y /y nfs4 rw,clientaddr=10.20.0.77,addr=10.20.0.77 0 0\n\
            beegfs_nodev /bee beegfs rw,relatime,cfgFile=/etc/beegfs/beegfs-client.conf 0 0\n\
            gpfs0 /gpfs gpfs rw 0 0\n";
        let (servers, kept) = of_mounts(text);
        let servers: Vec<String> =
            servers.iter().map(|server| format!("{} {}", server.kind, server.address)).collect();
        assert_eq!(
            servers,
            [
                "nfs4 10.20.0.5",
                "nfs fd00::5",
                "lustre 10.30.0.1",
                "lustre 10.30.0.2",
                "lustre 10.31.0.2"
            ]
        );
        assert_eq!(kept, "nfs4\nnfs\nlustre\nnfs4\nnfs4\nbeegfs /etc/beegfs/beegfs-client.conf\n");
        assert_eq!(of_mounts(&kept), (Vec::new(), kept.clone()));
    }
}
