//! This process among those on the other nodes, from the environment of a launcher: Slurm's srun, an mpirun, a Kubernetes Indexed
//! Job. Only documented variables are read.

use mp::launcher::{self, Launcher, expand_hosts};

use crate::probe::rendezvous::DEFAULT_PORT;

/// This process among those on the other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlace {
    pub rank: u32,
    /// The name of this node; none if the launcher does not name it.
    pub node: Option<String>,
    pub nodes: Nodes,
    /// Host and port of rank 0, if the launcher names them.
    pub host: Option<(String, u16)>,
    /// The launcher's name of this run.
    pub job: Option<String>,
    /// This is a further process of its node, which has nothing to do.
    pub spare: bool,
}

/// All nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    Named(Vec<String>),
    /// Their number only.
    Count(u32),
}

impl Nodes {
    pub fn len(&self) -> usize {
        match self {
            Self::Named(names) => names.len(),
            Self::Count(count) => *count as usize,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why the place is unknown.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(
        "no launcher started this process: use srun, mpirun or a Kubernetes Indexed Job, or collect files and use gdr fleet report"
    )]
    NoLauncher,
    #[error(
        "the launcher does not say how many processes there are: use srun, or an mpirun that sets their number"
    )]
    NoSize,
    #[error("invalid {variable}: {why}")]
    Variable { variable: &'static str, why: String },
    #[error(transparent)]
    Launcher(#[from] mp::launcher::Error),
}

/// The number of processes on this host, by Open MPI, by MPICH and its relatives, and by MVAPICH.
const LOCAL_SIZES: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"];

/// Looks a variable up, as `std::env::var` does without its errors.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The place of this process.
pub fn from_environment(variables: Variables<'_>) -> Result<NodePlace, PlaceError> {
    let rank = number(variables, "GDR_FLEET_RANK")?;
    if let Some(rank) =
        rank.map_or_else(|| number(variables, "JOB_COMPLETION_INDEX"), |rank| Ok(Some(rank)))?
    {
        return by_variables(variables, rank);
    }
    let place = launcher::from_environment(variables)?.ok_or(PlaceError::NoLauncher)?;
    if place.launcher == Launcher::Slurm {
        return slurm(variables, place);
    }
    let size = place.size.ok_or(PlaceError::NoSize)?;
    for variable in LOCAL_SIZES {
        if number(variables, variable)?.is_some_and(|processes| processes > 1) {
            return Err(PlaceError::Variable {
                variable,
                why: "there must be one process on each node: mpirun --map-by ppr:1:node (Open MPI) or -ppn 1 (MPICH)"
                    .to_owned(),
            });
        }
    }
    Ok(NodePlace {
        rank: place.rank,
        node: None,
        nodes: Nodes::Count(size),
        host: None,
        job: place.job,
        spare: false,
    })
}

/// A step of Slurm: one process of each node takes part, whatever the number of tasks.
fn slurm(
    variables: Variables<'_>,
    place: launcher::LaunchedProcess,
) -> Result<NodePlace, PlaceError> {
    let list = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    let list = list.into_iter().find_map(|name| Some((name, text(variables, name)?)));
    let nodes = match list {
        Some((variable, list)) => {
            Nodes::Named(expand_hosts(&list).map_err(|why| PlaceError::Variable { variable, why })?)
        }
        None => Nodes::Count(place.size.ok_or(PlaceError::NoSize)?),
    };
    Ok(NodePlace {
        rank: place.rank,
        node: text(variables, "SLURMD_NODENAME"),
        nodes,
        host: place.host.zip(place.port),
        job: place.job,
        spare: number(variables, "SLURM_LOCALID")?.is_some_and(|local| local > 0),
    })
}

/// A pod of an Indexed Job: the manifest passes the number of pods, and the name of pod 0 in the job's headless service. Or a process
/// that ssh started, with a rank too.
fn by_variables(variables: Variables<'_>, rank: u32) -> Result<NodePlace, PlaceError> {
    let size = number(variables, "GDR_FLEET_SIZE")?.filter(|size| rank < *size);
    let Some(size) = size else {
        return Err(PlaceError::Variable {
            variable: "GDR_FLEET_SIZE",
            why: "it must be the number of pods (completions of the job) or of nodes, more than the rank".to_owned(),
        });
    };
    let port = number(variables, "GDR_FLEET_PORT")?.map(u16::try_from).transpose();
    let port = port.map_err(|_| PlaceError::Variable {
        variable: "GDR_FLEET_PORT",
        why: "it is not a port number".to_owned(),
    })?;
    let host = text(variables, "GDR_FLEET_HOST");
    if host.is_none() && size > 1 {
        return Err(PlaceError::Variable {
            variable: "GDR_FLEET_HOST",
            why: "it must be the name of pod 0, as in JOB-0.SERVICE, or of the host of rank 0"
                .to_owned(),
        });
    }
    Ok(NodePlace {
        rank,
        node: text(variables, "GDR_FLEET_NODE"),
        nodes: Nodes::Count(size),
        host: host.map(|host| (host, port.unwrap_or(DEFAULT_PORT))),
        job: text(variables, "GDR_FLEET_JOB"),
        spare: false,
    })
}

/// A variable's value, unless it is empty.
fn text(variables: Variables<'_>, variable: &str) -> Option<String> {
    let value = variables(variable)?.trim().to_owned();
    (!value.is_empty()).then_some(value)
}

fn number(variables: Variables<'_>, variable: &'static str) -> Result<Option<u32>, PlaceError> {
    let Some(value) = text(variables, variable) else {
        return Ok(None);
    };
    value
        .parse()
        .map(Some)
        .map_err(|_| PlaceError::Variable { variable, why: "it is not a number".to_owned() })
}
