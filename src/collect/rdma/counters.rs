//! Counters of an RDMA port that mean more than traffic.

use std::collections::BTreeMap;
use std::path::Path;

use crate::collect::read;
use crate::model::{Fact, Note, counter};
use crate::world::Files;

/// The counters of a port that the table of counters has and that are not zero; `None` if the port has none of the table.
pub fn counters(
    files: &dyn Files,
    device: &str,
    port: &str,
    notes: &mut Vec<Note>,
) -> Fact<Option<BTreeMap<String, u64>>> {
    let of_port = match directory(files, &format!("{port}/counters"), notes) {
        Fact::Known(found) => found,
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    let of_hardware = match directory(files, &format!("{port}/hw_counters"), notes) {
        // Some drivers count by device.
        Fact::Known(None) => directory(files, &format!("{device}/hw_counters"), notes),
        found => found,
    };
    of_hardware.map(|of_hardware| match (of_port, of_hardware) {
        (None, None) => None,
        (a, b) => {
            let all = a.into_iter().chain(b).flatten();
            Some(all.filter(|(_, count)| *count > 0).collect())
        }
    })
}

/// The counters of a directory that the table has; `None` if it has none of them.
fn directory(
    files: &dyn Files,
    path: &str,
    notes: &mut Vec<Note>,
) -> Fact<Option<BTreeMap<String, u64>>> {
    let names = match files.list_kept(Path::new(path), &|name| counter(name).is_some()) {
        Ok(names) => names,
        Err(error) if error.is_absent() => return read::absent(files, path),
        Err(error) => return read::unread(notes, &error),
    };
    let mut found = BTreeMap::new();
    for name in names {
        match files.text(Path::new(&format!("{path}/{name}"))) {
            // A port may lack a counter: "N/A (no PMA)".
            Ok(text) => found.extend(text.trim().parse().ok().map(|count| (name, count))),
            Err(error) => return read::unread(notes, &error),
        }
    }
    Fact::Known((!found.is_empty()).then_some(found))
}
