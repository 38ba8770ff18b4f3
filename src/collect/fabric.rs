//! Services and device nodes of an NVLink fabric, from files only.

use std::collections::BTreeMap;
use std::path::Path;

use super::{driver, imex, read};
use crate::model::{Fabric, Fact, NodeFile, Note, Unit, UnitLines};
use crate::world::{Files, World};

const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";
/// systemd's unit directories (systemd.unit(5)).
const UNIT_DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// Control groups of running services, in the unified hierarchy and in systemd's own.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];

pub fn fabric(world: &World, notes: &mut Vec<Note>) -> Fabric {
    let files = world.files.as_ref();
    let mut units: BTreeMap<String, Unit> =
        Fabric::UNITS.map(|name| (name.to_owned(), unit(files, name))).into();
    if let Some(unit) = units.get_mut(Fabric::PERSISTENCE) {
        unit.lines = match unit.installed {
            Fact::Known(true) => lines(files, Fabric::PERSISTENCE, notes),
            Fact::Known(false) => Fact::Known(None),
            Fact::Unknown(why) => Fact::Unknown(why),
        };
    }
    let manager_version = match units.get(Fabric::MANAGER).map(|unit| &unit.installed) {
        None | Some(Fact::Known(false)) => Fact::default(),
        // A unit that cannot be read may run.
        Some(_) => manager_version(files, notes),
    };
    let imex_channels = channels(files);
    let has_channels = imex_channels.known().is_some_and(|nodes| !nodes.is_empty());
    let imex_nodes = imex::nodes(files);
    // Elsewhere no daemon is asked.
    let has_imex = has_channels || imex_nodes.present().is_some();
    Fabric {
        units,
        manager_version,
        imex_nodes,
        imex_state: if has_imex { imex::state(world, notes) } else { Fact::default() },
        imex_channels,
        umad: read::is_there(files, "/sys/class/infiniband_mad"),
    }
}

/// The version of Debian's package; rpm's database is not text.
fn manager_version(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    let packages = read::kept_if_there(files, "/var/lib/dpkg/status", manager_packages, notes);
    packages.map(|text| {
        let text = text?;
        let mut versions = text.lines().filter_map(|line| line.strip_prefix("Version: "));
        let version = versions.next()?;
        // Two packages of different versions do not say which one runs.
        versions.all(|other| other == version).then(|| upstream(version).to_owned())
    })
}

/// The fabric manager's packages that are installed: `nvidia-fabricmanager`, `nvidia-fabricmanager-580`.
fn manager_packages(status: &str) -> String {
    let is_manager = |name: &str| {
        name.strip_prefix("nvidia-fabricmanager").is_some_and(|rest| {
            rest.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let field = |package: &str, key: &str| {
        package.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
    };
    let packages = status.split("\n\n").filter_map(|package| {
        let name = field(package, "Package:").filter(|name| is_manager(name))?;
        let state = field(package, "Status:").filter(|state| state.ends_with(" installed"))?;
        let version = field(package, "Version:")?;
        Some(format!("Package: {name}\nStatus: {state}\nVersion: {version}\n\n"))
    });
    packages.collect()
}

/// A Debian version without its epoch and revision.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, version)| version);
    version.rsplit_once('-').map_or(version, |(version, _)| version)
}

fn unit(files: &dyn Files, name: &str) -> Unit {
    let link = format!("/etc/systemd/system/multi-user.target.wants/{name}");
    // A container does not see the machine's control groups, so the state is unknown.
    let groups = GROUPS.iter().find(|directory| is_there(files, directory));
    Unit {
        installed: is_installed(files, name),
        enabled: read::is_there(files, &link),
        running: match groups {
            Some(directory) => read::is_there(files, &format!("{directory}/{name}")),
            None => Fact::default(),
        },
        lines: Fact::default(),
    }
}

pub fn is_installed(files: &dyn Files, name: &str) -> Fact<bool> {
    any(files, UNIT_DIRECTORIES.iter().map(|directory| format!("{directory}/{name}")))
}

/// The relevant lines of a unit's first file and of its drop-ins, by name.
fn lines(files: &dyn Files, name: &str, notes: &mut Vec<Note>) -> Fact<Option<UnitLines>> {
    let mut drop_ins: BTreeMap<String, String> = BTreeMap::new();
    for directory in UNIT_DIRECTORIES {
        let directory = format!("{directory}/{name}.d");
        let names = files.list_kept(Path::new(&directory), &|name| name.ends_with(".conf"));
        for name in names.unwrap_or_default().into_iter().take(64) {
            let path = format!("{directory}/{name}");
            drop_ins.entry(name).or_insert(path);
        }
    }
    let own = UNIT_DIRECTORIES.iter().map(|directory| format!("{directory}/{name}"));
    let own = own.into_iter().find(|path| is_there(files, path));
    let mut found = UnitLines::default();
    for path in own.into_iter().chain(drop_ins.into_values()) {
        match read::kept_if_there(files, &path, of_interest, notes) {
            Fact::Known(text) => {
                text.iter().flat_map(|text| text.lines()).for_each(|line| add(&mut found, line))
            }
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    Fact::Known(Some(found))
}

/// The lines for the command and for enabling.
fn of_interest(text: &str) -> String {
    let is_relevant = |line: &&str| {
        ["ExecStart=", "WantedBy=", "RequiredBy="].iter().any(|key| line.starts_with(key))
    };
    let lines = text.lines().map(str::trim);
    lines.filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

fn add(unit: &mut UnitLines, line: &str) {
    match line.split_once('=') {
        // An empty assignment resets the list.
        Some(("ExecStart", command)) => {
            unit.start = Some(command.trim().to_owned()).filter(|text| !text.is_empty())
        }
        Some((_, targets)) if !targets.trim().is_empty() => unit.installable = true,
        _ => {}
    }
}

/// True if one of the paths exists; false only if that is known for all.
fn any(files: &dyn Files, paths: impl Iterator<Item = String>) -> Fact<bool> {
    let mut unknown = None;
    for path in paths {
        match read::is_there(files, &path) {
            Fact::Known(true) => return Fact::Known(true),
            Fact::Known(false) => {}
            Fact::Unknown(why) => unknown = Some(why),
        }
    }
    unknown.map_or(Fact::Known(false), Fact::Unknown)
}

fn is_there(files: &dyn Files, path: &str) -> bool {
    files.exists(Path::new(path)).unwrap_or(false)
}

fn channels(files: &dyn Files) -> Fact<Vec<NodeFile>> {
    match files.list_kept(Path::new(CHANNELS), &|name| name.starts_with("channel")) {
        // There are up to 2048, and one is enough.
        Ok(names) => Fact::Known(
            names
                .iter()
                .take(8)
                .map(|name| driver::node(files, &format!("{CHANNELS}/{name}")))
                .collect(),
        ),
        Err(error) if error.is_absent() => read::absent::<()>(files, CHANNELS).map(|_| Vec::new()),
        Err(error) => Fact::Unknown(error.why()),
    }
}
