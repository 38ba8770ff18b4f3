//! The model of a GPU in a line that names what it is: `GPU: NVIDIA H100 80GB HBM3` of neofetch and of templates for reports.

use super::{Kind, Starts};
use crate::import::support::Recording;
use crate::model::ListedGpu;
use crate::model::limited::MAX_GPUS;

pub const SUMMARY: Kind = Kind {
    name: "neofetch, clinfo, glxinfo, and lines of templates as GPU: MODEL",
    starts: Starts::Line,
    begins: |line| named(line).is_some(),
    yields: "models of NVIDIA's GPUs in lines that stand together",
    example: "GPU: NVIDIA H100 80GB HBM3
",
    read: |text, recording| {
        read(text, recording);
        Ok(())
    },
};

/// What stands before the model, without marks of lists and of emphasis, in lower case.
const KEYS: [&str; 31] = [
    "gpu",
    "gpus",
    "gpu model",
    "gpu models",
    "gpu name",
    "gpu.name",
    "gpu type",
    "gpu device",
    "gpu device name",
    "gpu model and memory",
    "gpu models and configuration",
    "gpu info",
    "gpu(s)",
    "hardware: gpu",
    "graphics",
    "graphics card",
    "graphics card(s)",
    "video card",
    "video adapter",
    "card name",
    "chipset model",
    "device name",
    "cuda device name",
    "accelerator",
    "opengl renderer",
    "opengl renderer string",
    "gl renderer",
    "selected gpu 0",
    "devicename",
    "nvidia gpu",
    "cuda device",
];

/// The models of a line, and how many GPUs each are.
fn named(line: &str) -> Option<Vec<(usize, &str)>> {
    const LONGEST: usize = 256;
    if line.len() > LONGEST {
        return None;
    }
    let found = properties(line).or_else(|| banner(line)).or_else(|| of_key(line))?;
    let found: Vec<_> = found.into_iter().take(MAX_GPUS).collect();
    (!found.is_empty()).then_some(found)
}

/// `_CudaDeviceProperties(name='NVIDIA H100', major=9, …)` of PyTorch.
fn properties(line: &str) -> Option<Vec<(usize, &str)>> {
    let (_, rest) = line.split_once("_CudaDeviceProperties(name='")?;
    Some(vec![(1, model(rest.split('\'').next()?)?)])
}

/// `NVIDIA H100 80GB HBM3. Num GPUs = 2. Max memory: 79.1 GB.` of Unsloth.
fn banner(line: &str) -> Option<Vec<(usize, &str)>> {
    let (before, rest) = line.split_once(". Num GPUs = ")?;
    let at = BRANDS.iter().filter_map(|brand| before.find(brand)).min()?;
    let count =
        rest.split('.').next()?.parse().ok().filter(|count| (1..=MAX_GPUS).contains(count))?;
    Some(vec![(count, model(&before[at..])?)])
}

fn of_key(line: &str) -> Option<Vec<(usize, &str)>> {
    let marks = |c: char| c.is_whitespace() || "-*•+#>|/`_".contains(c);
    let (key, value) = match line.split_once(':') {
        // A table of Markdown.
        _ if line.starts_with('|') => line[1..].split_once('|')?,
        Some(pair) => pair,
        // clinfo aligns values with blanks.
        None => line.split_once("  ").filter(|(key, _)| key.trim() == "Device Name")?,
    };
    let key = key.trim_matches(marks);
    // An image of characters stands before the words of neofetch, and the number of a GPU behind its name.
    let bare = key.rsplit("  ").next().unwrap_or(key).to_ascii_lowercase();
    let bare = bare.trim_end_matches(|c: char| c.is_ascii_digit() || " #".contains(c));
    KEYS.iter().find(|name| bare == **name || key.eq_ignore_ascii_case(name))?;
    value.split([';', '+']).map(|part| counted(part.trim_matches(marks))).collect()
}

/// The model and the count before or behind it: `2x NVIDIA H100`, `NVIDIA H100 x 2`, `(x2)`.
fn counted(text: &str) -> Option<(usize, &str)> {
    let of = |text: &str| {
        text.trim().parse::<usize>().ok().filter(|count| (1..=MAX_GPUS).contains(count))
    };
    let times = ['x', 'X', '×', '*'];
    if let Some(found) = model(text) {
        let behind = text.split(['@', ',']).next().unwrap_or_default();
        let behind = behind.trim_end_matches([')', ']', ' ']).rsplit_once(times);
        // `PCIe x16` is a link.
        let is_link = |before: &str| {
            let word = before.trim_end().rsplit([' ', '(']).next().unwrap_or_default();
            let word = word.to_ascii_lowercase();
            ["pci", "gen", "lanes"].iter().any(|link| word.starts_with(link))
        };
        let count = behind.and_then(|(before, count)| {
            of(count).filter(|_| before.ends_with([' ', '(']) && !is_link(before))
        });
        return Some((count.unwrap_or(1), found));
    }
    let (count, rest) = text.split_once(times)?;
    Some((of(count)?, model(rest.trim())?))
}

/// Beginnings of names of models.
pub const BRANDS: [&str; 9] =
    ["NVIDIA ", "Nvidia ", "GeForce ", "Tesla ", "Quadro ", "TITAN ", "Titan ", "RTX ", "GTX "];

/// Words that no name of a model has: another thing is named, or what a program needs.
const OTHER: [&str; 16] = [
    "driver",
    "Driver",
    "drivers",
    "CUDA",
    "Jetson",
    "version",
    "or",
    "and",
    "with",
    "recommended",
    "required",
    "minimum",
    "higher",
    "better",
    "newer",
    "least",
];

/// Beginnings of names of other products.
const NOT_GPUS: [&str; 6] =
    ["ConnectX", "BlueField", "Bluefield", "Spectrum", "Quantum", "NVSwitch"];

/// The name of a model at the start of a text, up to what programs write behind one.
pub fn model(text: &str) -> Option<&str> {
    const LONGEST: usize = 64;
    let text = text.trim_start_matches(['\'', '"', '[']);
    let text = text.strip_prefix("NVIDIA Corporation ").unwrap_or(text);
    if !BRANDS.iter().any(|brand| text.starts_with(brand)) {
        return None;
    }
    // A line may be long, and have a brand at each word.
    let text = &text[..text.floor_char_boundary(2 * LONGEST)];
    let end =
        text.find(['(', '/', ',', '\'', '"', ']', '[', '|', '@', ';', ':']).unwrap_or(text.len());
    let name = text[..end].trim();
    let name = name.split(" x ").next().unwrap_or(name).trim();
    if name.len() >= LONGEST {
        return None;
    }
    let words = || name.split_ascii_whitespace();
    // The name of a series has a number: `NVIDIA GPU` and `NVIDIA driver 570.86` are none.
    let has_number = words().skip(1).any(|word| {
        word.bytes().any(|byte| byte.is_ascii_digit()) && !word.contains('.') && word.len() < 24
    });
    let is_other = OTHER.iter().any(|other| words().any(|word| word == *other))
        || words().any(|word| NOT_GPUS.iter().any(|start| word.starts_with(start)));
    (has_number && !is_other && words().count() <= 8).then_some(name)
}

/// Lines that do not stand together may be of several people.
fn read(text: &str, recording: &mut Recording) {
    let lines = text.lines().map(|line| named(line.trim()));
    let together = lines.skip_while(Option::is_none).map_while(|found| found);
    let mut gpus = Vec::new();
    for (count, model) in together.flatten() {
        let model = Some(model.to_owned());
        gpus.extend(vec![ListedGpu { model, ..ListedGpu::default() }; count]);
    }
    gpus.truncate(MAX_GPUS);
    recording.listed(gpus);
}

/// The name of one of NVIDIA's GPUs, and nothing else.
pub fn is_model(text: &str) -> bool {
    const BRANDS: [&str; 7] =
        ["NVIDIA ", "Tesla ", "GeForce ", "Quadro ", "TITAN ", "A100-", "GRID "];
    text.len() < 64 && BRANDS.iter().any(|brand| text.starts_with(brand))
}

/// The model if the whole text names one.
pub fn whole(text: &str) -> Option<&str> {
    let text = text.trim();
    let known = is_model(text) || BRANDS.iter().any(|brand| text.starts_with(brand));
    model(text).filter(|name| known && *name == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_a_model() {
        for (line, expected) in [
            ("GPU: NVIDIA GeForce RTX 3090 (24GB)", Some((1, "NVIDIA GeForce RTX 3090"))),
            (
                "- GPU model and memory: GeForce GTX 1080 Ti, 11 GB",
                Some((1, "GeForce GTX 1080 Ti")),
            ),
            ("* **GPU**: RTX 4090 x 2", Some((2, "RTX 4090"))),
            ("GPUs: 8x NVIDIA A100-SXM4-80GB", Some((8, "NVIDIA A100-SXM4-80GB"))),
            (
                "   /sssshdmNNNNmyNMMMMh/      GPU: NVIDIA GeForce GT 520",
                Some((1, "NVIDIA GeForce GT 520")),
            ),
            ("GPU 1: NVIDIA GeForce RTX 3080 [Discrete]", Some((1, "NVIDIA GeForce RTX 3080"))),
            (
                "OpenGL renderer string: NVIDIA GeForce RTX 3070/PCIe/SSE2",
                Some((1, "NVIDIA GeForce RTX 3070")),
            ),
            (
                "Device Name                                     Tesla V100-SXM2-32GB",
                Some((1, "Tesla V100-SXM2-32GB")),
            ),
            ("_CudaDeviceProperties(name='NVIDIA L4', major=8, minor=9)", Some((1, "NVIDIA L4"))),
            ("| GPU #1 | RTX 3090 @ PCIe x16 (01:00.0, Gen4 x16) |", Some((1, "RTX 3090"))),
            ("GPU: RTX 4090 (PCIe x16)", Some((1, "RTX 4090"))),
            (
                "   \\\\   /|    NVIDIA H100 80GB HBM3. Num GPUs = 2. Max memory: 79.1 GB.",
                Some((2, "NVIDIA H100 80GB HBM3")),
            ),
        ] {
            assert_eq!(named(line).map(|found| found[0]), expected, "{line}");
        }
        for line in [
            "GPU: AMD Radeon RX 7900 XTX",
            "GPU: NVIDIA driver 570.86.15",
            "GPU: none",
            "'NVIDIA H100 80GB HBM3' is slow",
            "GPU Driver: nvidia",
            "Does the NVIDIA GeForce RTX 3090 support P2P?",
            "I tried: NVIDIA GeForce RTX 3090",
            "GPU: NVIDIA GeForce RTX 3090 or RTX 4090",
            "Product Name                          : NVIDIA H100 80GB HBM3",
            "Model name:                         13th Gen Intel(R) Core(TM) i9-13950HX",
        ] {
            assert_eq!(named(line), None, "{line}");
        }
    }

    #[test]
    fn lines_apart_are_not_gpus_of_one_machine() {
        let models = |text: &str| {
            let report =
                crate::import::text(text.as_bytes(), crate::import::SupportReport::default());
            let listed = report.expect("a GPU").listed;
            listed.into_iter().filter_map(|gpu| gpu.model).collect::<Vec<_>>()
        };
        let one = "GPU: NVIDIA GeForce RTX 3090\n";
        let other = "GPU: NVIDIA GeForce RTX 4090\n";
        assert_eq!(models(&format!("{one}{other}")).len(), 2);
        assert_eq!(models(&format!("{one}\nThe same here.\n{other}")), ["NVIDIA GeForce RTX 3090"]);
    }
}
