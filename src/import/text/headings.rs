//! Names of machines in headings above outputs: of people (`Node 1:`, `### Server B`), of Ansible, parallel-ssh and dshbak; and in the command
//! lines of ssh.

use super::machines::machine;

/// True if a line has a mark at one end, as each heading has.
pub fn may_be_one(line: &str) -> bool {
    line.len() <= LONGEST
        && (line.starts_with(['#', '*', '=', '-', '_', '<', '['])
            || line.ends_with(['#', '*', '=', '-', '_', ':', '>']))
}

/// The name in a line that is nothing but a heading: `node1:`, `## Node 2`, `=== gpu-03 ===`, `node1 | CHANGED | rc=0 >>` of Ansible.
pub fn of_heading(line: &str) -> Option<String> {
    if line.len() > LONGEST {
        return None;
    }
    if let Some((name, rest)) = line.split_once(" | ")
        && rest.ends_with(">>")
        && rest.contains("rc=")
    {
        return machine(name);
    }
    if let Some(name) = of_parallel_ssh(line) {
        return machine(name);
    }
    let words = heading(line)?;
    let words = ["on ", "On ", "from ", "From "]
        .iter()
        .find_map(|word| words.strip_prefix(word))
        .unwrap_or(words);
    let (noun, number) = words.split_at(words.find(|c: char| !c.is_ascii_alphabetic())?);
    let number = number.trim_start_matches(['-', '_', ' ', '#']);
    let is_number = (1..=6).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let noun = noun.to_ascii_lowercase();
    (is_number && (NOUNS.contains(&noun.as_str()) || SERIES.contains(&noun.as_str())))
        .then(|| words.to_ascii_lowercase())
}

/// Longer lines are not headings.
const LONGEST: usize = 96;

/// Words for a machine.
const NOUNS: [&str; 14] = [
    "node",
    "host",
    "server",
    "machine",
    "worker",
    "vm",
    "system",
    "computer",
    "pc",
    "box",
    "workstation",
    "laptop",
    "desktop",
    "instance",
];

/// Names that people give the machines of a cluster, with a number.
const SERIES: [&str; 5] = ["dgx", "hgx", "cn", "compute", "gpunode"];

/// The words of a heading without its marks. A word alone may be a word of a table.
fn heading(line: &str) -> Option<&str> {
    let marks = |c: char| "#*=-_ ".contains(c);
    let of_page = line.strip_prefix("<details>").unwrap_or(line).trim_start();
    let of_page = of_page.strip_prefix("<summary>").map(|rest| {
        let end = rest.find("</summary>").unwrap_or(rest.len());
        &rest[..end]
    });
    let words = of_page.unwrap_or(line).trim_matches(marks);
    let words = words.strip_suffix(':').unwrap_or(words).trim_matches(marks);
    (words.len() < line.len()).then_some(words)
}

/// The role of a machine in a heading: `Machine A:`, `My second server:`, `### Laptop`, `Client (node2):`.
pub fn role(line: &str) -> Option<String> {
    const BEFORE: [&str; 13] = [
        "my", "the", "a", "on", "from", "output", "outputs", "of", "in", "this", "is", "for", "at",
    ];
    const ORDER: [&str; 16] = [
        "first", "second", "third", "1st", "2nd", "3rd", "other", "another", "old", "new",
        "working", "broken", "good", "bad", "failing", "faulty",
    ];
    const ROLES: [&str; 15] = [
        "server",
        "client",
        "sender",
        "receiver",
        "desktop",
        "laptop",
        "workstation",
        "head node",
        "login node",
        "compute node",
        "master node",
        "worker node",
        "local machine",
        "remote machine",
        "remote server",
    ];
    if line.len() > LONGEST {
        return None;
    }
    let words = heading(line)?.to_ascii_lowercase();
    let words = words.split(" (").next().unwrap_or_default();
    let words: Vec<&str> =
        words.split_ascii_whitespace().skip_while(|word| BEFORE.contains(word)).collect();
    let is_noun = |word: &str| NOUNS.contains(&word);
    let is_letter = |word: &str| word.len() == 1 && word.bytes().all(|b| b.is_ascii_lowercase());
    let found = match words.as_slice() {
        [noun, letter] => is_noun(noun) && is_letter(letter),
        _ => false,
    } || match words.as_slice() {
        [order, noun] => ORDER.contains(order) && is_noun(noun),
        _ => false,
    };
    let name = words.join(" ");
    (found || ROLES.contains(&name.as_str())).then_some(name)
}

/// The host in `[1] 10:00:00 [SUCCESS] node1`.
fn of_parallel_ssh(line: &str) -> Option<&str> {
    let (number, rest) = line.strip_prefix('[')?.split_once("] ")?;
    number.parse::<u32>().ok()?;
    let (time, rest) = rest.split_once(" [")?;
    let (state, host) = rest.split_once("] ")?;
    let fits = time.len() == 8
        && time.matches(':').count() == 2
        && matches!(state, "SUCCESS" | "FAILURE")
        && !host.contains(' ');
    fits.then_some(host)
}

/// The machine on which a command line runs a program: `ssh -p 22 user@node1 nvidia-smi`.
pub fn of_command(command: &str) -> Option<String> {
    const WITH_VALUE: [&str; 8] = ["-p", "-i", "-l", "-o", "-J", "-F", "-b", "-c"];
    let mut words = command.split_ascii_whitespace().filter(|word| *word != "sudo");
    words.next().filter(|word| *word == "ssh")?;
    let host = loop {
        let word = words.next()?;
        if WITH_VALUE.contains(&word) {
            words.next()?;
        } else if !word.starts_with('-') {
            break word;
        }
    };
    // Without a program it opens a shell, whose prompt follows.
    words.next()?;
    machine(host.rsplit('@').next().unwrap_or(host))
}

/// True for a command that prints the name of the machine alone.
pub fn prints_name(command: &str) -> bool {
    ["hostname", "hostname -f", "hostname -s", "uname -n"].contains(&command.trim())
}

/// The lines around a name, as dshbak and `clush -b` print it.
#[derive(Default)]
pub struct Frame {
    /// The line above is a rule.
    is_below_rule: bool,
    name: Option<String>,
}

impl Frame {
    /// The name of the machine whose output begins behind this line.
    pub fn next(&mut self, line: &str) -> Option<String> {
        let is_rule = line.len() >= 4
            && (line.bytes().all(|byte| byte == b'-') || line.bytes().all(|byte| byte == b'='));
        let name = self.name.take();
        let was_below = std::mem::replace(&mut self.is_below_rule, is_rule);
        if is_rule {
            return name;
        }
        self.name = Some(line).filter(|_| was_below).and_then(framed);
        None
    }
}

/// The name or the set of names in `gpu-a-11` and `node[01-02] (2)`. A title that people give an output may stand so too.
fn framed(line: &str) -> Option<String> {
    const OTHERS: [&str; 17] = [
        "gpu", "nic", "eth", "ib", "mlx", "cuda", "rank", "test", "step", "case", "run", "part",
        "phase", "numa", "socket", "cpu", "pcie",
    ];
    let (name, count) = line.split_once(" (").unwrap_or((line, "1)"));
    count.strip_suffix(')')?.parse::<u32>().ok()?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.[],".contains(&byte);
    let stem = name.split(|c: char| !c.is_ascii_alphabetic()).next()?.to_ascii_lowercase();
    let is_title = OTHERS.contains(&stem.as_str())
        && name[stem.len()..].trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    let fits = !stem.is_empty()
        && !is_title
        && name.len() <= LONGEST
        && name.bytes().all(is_part)
        && name.bytes().any(|byte| byte.is_ascii_digit())
        // A version is not a name.
        && !name.ends_with('.');
    fits.then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_name_machines() {
        for (line, name) in [
            ("node1:", Some("node1")),
            ("## Node 2", Some("node 2")),
            ("On machine 3:", Some("machine 3")),
            ("**dgx-07**", Some("dgx-07")),
            ("<summary>Node 1</summary>", Some("node 1")),
            ("n1 | CHANGED | rc=0 >>", Some("n1")),
            ("[2] 10:00:00 [SUCCESS] gpu7", Some("gpu7")),
            ("node1", None),
            ("NUMA node 0:", None),
            ("### Step 1", None),
            ("GPU 0:", None),
        ] {
            assert_eq!(of_heading(line).as_deref(), name, "{line}");
        }
        for (line, name) in [
            ("Machine A:", Some("machine a")),
            ("On machine B (works):", Some("machine b")),
            ("My second server:", Some("second server")),
            ("### Laptop", Some("laptop")),
            ("Client (node2):", Some("client")),
            ("<details><summary>Server A</summary>", Some("server a")),
            ("The server is slow:", None),
            ("### Steps", None),
            ("laptop", None),
            ("After the update:", None),
        ] {
            assert_eq!(role(line).as_deref(), name, "{line}");
        }
    }

    #[test]
    fn commands_and_frames_name_machines() {
        for (command, name) in [
            ("ssh node1 nvidia-smi", Some("node1")),
            ("ssh -o BatchMode=yes -p 22 root@gpu7.cluster lspci -vvv", Some("gpu7")),
            ("ssh node1", None),
            ("scp node1:a b", None),
        ] {
            assert_eq!(of_command(command).as_deref(), name, "{command}");
        }
        let names = |lines: &[&str]| {
            let mut frame = Frame::default();
            lines.iter().filter_map(|line| frame.next(line)).collect::<Vec<_>>()
        };
        let rule = "----------------";
        assert_eq!(
            names(&[rule, "gpu-a-11", rule, "words", rule, "n[01-02] (2)", rule]),
            ["gpu-a-11", "n[01-02]"]
        );
        for title in ["nvidia-smi", "GPU0", "mlx5_0", "A title 1", "test-2", ""] {
            assert!(names(&[rule, title, rule]).is_empty(), "{title}");
        }
    }
}
