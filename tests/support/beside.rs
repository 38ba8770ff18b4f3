//! What a test does to a machine on the bench besides gdr: what a reboot or a daemon would do, and what systemd says of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Bench;

impl Bench {
    /// Runs a shell script in the machine's root directory, which must end well.
    pub fn root_command(&self, script: &str) {
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", script]).current_dir(self.root()).output().expect("a shell");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs one of the programs of [`Bench::tools`], as somebody at the machine would.
    pub fn run_tool(&self, name: &str, args: &[&str]) {
        let mut tool = Command::new(self.tools().join(name));
        let output = tool.args(args).env("GDR_ROOT", self.root()).output().expect("a program");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        self.calls();
    }

    /// What the real `systemd-analyze verify` says of a unit of this machine with its drop-ins: nothing where all is well.
    pub fn verify(&self, unit: &str) -> String {
        // Targets that every unit names by default.
        let units = self.root().join("usr/lib/systemd/system");
        fs::create_dir_all(&units).expect("a directory");
        for target in ["sysinit", "basic", "shutdown", "multi-user"] {
            let path = units.join(format!("{target}.target"));
            if !path.exists() {
                fs::write(path, "[Unit]\nDescription=a target\n").expect("a target");
            }
        }
        let mut analyze = Command::new("systemd-analyze");
        analyze.arg("verify").arg(format!("--root={}", self.root().display())).arg(unit);
        let output = analyze.env("LC_ALL", "C").output().expect("systemd-analyze");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || !said.is_empty(), "it failed without a word");
        said
    }

    /// Keeps those files and links of another root whose paths have `part` in them, in a directory beside this one's root.
    pub fn keep_beside(&self, name: &str, other: &Path, part: &str) {
        let to = self.root().with_file_name(name);
        fs::create_dir(&to).expect("a directory");
        let script =
            "find . -path \"*$1*\" ! -type d -print0 | tar --null -T - -cf - | tar -xf - -C \"$2\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", part]).arg(to).current_dir(other);
        assert!(shell.status().expect("a shell").success());
    }
}
