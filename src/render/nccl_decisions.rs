//! What NCCL decides, for people.

use super::text::{printable, wrap};
use super::{Style, View};
use crate::model::{
    NcclDecisions, NcclGpuPair, NcclLevel, NcclNicPair, NcclPath, NcclVersion, NcclVersionSource,
};

pub fn text(view: &View<'_>, decisions: &NcclDecisions) -> String {
    let style = &view.style;
    let mut text = paragraph(style, &version(&decisions.version));
    let set = match &decisions.variables {
        None => "unknown, so decided as if none were set".to_owned(),
        Some(set) if set.is_empty() => "none of those that matter here is set".to_owned(),
        Some(set) => {
            let pairs: Vec<String> =
                set.iter().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join(" ")
        }
    };
    text += &paragraph(
        style,
        &format!(
            "Variables of this process: {set}. gdr does not read /etc/nccl.conf and ~/.nccl.conf."
        ),
    );
    text += &paragraph(style, &level("Peer to peer up to", &decisions.p2p_level));
    text += &paragraph(style, &level("GPUDirect RDMA up to", &decisions.gdr_level));
    if !decisions.gpu_pairs.is_empty() {
        text += "\n";
        let rows = decisions.gpu_pairs.iter().map(gpu_pair).collect();
        text += &table(style, ["GPUs", "path", "peer to peer", "why"], rows);
        text += &sources(style, decisions.gpu_pairs.iter().map(|pair| &pair.source));
    }
    if !decisions.nic_pairs.is_empty() {
        text += "\n";
        let rows = decisions.nic_pairs.iter().map(nic_pair).collect();
        text += &table(style, ["GPU and NIC", "path", "receive, send", "why"], rows);
        text += &sources(style, decisions.nic_pairs.iter().map(|pair| &pair.source));
        text += &paragraph(
            style,
            "GPUDirect RDMA also needs a memory path (dma-buf or nvidia-peermem): see 'gdr doctor'.",
        );
    }
    text += "\n";
    for used in &decisions.uses {
        let nics = if used.nics.is_empty() { "no NIC".to_owned() } else { used.nics.join(" ") };
        text += &paragraph(style, &format!("{} uses {nics}", used.gpu));
    }
    text
}

fn paragraph(style: &Style, text: &str) -> String {
    wrap(&printable(text), style.width, 0, "  ") + "\n"
}

fn version(version: &NcclVersion) -> String {
    let from = match (version.from, &version.library) {
        (NcclVersionSource::Installed, Some(path)) => format!("installed: {path}"),
        (NcclVersionSource::Installed, None) => "installed".to_owned(),
        (NcclVersionSource::Option, _) => "from --nccl".to_owned(),
        (NcclVersionSource::NewestKnown, _) => {
            "the newest that gdr knows, because no installed one is known; --nccl=VERSION selects another".to_owned()
        }
    };
    format!("NCCL {} ({from}), by the source of {}.", version.number, version.tag)
}

fn level(what: &str, level: &NcclLevel) -> String {
    let letters = level.level.map_or("?", NcclPath::letters);
    format!("{what} {letters}: {} ({})", level.reason, level.source)
}

fn letters(path: Option<NcclPath>) -> String {
    path.map_or("?", NcclPath::letters).to_owned()
}

fn answer(answer: Option<bool>) -> &'static str {
    match answer {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
}

fn gpu_pair(pair: &NcclGpuPair) -> [String; 4] {
    [
        format!("{} {}", pair.from, pair.to),
        letters(pair.path),
        answer(pair.p2p).to_owned(),
        pair.reason.clone(),
    ]
}

fn nic_pair(pair: &NcclNicPair) -> [String; 4] {
    [
        format!("{} {} ({})", pair.gpu, pair.nic, pair.device),
        letters(pair.path),
        format!("{}, {}", answer(pair.receive), answer(pair.send)),
        pair.reason.clone(),
    ]
}

/// Columns as wide as their longest cell; the last is wrapped.
fn table(style: &Style, head: [&str; 4], rows: Vec<[String; 4]>) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows.into_iter().map(|row| row.map(|cell| printable(&cell))));
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let start = widths.iter().sum::<usize>() + 6;
    let indent = " ".repeat(start);
    let lines = all.iter().map(|[a, b, c, d]| {
        let [w0, w1, w2] = widths;
        let why = wrap(d, style.width, start, &indent);
        format!("{a:w0$}  {b:w1$}  {c:w2$}  {why}\n")
    });
    lines.collect()
}

/// The lines of NCCL's source that decided, each once.
fn sources<'a>(style: &Style, sources: impl Iterator<Item = &'a String>) -> String {
    let mut all: Vec<&str> = sources.map(String::as_str).collect();
    all.sort_unstable();
    all.dedup();
    paragraph(style, &format!("Decided in {}.", all.join("; ")))
}
