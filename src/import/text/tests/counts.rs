//! GPUs that a text only counts, and lines that a window cut or wrapped.

use super::*;

/// A number or a longer list says that there are GPUs which another part does not show.
#[test]
fn gpus_that_are_only_counted_are_listed() {
    let shown = |text: &str| {
        let mut facts = Facts::default();
        read(text).add_listed(&mut facts);
        let places: Vec<String> = facts.gpus().map(|gpu| gpu.bdf.to_string()).collect();
        let listed = facts.listed.map_or(0, |listed| listed.gpus.len());
        let notes: Vec<String> = facts.notes.into_iter().map(|note| note.message).collect();
        (places.join(" "), listed, notes)
    };
    let part = smi::QUERY.example.replace(": 1\n", ": 3\n");
    let note = "shows 1 of 3 GPUs: of the others only the number is known";
    assert_eq!(shown(&part), ("0000:17:00.0".to_owned(), 3, vec![note.to_owned()]));
    let (_, without_head) = part.split_once("12.4\n\n").expect("a head");
    assert_eq!(shown(without_head).1, 3);
    assert_eq!(shown("Attached GPUs                             : 2\n").1, 2);
    // gpustat and a table that was cut.
    let stat = "[0] NVIDIA H100 80GB HBM3 | 35'C,   0 % |  0 / 81559 MB |\n\
                [1] NVIDIA H100 80GB HBM3 | 35'C,   0 % |  0 / 81559 MB |\n";
    let (table, _) = smi::TABLE.example.split_once("| N/A").expect("a row");
    assert_eq!(shown(&format!("{stat}\n{table}")), ("0000:17:00.0".to_owned(), 2, vec![]));
    // A whole list counts.
    assert_eq!(shown(&format!("{}\n{stat}", smi::QUERY.example)).1, 0);
}

/// A window cuts or wraps lines.
#[test]
fn wrapped_and_cut_lines_are_read() {
    const UUID: &str = "GPU-01234567-89ab-cdef-0123-456789abcdef";
    for list in [
        format!("GPU 0: NVIDIA L4 (UUID:\n{UUID})\nGPU 1: NVIDIA L4 (UUID: GPU-1\n"),
        "GPU 0: NVIDIA L4 (UUID: GPU-01234567\n-89ab-cdef-0123-456789abcdef)\nGPU 1: NVIDIA L4 (UU\n".to_owned(),
    ] {
        let listed = read(&list).listed;
        assert_eq!(listed.len(), 2, "{list}");
        assert_eq!(listed[0].uuid.as_deref(), Some(UUID), "{list}");
        assert!(listed.iter().all(|gpu| gpu.model.as_deref() == Some("NVIDIA L4")), "{list}");
    }
    let wide = "Graphics:  Device-1: Intel UHD Graphics 630 driver: i915 bus-ID: 00:02.0 chip-ID: 8086:3e9b Device-2: NVIDIA \
                TU117M [GeForce GTX 1650 Mobile] driver: nvidia v: 535.1 bus-ID: 01:00.0 chip-ID: 10de:1f91\n";
    let printed = read(wide).printed(&names()).expect("facts").expect("functions");
    let gpus: Vec<String> = printed.gpus().map(|gpu| gpu.bdf.to_string()).collect();
    assert_eq!(gpus, ["0000:01:00.0"]);
    let screen = "Device 0 [NVIDIA L4] PCIe GEN 4@16x RX: 0 TX: 0 Device 1 [NVIDIA L4\n";
    assert_eq!(read(screen).listed.len(), 2);
    let used = format!("Running the diagnostic level=2 gpus=[0, 1]\nfail gpu={UUID}\n");
    assert_eq!(read(&used).listed.len(), 2);
    assert_eq!(read(&format!("run(gpus=[0, 1])\nfail gpu={UUID}\n")).listed.len(), 1);
    // Numbers begin at 0, and one GPU has one size.
    let full =
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 15.78 GiB total capacity; 14 GiB\n";
    assert_eq!(read(full).listed.len(), 2);
    assert_eq!(read(&full.repeat(2)).listed.len(), 2);
    let other = "(GPU 1; 79.10 GiB total capacity; 14 GiB already allocated\n";
    let both = format!("{full}{other}");
    assert!(crate::import::text(both.as_bytes(), SupportReport::default()).is_err());
}
