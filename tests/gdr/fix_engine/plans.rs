//! Hand-written and random plans, and directories to apply them on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gdr::fix::{Error, Moment, UndoOptions, UndoReport};
use gdr::model::{
    Action, AttributeWrite, Capability, ConfigWrite, Digest, FilePath, FileWrite, Host, Journal,
    Plan, Repair, Step,
};
use gdr::world::Executor;
use proptest::prelude::*;
use tempfile::TempDir;

pub const SECOND: Duration = Duration::from_secs(1);

pub fn plan(actions: Vec<Action>) -> Plan {
    let step = |action| Step { about: "A step.".to_owned(), action, command: None };
    let repair = Repair {
        fix: "test".to_owned(),
        steps: actions.into_iter().map(step).collect(),
        ..Repair::default()
    };
    Plan::new(Host::default(), vec![repair])
}

pub fn moment(boot: &str) -> Moment {
    Moment { taken: "2026-01-01T00:00:00Z".to_owned(), boot: Some(boot.to_owned()) }
}

/// The hash from another program.
pub fn sha256sum(content: &[u8]) -> Digest {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), content).expect("its content");
    let output =
        Command::new("sha256sum").arg(file.path()).output().expect("sha256sum of coreutils");
    String::from_utf8_lossy(&output.stdout)
        .split(' ')
        .next()
        .expect("a hash")
        .try_into()
        .expect("a hash")
}

pub fn path(path: &str) -> FilePath {
    path.try_into().expect("a path")
}

pub fn write(path: &str, old: Option<&[u8]>, content: &str) -> Action {
    Action::WriteFile(FileWrite {
        path: self::path(path),
        old: old.map(sha256sum),
        content: content.to_owned(),
        mode: 0o644,
    })
}

pub type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// The paths at which two trees differ.
pub fn differing(a: &Tree, b: &Tree) -> BTreeSet<PathBuf> {
    let paths = a.keys().chain(b.keys());
    let paths = paths.filter(|path| a.get(*path) != b.get(*path));
    paths.cloned().collect()
}

/// Kind, permissions and content of everything below a directory, except journals.
pub fn tree(root: &Path) -> Tree {
    fn walk(root: &Path, at: &Path, found: &mut Tree) {
        for entry in fs::read_dir(at).expect("a directory") {
            let path = entry.expect("an entry").path();
            let meta = fs::symlink_metadata(&path).expect("what it is");
            let inner = path.strip_prefix(root).expect("below the root").to_owned();
            if inner.starts_with("var") {
                continue;
            }
            let content = match (meta.is_symlink(), meta.is_file()) {
                (true, _) => {
                    fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
                }
                (_, true) => fs::read(&path).expect("a file"),
                _ => Vec::new(),
            };
            if meta.is_dir() {
                walk(root, &path, found);
            }
            found.insert(inner, (meta.mode(), content));
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// Prints a line for the test's reader.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn executor(root: &Path) -> Executor {
    Executor::directory(root, None, SECOND).expect("a root")
}

/// Applies these steps to the machine in `root`.
pub fn apply(root: &Path, actions: Vec<Action>) -> Result<Journal, Error> {
    gdr::fix::apply(&executor(root), &plan(actions), &moment("a"), &mut |_| {})
}

/// Undoes the newest repair in the same boot.
pub fn undo(root: &Path) -> Result<UndoReport, Error> {
    undo_in(root, "a", false)
}

/// Undoes the newest repair in this boot.
pub fn undo_in(root: &Path, boot: &str, force: bool) -> Result<UndoReport, Error> {
    let options = UndoOptions { number: None, boot: Some(boot.to_owned()), force };
    gdr::fix::undo(&executor(root), &options, &mut |_| {})
}

/// A configuration space with the capabilities of an Express port: Express at 0x40, ACS at 0x100, AER after it.
pub fn space(noise: &[u8]) -> Vec<u8> {
    let mut space: Vec<u8> = noise.iter().copied().cycle().take(4096).collect();
    space[0..4].copy_from_slice(&[0xb5, 0x10, 0x64, 0x87]);
    space[0x06] |= 0x10;
    space[0x0e] = 0x01;
    space[0x34] = 0x40;
    space[0x40..0x42].copy_from_slice(&[0x10, 0x00]);
    space[0x100..0x104].copy_from_slice(&0x1201_000d_u32.to_le_bytes());
    space[0x120..0x124].copy_from_slice(&0x0001_0001_u32.to_le_bytes());
    // All ones would mean that the device is gone.
    for register in [0x48, 0x49, 0x104, 0x105, 0x106, 0x107] {
        space[register] &= 0x7f;
    }
    space
}

pub const PORT: &str = "0000:02:00.0";

/// A random change.
#[derive(Debug, Clone)]
pub enum Draw {
    Config { register: usize, mask: u32, value: u32 },
    Write { file: usize, content: String },
    Remove { file: usize },
    Attribute { value: String },
}

pub fn draw() -> impl Strategy<Value = Draw> {
    prop_oneof![
        (0..REGISTERS.len(), any::<u32>(), any::<u32>()).prop_map(|(register, mask, value)| {
            Draw::Config {
                register,
                // The top bit of each byte is clear, because all ones would mean that the device is gone.
                mask: mask & 0x7f7f_7f7f,
                value,
            }
        }),
        (0..FILES.len(), "[a-z =;\n]{0,40}")
            .prop_map(|(file, content)| Draw::Write { file, content }),
        (0..FILES.len()).prop_map(|file| Draw::Remove { file }),
        "[a-zA-Z]{1,8}".prop_map(|value| Draw::Attribute { value }),
    ]
}

/// Registers by capability, offset, width, and where [`space`] has them. Those of ACS overlap.
const REGISTERS: [(Capability, u16, u8, usize); 5] = [
    (Capability::EXPRESS, 8, 2, 0x48),
    (Capability::ACS, 6, 2, 0x106),
    (Capability::ACS, 6, 1, 0x106),
    (Capability::ACS, 7, 1, 0x107),
    (Capability::ACS, 4, 4, 0x104),
];

pub const FILES: [&str; 4] =
    ["/etc/modprobe.d/zz-gdr.conf", "/etc/a/b/c.conf", "/etc/default/grub", "/etc/x"];
pub const ATTRIBUTE: &str = "/sys/kernel/iommu_groups/1/type";

/// The plan for these draws, from the state that a planner would see at each step.
pub fn drawn(root: &Path, draws: &[Draw]) -> Vec<Action> {
    let mut files: BTreeMap<&str, Option<Vec<u8>>> =
        FILES.iter().map(|path| (*path, fs::read(root.join(&path[1..])).ok())).collect();
    let mut config =
        fs::read(root.join("sys/bus/pci/devices").join(PORT).join("config")).expect("a space");
    let mut attribute =
        fs::read_to_string(root.join(&ATTRIBUTE[1..])).expect("an attribute").trim().to_owned();
    let mut actions = Vec::new();
    for draw in draws {
        match draw {
            Draw::Config { register, mask, value } => {
                let (capability, offset, width, at) = REGISTERS[*register];
                let bytes = at..at + usize::from(width);
                let mut old = [0; 4];
                old[..usize::from(width)].copy_from_slice(&config[bytes.clone()]);
                let old = u32::from_le_bytes(old);
                let mask = mask & (u32::MAX >> (32 - 8 * u32::from(width)));
                let new = old & !mask | value & mask;
                config[bytes].copy_from_slice(&new.to_le_bytes()[..usize::from(width)]);
                actions.push(Action::WriteConfig(ConfigWrite {
                    bdf: PORT.parse().expect("an address"),
                    capability,
                    offset,
                    width,
                    mask,
                    old,
                    new,
                }));
            }
            Draw::Write { file, content } => {
                let path = FILES[*file];
                actions.push(write(path, files[path].as_deref(), content));
                files.insert(path, Some(content.clone().into_bytes()));
            }
            Draw::Remove { file } => {
                let path = FILES[*file];
                if let Some(old) = files.insert(path, None).flatten() {
                    actions
                        .push(Action::RemoveFile { path: self::path(path), old: sha256sum(&old) });
                }
            }
            Draw::Attribute { value } => {
                actions.push(Action::WriteAttribute(AttributeWrite {
                    path: self::path(ATTRIBUTE),
                    old: attribute.clone(),
                    new: value.clone(),
                }));
                attribute.clone_from(value);
            }
        }
    }
    actions
}

pub fn laid_out(noise: &[u8]) -> TempDir {
    lay_out(tempfile::tempdir().expect("a temporary directory"), noise)
}

/// The same on a RAM disk if there is one, because many thousand fsyncs are slow on a disk.
pub fn laid_out_in_memory(noise: &[u8]) -> TempDir {
    lay_out(crate::support::scratch(), noise)
}

fn lay_out(dir: TempDir, noise: &[u8]) -> TempDir {
    let root = dir.path();
    let device = root.join("sys/bus/pci/devices").join(PORT);
    fs::create_dir_all(&device).expect("directories");
    fs::write(device.join("config"), space(noise)).expect("a space");
    fs::create_dir_all(root.join("sys/kernel/iommu_groups/1")).expect("directories");
    fs::write(root.join(&ATTRIBUTE[1..]), "DMA-FQ\n").expect("an attribute");
    fs::create_dir_all(root.join("etc/default")).expect("directories");
    fs::write(root.join("etc/default/grub"), "GRUB_TIMEOUT=5\n").expect("a file");
    fs::set_permissions(root.join("etc/default/grub"), fs::Permissions::from_mode(0o600))
        .expect("permissions");
    dir
}
