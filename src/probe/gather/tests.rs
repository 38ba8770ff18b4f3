//! Nodes that arrive, fail, hang and say nothing, as threads of one process; and the environments of launchers.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use super::message::{WINDOW, messages};
use super::*;
use crate::model::Absence;
use crate::probe::rendezvous::{Conditions, Link, Meeting, Secret};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WAITS: Waits = Waits { arrival: Duration::from_secs(20), work: Duration::from_secs(20) };

fn never() -> bool {
    false
}

fn conditions() -> Conditions<'static> {
    Conditions { until: Instant::now() + WAITS.arrival, interrupted: &never }
}

fn meeting<'a>(file: &'a Path, secret: Option<&'a Secret>, port: Option<u16>) -> Meeting<'a> {
    Meeting { host: port.map(|port| ("127.0.0.1", port)), file, job: Some("job"), secret }
}

/// Rank 0 and these other nodes, each a thread.
fn run(
    nodes: u32,
    waits: Waits,
    secret: Option<(Secret, u16)>,
    node: impl Fn(u32, &Meeting<'_>) + Sync,
) -> BTreeMap<String, Outcome> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("gdr-fleet");
    let (secret, port) = secret.unzip();
    let meeting = meeting(&file, secret.as_ref(), port);
    let host = meeting.host(LOCAL).expect("rank 0 listens");
    let collected = std::thread::scope(|scope| {
        for rank in 1..nodes {
            let (node, meeting) = (&node, &meeting);
            scope.spawn(move || node(rank, meeting));
        }
        let work = || Ok("own".to_owned());
        collect(Some(host), (0, "n0"), &Nodes::Count(nodes), (waits, &never), &mut |_| {}, work)
            .expect("results")
    });
    assert!(!file.exists(), "the file is removed");
    collected.into_iter().map(|result| (result.node, result.outcome)).collect()
}

fn send(rank: u32, meeting: &Meeting<'_>, outcome: Outcome) {
    let node = format!("n{rank}");
    deliver(meeting, (&node, rank), &conditions(), &mut |_| {}, |_| outcome).expect("delivered");
}

#[test]
fn many_nodes_deliver_by_file_and_by_address() {
    let work =
        |rank: u32, meeting: &Meeting<'_>| send(rank, meeting, Ok(format!("document {rank}")));
    let secret = Secret::generate().expect("a secret");
    let port = free_port();
    for secret in [None, Some((secret, port))] {
        let results = run(48, WAITS, secret, work);
        assert_eq!(results.len(), 48);
        assert_eq!(results["n0"], Ok("own".to_owned()));
        assert_eq!(results["n47"], Ok("document 47".to_owned()));
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind((LOCAL, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn large_documents_arrive_whole() {
    // Quotes double their length in a message, control characters become six.
    let document: String = "\u{1}\"é".repeat(2 << 20);
    let parts = messages(&Ok(document.clone())).len();
    assert!(parts > 8 * WINDOW, "{parts}");
    let results = run(3, WAITS, None, |rank, meeting| send(rank, meeting, Ok(document.clone())));
    assert!(results["n1"].as_ref() == Ok(&document) && results["n2"].as_ref() == Ok(&document));
}

#[test]
#[ignore = "slow: waits for timeouts"]
fn nodes_that_fail_are_named() {
    let waits = Waits { arrival: Duration::from_secs(2), work: Duration::from_secs(2) };
    let results = run(7, waits, None, |rank, meeting| {
        let connect = || meeting.reach::<Message>(&conditions(), &mut |_| {}).expect("a link").0;
        let arrive = |link: &Link<'_, Message>| {
            let node = format!("n{rank}");
            link.send(&Message::Arrived {
                node,
                rank,
                gdr: if rank == 4 { "0".to_owned() } else { env!("CARGO_PKG_VERSION").to_owned() },
            })
            .expect("sent");
        };
        match rank {
            1 => send(rank, meeting, Err((Absence::TimedOut, "gdr did not finish".to_owned()))),
            // It dies without a word, which an unfinished link reports.
            2 => arrive(&connect()),
            // It hangs.
            3 => {
                let link = connect();
                arrive(&link);
                std::thread::sleep(Duration::from_secs(6));
            }
            4 => {
                let link = connect();
                arrive(&link);
                link.send(&Message::Next).expect("sent");
                std::thread::sleep(Duration::from_secs(1));
            }
            // It never arrives, or says nothing.
            5 => {}
            _ => drop(connect()),
        }
    });
    let why =
        |node: &str| results[node].as_ref().map_err(|(why, _)| *why).expect_err("no document");
    assert_eq!(why("n1"), Absence::TimedOut);
    assert_eq!(why("n2"), Absence::Ended);
    assert_eq!(why("n3"), Absence::TimedOut);
    // Another version of gdr has other messages.
    assert_eq!(why("n4"), Absence::Version);
    assert!(!results.contains_key("n5") && !results.contains_key("n6"), "{results:?}");
}

fn place(variables: &[(&str, &str)]) -> Result<NodePlace, PlaceError> {
    from_environment(&|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn slurm_names_all_nodes() {
    let step = [
        ("SLURM_PROCID", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_NODELIST", "n[1-3],x"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURMD_NODENAME", "n3"),
    ];
    let found = place(&step).expect("a place");
    assert_eq!((found.rank, found.node.as_deref(), found.spare), (2, Some("n3"), false));
    assert_eq!(found.nodes, Nodes::Named(["n1", "n2", "n3", "x"].map(str::to_owned).to_vec()));
    assert_eq!(found.host.map(|(host, _)| host).as_deref(), Some("n1"));
    let mut second = step;
    second[1].1 = "1";
    assert!(place(&second).expect("a place").spare);
    second[4].1 = "n[1-";
    assert!(place(&second).expect_err("no list").to_string().contains("SLURM"));
}

#[test]
fn indexed_job_gives_rank_and_host() {
    let job = [
        ("JOB_COMPLETION_INDEX", "3"),
        ("GDR_FLEET_SIZE", "4"),
        ("GDR_FLEET_HOST", "gdr-fleet-0.gdr-fleet"),
        ("GDR_FLEET_NODE", "worker-17"),
    ];
    let found = place(&job).expect("a place");
    assert_eq!(
        (found.rank, found.nodes, found.node.as_deref()),
        (3, Nodes::Count(4), Some("worker-17"))
    );
    assert_eq!(found.host, Some(("gdr-fleet-0.gdr-fleet".to_owned(), 18516)));
    for (name, value, words) in [
        ("JOB_COMPLETION_INDEX", "x", "not a number"),
        ("GDR_FLEET_SIZE", "3", "number of pods"),
        ("GDR_FLEET_SIZE", "", "number of pods"),
        ("GDR_FLEET_HOST", "", "name of pod 0"),
        ("GDR_FLEET_PORT", "70000", "not a port number"),
    ] {
        let changed: Vec<(&str, &str)> = [(name, value)].into_iter().chain(job).collect();
        let error = place(&changed).expect_err(value).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn mpi_launchers_and_none() {
    let open = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "1"),
    ];
    let found = place(&open).expect("a place");
    assert_eq!((found.rank, found.nodes, found.node), (1, Nodes::Count(2), None));
    let mut packed = open;
    packed[3].1 = "2";
    assert!(place(&packed).expect_err("two on a node").to_string().contains("ppr:1:node"));
    let packed = [("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4")];
    assert!(place(&packed).expect_err("four on a node").to_string().contains("-ppn 1 (MPICH)"));
    assert!(matches!(place(&[]), Err(PlaceError::NoLauncher)));
    assert!(matches!(place(&[("PMIX_RANK", "0")]), Err(PlaceError::NoSize)));
}
