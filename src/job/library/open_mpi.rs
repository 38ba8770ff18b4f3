//! Open MPI: the components that it selected (`OMPI_MCA_pml_base_verbose`, ompi/mca/pml/base) and the BTL to each process
//! (`OMPI_MCA_btl_base_verbose`, ompi/mca/bml/r2/bml_r2.c), as versions 3 to 5 write them.

use super::{Route, Statement, failed, is_name};
use crate::model::FailureKind;

pub const NAME: &str = "Open MPI";

/// Components of the framework pml; others that are selected in the same words are of mtl.
const PMLS: [&str; 4] = ["ucx", "ob1", "cm", "monitoring"];

pub fn read(line: &str) -> Vec<Statement> {
    let statement = selected(line).or_else(|| btl(line)).map(Statement::Path);
    statement.or_else(|| refused(line)).into_iter().collect()
}

/// `[host:1273429] select: component ucx selected`
fn selected(line: &str) -> Option<Route> {
    let (_, rest) = line.split_once("select: component ")?;
    let name = rest.trim_end().strip_suffix(" selected")?;
    let purpose = if PMLS.contains(&name) { "pml" } else { "mtl" };
    let transports = vec![name.to_owned()];
    is_name(name).then(|| Route { purpose: purpose.to_owned(), transports, ..Route::default() })
}

/// `[host:1] mca: bml: Using vader btl for send to [[21921,1],1] on node vm`
fn btl(line: &str) -> Option<Route> {
    let (before, rest) = line.split_once("mca: bml: Using ")?;
    let (name, rest) = rest.split_once(" btl for send to ")?;
    let own = before.rsplit_once('[').and_then(|(_, own)| own.split(':').next());
    let node = rest.split_once(" on node ").map(|(_, node)| node.trim());
    let same_node = match (own, node) {
        _ if name == "self" => return None,
        (Some(own), Some(node)) => Some(own == node),
        _ => None,
    };
    let transports = vec![name.to_owned()];
    let purpose = "btl".to_owned();
    is_name(name).then(|| Route { same_node, purpose, transports, ..Route::default() })
}

/// `[host:105832] PML ucx cannot be selected`
fn refused(line: &str) -> Option<Statement> {
    let (_, rest) = line.split_once("] PML ")?;
    let (name, _) = rest.split_once(" cannot be selected")?;
    is_name(name)
        .then(|| failed(FailureKind::Library, &format!("Open MPI cannot select the PML {name}")))
}
