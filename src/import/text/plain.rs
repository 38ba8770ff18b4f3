//! Undoes what programs do to a text on its way: UTF-16, the escapes of HTML and JSON, numbers before all lines, marks of code around one.
//! [`marks`](super::marks) undoes what people do.

use memchr::{memchr, memchr_iter, memchr2, memmem};

use super::marks::{BREAK, of_comment, of_comments, of_prose, of_wiki, of_wrapped};
use crate::import::{find, lspci};

/// Lines that stand alone in the marks of code: `01:00.0 3D controller: …`.
fn of_code(text: &str) -> Option<String> {
    memchr(b'`', text.as_bytes())?;
    let inner = |line: &'_ str| -> Option<(usize, usize)> {
        let code = line.trim();
        let code = code.strip_prefix('`')?.strip_suffix('`')?;
        let from = line.find('`')? + 1;
        (!code.is_empty() && !code.contains('`')).then(|| (from, from + code.len()))
    };
    text.lines().any(|line| inner(line).is_some()).then(|| {
        let mut out = String::with_capacity(text.len());
        for line in text.lines() {
            out.push_str(inner(line).map_or(line, |(from, to)| &line[from..to]));
            out.push('\n');
        }
        out
    })
}

/// Lines of lspci behind the number of their IOMMU group, or below it. Groups have no order, so the functions are sorted by address.
fn of_groups(text: &str) -> Option<String> {
    const MARKS: [&str; 4] = ["Group ", "group ", "[IOMMU ", "Group:"];
    if !find::has_any(text, &MARKS) {
        return None;
    }
    let mut blocks: Vec<(String, String)> = Vec::new();
    let (mut out, mut place) = (String::with_capacity(text.len()), None);
    let (mut is_open, mut grouped, mut below) = (false, false, false);
    for line in text.lines() {
        let behind = behind_group(line).or_else(|| numbered(line));
        grouped |= behind.is_some();
        below = below || is_group(line);
        let bare = line.trim();
        let head = behind.or_else(|| (below && lspci::is_head(bare)).then(|| bare.to_owned()));
        if let Some(head) = head {
            let address = head.split(' ').next().unwrap_or_default();
            let address = address.rsplit_once("0000:").map_or(address, |(_, short)| short);
            place.get_or_insert(out.len());
            blocks.push((address.to_owned(), head + "\n"));
            is_open = true;
        } else if is_open
            && line.starts_with(['\t', ' '])
            && !bare.is_empty()
            && !is_group(line)
            && let Some((_, block)) = blocks.last_mut()
        {
            block.push_str(&format!("\t{bare}\n"));
        } else {
            is_open = false;
            out.push_str(line);
            out.push('\n');
        }
    }
    let place = place.filter(|_| grouped || below)?;
    blocks.sort();
    let sorted: String = blocks.into_iter().map(|(_, block)| block).collect();
    out.insert_str(place, &sorted);
    Some(out)
}

/// A line of a script that prints `Group 15:  [10de:21c4] [R] 09:00.0  VGA compatible controller    TU116 [GeForce GTX 1660]`, as lspci
/// prints it.
fn numbered(line: &str) -> Option<String> {
    let line = line.trim_start();
    let line = match line.strip_prefix("Group ") {
        Some(rest) => rest.split_once(':')?.1.trim_start(),
        None => line,
    };
    let (numbers, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("[R]").unwrap_or(rest).trim_start();
    let (address, rest) = rest.split_once("  ")?;
    let class = rest.trim_start().split("  ").next()?;
    let is_pair = numbers.len() == 9 && numbers.find(':') == Some(4);
    let line = format!("{address} {class}: Device [{numbers}]");
    (is_pair && lspci::is_head(&line)).then_some(line)
}

/// `IOMMU Group 2:`, above the functions.
fn is_group(line: &str) -> bool {
    let number = line.trim().trim_end_matches(':');
    let number = number.strip_prefix("IOMMU Group ").or(number.strip_prefix("IOMMU group "));
    number.is_some_and(|number| number.trim().parse::<u32>().is_ok())
}

/// What stands behind `IOMMU Group 1`, `[IOMMU 1]` or `Group: 1`, as lspci prints it.
fn behind_group(line: &str) -> Option<String> {
    let bare = line.trim_start().trim_start_matches(['*', '[']);
    let marks = ["IOMMU Group", "IOMMU group", "IOMMU", "Group:", "Group"];
    let rest = marks.iter().find_map(|mark| bare.strip_prefix(mark))?.trim_start();
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if behind.len() == rest.len() {
        return None;
    }
    let behind = behind.trim_start_matches([':', ']', ' ', '\t']).trim_end_matches('*');
    if lspci::is_head(behind) {
        return Some(behind.to_owned());
    }
    // ls-iommu prints no colon behind the class.
    let (class, part) = behind.split_once("] ")?;
    let line = format!("{class}]: {part}");
    lspci::is_head(&line).then_some(line)
}

/// In this order. A page that quotes a page has its escapes twice.
const UNDO: [fn(&str) -> Option<String>; 11] = [
    of_json,
    of_html,
    of_html,
    of_editor,
    of_wiki,
    of_comment,
    of_comments,
    of_code,
    of_groups,
    of_wrapped,
    of_prose,
];

/// A text without what programs and people did to it.
pub struct Plain {
    pub bytes: Vec<u8>,
    /// The line of the file on which each line stands; none if all stand on their own.
    pub lines: Vec<usize>,
}

/// None if there is nothing to undo.
pub fn plain(bytes: &[u8]) -> Option<Plain> {
    let decoded = utf16(bytes);
    let text = String::from_utf8_lossy(decoded.as_deref().unwrap_or(bytes));
    let mut changed: Option<String> = None;
    let mut lines = Vec::new();
    for undo in UNDO {
        if let Some(text) = undo(changed.as_deref().unwrap_or(&text)) {
            changed = Some(broken(text, &mut lines));
        }
    }
    changed.map(String::into_bytes).or(decoded).map(|bytes| Plain { bytes, lines })
}

/// The text with line feeds for all breaks, and the lines of the file.
fn broken(text: String, lines: &mut Vec<usize>) -> String {
    if !text.contains(BREAK) {
        return text;
    }
    let before = std::mem::take(lines);
    let of_file = |at: usize| before.get(at).copied().unwrap_or(at + 1);
    let mut at = 0;
    lines.push(of_file(at));
    for c in text.chars().filter(|c| matches!(*c, '\n' | BREAK)) {
        at += usize::from(c == '\n');
        lines.push(of_file(at));
    }
    text.replace(BREAK, "\n")
}

/// Windows writes the output of programs as UTF-16.
fn utf16(bytes: &[u8]) -> Option<Vec<u8>> {
    let (rest, is_little) = match bytes {
        [0xff, 0xfe, rest @ ..] => (rest, true),
        [0xfe, 0xff, rest @ ..] => (rest, false),
        // Without a mark, every second byte of ASCII is zero.
        [a, 0, b, 0, c, 0, d, 0, ..] if ![a, b, c, d].contains(&&0) => (bytes, true),
        _ => return None,
    };
    let units = rest.chunks_exact(2).map(|pair| {
        let bytes = [pair[0], pair[1]];
        if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    });
    let text: String =
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Some(text.into_bytes())
}

/// A string of JSON or of a program: `"…\n\tGPU0\tGPU1\n…"` on few lines.
fn of_json(text: &str) -> Option<String> {
    let escaped = memmem::find_iter(text.as_bytes(), "\\n").count();
    if escaped < 3 || escaped < memchr_iter(b'\n', text.as_bytes()).count() {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push(BREAK),
            Some('t') => out.push('\t'),
            Some('r') => {}
            Some('u') => {
                let hex: String = chars.by_ref().take(4).collect();
                out.extend(u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32));
            }
            Some(c @ ('"' | '\\' | '/' | '\'')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
    }
    Some(out)
}

/// Escapes of HTML, and the elements that format text.
const ENTITIES: [(&str, &str); 8] = [
    ("&gt;", ">"),
    ("&lt;", "<"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    ("&#x27;", "'"),
    ("&amp;", "&"),
];
const ELEMENTS: [&str; 10] = ["pre", "code", "br", "p", "div", "span", "font", "b", "td", "tr"];

/// Web pages and mails. XML of hwloc, NCCL and nvidia-smi has escapes of its own.
fn of_html(text: &str) -> Option<String> {
    const XML: [&str; 4] = ["<?xml", "<topology", "<system version", "<nvidia_smi_log"];
    let has_entities = ENTITIES.iter().any(|(entity, _)| find::has(text, entity));
    let has_elements = find::has_any(text, &["<pre", "<code", "<br", "<span"]);
    if !has_entities && !has_elements || find::has_any(text, &XML) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr2(b'<', b'&', rest.as_bytes()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let entity = ENTITIES.iter().find(|(entity, _)| from.starts_with(entity));
        rest = if let Some((entity, c)) = entity {
            out.push_str(c);
            &from[entity.len()..]
        } else if let Some((name, behind)) = element(from) {
            out.extend((name == "br").then_some(BREAK));
            behind
        } else {
            out.push_str(&from[..1]);
            &from[1..]
        };
    }
    out.push_str(rest);
    Some(out)
}

/// The name of an element that formats text, and what stands behind it.
fn element(text: &str) -> Option<(&'static str, &str)> {
    const LONGEST: usize = 256;
    let inner = text.strip_prefix('<')?;
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    let name = ELEMENTS.into_iter().find(|name| {
        inner.strip_prefix(*name).is_some_and(|rest| rest.starts_with(['>', ' ', '/']))
    })?;
    let head = inner.get(..LONGEST).unwrap_or(inner);
    let end = head.find('>').filter(|end| !head[..*end].contains(['<', '\n']))?;
    Some((name, &inner[end + 1..]))
}

/// Lines with their numbers, as editors and pagers show them.
fn of_editor(text: &str) -> Option<String> {
    let numbered = |line: &'_ str| -> Option<(usize, usize)> {
        let words = line.trim_start();
        let digits = words.len() - words.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = words.get(..digits)?.parse().ok()?;
        let behind = words[digits..].trim_start_matches([':', '|', '.', ')']);
        let is_end = behind.is_empty() || behind.starts_with([' ', '\t']);
        let from = line.len() - behind.len();
        is_end.then_some((number, (from + 1).min(line.len())))
    };
    let mut out = String::with_capacity(text.len());
    let mut last = None;
    let mut count = 0;
    for line in text.lines() {
        let (number, from) = numbered(line)?;
        if last.is_some_and(|last| number != last + 1) {
            return None;
        }
        last = Some(number);
        count += 1;
        out.push_str(&line[from..]);
        out.push('\n');
    }
    (count > 3).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts print groups in any order, and each function in its own form.
    #[test]
    fn groups_of_functions_are_sorted() {
        let sorted = "00:01.0 PCI bridge [0604]: Intel Corporation X [8086:0c01]\n\
                      01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]\n\tKernel driver in use: nvidia\n";
        let bridge = "PCI bridge [0604]: Intel Corporation X [8086:0c01]";
        let gpu = "3D controller [0302]: NVIDIA Corporation GH100 [10de:2330]";
        let driver = "Kernel driver in use: nvidia";
        for text in [
            format!("IOMMU Group 10 01:00.0 {gpu}\n\t{driver}\nIOMMU Group 2 00:01.0 {bridge}\n"),
            format!("[IOMMU 10] 01:00.0 {gpu}\n  {driver}\n[IOMMU 2] 00:01.0 {bridge}\n"),
            format!(
                "IOMMU Group  10: 01:00.0 {}\n\t{driver}\nIOMMU Group  2: 00:01.0 {}\n",
                gpu.replace("]:", "]"),
                bridge.replace("]:", "]")
            ),
        ] {
            assert_eq!(undone(&text).as_deref(), Some(sorted), "{text}");
        }
        let below = format!(
            "IOMMU Group 10:\n\t01:00.0 {gpu}\n\t\t{driver}\nIOMMU Group 2:\n\t00:01.0 {bridge}\n"
        );
        assert!(undone(&below).is_some_and(|text| text.contains(sorted)));
        let table = "Group 10:\t[10de:2330] [R] 01:00.0  3D controller                 GH100 [H100]\n\t\t[10de:0fb9]     01:00.1  Audio device     HD\n";
        let lines =
            "01:00.0 3D controller: Device [10de:2330]\n01:00.1 Audio device: Device [10de:0fb9]\n";
        assert_eq!(undone(table).as_deref(), Some(lines));
        assert_eq!(undone("Group 1 of the test\nIOMMU is on\n"), None);
    }

    fn undone(text: &str) -> Option<String> {
        plain(text.as_bytes()).map(|plain| String::from_utf8(plain.bytes).expect("UTF-8"))
    }

    /// A command that reads a part of the file counts the lines of the file.
    #[test]
    fn lines_are_those_of_the_file() {
        for (text, expected) in [
            ("{\n\"a\": \"one\\ntwo\\nthree\\n\",\n\"b\": 1 }\n", vec![1, 2, 2, 2, 2, 3, 4]),
            ("<pre>one<br>two\nthree</pre>\n", vec![1, 1, 2, 3]),
            ("a &lt; b\nc\n", vec![]),
            ("here is my 62:00.0 VGA compatible controller: NVIDIA\nb\n", vec![1, 1, 2, 3]),
        ] {
            assert_eq!(plain(text.as_bytes()).map(|plain| plain.lines), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_programs_do_to_a_text_is_undone() {
        let text = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n\nLegend:\n";
        for units in [text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), {
            let marked: String = format!("\u{feff}{text}");
            marked.encode_utf16().flat_map(u16::to_be_bytes).collect()
        }] {
            let decoded = plain(&units).map(|plain| plain.bytes);
            // Every second byte of a tab and a letter is zero; of other texts too.
            assert_eq!(decoded.as_deref(), Some(text.as_bytes()));
        }
        let json =
            format!("{{\"output\": \"{}\"}}\n", text.replace('\n', "\\n").replace('\t', "\\t"));
        assert!(undone(&json).is_some_and(|undone| undone.contains("\nGPU1\tPIX\t X \n")));
        let html = format!(
            "<pre class=\"a\">{}</pre>\n",
            text.replace(" X ", " <b>X</b> ").replace("PIX", "&lt;PIX&gt;")
        );
        assert!(
            undone(&html).is_some_and(|undone| undone.starts_with("\tGPU0\tGPU1\nGPU0\t X \t<P"))
        );
        let numbered: String =
            text.lines().zip(7..).map(|(line, number)| format!("{number:4}\t{line}\n")).collect();
        assert_eq!(undone(&numbered).as_deref(), Some(text));
        let ports = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n";
        let comment: String = ports.lines().map(|line| format!("# {line}\n")).collect();
        assert_eq!(undone(&comment).as_deref(), Some(ports));
        let code = "The card:\n`01:00.0 3D controller: NVIDIA`\nand `lspci`\n";
        assert_eq!(
            undone(code).as_deref(),
            Some("The card:\n01:00.0 3D controller: NVIDIA\nand `lspci`\n")
        );
        for text in [
            text,
            "0 1\n1 2\n3 4\n4 5\n",
            "<topology>\n<object name=\"a &lt; b\"/>\n</topology>\n",
            "a < b && c\n",
            "#  Rank  0 Group  0 Pid  1 on node1 device  0 [0000:17:00] NVIDIA H100\n# a\n# b\n# c\n",
        ] {
            assert_eq!(undone(text), None, "{text}");
        }
    }
}
