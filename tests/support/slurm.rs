//! A real Slurm with eight nodes on this machine: its own munged, slurmctld and one slurmd for each node, all ended on drop.
//! Debian: slurmctld, slurmd, slurm-client, munge. It needs root, because slurmd starts tasks for users.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub const NODES: usize = 8;

pub struct Slurm {
    /// Shared by all nodes.
    pub dir: TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts it; `more` are further lines of slurm.conf.
    pub fn start(more: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        for name in ["state", "spool", "log", "munge", "work"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let mut slurm = Self { dir, daemons: Vec::new() };
        slurm.configure(more);
        slurm.munge();
        slurm.daemon("slurmctld", &["-D"]);
        for node in 1..=NODES {
            slurm.daemon("slurmd", &["-D", "-N", &format!("n{node}")]);
        }
        slurm.wait("nodes that are idle", |slurm| {
            slurm.control(&["sinfo", "-h", "-t", "idle", "-o", "%D"]).trim() == NODES.to_string()
        });
        slurm
    }

    fn configure(&self, more: &str) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let (host, at) = (host.trim(), self.dir.path().display());
        // Nobody else listens there: other processes of this machine have other ids, other tests of this process other numbers.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = std::process::id() + 7 * STARTED.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + number % 1000 * 10;
        let last = port + NODES as u32 - 1;
        let text = format!(
            "ClusterName=t\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/munge\nAuthInfo=socket={at}/munge/socket\n\
             SlurmUser=root\nSlurmdUser=root\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\nSlurmctldPidFile={at}/ctld.pid\n\
             SlurmdPidFile={at}/%n.pid\nSlurmctldLogFile={at}/log/ctld.log\nSlurmdLogFile={at}/log/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             ReturnToService=2\nMpiDefault=none\nNodeName=n[1-{NODES}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{port}-{last}] CPUs=2 \
             State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE\n{more}\n",
            last + 1
        );
        fs::write(self.dir.path().join("slurm.conf"), text).expect("a file");
    }

    fn munge(&mut self) {
        let at = |name: &str| self.dir.path().join("munge").join(name).display().to_string();
        fs::write(at("key"), [7; 128]).expect("a key");
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o400)).expect("permissions");
        let files =
            ["key-file=key", "socket=socket", "pid-file=pid", "log-file=log", "seed-file=seed"];
        let options = files.map(|file| {
            let (option, name) = file.split_once('=').expect("a name");
            format!("--{option}={}", at(name))
        });
        let munged = Command::new("munged")
            .args(["--foreground", "--force"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(munged.expect("munged"));
        self.wait("munged", |slurm| slurm.dir.path().join("munge/socket").exists());
    }

    fn daemon(&mut self, program: &str, args: &[&str]) {
        let conf = self.dir.path().join("slurm.conf");
        let daemon = Command::new(program)
            .arg("-f")
            .arg(&conf)
            .args(args)
            .env("SLURM_CONF", &conf)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(daemon.unwrap_or_else(|error| panic!("{program}: {error}")));
    }

    /// Waits up to 30 seconds.
    pub fn wait(&self, what: &str, is_there: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(30);
        while !is_there(self) {
            assert!(Instant::now() < until, "waited for {what}:\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A program of Slurm.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("SLURM_CONF", self.dir.path().join("slurm.conf"))
            .current_dir(self.dir.path().join("work"));
        command
    }

    /// Standard output of a program of Slurm.
    pub fn control(&self, command: &[&str]) -> String {
        let output =
            self.command(command[0]).args(&command[1..]).output().expect("a program of Slurm");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A shell script on all nodes at once.
    pub fn on_all_nodes(&self, script: &str, options: &[&str]) -> Output {
        let name = self.dir.path().join("work/task.sh");
        fs::write(&name, script).expect("a script");
        let mut command = self.command("srun");
        command.arg(format!("-N{NODES}")).args(options).arg("sh").arg(&name);
        command.output().expect("srun")
    }

    /// The processes of this Slurm: its daemons but for munged, and all that they have started.
    pub fn processes(&self) -> BTreeSet<String> {
        let conf = self.dir.path().join("slurm.conf");
        let variable = format!("SLURM_CONF={}", conf.display());
        let is_ours = |process: &String| {
            // Nothing: it has ended.
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|known| known == variable.as_bytes())
        };
        let all = fs::read_dir("/proc").expect("processes");
        let names = all.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(is_ours).collect()
    }

    fn logs(&self) -> String {
        let logs = fs::read_dir(self.dir.path().join("log")).expect("logs");
        let read = |entry: fs::DirEntry| fs::read_to_string(entry.path()).unwrap_or_default();
        logs.map(|entry| read(entry.expect("a log"))).collect()
    }

    /// Whether a directory has files of a run that should be gone.
    pub fn left_behind(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("work")).expect("a directory");
        let names = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("gdr-")).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // They end in order on SIGTERM; what is left is killed.
            if let Some(pid) = rustix::process::Pid::from_raw(daemon.id().cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        let until = Instant::now() + Duration::from_secs(3);
        for daemon in &mut self.daemons {
            while daemon.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Makes a program that Slurm runs.
pub fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}
