//! Which NIC hangs on which leaf switch, from a file: Slurm's topology.conf, LLDP neighbours, or a table.

use std::collections::BTreeMap;

use super::isolation::Nic;

/// The names by which a file may call a NIC: its device and its network interfaces.
pub type NicNames = Vec<String>;

/// Leaf switches with the NICs on them.
pub type Leaves = Vec<(String, Vec<Nic>)>;

/// Expands a list of hosts, as in `n[1-8]`.
pub type Expand<'e> = &'e dyn Fn(&str) -> Result<Vec<String>, String>;

/// What a line says: nodes, a NIC or all of them, and the switch.
type Entry = (Vec<String>, Option<String>, String);

/// Reads a file. Nodes and NICs that take no part are skipped.
pub fn leaves(
    text: &str,
    expand: Expand<'_>,
    nodes: &[(String, Vec<NicNames>)],
) -> Result<Leaves, String> {
    let text = text.replace("\\\n", " ");
    let is_slurm = text.lines().any(|line| is_slurm(line.trim()));
    let is_lldp = text.lines().any(|line| lldp(line).is_some());
    let mut switches: BTreeMap<Nic, String> = BTreeMap::new();
    // A switch knows a node by its name, a launcher perhaps by the one with its domain.
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (node, (name, _)) in nodes.iter().enumerate() {
        by_name.entry(short(name)).or_default().push(node);
    }
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let entry = match (is_slurm, is_lldp) {
            _ if line.is_empty() => None,
            (true, _) => slurm(line, expand),
            (false, true) => lldp(line).map(Ok),
            (false, false) => Some(row(line, expand)),
        };
        let Some(entry) = entry else { continue };
        let (names, nic, switch) = entry.map_err(|why| format!("line {number}: {why}"))?;
        let named = names.iter().filter_map(|name| by_name.get(short(name)));
        for node in named.flatten().copied() {
            for (rail, known) in nodes[node].1.iter().enumerate() {
                if nic.as_ref().is_none_or(|nic| known.contains(nic)) {
                    switches.insert(Nic { node, rail }, switch.clone());
                }
            }
        }
    }
    let mut leaves: BTreeMap<String, Vec<Nic>> = BTreeMap::new();
    for (nic, switch) in switches {
        leaves.entry(switch).or_default().push(nic);
    }
    if leaves.is_empty() {
        Err("it names no NIC of these nodes: it must be Slurm's topology.conf, the output of lldpctl -f keyvalue of \
                     each node with the node's name in front, or a table of node, NIC and switch"
            .to_owned())
    } else {
        Ok(leaves.into_iter().collect())
    }
}

fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn is_slurm(line: &str) -> bool {
    line.to_ascii_lowercase().starts_with("switchname=")
}

/// `SwitchName=leaf1 Nodes=n[1-8]`; switches of switches are not leaves.
fn slurm(line: &str, expand: Expand<'_>) -> Option<Result<Entry, String>> {
    let value = |wanted: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|word| {
            let (key, value) = word.split_once('=')?;
            key.eq_ignore_ascii_case(wanted).then(|| value.to_owned())
        })
    };
    let (switch, nodes) = (value("SwitchName")?, value("Nodes")?);
    Some(expand(&nodes).map(|nodes| (nodes, None, switch)))
}

/// `n1: lldp.eth0.chassis.name=leaf1`, as pdsh or clush print lldpctl's output.
fn lldp(line: &str) -> Option<Entry> {
    let (node, rest) = line.trim().split_once(':')?;
    let rest = rest.trim().strip_prefix("lldp.")?;
    let (interface, switch) = rest.split_once(".chassis.name=")?;
    let interface = Some(interface.to_owned());
    Some((vec![node.trim().to_owned()], interface, switch.to_owned()))
}

/// `n1 mlx5_0 leaf1`, or `n[1-8] leaf1`.
fn row(line: &str, expand: Expand<'_>) -> Result<Entry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (nodes, nic, switch) = match words.as_slice() {
        [nodes, switch] => (nodes, None, switch),
        [nodes, nic, switch] => (nodes, Some((*nic).to_owned()), switch),
        words => {
            let words = words.len();
            return Err(format!(
                "expected node and switch, or node, NIC and switch; there are {words} words"
            ));
        }
    };
    Ok((expand(nodes)?, nic, (*switch).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of a host list: `n[1-2]` and plain names.
    fn expand(list: &str) -> Result<Vec<String>, String> {
        match list {
            "n[1-2]" => Ok(vec!["n1".to_owned(), "n2".to_owned()]),
            "n[" => Err("a bracket is not closed".to_owned()),
            name => Ok(vec![name.to_owned()]),
        }
    }

    fn nodes() -> Vec<(String, Vec<NicNames>)> {
        let nics = || {
            vec![
                vec!["mlx5_0".to_owned(), "ens1".to_owned()],
                vec!["mlx5_1".to_owned(), "ens2".to_owned()],
            ]
        };
        ["n1", "n2.cluster", "n3"].map(|node| (node.to_owned(), nics())).to_vec()
    }

    /// Switches with the numbers of node and NIC.
    type Read = Vec<(String, Vec<(usize, usize)>)>;

    fn read(text: &str) -> Result<Read, String> {
        let pairs = |nics: Vec<Nic>| nics.into_iter().map(|nic| (nic.node, nic.rail)).collect();
        let leaves = leaves(text, &expand, &nodes())?;
        Ok(leaves.into_iter().map(|(name, nics)| (name, pairs(nics))).collect())
    }

    #[test]
    fn slurm_topology() {
        let text = "# tree\nSwitchName=leaf1 Nodes=n[1-2] LinkSpeed=1\nswitchname=leaf2 \\\n nodes=n3\nSwitchName=top Switches=leaf[1-2]\n";
        assert_eq!(
            read(text),
            Ok(vec![
                ("leaf1".to_owned(), vec![(0, 0), (0, 1), (1, 0), (1, 1)]),
                ("leaf2".to_owned(), vec![(2, 0), (2, 1)])
            ])
        );
        assert_eq!(
            read("SwitchName=a Nodes=n[\n"),
            Err("line 1: a bracket is not closed".to_owned())
        );
    }

    #[test]
    fn neighbours_and_tables() {
        let rails = Ok(vec![
            ("leaf1".to_owned(), vec![(0, 0), (1, 0)]),
            ("leaf2".to_owned(), vec![(0, 1)]),
        ]);
        let text = "n1: lldp.ens1.via=LLDP\nn1: lldp.ens1.chassis.name=leaf1\nn2: lldp.ens1.chassis.name=leaf1\n\
                    n1: lldp.ens2.chassis.name=leaf2\nn9: lldp.ens2.chassis.name=leaf9\n";
        assert_eq!(read(text), rails);
        assert_eq!(read("n[1-2] mlx5_0 leaf1\nn1 ens2 leaf2 # a cable\n\n"), rails);
        assert_eq!(read("n3 leaf7"), Ok(vec![("leaf7".to_owned(), vec![(2, 0), (2, 1)])]));
    }

    #[test]
    fn useless_files() {
        for text in ["", "# nothing\n", "n9 leaf1\n", "n1 mlx5_7 leaf1\n"] {
            let error = read(text).expect_err(text);
            assert!(error.contains("names no NIC"), "{error}");
        }
        let error = read("\nn1 a b c\n").expect_err("four words");
        assert!(error.starts_with("line 2: expected node and switch"), "{error}");
    }
}
