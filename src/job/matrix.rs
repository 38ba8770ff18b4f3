//! The paths as a matrix with few rows: of ranks, of nodes if there are many ranks, of nodes with equal paths if there are many nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::NO_RANK;
use crate::model::{RankCell, RankMatrix};

/// Most rows.
const MAX_ROWS: usize = 40;

/// Nodes of a row that are named.
const MAX_NAMES: usize = 2;

/// `rows` are the pairs of each path, `hosts` the nodes of the ranks that the log names.
pub fn of<'a>(
    rows: impl Iterator<Item = &'a Vec<(u32, u32)>> + Clone,
    hosts: &BTreeMap<u32, &str>,
) -> RankMatrix {
    let pairs = || {
        rows.clone().enumerate().flat_map(|(at, pairs)| pairs.iter().map(move |pair| (at, pair)))
    };
    let mut ranks: BTreeSet<u32> = hosts.keys().copied().collect();
    ranks.extend(pairs().flat_map(|(_, (from, to))| [*from, *to]).filter(|rank| *rank != NO_RANK));
    let places = if ranks.len() <= MAX_ROWS {
        of_ranks(&ranks, hosts)
    } else {
        let nodes = of_nodes(&ranks, hosts);
        match nodes.names.len() {
            ..=MAX_ROWS => nodes,
            _ => nodes.merged(pairs()),
        }
    };
    let mut cells: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for (path, (from, to)) in pairs() {
        if let (Some(from), Some(to)) = (places.row_of.get(from), places.row_of.get(to)) {
            cells.entry((*from, *to)).or_default().insert(path);
        }
    }
    let cell = |((from, to), paths): ((usize, usize), BTreeSet<usize>)| RankCell {
        from,
        to,
        paths: paths.into_iter().collect(),
    };
    RankMatrix { names: places.names, cells: cells.into_iter().map(cell).collect() }
}

/// The rows, and the row of each rank.
#[derive(Default)]
struct Places {
    names: Vec<String>,
    row_of: BTreeMap<u32, usize>,
}

fn of_ranks(ranks: &BTreeSet<u32>, hosts: &BTreeMap<u32, &str>) -> Places {
    let several = hosts.values().collect::<BTreeSet<_>>().len() > 1;
    let name = |rank: &u32| match hosts.get(rank) {
        Some(host) if several => format!("rank {rank} ({host})"),
        _ => format!("rank {rank}"),
    };
    Places {
        names: ranks.iter().map(name).collect(),
        row_of: ranks.iter().enumerate().map(|(at, rank)| (*rank, at)).collect(),
    }
}

/// In the order of their first ranks.
fn of_nodes(ranks: &BTreeSet<u32>, hosts: &BTreeMap<u32, &str>) -> Places {
    let mut places = Places::default();
    let mut at_of: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in ranks {
        let host = hosts.get(rank).copied().unwrap_or("node not in the log");
        let at = *at_of.entry(host).or_insert_with(|| {
            places.names.push(host.to_owned());
            places.names.len() - 1
        });
        places.row_of.insert(*rank, at);
    }
    places
}

/// What a node's ranks used: between each other, to other nodes, from them.
type Used = BTreeSet<(u8, usize)>;

impl Places {
    /// Nodes with equal paths are one row. If these are still too many, the last ones are.
    fn merged<'a>(self, pairs: impl Iterator<Item = (usize, &'a (u32, u32))>) -> Self {
        let mut used: Vec<Used> = vec![Used::new(); self.names.len()];
        for (path, (from, to)) in pairs {
            match (self.row_of.get(from), self.row_of.get(to)) {
                (Some(from), Some(to)) if from == to => _ = used[*from].insert((0, path)),
                (from, to) => {
                    from.into_iter().for_each(|at| _ = used[*at].insert((1, path)));
                    to.into_iter().for_each(|at| _ = used[*at].insert((2, path)));
                }
            }
        }
        let mut groups: Vec<(&Used, Vec<usize>)> = Vec::new();
        let mut group_of: BTreeMap<&Used, usize> = BTreeMap::new();
        for (node, used) in used.iter().enumerate() {
            let next = groups.len().min(MAX_ROWS - 1);
            let at = *group_of.entry(used).or_insert(next);
            match groups.get_mut(at) {
                Some((_, nodes)) => nodes.push(node),
                None => groups.push((used, vec![node])),
            }
        }
        let mut places = Self::default();
        let mut row_of_node = vec![0; self.names.len()];
        for (row, (_, nodes)) in groups.iter().enumerate() {
            nodes.iter().for_each(|node| row_of_node[*node] = row);
            let named = nodes.iter().take(MAX_NAMES).map(|node| self.names[*node].as_str());
            let named = named.collect::<Vec<_>>().join(", ");
            places.names.push(match nodes.len() {
                ..=MAX_NAMES => named,
                count => format!("{count} nodes: {named}, …"),
            });
        }
        places.row_of =
            self.row_of.into_iter().map(|(rank, node)| (rank, row_of_node[node])).collect();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks of nodes with eight ranks each: P2P in a node, a ring of RDMA between nodes, of which one uses sockets.
    fn matrix(nodes: u32, slow: u32) -> RankMatrix {
        let names: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
        let hosts = (0..nodes * 8).map(|rank| (rank, names[(rank / 8) as usize].as_str()));
        let local = (0..nodes * 8).filter(|rank| rank % 8 != 7).map(|rank| (rank, rank + 1));
        let ring = |node: u32| (node * 8 + 7, (node + 1) % nodes * 8);
        let (sockets, rdma): (Vec<u32>, Vec<u32>) = (0..nodes).partition(|node| *node == slow);
        let rows = [
            local.collect::<Vec<_>>(),
            rdma.into_iter().map(ring).collect(),
            sockets.into_iter().map(ring).collect(),
        ];
        of(rows.iter(), &hosts.collect())
    }

    #[test]
    fn many_ranks_have_few_rows() {
        let names = |matrix: &RankMatrix| matrix.names.join("|");
        let few = matrix(2, 9);
        assert_eq!(few.names.len(), 16);
        assert_eq!(few.names[8], "rank 8 (n1)");
        assert_eq!(few.cells.len(), 14 + 2);
        let nodes = matrix(8, 9);
        assert_eq!(names(&nodes), "n0|n1|n2|n3|n4|n5|n6|n7");
        assert_eq!(nodes.cells[0], RankCell { from: 0, to: 0, paths: vec![0] });
        assert_eq!(nodes.cells[1], RankCell { from: 0, to: 1, paths: vec![1] });
        // 2,000 ranks: most nodes are alike, one sends by sockets, and one receives from it.
        let many = matrix(250, 100);
        assert_eq!(names(&many), "248 nodes: n0, n1, …|n100|n101");
        let cell = |from, to, path| RankCell { from, to, paths: vec![path] };
        assert!(many.cells.contains(&cell(1, 2, 2)), "{:?}", many.cells);
        assert!(many.cells.contains(&cell(0, 1, 1)));
        assert_eq!(many.cells[0], RankCell { from: 0, to: 0, paths: vec![0, 1] });
    }

    #[test]
    fn ranks_of_unknown_nodes_have_a_row() {
        let pairs: Vec<(u32, u32)> = (0..500).map(|rank| (rank, rank + 1)).collect();
        let matrix = of([pairs].iter(), &BTreeMap::from([(0, "n0")]));
        assert_eq!(matrix.names, ["n0", "node not in the log"]);
    }
}
