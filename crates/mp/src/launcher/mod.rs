//! Rank and size of this process, from the environment of a launcher: Slurm's srun or an mpirun.
//! Only documented variables are read.

mod hostlist;

use std::fmt;

pub use hostlist::expand as expand_hosts;

/// A variable of a launcher is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {variable} '{value}': {why}")]
pub struct Error {
    /// The variable.
    pub variable: String,
    /// Its value, shortened.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
}

/// The program that started the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// `srun`.
    Slurm,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpirun_rsh` of MVAPICH.
    Mvapich,
    /// PMI: `mpiexec` of MPICH and derived implementations.
    Pmi,
    /// PMIx: `prun` and others.
    Pmix,
}

impl fmt::Display for Launcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Slurm => "Slurm",
            Self::OpenMpi => "Open MPI",
            Self::Mvapich => "MVAPICH",
            Self::Pmi => "PMI",
            Self::Pmix => "PMIx",
        })
    }
}

/// This process among those that a launcher started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedProcess {
    /// The launcher.
    pub launcher: Launcher,
    /// Rank of this process.
    pub rank: u32,
    /// Number of processes; not available with PMIx.
    pub size: Option<u32>,
    /// Host of rank 0; only available with Slurm.
    pub host: Option<String>,
    /// A port for this run; only with a Slurm job.
    pub port: Option<u16>,
    /// The launcher's name of this run, unique to it and the same in all its processes. Not a secret.
    pub job: Option<String>,
}

impl LaunchedProcess {
    /// [`Self::job`] as part of a file's name; none without a job.
    #[must_use]
    pub fn job_name(&self) -> Option<String> {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
        let job = self.job.as_deref().filter(|job| !job.is_empty())?;
        Some(job.chars().take(100).map(plain).collect())
    }
}

/// A function that looks a variable up, as `std::env::var` does without its errors.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Variables of each launcher: rank, size, and name of the run.
const MPI: [(Launcher, &str, Option<&str>, Option<&str>); 4] = [
    (
        Launcher::OpenMpi,
        "OMPI_COMM_WORLD_RANK",
        Some("OMPI_COMM_WORLD_SIZE"),
        Some("PMIX_NAMESPACE"),
    ),
    (Launcher::Mvapich, "MV2_COMM_WORLD_RANK", Some("MV2_COMM_WORLD_SIZE"), None),
    (Launcher::Pmi, "PMI_RANK", Some("PMI_SIZE"), None),
    (Launcher::Pmix, "PMIX_RANK", None, Some("PMIX_NAMESPACE")),
];

/// The place of this process; none without a launcher. In a Slurm job the variables of mpirun win, because mpirun may start its
/// helpers with srun. If both agree, Slurm's are used, which name the host of rank 0.
pub fn from_environment(variables: Variables<'_>) -> Result<Option<LaunchedProcess>, Error> {
    let slurm = from_slurm(variables);
    for (launcher, rank, size, job) in MPI {
        let Some(rank) = number(variables, rank)? else {
            continue;
        };
        let size = match size {
            Some(size) => number(variables, size)?,
            None => None,
        };
        if let Ok(Some(place)) = &slurm
            && [Launcher::Pmi, Launcher::Pmix].contains(&launcher)
            && place.rank == rank
            && (size.is_none() || place.size == size)
        {
            return slurm;
        }
        return check_rank(LaunchedProcess {
            launcher,
            rank,
            size,
            host: None,
            port: None,
            job: job.and_then(|job| text(variables, job)),
        });
    }
    slurm
}

/// A rank is below the size.
fn check_rank(place: LaunchedProcess) -> Result<Option<LaunchedProcess>, Error> {
    match place.size {
        Some(size) if place.rank >= size => Err(Error {
            variable: format!("rank from {}", place.launcher),
            value: place.rank.to_string(),
            why: format!("there are {size} processes, the first is 0"),
        }),
        _ => Ok(Some(place)),
    }
}

/// Steps from here on are special: a batch script and an interactive shell have a rank, but are single processes.
const FIRST_SPECIAL_STEP: u64 = 0xffff_fff0;

fn from_slurm(variables: Variables<'_>) -> Result<Option<LaunchedProcess>, Error> {
    let Some(rank) = number(variables, "SLURM_PROCID")? else {
        return Ok(None);
    };
    let either = |new: &str, old: &str| match number::<u64>(variables, new) {
        Ok(None) => number::<u64>(variables, old),
        known => known,
    };
    let Some(step) =
        either("SLURM_STEP_ID", "SLURM_STEPID")?.filter(|step| *step < FIRST_SPECIAL_STEP)
    else {
        return Ok(None);
    };
    let job = either("SLURM_JOB_ID", "SLURM_JOBID")?;
    let size = match number(variables, "SLURM_STEP_NUM_TASKS")? {
        None => number(variables, "SLURM_NTASKS")?,
        known => known,
    };
    check_rank(LaunchedProcess {
        launcher: Launcher::Slurm,
        rank,
        size,
        host: rank0_host(variables, rank)?,
        port: job.map(|job| port(job, step)),
        job: job.map(|job| format!("slurm-{job}.{step}")),
    })
}

/// The host of rank 0: the first node of the step, unless the user wrote the distribution of tasks.
fn rank0_host(variables: Variables<'_>, rank: u32) -> Result<Option<String>, Error> {
    if text(variables, "SLURM_DISTRIBUTION").is_some_and(|how| how.contains("arbitrary")) {
        return Ok(None);
    }
    let own = text(variables, "SLURMD_NODENAME");
    if rank == 0 && own.is_some() {
        return Ok(own);
    }
    for variable in ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"] {
        if let Some(value) = text(variables, variable) {
            return match hostlist::expand(&value) {
                Ok(names) => Ok(names.into_iter().next()),
                Err(why) => {
                    Err(Error { variable: variable.to_owned(), value: shortened(&value, 200), why })
                }
            };
        }
    }
    Ok(None)
}

/// Ports of Slurm steps: above the default port and below Linux's ephemeral ports.
const FIRST_PORT: u64 = 18_600;
const PORTS: u64 = 12_000;
/// Steps of a job whose ports do not overlap with those of the next jobs.
const STEPS: u64 = 61;

/// The port of a step. Concurrent jobs have close numbers, and so different ports.
fn port(job: u64, step: u64) -> u16 {
    let place = (job % PORTS * STEPS + step % STEPS) % PORTS;
    u16::try_from(FIRST_PORT + place).unwrap_or(FIRST_PORT as u16)
}

/// The beginning of a value, for a message.
fn shortened(value: &str, most: usize) -> String {
    let mut shown: String = value.chars().take(most).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

/// A variable's value, unless it is empty.
fn text(variables: Variables<'_>, variable: &str) -> Option<String> {
    let value = variables(variable)?.trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// A variable's value as a number.
fn number<N: std::str::FromStr>(
    variables: Variables<'_>,
    variable: &str,
) -> Result<Option<N>, Error> {
    let Some(value) = text(variables, variable) else {
        return Ok(None);
    };
    value.parse().map(Some).map_err(|_| Error {
        variable: variable.to_owned(),
        value: shortened(&value, 60),
        why: "it is not a number".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Option<LaunchedProcess>, Error> {
        from_environment(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn place(launcher: Launcher, rank: u32, size: Option<u32>) -> LaunchedProcess {
        LaunchedProcess { launcher, rank, size, host: None, port: None, job: None }
    }

    /// What `srun -N2 -n2` sets on the second node.
    const SRUN: [(&str, &str); 11] = [
        ("SLURM_PROCID", "1"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_NPROCS", "2"),
        ("SLURM_NODEID", "1"),
        ("SLURM_JOB_ID", "200505"),
        ("SLURM_STEP_ID", "3"),
        ("SLURM_JOB_NODELIST", "gnode[10,20,25,37]"),
        ("SLURM_STEP_NODELIST", "gnode[20,37]"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_DISTRIBUTION", "cyclic"),
        ("SLURMD_NODENAME", "gnode37"),
    ];

    fn srun(changed: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        changed.iter().copied().chain(SRUN).collect()
    }

    #[test]
    fn slurm_step() {
        let expected = LaunchedProcess {
            host: Some("gnode20".to_owned()),
            // 200505 % 12000 = 8505, times 61 = 518805, and 3 = 518808, % 12000 = 2808.
            port: Some(21_408),
            job: Some("slurm-200505.3".to_owned()),
            ..place(Launcher::Slurm, 1, Some(2))
        };
        assert_eq!(parse(&SRUN), Ok(Some(expected.clone())));
        let first = parse(&srun(&[("SLURM_PROCID", "0"), ("SLURMD_NODENAME", "gnode20")]));
        assert_eq!(first, Ok(Some(LaunchedProcess { rank: 0, ..expected })));
        assert_eq!(parse(&[]), Ok(None));
    }

    #[test]
    fn slurm_falls_back_to_job_nodes() {
        let host =
            |variables: &[(&str, &str)]| parse(variables).expect("a place").expect("a place").host;
        assert_eq!(host(&srun(&[("SLURM_STEP_NODELIST", "")])).as_deref(), Some("gnode10"));
        let old = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_STEPID", "0"),
            ("SLURM_NODELIST", "a[7-8]"),
        ];
        assert_eq!(host(&old).as_deref(), Some("a7"));
        for rank in ["0", "1"] {
            let arbitrary = srun(&[("SLURM_DISTRIBUTION", "arbitrary"), ("SLURM_PROCID", rank)]);
            assert_eq!(host(&arbitrary), None, "neither waits for the other");
        }
        let wrong = parse(&srun(&[("SLURM_STEP_NODELIST", "a[7-")])).expect_err("no list");
        assert!(wrong.to_string().contains("invalid SLURM_STEP_NODELIST 'a[7-'"), "{wrong}");
    }

    #[test]
    fn ignores_batch_and_interactive_steps() {
        for step in ["", "4294967291", "4294967290"] {
            assert_eq!(parse(&srun(&[("SLURM_STEP_ID", step), ("SLURM_PROCID", "0")])), Ok(None));
        }
    }

    #[test]
    fn neighbouring_jobs_have_different_ports() {
        let mut ports: Vec<u16> =
            (1000..1100).flat_map(|job| (0..60).map(move |step| port(job, step))).collect();
        assert!(ports.iter().all(|port| (18_600..30_600).contains(port)));
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 6000);
        port(u64::MAX, u64::MAX);
    }

    #[test]
    fn mpi_launchers() {
        let open = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("PMIX_RANK", "1"),
            ("PMIX_NAMESPACE", "prterun-a-17@1"),
        ];
        let expected = LaunchedProcess {
            job: Some("prterun-a-17@1".to_owned()),
            ..place(Launcher::OpenMpi, 1, Some(2))
        };
        assert_eq!(parse(&open), Ok(Some(expected.clone())));
        let pmix = LaunchedProcess { launcher: Launcher::Pmix, size: None, ..expected };
        assert_eq!(parse(&open[2..]), Ok(Some(pmix)));
        let mvapich = [("MV2_COMM_WORLD_RANK", "0"), ("MV2_COMM_WORLD_SIZE", "2")];
        assert_eq!(parse(&mvapich), Ok(Some(place(Launcher::Mvapich, 0, Some(2)))));
        let hydra = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("PMI_FD", "7")];
        assert_eq!(parse(&hydra), Ok(Some(place(Launcher::Pmi, 1, Some(2)))));
    }

    #[test]
    fn mpirun_inside_slurm_job() {
        // Open MPI starts a daemon a node by srun, whose variables the processes inherit.
        let open = srun(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")]);
        let found = parse(&open).expect("a place").expect("a place");
        assert_eq!((found.launcher, found.host), (Launcher::OpenMpi, None));
        for variables in [
            &[("PMI_RANK", "1"), ("PMI_SIZE", "2")][..],
            &[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "slurm.pmix.200505.3")],
        ] {
            let found = parse(&srun(variables)).expect("a place").expect("a place");
            assert_eq!((found.launcher, found.host.as_deref()), (Launcher::Slurm, Some("gnode20")));
        }
        let hydra = srun(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]);
        let found = parse(&hydra).expect("a place").expect("a place");
        assert_eq!((found.launcher, found.host), (Launcher::Pmi, None));
    }

    #[test]
    fn rejects_invalid_rank_and_size() {
        let error =
            |variables: &[(&str, &str)]| parse(variables).expect_err("no place").to_string();
        assert!(error(&[("PMI_RANK", "x")]).contains("invalid PMI_RANK 'x': it is not a number"));
        assert!(error(&[("PMI_RANK", "-1")]).contains("not a number"));
        assert!(error(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]).contains("there are 2 processes"));
    }
}
