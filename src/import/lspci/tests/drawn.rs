//! The tree of `lspci -t`.

use super::*;

/// Two sockets, each with a switch; the last line is that of a tree that a mail quotes.
const TREE: &str = "\
-+-[0000:64]-+-00.0-[65-68]----00.0-[66-68]--+-08.0-[67]--
 |           |                               \\-10.0-[68]--+-00.0
 |           |                                            \\-00.1
 |           \\-05.0
 +-[0000:16]-+-00.0-[17-1a]----00.0-[18-1a]--+-08.0-[19]----00.0
 |           |                               \\-10.0-[1a]----00.0
 |           \\-05.0
 \\-[0000:00]-+-00.0
             \\-1b.0-[01]--
";

const LIST: &str = "\
19:00.0 Infiniband controller [0207]: Mellanox Technologies Device [15b3:1021]
1a:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:1e04] (rev a1)
68:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:1e04] (rev a1)
";

#[test]
fn tree_places_listed_functions() {
    let quoted = |text: &str| text.lines().map(|line| format!("> {line}\n")).collect::<String>();
    let listed = |text: &str| format!("$ lspci -nn -d 10de:\n{LIST}\n$ lspci -t\n{text}$ uname\n");
    let first = |text: &str| format!("{text}\n{LIST}");
    for text in
        [listed(TREE), quoted(&listed(TREE)), first(TREE), listed(TREE).replace('\n', "\r\n")]
    {
        let facts = read(&text);
        assert_eq!(
            place(&facts, "1a:00.0"),
            "pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:10.0",
            "{text}"
        );
        assert_eq!(place(&facts, "19:00.0"), "pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:08.0");
        assert_eq!(place(&facts, "68:00.0"), "pci0000:64/0000:64:00.0/0000:65:00.0/0000:66:10.0");
        assert_eq!(facts.devices().len(), 3, "the tree says nothing about other functions");
    }
}

#[test]
fn tree_of_another_machine_places_nothing() {
    let other = "1c:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330]\n68:";
    let with_another = LIST.replace("68:", other);
    assert_eq!(place(&read(&format!("{with_another}\n{TREE}")), "1a:00.0"), "pci0000:1a?");
    // Cut off before the second socket.
    let cut = &TREE[..TREE.find(" +-[0000:16]").expect("a bus")];
    assert_eq!(place(&read(&format!("{LIST}\n{cut}")), "68:00.0"), "pci0000:68?");
}

#[test]
fn tree_with_names_is_a_list_of_gpus_and_nics() {
    let named = "\
-[0000:00]-+-00.0  Intel Corporation Device 09a2
           \\-01.0-[01-04]----00.0-[02-04]--+-00.0-[03]----00.0  NVIDIA Corporation Device 2330
                                           \\-01.0-[04]--+-00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
                                                        \\-00.1  Samsung Electronics Co Ltd NVMe SSD Controller
";
    assert!(is_format(named.as_bytes()));
    let facts = read(named);
    assert_eq!(place(&facts, "03:00.0"), "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0");
    assert!(device(&facts, "03:00.0").ids.known().is_some_and(Ids::is_nvidia_gpu));
    assert_eq!(facts.unnamed_nics, ["04:00.0".parse().expect("an address")]);
}

#[test]
fn malformed_trees_do_not_panic() {
    for text in [
        "-[0000:00]-+-00.0\n  +-[",
        "-[0000:00]-[01]-02.0",
        "-[zz:00]-+-00.0",
        "-+-[0000:00]-+-0",
        "-[0000:00]-+-1f.9",
        "-[0000:00]-+-00.0-[01-02-03]--",
        "-[0000:00]-+-00.0-[\u{e9}1]--",
        "-[0000:00]-+-00.0\n             \\-\u{e9}\u{e9}\u{e9}",
        "-+-[0000:00]-+-00.0-[00]----00.0-[00]----00.0",
    ] {
        let facts = read(&format!("{LIST}\n{text}"));
        assert_eq!(facts.devices().len(), 3, "{text}");
    }
}

proptest! {
    #[test]
    fn mutated_trees_do_not_panic(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), "[-+|\\[\\]0-9a-f:. ]{0,6}"), 1..12),
    ) {
        let mut text: Vec<char> = TREE.chars().collect();
        for (at, with) in cuts {
            let at = at.index(text.len());
            text.splice(at..(at + with.len()).min(text.len()), with.chars());
        }
        let text: String = text.into_iter().collect();
        let _ = facts(format!("{LIST}\n{text}").as_bytes(), &names());
    }
}
