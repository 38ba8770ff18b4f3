//! The real modprobe on a laid-out machine: what it reads of its modprobe.d, and what it would load a module with.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The directories of a machine whose release of kmod is not known, in kmod's order.
const DIRECTORIES: [&str; 5] = [
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/local/lib/modprobe.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
];

/// What names the GPU to udev.
const GPU: &str = "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00";

/// modprobe, with a tree of modules beside the machine.
pub struct Kmod {
    root: PathBuf,
    modules: TempDir,
}

/// A module that would be loaded, and its parameters; of each the last value.
pub type Loaded = (String, BTreeMap<String, String>);

impl Kmod {
    /// For the machine in this root, where these modules have the alias of a GPU.
    pub fn new(root: &Path, modules: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        with_modules(dir.path(), modules);
        Self { root: root.to_owned(), modules: dir }
    }

    /// The lines of `modprobe --showconfig` that begin with this, the kernel's own aliases left out.
    pub fn config(&self, start: &str) -> Vec<String> {
        let text = self.run(&["--showconfig"]);
        let own = text.split("# End of configuration files").next().unwrap_or_default();
        let lines = own.lines().filter(|line| line.starts_with(start));
        lines.map(str::to_owned).collect()
    }

    /// What `modprobe NAME` loads in the end: the line of an install command is followed. None where it loads nothing.
    pub fn named(&self, name: &str) -> Option<Loaded> {
        self.follow(&[name])
    }

    /// What udev loads for the GPU.
    pub fn by_device(&self) -> Option<Loaded> {
        self.follow(&["-b", GPU])
    }

    fn follow(&self, asked: &[&str]) -> Option<Loaded> {
        let directory = self.modules.path().display().to_string();
        let args = [&["-d", directory.as_str(), "-S", "6.8.0", "--show-depends"], asked].concat();
        let text = self.run(&args);
        let line = text.lines().last()?.trim();
        if let Some(rest) = line.strip_prefix("insmod ") {
            let (path, options) = rest.split_once(' ').unwrap_or((rest, ""));
            let name = path.rsplit('/').next()?.trim_end_matches(".ko");
            return Some((name.to_owned(), parameters(options)));
        }
        // install modprobe -i NAME $CMDLINE_OPTS OPTIONS: modprobe shows the options behind the command.
        let rest = line.strip_prefix("install modprobe -i ")?;
        let (name, options) = rest.split_once(' ').unwrap_or((rest, ""));
        let options = options.trim_start().strip_prefix("$CMDLINE_OPTS");
        let words = words(options.unwrap_or_default());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.follow(&[&["-i", name], words.as_slice()].concat())
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new("modprobe");
        for directory in DIRECTORIES {
            let directory = self.root.join(directory);
            if directory.is_dir() {
                command.arg("-C").arg(directory);
            }
        }
        let out = command.args(args).output().expect("modprobe runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

/// Parameters as the kernel parts them, quotes taken off.
pub fn parameters(options: &str) -> BTreeMap<String, String> {
    words(options)
        .into_iter()
        .filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('"').to_owned()))
        })
        .collect()
}

/// Words parted by blanks outside of quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        quoted ^= c == '"';
        if c == ' ' && !quoted {
            words.push(String::new())
        } else {
            words.last_mut().expect("a word").push(c)
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn with_modules(root: &Path, names: &[&str]) {
    let directory = root.join("lib/modules/6.8.0");
    fs::create_dir_all(&directory).expect("a directory");
    for name in names {
        let alias = if name.contains("uvm") || name.starts_with("mlx") {
            ""
        } else {
            "\\0alias=pci:v000010DEd*sv*sd*bc03sc02i00*"
        };
        let source =
            format!("__attribute__((section(\".modinfo\"))) char a[] = \"license=MIT{alias}\";");
        let mut cc = Command::new("cc")
            .args(["-x", "c", "-c", "-", "-o"])
            .arg(directory.join(format!("{name}.ko")))
            .stdin(Stdio::piped())
            .spawn()
            .expect("cc runs");
        let mut stdin = cc.stdin.take().expect("a pipe");
        stdin.write_all(source.as_bytes()).expect("the source");
        drop(stdin);
        assert!(cc.wait().expect("cc ends").success());
    }
    fs::write(directory.join("modules.order"), "").expect("a file");
    fs::write(directory.join("modules.builtin"), "").expect("a file");
    let depmod = Command::new("depmod").arg("-b").arg(root).arg("6.8.0").status();
    assert!(depmod.expect("depmod runs").success());
}
