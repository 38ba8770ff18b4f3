//! Checks whether other users could replace a program that root will run at every boot.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Directories for programs of the administrator and the distribution.
const DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/// Why a program is not safe for root to run: the first part of its path that others may change. `None` if it is safe.
pub fn unsafe_program(program: &Path) -> Option<String> {
    let why = unsafe_part(program)?;
    let copy = match DIRECTORIES
        .iter()
        .find(|directory| unsafe_part(Path::new(directory)).is_none())
    {
        Some(directory) => format!(
            "Copy it to a directory that only root can change, and run it from there: sudo install -o root -g root -m 755 \
             {program} {directory}/gdr && sudo {directory}/gdr fix-acs --persist unit",
            program = program.display()
        ),
        None => {
            "Copy it to a directory that only root can change, and run it from there.".to_owned()
        }
    };
    Some(format!("At every boot root would run {}, and {why}. {copy}", program.display()))
}

/// The first part of a path that belongs to a user other than root and this one, or that others can write to. A sticky
/// bit does not help: anybody can recreate a file that was removed from /tmp.
fn unsafe_part(path: &Path) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    path.ancestors().find_map(|part| {
        let meta = match fs::symlink_metadata(part) {
            Ok(meta) => meta,
            Err(error) => return Some(format!("cannot read {}: {error}", part.display())),
        };
        match (meta.uid(), meta.mode()) {
            (uid, _) if uid != 0 && uid != user => {
                Some(format!("{} belongs to user {uid}", part.display()))
            }
            (_, mode) if mode & 0o022 != 0 => Some(format!(
                "other users can write to {} (mode {:04o})",
                part.display(),
                mode & 0o7777
            )),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn rejects_paths_writable_by_others() {
        assert_eq!(unsafe_part(Path::new("/usr/bin/env")), None);
        let dir = tempfile::tempdir_in("/tmp").expect("a directory");
        let program = dir.path().join("gdr");
        fs::write(&program, "").expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
        let why = unsafe_program(&program).expect("/tmp is writable by all");
        assert!(why.contains("other users can write to /tmp (mode 1777)"), "{why}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o775)).expect("permissions");
        let why = unsafe_program(&program).expect("group-writable");
        assert!(
            why.contains(&format!("other users can write to {} (mode 0775)", program.display())),
            "{why}"
        );
        assert!(unsafe_program(Path::new("/no/such/gdr")).is_some());
    }
}
