//! The scripts of `integrations/slurm` under a real Slurm with eight nodes, whose gdr is sound, finds a fault, hangs, crashes or does not
//! know. Expected lines are written by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::fleet_slurm::snapshots;
use crate::integrations::integrations;
use crate::support::{Slurm, script};

const GDR: &str = env!("CARGO_BIN_EXE_gdr");

/// What doctor prints of `n4`.
const FAULT: &str = "gdr: ACS redirects traffic at 0000:17:02.0; gdr fix acs; pcie.acs";
/// What the scripts say of `n5`.
const HANGS: &str = "gdr: doctor did not finish within 2 s";
/// What they say of `n3`.
const CRASHES: &str = "gdr doctor ended with 139: ";
/// What they log of `n6`.
const UNKNOWN: &str = "gdr: unknown: mlx5_0: /dev/infiniband/uverbs0";

/// A Slurm that calls these scripts. `n3` has a gdr that crashes, `n5` one that hangs and ignores SIGTERM, `n6` does not know, `n4` has a
/// fault; all other nodes are sound.
fn slurm(work: &Path, more: &str) -> Slurm {
    fs::set_permissions(work, fs::Permissions::from_mode(0o755)).expect("permissions");
    snapshots(work);
    let at = work.display();
    let gdr = format!(
        "#!/bin/sh\n\
         case $SLURMD_NODENAME in\n\
         n3) ulimit -c 0; kill -SEGV $$ ;;\n\
         n5) trap '' TERM; while :; do sleep 0.2; done ;;\n\
         n6) set -- doctor --quick --format line --only rdma.device ;;\n\
         esac\n\
         exec {GDR} --from {at}/$SLURMD_NODENAME.json \"$@\"\n"
    );
    script(&work.join("gdr"), &gdr);
    script(&work.join("logger"), &format!("#!/bin/sh\necho \"$*\" >>{at}/logged\n"));
    let from = integrations().join("slurm");
    for name in ["check.sh", "health-check.sh", "prolog.sh", "epilog.sh"] {
        let text = format!(
            "#!/bin/sh\nexport GDR_CONF={at}/conf\nexec {}/{name} \"$@\"\n",
            from.display()
        );
        script(&work.join(name), &text);
    }
    // Without their configuration they find no gdr, and leave all nodes as they are.
    let slurm = Slurm::start(&more.replace("@DIR@", &at.to_string()));
    let conf = format!(
        "GDR={at}/gdr\nGDR_OPTIONS='--only pcie.acs'\nGDR_TIMEOUT=2\nPATH={at}:$PATH\nexport SLURM_CONF={}/slurm.conf\n",
        slurm.dir.path().display()
    );
    fs::write(work.join("conf"), conf).expect("a file");
    slurm
}

/// State and reason of a node.
fn node(slurm: &Slurm, name: &str) -> String {
    slurm.control(&["sinfo", "-h", "-N", "-n", name, "-o", "%T %E"]).trim().to_owned()
}

/// What `scontrol show node` has after `Reason=`, without user and time.
fn reason(slurm: &Slurm, name: &str) -> String {
    let text = slurm.control(&["scontrol", "-o", "show", "node", name]);
    let reason = text.split_once(" Reason=").map_or("", |(_, reason)| reason);
    reason.split(" [root@").next().unwrap_or_default().trim_end().to_owned()
}

/// The lines of `sinfo -R` without the times: each its reason as the table shows it, and its node.
fn reasons(slurm: &Slurm) -> Vec<String> {
    let text = slurm.control(&["sinfo", "-h", "-R"]);
    let line = |line: &str| {
        let (reason, rest) = line.split_once(" root ").expect("a user");
        let node = rest.split_whitespace().last().expect("a node");
        format!("{}|{node}", reason.trim_end())
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

fn logged(work: &Path) -> String {
    fs::read_to_string(work.join("logged")).unwrap_or_default()
}

#[test]
#[ignore = "needs root and slurm (Debian: slurmctld, slurmd, slurm-client, munge)"]
fn health_check_drains_faulty_and_hanging_nodes_and_resumes_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path();
    let slurm = slurm(
        work,
        "HealthCheckProgram=@DIR@/health-check.sh\nHealthCheckInterval=3\nHealthCheckNodeState=ANY",
    );
    for name in ["n4", "n5"] {
        slurm.wait("a node that is drained", |slurm| node(slurm, name).starts_with("drained"));
    }
    assert_eq!(reason(&slurm, "n4"), FAULT);
    assert_eq!(reason(&slurm, "n5"), HANGS);
    assert_eq!(reasons(&slurm), ["gdr: ACS redirects t|n4", "gdr: doctor did not|n5"]);
    for (name, line) in [("n3", CRASHES), ("n6", UNKNOWN)] {
        slurm.wait("a line in the log", |_| logged(work).contains(&format!("{name}: ")));
        assert!(logged(work).contains(line), "{}", logged(work));
    }
    for name in ["n1", "n2", "n3", "n6", "n7", "n8"] {
        assert!(node(&slurm, name).starts_with("idle"), "{name}: {}", node(&slurm, name));
    }
    // Another reason stays, and all other nodes work.
    slurm.control(&["scontrol", "update", "nodename=n2", "state=drain", "reason=disk"]);
    let run =
        slurm.command("srun").args(["-N5", "-x", "n2,n4,n5", "hostname"]).output().expect("srun");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    fs::copy(work.join("good.json"), work.join("n4.json")).expect("a copy");
    script(
        &work.join("gdr"),
        &format!("#!/bin/sh\nexec {GDR} --from {}/good.json \"$@\"\n", work.display()),
    );
    for name in ["n4", "n5"] {
        slurm.wait("a node that is well again", |slurm| node(slurm, name).starts_with("idle"));
    }
    assert_eq!(node(&slurm, "n2"), "drained disk");
}

#[test]
#[ignore = "needs root and slurm (Debian: slurmctld, slurmd, slurm-client, munge)"]
fn prolog_and_epilog_fail_only_the_node_of_their_job() {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path();
    let slurm = slurm(work, "Prolog=@DIR@/prolog.sh\nEpilog=@DIR@/epilog.sh\nPrologFlags=Alloc");
    let on = |nodes: &str, command: &str| {
        slurm
            .command("timeout")
            .args(["20", "srun", "--no-kill", "-w", nodes, "sh", "-c", command])
            .output()
            .expect("srun")
    };
    // A gdr that crashes or does not know is not a reason to fail a job.
    for name in ["n1", "n3", "n6"] {
        let run = on(name, "true");
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    }
    // Slurm drains the node with its own reason, and the job does not run there.
    for (name, line) in [("n4", FAULT), ("n5", HANGS)] {
        assert!(!on(name, "true").status.success(), "{name}");
        slurm.wait("a node that is drained", |slurm| node(slurm, name).contains("Prolog error"));
        assert!(logged(work).contains(line), "{}", logged(work));
    }
    assert!(logged(work).contains(CRASHES), "{}", logged(work));
    // A node that a job leaves broken takes no other.
    fs::copy(work.join("n4.json"), work.join("broken.json")).expect("a copy");
    let breaks = format!("cp {0}/broken.json {0}/n7.json", work.display());
    assert!(on("n7", &breaks).status.success());
    slurm.wait("a node that its epilog drains", |slurm| node(slurm, "n7").contains("Epilog error"));
    for (name, shown) in [("n4", "Prolog error"), ("n5", "Prolog error"), ("n7", "Epilog error")] {
        assert_eq!(reason(&slurm, name), shown, "{name}");
    }
    for name in ["n1", "n2", "n3", "n6", "n8"] {
        let state = node(&slurm, name);
        assert!(!state.contains("drain"), "{name}: {state}");
    }
    assert!(on("n3", "true").status.success());
    // Slurm holds a batch job whose prolog failed, unless slurm.conf says otherwise.
    fs::copy(work.join("broken.json"), work.join("n8.json")).expect("a copy");
    slurm.control(&["sbatch", "-w", "n8", "-o", "none", "--wrap", "true"]);
    let held = "PENDING launch failed requeued held";
    slurm.wait("a job that is held", |slurm| {
        slurm.control(&["squeue", "-h", "-o", "%T %r"]).trim() == held
    });
}

#[test]
#[ignore = "needs root and slurm (Debian: slurmctld, slurmd, slurm-client, munge)"]
fn requeued_job_gets_other_nodes() {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path();
    let slurm = slurm(work, "");
    let example = integrations().join("slurm/requeue.sbatch");
    let submitted = slurm
        .command("sbatch")
        .env("GDR_CHECK", work.join("check.sh"))
        .args(["--nodes=6", "--output=out", "--exclude=n8"])
        .arg(&example)
        .args(["sh", "-c", "echo works on $SLURMD_NODENAME"])
        .output()
        .expect("sbatch");
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    let out = || fs::read_to_string(slurm.dir.path().join("work/out")).unwrap_or_default();
    let job = |field: &str| {
        let text = slurm.control(&["scontrol", "-o", "show", "job", "1"]);
        let mut fields = text.split_whitespace().map(str::to_owned);
        fields.find(|known| known.starts_with(field)).unwrap_or_default()
    };
    slurm.wait("a job that is in the queue again", |_| job("Restarts=") == "Restarts=1");
    slurm.wait("nodes that it will not get", |_| job("ExcNodeList=") == "ExcNodeList=n4,n5,n8");
    let mut faults: Vec<String> =
        out().lines().filter(|line| line.contains("gdr: ")).map(str::to_owned).collect();
    faults.sort();
    assert_eq!(faults, [format!("n4 {FAULT}"), format!("n5 {HANGS}")]);
    assert!(!out().contains("works on"), "{}", out());
    // Slurm counts in seconds: the credential of a job that starts in the second in which its last one was revoked is revoked too.
    std::thread::sleep(Duration::from_secs(2));
    // Five sound nodes are left of eight.
    slurm.control(&["scontrol", "update", "jobid=1", "numnodes=5"]);
    slurm.wait("the end of the job", |slurm| {
        // Not after the two minutes that Slurm waits.
        slurm.control(&["scontrol", "update", "jobid=1", "starttime=now"]);
        job("JobState=") == "JobState=COMPLETED"
    });
    let mut works: Vec<String> =
        out().lines().filter(|line| line.starts_with("works")).map(str::to_owned).collect();
    works.sort();
    assert_eq!(works, ["n1", "n2", "n3", "n6", "n7"].map(|name| format!("works on {name}")));
}
