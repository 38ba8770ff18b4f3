//! IMEX, which shares GPU memory between the machines of an NVLink domain: the nodes that its file lists, and what its
//! control program says.
//!
//! No address leaves this file: each is reduced to whether it is this machine's and whether it repeats.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::read;
use crate::model::{Fact, ImexNodes, Note, Why};
use crate::world::{FileError, Files, MOST, World};

const CONFIG: &str = "/etc/nvidia-imex/config.cfg";
/// The nodes file unless the configuration names another.
const NODES: &str = "/etc/nvidia-imex/nodes_config.cfg";
const NODES_KEY: &str = "IMEX_NODE_CONFIG_FILE=";
const CONTROL: &str = "nvidia-imex-ctl";
const FIB: &str = "/proc/net/fib_trie";
const INET6: &str = "/proc/net/if_inet6";

/// The nodes of the file that the configuration names; `None` if there is no such file.
///
/// Nothing is noted: few machines have IMEX, and `gpu.nvlink-domain` says what it lacks.
pub fn nodes(files: &dyn Files) -> Fact<Option<ImexNodes>> {
    let named = match read::kept_if_there(files, CONFIG, node_file_lines, &mut Vec::new()) {
        Fact::Known(text) => text.and_then(|text| {
            text.lines().last()?.strip_prefix(NODES_KEY).map(|path| path.trim().to_owned())
        }),
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    let path = named.filter(|path| path.starts_with('/')).unwrap_or_else(|| NODES.to_owned());
    let own = addresses(files);
    let reduce =
        |bytes: Vec<u8>| reduced(&String::from_utf8_lossy(&bytes), own.as_ref()).into_bytes();
    match files.reduced(Path::new(&path), MOST, &reduce) {
        Ok(bytes) => Fact::Known(Some(parse(&String::from_utf8_lossy(&bytes), path))),
        Err(error) if error.is_absent() => read::absent(files, &path),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// The state that `nvidia-imex-ctl -q` prints, such as READY; `None` if the program is not there or prints none.
///
/// `-q` asks the daemon on this machine once. The DRA driver uses it as its readiness probe
/// (dra-driver-nvidia-gpu v0.4.1, cmd/compute-domain-daemon/main.go).
pub fn state(world: &World, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    match world.tools.output(world.files.as_ref(), CONTROL, &["-q"], &state_word) {
        Ok(Fact::Known(answer)) => {
            let state = answer.map(|output| state_word(&output.text));
            Fact::Known(state.filter(|state| !state.is_empty()))
        }
        Ok(Fact::Unknown(why)) => Fact::Unknown(why),
        Err((why, message)) => {
            read::note(notes, CONTROL, message);
            Fact::Unknown(why)
        }
    }
}

/// The state alone: an error message may name addresses.
fn state_word(text: &str) -> String {
    let is_state = |word: &str| {
        word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let text = text.trim();
    if is_state(text) { text.to_owned() } else { String::new() }
}

fn node_file_lines(config: &str) -> String {
    let lines = config.lines().map(str::trim).filter(|line| line.starts_with(NODES_KEY));
    lines.map(|line| format!("{line}\n")).collect()
}

/// This machine's addresses; `None` if they cannot be read. Nothing of these files is recorded.
fn addresses(files: &dyn Files) -> Option<BTreeSet<IpAddr>> {
    let text_of = |path: &str| -> Result<String, FileError> {
        let text = RefCell::new(String::new());
        files.reduced(Path::new(path), MOST, &|bytes| {
            *text.borrow_mut() = String::from_utf8_lossy(&bytes).into_owned();
            Vec::new()
        })?;
        Ok(text.into_inner())
    };
    let fib = text_of(FIB).ok()?;
    let inet6 = match text_of(INET6) {
        Ok(text) => text,
        // A kernel without IPv6.
        Err(error) if error.is_absent() => String::new(),
        Err(_) => return None,
    };
    Some(local_ipv4(&fib).chain(ipv6(&inet6)).collect())
}

/// The addresses whose leaf has the type LOCAL.
fn local_ipv4(fib: &str) -> impl Iterator<Item = IpAddr> {
    let mut leaf: Option<Ipv4Addr> = None;
    fib.lines().filter_map(move |line| {
        match line.trim().strip_prefix("|-- ") {
            Some(address) => leaf = address.trim().parse().ok(),
            None if line.ends_with("host LOCAL") => return leaf.map(IpAddr::V4),
            None => {}
        }
        None
    })
}

fn ipv6(inet6: &str) -> impl Iterator<Item = IpAddr> {
    inet6.lines().filter_map(|line| {
        let digits = line.split_ascii_whitespace().next()?;
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32)?;
        Some(IpAddr::V6(Ipv6Addr::from(number)))
    })
}

/// One line for each node: `self`, `other`, `address` (this machine's are unknown) or `name`, and a number that equal
/// nodes share.
fn reduced(text: &str, own: Option<&BTreeSet<IpAddr>>) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut reduced = String::new();
    for node in lines.filter(|node| !node.is_empty()) {
        let is_reduced = node.split_once(' ').is_some_and(|(kind, number)| {
            ["self", "other", "address", "name"].contains(&kind) && number.parse::<usize>().is_ok()
        });
        if is_reduced {
            reduced.push_str(&format!("{node}\n"));
            continue;
        }
        let next = numbers.len();
        let number = *numbers.entry(node).or_insert(next);
        let kind = match (node.parse::<IpAddr>(), own) {
            (Err(_), _) => "name",
            (Ok(_), None) => "address",
            (Ok(address), Some(own)) if own.contains(&address) => "self",
            (Ok(_), Some(_)) => "other",
        };
        reduced.push_str(&format!("{kind} {number}\n"));
    }
    reduced
}

fn parse(reduced: &str, path: String) -> ImexNodes {
    let lines: Vec<&str> = reduced.lines().collect();
    let distinct: BTreeSet<&str> = lines.iter().copied().collect();
    let has = |kind: &str| distinct.iter().any(|line| line.starts_with(kind));
    let own = match (has("self "), has("name ") || has("address ")) {
        (true, _) => Fact::Known(true),
        (false, false) => Fact::Known(false),
        (false, true) => Fact::Unknown(Why::NotCovered),
    };
    ImexNodes { path, count: lines.len(), repeated: lines.len() - distinct.len(), own }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.0.0.0
        /24 link UNICAST
     |-- 10.0.0.2
        /32 host LOCAL
     |-- 10.0.0.255
        /32 link BROADCAST
";

    fn nodes(text: &str, own: Option<&str>) -> (usize, usize, Fact<bool>) {
        let inet6 = "fd000000000000000000000000000007 02 40 00 80 eth0\n";
        let own = own.map(|fib| local_ipv4(fib).chain(ipv6(inet6)).collect());
        let once = reduced(text, own.as_ref());
        assert_eq!(reduced(&once, None), once, "a replay reads the same");
        assert!(!once.contains("10.0.0"), "{once}");
        let found = parse(&once, String::new());
        (found.count, found.repeated, found.own)
    }

    #[test]
    fn finds_this_machine_among_the_nodes() {
        let unknown = Fact::Unknown(Why::NotCovered);
        let (yes, no) = (Fact::Known(true), Fact::Known(false));
        assert_eq!(nodes("10.0.0.1\n10.0.0.2 # here\n", Some(OWN)), (2, 0, yes.clone()));
        assert_eq!(nodes("fd00::7\n\n# none\n10.0.0.1\n", Some(OWN)), (2, 0, yes));
        assert_eq!(nodes("10.0.0.1\n10.0.0.255\n10.0.0.1\n", Some(OWN)), (3, 1, no.clone()));
        assert_eq!(nodes("10.0.0.1\ntray-02\n", Some(OWN)), (2, 0, unknown.clone()));
        assert_eq!(nodes("10.0.0.2\n", None), (1, 0, unknown));
        assert_eq!(nodes("", Some(OWN)), (0, 0, no));
    }

    #[test]
    fn keeps_the_state_alone() {
        assert_eq!(state_word("READY\n"), "READY");
        assert_eq!(state_word("Failed to connect to 10.0.0.2\n"), "");
    }
}
