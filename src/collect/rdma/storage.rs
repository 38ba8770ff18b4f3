//! The interfaces that carry the traffic of network storage: those that lead to the server of a mount or of an NVMe controller, or that a
//! client's configuration names. Addresses of servers are private: none is kept.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use crate::collect::read;
use crate::model::{Fact, Note};
use crate::world::Files;

const MOUNTS: &str = "/proc/self/mounts";
const NVME: &str = "/sys/class/nvme";
/// Directory of BeeGFS's configuration.
const BEEGFS: &str = "/etc/beegfs/";
/// The interfaces of Lustre's networks, as in `o2ib(ib0,ib1),tcp(eth0)`; empty if lnetctl configured them.
const LNET: &str = "/sys/module/lnet/parameters/networks";
/// The configuration of IBM Storage Scale (GPFS), which its daemon writes; for root only.
const SCALE: &str = "/var/mmfs/gen/mmfs.cfg";
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// A server, and the kind of the storage, as in `nfs4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub address: IpAddr,
    /// The machine's own address of this connection. It names the interface where `ip rule` chooses another table than the main one.
    pub own: Option<IpAddr>,
    pub kind: String,
}

/// What the machine mounts over a network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    pub servers: Vec<Server>,
    /// Interfaces or RDMA devices that a client's configuration names, with the kind of the storage.
    pub interfaces: Vec<(String, String)>,
}

/// Reads the interfaces that a configuration names.
type Named = fn(&dyn Files, &mut Vec<Note>) -> Vec<String>;

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
    let mounts = |kind: &str| kept.lines().any(|line| line == kind);
    for (kind, names) in [("lustre", lnet_interfaces as Named), ("gpfs", scale_devices as Named)] {
        if mounts(kind) {
            let names = names(files, &mut notes);
            // What is configured goes before the route to a server.
            found.servers.retain(|server| names.is_empty() || server.kind != kind);
            found.interfaces.extend(names.into_iter().map(|name| (name, kind.to_owned())));
        }
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
        let own = option("clientaddr=");
        let by_option = || option("addr=").filter(|server| own != Some(server));
        let addresses: Vec<&str> = match kind {
            "nfs" | "nfs4" | "cifs" | "smb3" => by_option().into_iter().collect(),
            // mount.ceph(8): monitors between slashes in an option, or between commas in the device.
            "ceph" => match option("mon_addr=") {
                Some(monitors) => monitors.split('/').collect(),
                None => device.split(":/").next().unwrap_or_default().split(',').collect(),
            },
            "gpfs" => Vec::new(),
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
        let own = own.and_then(parsed);
        let remote = addresses.into_iter().filter_map(parsed).filter(|one| !one.is_loopback());
        servers.extend(remote.map(|address| Server { address, own, kind: kind.to_owned() }));
    }
    (servers, kept)
}

/// An address, with a port or without.
fn parsed(text: &str) -> Option<IpAddr> {
    let socket = || text.parse().ok().map(|socket: SocketAddr| socket.ip());
    text.trim_matches(['[', ']']).parse().ok().or_else(socket)
}

/// The interfaces of Lustre's networks: NETWORK(INTERFACE,...), each with its CPU partitions in brackets. lnet/lnet/config.c:
/// lnet_parse_networks.
fn lnet_interfaces(files: &dyn Files, notes: &mut Vec<Note>) -> Vec<String> {
    let networks = read::lines_if_there(files, LNET, notes);
    let networks = networks.present().map(String::as_str).unwrap_or_default();
    let lists = networks.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    // A comma in brackets is between numbers.
    let names = lists.flat_map(|list| list.split([',', '[', ']'])).map(str::trim);
    names.filter(|name| name.contains(char::is_alphabetic)).map(str::to_owned).collect()
}

/// The RDMA devices that Storage Scale uses: the setting verbsPorts, as in `verbsPorts mlx5_2/1 mlx5_3/1`. What stands below a list of
/// nodes counts if it names this host; a class of nodes may, so that another section with this setting leaves it open.
fn scale_devices(files: &dyn Files, notes: &mut Vec<Note>) -> Vec<String> {
    let host = read::text(files, HOSTNAME, notes);
    let host = host.known().map(|name| name.trim()).unwrap_or_default();
    let keep = |text: &str| verbs_ports(text, host);
    let kept = read::kept_if_there(files, SCALE, keep, notes);
    let ports = kept.present().and_then(|line| line.trim().strip_prefix("verbsPorts "));
    let ports = ports.into_iter().flat_map(str::split_whitespace);
    ports.filter_map(|port| port.split('/').next()).map(str::to_owned).collect()
}

/// The setting of this host, as a line.
fn verbs_ports(text: &str, host: &str) -> String {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let (mut of_all, mut of_host, mut elsewhere) = (None, None, false);
    let (mut is_common, mut is_own) = (true, false);
    for line in text.lines().map(str::trim) {
        if let Some(nodes) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_common = nodes == "common";
            is_own = !host.is_empty() && nodes.split(',').any(|name| short(name) == short(host));
        } else if line.starts_with("verbsPorts ") {
            match (is_common, is_own) {
                (true, _) => of_all = Some(line),
                (false, true) => of_host = Some(line),
                (false, false) => elsewhere = true,
            }
        }
    }
    let open = of_all.filter(|_| !elsewhere);
    of_host.or(open).map_or(String::new(), |line| format!("{line}\n"))
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
        let own = part("src_addr=").or(part("host_traddr=")).and_then(parsed);
        *server.borrow_mut() = part("traddr=").and_then(parsed).map(|address| (address, own));
        part("host_iface=").map_or(String::new(), |name| format!("host_iface={name}\n"))
    };
    let kept = read::kept_if_there(files, &format!("{base}/address"), keep, notes);
    let interface = kept.present().and_then(|line| line.trim().strip_prefix("host_iface="));
    match (interface, server.into_inner()) {
        (Some(interface), _) => found.interfaces.push((interface.to_owned(), kind)),
        (None, Some((address, own))) => found.servers.push(Server { address, own, kind }),
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
            10.40.0.1:6789,[fd00::7]:6789:/vol /ceph ceph rw,name=x 0 0\n\
            x@fsid.fs=/ /ceph2 ceph rw,mon_addr=10.41.0.1:3300/10.41.0.2 0 0\n\
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
                "lustre 10.31.0.2",
                "ceph 10.40.0.1",
                "ceph fd00::7",
                "ceph 10.41.0.1",
                "ceph 10.41.0.2"
            ]
        );
        assert_eq!(
            kept,
            "nfs4\nnfs\nlustre\nnfs4\nnfs4\nbeegfs /etc/beegfs/beegfs-client.conf\nceph\nceph\ngpfs\n"
        );
        assert_eq!(of_mounts(&kept), (Vec::new(), kept.clone()));
    }

    #[test]
    fn setting_of_this_host_counts() {
        let (common, own) = ("verbsPorts mlx5_0/1\n", "verbsPorts mlx5_2/1/1 mlx5_3/1\n");
        for (text, expected) in [
            (format!("clusterName c\n{common}[io1]\npagepool 4G\n"), common),
            (format!("{common}[io1,gpu7.example]\n{own}[common]\nadminMode central\n"), own),
            // A class of nodes may have this one.
            (format!("{common}[classA]\n{own}"), ""),
            (format!("[io1]\n{own}[common]\n"), ""),
            (own.to_owned(), own),
        ] {
            assert_eq!(verbs_ports(&text, "gpu7"), expected, "{text}");
            assert_eq!(verbs_ports(expected, ""), expected);
        }
    }
}
