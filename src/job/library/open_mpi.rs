//! Open MPI: the components that it selected (`OMPI_MCA_pml_base_verbose`, ompi/mca/pml/base) and the BTL to each process
//! (`OMPI_MCA_btl_base_verbose`, ompi/mca/bml/r2/bml_r2.c), as versions 3 to 5 write them.

use super::{Route, Statement, failed, is_name};
use crate::model::FailureKind;

pub const NAME: &str = "Open MPI";

/// Components of the framework pml; others that are selected in the same words are of mtl.
const PMLS: [&str; 4] = ["ucx", "ob1", "cm", "monitoring"];

pub fn read(line: &str) -> Vec<Statement> {
    let other = || btl(line).filter(|btl| btl.name != "self").map(Route::from);
    let statement = selected(line).or_else(other).map(Statement::Path);
    statement.or_else(|| refused(line)).or_else(|| error(line)).into_iter().collect()
}

impl From<Btl> for Route {
    fn from(btl: Btl) -> Self {
        let (purpose, transports) = ("btl".to_owned(), vec![btl.name]);
        Self { same_node: btl.same_node, purpose, transports, ..Self::default() }
    }
}

/// `[host:1273429] select: component ucx selected`
pub fn selected(line: &str) -> Option<Route> {
    let (_, rest) = line.split_once("select: component ")?;
    let name = rest.trim_end().strip_suffix(" selected")?;
    let purpose = if PMLS.contains(&name) { "pml" } else { "mtl" };
    let transports = vec![name.to_owned()];
    is_name(name).then(|| Route { purpose: purpose.to_owned(), transports, ..Route::default() })
}

/// The BTL to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Btl {
    pub name: String,
    /// The rank that it leads to.
    pub rank: Option<u32>,
    pub same_node: Option<bool>,
}

/// `[host:1] mca: bml: Using vader btl for send to [[21921,1],1] on node vm`
pub fn btl(line: &str) -> Option<Btl> {
    let (before, rest) = line.split_once("mca: bml: Using ")?;
    let (name, rest) = rest.split_once(" btl for send to ")?;
    let own = before.rsplit_once('[').and_then(|(_, own)| own.split(':').next());
    let (process, node) = rest.split_once(" on node ").unwrap_or((rest, ""));
    let (_, rank) = process.split_once("],").unwrap_or_default();
    let rank = rank.split(']').next().and_then(|rank| rank.parse().ok());
    let node = Some(node.trim()).filter(|node| !node.is_empty());
    let same_node = own.zip(node).map(|(own, node)| own == node);
    is_name(name).then(|| Btl { name: name.to_owned(), rank, same_node })
}

/// `[host:105832] PML ucx cannot be selected`
fn refused(line: &str) -> Option<Statement> {
    let (_, rest) = line.split_once("] PML ")?;
    let (name, _) = rest.split_once(" cannot be selected")?;
    is_name(name)
        .then(|| failed(FailureKind::Library, &format!("Open MPI cannot select the PML {name}")))
}

/// `[host:127549] pml_ucx.c:421  Error: ucp_ep_create(proc=108) failed: Destination is unreachable`. UCX's own line before it, if there is
/// one, says why.
fn error(line: &str) -> Option<Statement> {
    let (_, rest) = line.split_once("pml_ucx.c:")?;
    let (_, message) = rest.split_once("Error: ")?;
    Some(failed(FailureKind::Other, &format!("{NAME}: {message}")))
}
