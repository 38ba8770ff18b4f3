//! A machine with things that programs derive from its files (images, GRUB's configuration, boot loader entries, links of
//! units, states of devices), and stand-ins that fail, are killed or hang after part of their work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gdr::fix::{Error, UndoOptions, UndoReport};
use gdr::model::{Action, Journal};
use gdr::world::Executor;
use tempfile::TempDir;

use crate::fix_engine::plans::{FILES, laid_out_in_memory, moment, plan};

/// How the programs of a machine end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Well,
    /// After part of their work, with an exit status.
    Fail,
    /// After part of their work, with an unfinished file.
    Tear,
    /// After all of their work, with an exit status.
    FailLate,
    /// After part of their work, by a signal.
    Killed,
    /// Never: they hang after part of their work.
    Hang,
}

impl Manner {
    pub const BAD: [Self; 5] = [Self::Fail, Self::Tear, Self::FailLate, Self::Killed, Self::Hang];

    fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Fail => "fail",
            Self::Tear => "tear",
            Self::FailLate => "late",
            Self::Killed => "killed",
            Self::Hang => "hang",
        }
    }
}

/// Where the stand-ins look up how they have to end; outside of what tests compare.
const MANNER: &str = "var/manner";
const KERNELS: [&str; 2] = ["6.1", "6.8"];

/// One script for all programs. Each does half of its work, ends as it has to, or does the other half.
const STAND_IN: &str = r#"#!/bin/sh
set -e
cd "$GDR_ROOT"
manner=well
[ ! -e var/manner ] || read -r manner < var/manner
# Ends as the test wants; $1 is the file that a torn write leaves.
half() {
    case $manner in
    fail) exit 1 ;;
    tear) [ -z "$1" ] || echo 'half of it' > "$1"; exit 1 ;;
    killed) kill -KILL $$ ;;
    hang) exec sleep 1 ;;
    esac
}
put() { cat > "$1.new" && mv "$1.new" "$1" || { rm -f "$1.new"; exit 91; }; }
image() { { echo "image of $1"; cat etc/modprobe.d/zz-gdr.conf etc/a/b/c.conf etc/default/grub etc/x 2>/dev/null || :; } | put "boot/initrd.img-$1"; }
images() { image 6.1; half boot/initrd.img-6.8; image 6.8; }
menu() { : > boot/grub/part; [ ! -e etc/default/grub ] || cat etc/default/grub > boot/grub/part; half boot/grub/grub.cfg; { echo menu; cat boot/grub/part; } | put boot/grub/grub.cfg; rm boot/grub/part; }
settings() { cat etc/systemd/system.conf 2>/dev/null || :; }
rules() { cat etc/udev/rules.d/x.rules 2>/dev/null || :; }
entry() {
    out=
    read -r line < "$1"
    for word in $line; do
        [ "$word" = "$remove" ] || [ "$word" = "$add" ] || out="$out $word"
    done
    [ -z "$add" ] || out="$out $add"
    echo "${out# }" | put "$1"
}
case ${0##*/} in
update-initramfs)
    case $* in
    "-u -k all") images ;;
    *) image "$3"; half "boot/initrd.img-$3" ;;
    esac ;;
dracut | mkinitcpio | kernel-install) images ;;
update-grub | grub-mkconfig | grub2-mkconfig) rm -f boot/grub/part; menu ;;
grubby)
    remove= add=
    for word in "$@"; do
        case $word in
        --remove-args=*) remove=${word#*=} ;;
        --args=*) add=${word#*=} ;;
        esac
    done
    entry boot/loader/entries/6.1.conf; half; entry boot/loader/entries/6.8.conf ;;
systemctl)
    units=etc/systemd/system
    case $1 in
    enable)
        ln -sf "/lib/$2" "$units/alias.service"; half
        mkdir -p "$units/multi-user.target.wants"; ln -sf "/lib/$2" "$units/multi-user.target.wants/$2" ;;
    disable)
        rm -f "$units/alias.service"; half
        rm -f "$units/multi-user.target.wants/$2"; rmdir "$units/multi-user.target.wants" 2>/dev/null || : ;;
    start) echo "$2 1" | put run/started; half; echo "$2 1 2" | put run/started ;;
    stop) rm -f run/started; half ;;
    daemon-reload | restart) settings | put run/loaded-1; half; settings | put run/loaded-2 ;;
    esac ;;
udevadm) rules | put run/rules-1; half; rules | put run/rules-2 ;;
nvidia-smi) echo "$4" | put run/persistence; half ;;
mlxconfig | mstconfig) echo "${5#*=}" | put run/firmware; half ;;
modprobe) { cat proc/modules; echo "$1 16384 0 - Live 0x0"; } | put proc/modules; half ;;
rmmod) { grep -v "^$1 " proc/modules || :; } | put proc/modules; half ;;
*) exit 92 ;;
esac
[ "$manner" != late ] || exit 1
exit 0
"#;

const PROGRAMS: [&str; 15] = [
    "dracut",
    "grub-mkconfig",
    "grub2-mkconfig",
    "grubby",
    "kernel-install",
    "mkinitcpio",
    "mlxconfig",
    "modprobe",
    "mstconfig",
    "nvidia-smi",
    "rmmod",
    "systemctl",
    "udevadm",
    "update-grub",
    "update-initramfs",
];

pub fn tools() -> TempDir {
    let tools = tempfile::tempdir().expect("a directory");
    let script = tools.path().join("stand-in");
    fs::write(&script, STAND_IN).expect("a program");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
    for name in PROGRAMS {
        std::os::unix::fs::symlink("stand-in", tools.path().join(name)).expect("a program");
    }
    tools
}

/// A machine whose derived files are up to date.
pub fn laid_out() -> TempDir {
    let dir = laid_out_in_memory(&[0x10, 0x22]);
    let root = dir.path();
    for directory in
        ["boot/grub", "boot/loader/entries", "etc/systemd/system", "proc", "run", "var"]
    {
        fs::create_dir_all(root.join(directory)).expect("a directory");
    }
    let derived = derived(root);
    for (path, text) in derived {
        fs::write(root.join(path), text).expect("a file");
    }
    for release in KERNELS {
        let entry = root.join(format!("boot/loader/entries/{release}.conf"));
        fs::write(entry, "options ro quiet\n").expect("an entry");
    }
    for (path, text) in [
        ("proc/modules", "nvidia 56 0 - Live 0x0\n"),
        ("run/persistence", "0\n"),
        ("run/firmware", "0\n"),
        ("run/loaded-1", ""),
        ("run/loaded-2", ""),
        ("run/rules-1", ""),
        ("run/rules-2", ""),
    ] {
        fs::write(root.join(path), text).expect("a file");
    }
    end(root, Manner::Well);
    dir
}

/// What images and GRUB's configuration have to contain, given the present files.
pub fn derived(root: &Path) -> Vec<(PathBuf, String)> {
    let text = |path: &str| fs::read_to_string(root.join(&path[1..])).unwrap_or_default();
    let all: String = FILES.iter().map(|path| text(path)).collect();
    let images = KERNELS.map(|release| {
        let path = PathBuf::from(format!("boot/initrd.img-{release}"));
        (path, format!("image of {release}\n{all}"))
    });
    let menu = format!("menu\n{}", text("/etc/default/grub"));
    let menu = (PathBuf::from("boot/grub/grub.cfg"), menu);
    images.into_iter().chain([menu]).collect()
}

/// How the next programs end.
pub fn end(root: &Path, manner: Manner) {
    let (path, text) = (root.join(MANNER), format!("{}\n", manner.word()));
    // A child that is out of space could not write it.
    if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        fs::write(path, text).expect("a manner");
    }
}

/// How the programs of this machine end.
pub fn manner(root: &Path) -> Manner {
    let text = fs::read_to_string(root.join(MANNER)).unwrap_or_default();
    let all = Manner::BAD.into_iter().chain([Manner::Well]);
    let mut all = all.filter(|manner| manner.word() == text.trim());
    all.next().expect("a manner")
}

fn executor(root: &Path, tools: &Path, manner: Manner) -> Executor {
    let timeout = match manner {
        Manner::Hang => Duration::from_millis(100),
        _ => Duration::from_secs(60),
    };
    Executor::directory(root, Some(tools), timeout).expect("a root")
}

/// Applies these steps with programs that end in this manner.
pub fn apply(
    root: &Path,
    tools: &Path,
    manner: Manner,
    actions: Vec<Action>,
) -> Result<Journal, Error> {
    end(root, manner);
    let executor = executor(root, tools, manner);
    gdr::fix::apply(&executor, &plan(actions), &moment("a"), &mut |_| {})
}

/// Undoes the newest repair with programs that end in this manner.
pub fn undo(root: &Path, tools: &Path, manner: Manner, force: bool) -> Result<UndoReport, Error> {
    end(root, manner);
    let options = UndoOptions { number: None, boot: Some("a".to_owned()), force };
    gdr::fix::undo(&executor(root, tools, manner), &options, &mut |_| {})
}
