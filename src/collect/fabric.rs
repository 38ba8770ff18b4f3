//! The services and nodes of an NVLink fabric, by files alone: no program is asked.

use std::path::Path;

use super::{driver, read};
use crate::model::{Fabric, Fact, NodeFile, Unit};
use crate::world::Files;

const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";
/// Where systemd looks for units (systemd.unit(5)).
const UNIT_DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// Where a running service has its control group: with one hierarchy, and with systemd's own of several.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];

/// The parts of a fabric that files show.
pub fn fabric(files: &dyn Files) -> Fabric {
    Fabric {
        units: Fabric::UNITS.map(|name| (name.to_owned(), unit(files, name))).into(),
        imex_channels: channels(files),
        umad: read::is_there(files, "/sys/class/infiniband_mad"),
    }
}

fn unit(files: &dyn Files, name: &str) -> Unit {
    let wanted = format!("/etc/systemd/system/multi-user.target.wants/{name}");
    // A container has control groups of its own: where the machine's are not in sight, nothing is told.
    let groups = GROUPS.iter().find(|directory| is_there(files, directory));
    Unit {
        installed: any(
            files,
            UNIT_DIRECTORIES.iter().map(|directory| format!("{directory}/{name}")),
        ),
        enabled: read::is_there(files, &wanted),
        running: match groups {
            Some(directory) => read::is_there(files, &format!("{directory}/{name}")),
            None => Fact::default(),
        },
    }
}

/// Whether one of these paths is there; known not to be only where that is known of all.
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
        // There are up to 2048 of them, and any of them will do.
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
