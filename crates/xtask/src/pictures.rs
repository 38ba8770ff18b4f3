//! The pictures of the README: what gdr prints of a recorded machine, as SVG.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use gdr::output::Filter;

/// Characters in a line, and the size of one.
const COLUMNS: usize = 100;
const WIDTH: f64 = 8.43;
const HEIGHT: f64 = 19.0;
const MARGIN: f64 = 16.0;

/// What gdr prints with these arguments, about a machine in `tests/recorded`.
fn output(root: &Path, machine: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let snapshot = root.join("tests/recorded").join(machine).join("snapshot.json");
    let snapshot = File::open(&snapshot).with_context(|| snapshot.display().to_string())?;
    // gdr prints the name, and a drawing may grow with it: this one is as short in every checkout.
    let file = format!("/proc/self/fd/{}", snapshot.as_raw_fd());
    let file = file.as_str();
    let words = ["gdr", "--from", file];
    let cli = gdr::cli::parse(words.iter().chain(arguments).map(OsString::from))?;
    let (mut out, mut err) = (Filter::new(Vec::new()), Filter::new(Vec::new()));
    let status = gdr::cmd::run(cli, &mut out, &mut err);
    out.flush()?;
    if out.inner().is_empty() {
        bail!("gdr {arguments:?} ends with {status}: {}", String::from_utf8_lossy(err.inner()));
    }
    Ok(String::from_utf8(out.inner().clone())?)
}

/// Path below the repository root, and content.
pub fn files() -> anyhow::Result<[(PathBuf, Vec<u8>); 2]> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok([
        (PathBuf::from("docs/pictures/doctor.svg"), doctor(&root)?),
        (PathBuf::from("docs/pictures/topo.svg"), topo(&root)?),
    ])
}

/// The start of doctor's table, as a terminal shows it.
fn doctor(root: &Path) -> anyhow::Result<Vec<u8>> {
    let table = output(root, "vm-iommu-on", &["--color", "always", "doctor"])?;
    let table = without_recording(&table);
    let mut lines: Vec<&str> = vec!["$ sudo gdr doctor"];
    // The verdict, the first root, and the end.
    let (head, rest) = table.split_once("\n\n").context("a table without blocks")?;
    lines.extend(head.lines());
    lines.push("");
    let block = rest.lines().enumerate();
    let block = block.take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    lines.extend(block.map(|(_, line)| line));
    lines.push("…");
    let (_, steps) = table.rsplit_once("\n\n").context("a table without steps")?;
    lines.extend(steps.lines());
    Ok(terminal(&lines, "gdr doctor names the cause and the next step").into_bytes())
}

/// The drawing of `gdr topo`. The machine is a guest, of which a drawing would show no rating.
fn topo(root: &Path) -> anyhow::Result<Vec<u8>> {
    let options = ["topo", "--format", "svg", "--platform", "bare-metal"];
    let drawing = output(root, "vm-iommu-on", &options)?;
    let (before, rest) =
        drawing.split_once(" · read from ").context("a drawing without its source")?;
    let (_, after) = rest.split_once('<').context("a text without its end")?;
    Ok(format!("{before}<{after}").into_bytes())
}

/// The table as on the machine itself: the name of the recording says nothing.
fn without_recording(table: &str) -> String {
    let cut = table
        .split_once("(recorded:")
        .and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)));
    match cut {
        Some((before, after)) => format!("{}{after}", before.trim_end()),
        None => table.to_owned(),
    }
}

fn terminal(lines: &[&str], title: &str) -> String {
    let width = MARGIN.mul_add(2.0, WIDTH * COLUMNS as f64);
    let height = MARGIN.mul_add(2.0, HEIGHT * lines.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"14\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>.paper{{fill:#f6f8fa;stroke:#d0d7de}}text{{fill:#1f2328;white-space:pre}}.bad{{fill:#cf222e}}.good{{fill:#1a7f37}}\
         .fair{{fill:#9a6700}}.info{{fill:#0550ae}}.strong{{font-weight:600}}.dim{{fill:#656d76}}@media (prefers-color-scheme:dark){{\
         .paper{{fill:#0d1117;stroke:#3d444d}}text{{fill:#f0f6fc}}.bad{{fill:#ff7b72}}.good{{fill:#56d364}}.fair{{fill:#e3b341}}.info{{fill:#79c0ff}}\
         .dim{{fill:#9198a1}}}}</style>\n\
         <rect class=\"paper\" x=\".5\" y=\".5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n",
        width - 1.0,
        height - 1.0
    );
    for (at, line) in lines.iter().enumerate() {
        let y = HEIGHT.mul_add(at as f64 + 0.8, MARGIN);
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y:.1}\" xml:space=\"preserve\">{}</text>",
            spans(line)
        );
    }
    svg + "</svg>\n"
}

/// A line with its escape sequences (ECMA-48, SGR) as spans.
fn spans(line: &str) -> String {
    let mut out = String::new();
    let (mut is_open, mut classes): (bool, Vec<&str>) = (false, Vec::new());
    let mut rest = line;
    while let Some((text, tail)) = rest.split_once("\u{1b}[") {
        out.push_str(&escaped(text));
        let (codes, tail) = tail.split_once('m').unwrap_or((tail, ""));
        if is_open {
            out.push_str("</tspan>");
        }
        // Several sequences add up until one resets them.
        match codes {
            "" | "0" => classes.clear(),
            codes => classes.extend(codes.split(';').filter_map(class)),
        }
        is_open = !classes.is_empty();
        if is_open {
            // Writing to a String cannot fail.
            let _ = write!(out, "<tspan class=\"{}\">", classes.join(" "));
        }
        rest = tail;
    }
    out.push_str(&escaped(rest));
    if is_open {
        out.push_str("</tspan>");
    }
    out
}

fn class(code: &str) -> Option<&'static str> {
    match code {
        "1" => Some("strong"),
        "2" => Some("dim"),
        "31" | "91" => Some("bad"),
        "32" | "92" => Some("good"),
        "33" | "93" => Some("fair"),
        "36" | "96" => Some("info"),
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_become_spans() {
        assert_eq!(
            spans("\u{1b}[1;31mFAIL\u{1b}[0m a<b"),
            "<tspan class=\"strong bad\">FAIL</tspan> a&lt;b"
        );
        assert_eq!(
            spans("\u{1b}[1m\u{1b}[36mgdr fix\u{1b}[0m"),
            "<tspan class=\"strong\"></tspan><tspan class=\"strong info\">gdr fix</tspan>"
        );
    }

    #[test]
    fn the_path_of_the_checkout_is_left_out() {
        assert_eq!(
            without_recording("gdr doctor: node1\n  (recorded: /a/b.json, 2026)\nREADY (x)"),
            "gdr doctor: node1\nREADY (x)"
        );
    }
}
