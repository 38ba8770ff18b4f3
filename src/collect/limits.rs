//! Limits of this process: configured memlock limits, RDMA control groups.

use std::collections::BTreeMap;
use std::path::Path;

use super::read;
use crate::model::{Fact, Limits, Note, RdmaGrant, Service, Setting};
use crate::world::Files;

/// Services that start other programs.
const SERVICES: [&str; 5] = ["slurmd", "containerd", "docker", "crio", "kubelet"];
/// Unit directories: the first with a unit wins; drop-ins of all count.
const UNITS: [&str; 3] = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
/// Limit of nested control groups.
const DEEPEST: usize = 16;
/// Limit of cgroup hierarchies; the kernel has a dozen controllers.
const MAX_GROUPS: usize = 64;
/// Limits of one group's entries and of a device's name.
const MAX_BOUNDS: usize = 1_024;
const MAX_NAME: usize = 255;

type Keep = fn(&str) -> String;

pub fn limits(files: &dyn Files, notes: &mut Vec<Note>) -> Limits {
    Limits {
        memlock_settings: settings(files, notes),
        services: services(files, notes),
        rdma_cgroup: rdma_cgroup(files, notes),
        max_map_count: read::value(files, "/proc/sys/vm/max_map_count", notes),
    }
}

fn settings(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<Setting>> {
    let mut found = Vec::new();
    let sources: [(&str, &str, Keep); 2] = [
        ("/etc/security/limits.conf", "/etc/security/limits.d", of_logins),
        ("/etc/systemd/system.conf", "/etc/systemd/system.conf.d", of_all_services),
    ];
    for (file, directory, keep) in sources {
        for path in std::iter::once(file.to_owned()).chain(drop_ins(files, directory)) {
            match lines(files, &path, keep, notes) {
                Fact::Known(some) => found.extend(some),
                Fact::Unknown(why) => return Fact::Unknown(why),
            }
        }
    }
    Fact::Known(found)
}

fn lines(files: &dyn Files, path: &str, keep: Keep, notes: &mut Vec<Note>) -> Fact<Vec<Setting>> {
    let setting = |line: &str| Setting { path: path.to_owned(), line: line.to_owned() };
    read::kept_if_there(files, path, keep, notes)
        .map(|text| text.iter().flat_map(|text| text.lines()).map(setting).collect())
}

/// A drop-in directory's files, in the order in which they apply.
fn drop_ins(files: &dyn Files, directory: &str) -> Vec<String> {
    let names = files.list_kept(Path::new(directory), &|name| name.ends_with(".conf"));
    let names = names.unwrap_or_default().into_iter().take(64);
    names.map(|name| format!("{directory}/{name}")).collect()
}

/// memlock lines of limits.d, with user and group names replaced.
fn of_logins(text: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> = line.split('#').next()?.split_ascii_whitespace().collect();
        let [domain, kind, "memlock", value] = words.as_slice() else {
            return None;
        };
        let domain = match *domain {
            "*" => "*",
            "root" => "root",
            name if name.starts_with(['@', '%']) => "@group",
            _ => "user",
        };
        Some(format!("{domain} {kind} memlock {value}\n"))
    };
    text.lines().filter_map(line).collect()
}

fn of_all_services(text: &str) -> String {
    assignments(text, "DefaultLimitMEMLOCK")
}

fn of_a_service(text: &str) -> String {
    assignments(text, "LimitMEMLOCK")
}

/// The assignments to a key as `KEY=VALUE`; systemd ignores blanks around the sign.
fn assignments(text: &str, key: &str) -> String {
    let line = |line: &str| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| format!("{key}={}\n", value.trim()))
    };
    text.lines().filter_map(line).collect()
}

fn services(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<Service>> {
    // One listing per directory is enough for all units.
    let is_ours = |name: &str| {
        let stem = name.strip_suffix(".d").unwrap_or(name);
        stem.strip_suffix(".service").is_some_and(|stem| SERVICES.contains(&stem))
    };
    let mut listings: Vec<(&str, Vec<String>)> = Vec::new();
    for directory in UNITS {
        match files.list_kept(Path::new(directory), &is_ours) {
            Ok(names) => listings.push((directory, names)),
            Err(error) if error.is_absent() => match read::absent::<()>(files, directory) {
                Fact::Unknown(why) if directory.starts_with("/etc/") => return Fact::Unknown(why),
                _ => {}
            },
            Err(error) => return Fact::Unknown(error.why()),
        }
    }
    let mut found = Vec::new();
    for name in SERVICES {
        let (unit, drop_in) = (format!("{name}.service"), format!("{name}.service.d"));
        let has = |names: &[String], name: &String| names.contains(name);
        let Some((directory, _)) = listings.iter().find(|(_, names)| has(names, &unit)) else {
            continue;
        };
        // Drop-ins apply by name across directories; for equal names the first directory wins.
        let mut by_name = BTreeMap::new();
        for (directory, _) in listings.iter().filter(|(_, names)| has(names, &drop_in)) {
            for path in drop_ins(files, &format!("{directory}/{drop_in}")) {
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                by_name.entry(name).or_insert(path);
            }
        }
        let settings: Option<Vec<Vec<Setting>>> = std::iter::once(format!("{directory}/{unit}"))
            .chain(by_name.into_values())
            .map(|path| lines(files, &path, of_a_service, notes).known().cloned())
            .collect();
        // An unreadable file makes the limit unknown; a masked unit has no files.
        if let Some(settings) = settings {
            found.push(Service {
                name: name.to_owned(),
                memlock: settings.into_iter().flatten().next_back(),
            });
        }
    }
    Fact::Known(found)
}

fn rdma_cgroup(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<RdmaGrant>> {
    let own = match read::kept(files, "/proc/self/cgroup", of_rdma, notes) {
        Fact::Known(own) => own,
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    let mut grants = Vec::new();
    for line in own.lines().take(MAX_GROUPS) {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if path.split('/').any(|part| part == "..") {
            // Outside this process's cgroup namespace.
            continue;
        }
        let base = match controllers {
            "" => "/sys/fs/cgroup",
            _ => "/sys/fs/cgroup/rdma",
        };
        let mut group = path.trim_end_matches('/');
        for _ in 0..DEEPEST {
            match granted(files, &format!("{base}{group}"), notes) {
                Fact::Known(some) => grants.extend(some),
                Fact::Unknown(why) => return Fact::Unknown(why),
            }
            match group.rsplit_once('/') {
                Some((above, _)) => group = above,
                None => break,
            }
        }
    }
    Fact::Known(grants)
}

fn of_rdma(text: &str) -> String {
    let is_relevant = |line: &&str| {
        let controllers = line.split(':').nth(1);
        controllers
            .is_some_and(|names| names.is_empty() || names.split(',').any(|name| name == "rdma"))
    };
    text.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

/// The limits of one control group; empty if it has no such file.
fn granted(files: &dyn Files, group: &str, notes: &mut Vec<Note>) -> Fact<Vec<RdmaGrant>> {
    let most = match read::text_if_there(files, &format!("{group}/rdma.max"), notes) {
        Fact::Known(Some(text)) => numbers(&text),
        Fact::Known(None) => return Fact::Known(Vec::new()),
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    if most.is_empty() {
        return Fact::Known(Vec::new());
    }
    let used =
        read::text(files, &format!("{group}/rdma.current"), notes).map(|text| numbers(&text));
    let grants = most.into_iter().map(|(device, resource, most)| RdmaGrant {
        group: group.to_owned(),
        used: used.as_ref().map(|used| {
            let same = used.iter().find(|(of, what, _)| *of == device && *what == resource);
            same.map_or(0, |(.., count)| *count)
        }),
        device,
        resource,
        most,
    });
    Fact::Known(grants.collect())
}

/// Parses `mlx5_0 hca_handle=2 hca_object=max`; drops unlimited values.
fn numbers(text: &str) -> Vec<(String, String, u64)> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let device = words.next().unwrap_or_default().to_owned();
        let each = words.filter_map(move |word| {
            let (resource, count) = word.split_once('=')?;
            Some((device.clone(), resource.to_owned(), count.parse().ok()?))
        });
        each.collect::<Vec<_>>()
    };
    let lines = text.lines().filter(|line| line.find(' ').unwrap_or(0) <= MAX_NAME);
    lines.flat_map(line).take(MAX_BOUNDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_user_names_in_limits() {
        let text = "# * soft memlock 1\n*  soft  memlock unlimited\nalice - memlock 1024 # hers\n@ml-team hard memlock 8192\n\
            root - memlock unlimited\n* - nofile 1024\n";
        let kept = of_logins(text);
        assert_eq!(
            kept,
            "* soft memlock unlimited\nuser - memlock 1024\n@group hard memlock 8192\nroot - memlock unlimited\n"
        );
        assert_eq!(of_logins(&kept), kept);
    }

    #[test]
    fn reads_unit_limit_like_systemd() {
        let kept = of_a_service(
            "[Service]\n LimitMEMLOCK = infinity \n#LimitMEMLOCK=0\nLimitMEMLOCKED=1\nLimitMEMLOCK=8M\n",
        );
        assert_eq!(kept, "LimitMEMLOCK=infinity\nLimitMEMLOCK=8M\n");
        assert_eq!(of_a_service(&kept), kept);
        assert_eq!(
            of_all_services("DefaultLimitMEMLOCK= 64M\nLimitMEMLOCK=1\n"),
            "DefaultLimitMEMLOCK=64M\n"
        );
    }

    #[test]
    fn reads_rdma_cgroup_limits() {
        assert_eq!(
            numbers("mlx5_0 hca_handle=2 hca_object=max\nmlx5_1 hca_handle=max hca_object=2000\n"),
            [
                ("mlx5_0".to_owned(), "hca_handle".to_owned(), 2),
                ("mlx5_1".to_owned(), "hca_object".to_owned(), 2000)
            ]
        );
        assert_eq!(of_rdma("9:name=systemd:/\n4:rdma:/x\n0::/y\n"), "4:rdma:/x\n0::/y\n");
    }
}
