//! Configuration spaces hand-built from the PCI Express Base Specification, chapters 7, 9 and 10.

/// A space under construction.
struct Space(Vec<u8>);

impl Space {
    fn new(length: usize) -> Self {
        Self(vec![0; length])
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn words(self, at: usize, words: &[u16]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(at, &bytes)
    }

    fn dwords(self, at: usize, dwords: &[u32]) -> Self {
        let bytes: Vec<u8> = dwords
            .iter()
            .flat_map(|dword| dword.to_le_bytes())
            .collect();
        self.bytes(at, &bytes)
    }

    /// Header of an extended capability.
    fn extended(self, at: usize, id: u32, version: u32, next: u32) -> Self {
        self.dwords(at, &[id | version << 16 | next << 20])
    }
}

pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("switch downstream port", downstream_port()),
        ("root port, link down", root_port()),
        ("upstream port", upstream_port()),
        ("network adapter", adapter()),
        ("version 1 legacy endpoint", legacy_endpoint()),
        ("integrated endpoint", integrated_endpoint()),
    ]
}

/// 64 GT/s x16 running at 32 GT/s x8; subsystem capability; ACS with an egress vector of 64 ports.
fn downstream_port() -> Vec<u8> {
    Space::new(4096)
        .words(0x00, &[0x1000, 0xc030, 0x0507, 0x0010])
        .bytes(0x08, &[0xb0, 0x00, 0x04, 0x06, 0x10, 0x00, 0x01, 0x00])
        .bytes(0x18, &[0x3a, 0x3c, 0x3f])
        .bytes(0x34, &[0x40])
        .bytes(0x3d, &[0x01])
        .bytes(0x40, &[0x01, 0x68, 0x03, 0xc8])
        .bytes(0x68, &[0x10, 0xa4, 0x62, 0x01])
        .dwords(0x6c, &[0x0000_8023])
        .words(0x70, &[0x2157, 0x0000])
        .dwords(0x74, &[0x2470_0906])
        .words(0x78, &[0x0041, 0x6085])
        .dwords(0x94, &[0x7e])
        .words(0x98, &[0x0006])
        .bytes(0xa4, &[0x0d, 0x00, 0x00, 0x00, 0xd9, 0x15, 0x34, 0x12])
        .extended(0x100, 0x0d, 1, 0x148)
        .words(0x104, &[0x407f, 0x003d])
        .dwords(0x108, &[0x8000_0003, 0x0000_00a0])
        .extended(0x148, 0x01, 2, 0x000)
        .dwords(
            0x14c,
            &[
                0x0020_0000,
                0x0010_0000,
                0x0046_2030,
                0x0000_0001,
                0x0000_2000,
            ],
        )
        .0
}

/// 16 GT/s x4, nothing connected; the four ACS services that Linux enables.
fn root_port() -> Vec<u8> {
    Space::new(4096)
        .words(0x00, &[0x8086, 0x347a, 0x0406, 0x0010])
        .bytes(0x08, &[0x04, 0x00, 0x04, 0x06, 0x00, 0x00, 0x01, 0x00])
        .bytes(0x18, &[0x00, 0x01, 0x01])
        .bytes(0x34, &[0x40])
        .bytes(0x40, &[0x10, 0x00, 0x42, 0x00])
        .dwords(0x44, &[0x0000_8001])
        .words(0x48, &[0x0020, 0x0000])
        .dwords(0x4c, &[0x0573_9844])
        .words(0x50, &[0x0010, 0x1801])
        .dwords(0x6c, &[0x1e])
        .words(0x70, &[0x0004])
        .extended(0x100, 0x0d, 1, 0)
        .words(0x104, &[0x001f, 0x001d])
        .0
}

/// 8 GT/s x16 without extended capabilities.
fn upstream_port() -> Vec<u8> {
    Space::new(4096)
        .words(0x00, &[0x10b5, 0x8796, 0x0007, 0x0010])
        .bytes(0x08, &[0xab, 0x00, 0x04, 0x06, 0x10, 0x00, 0x01, 0x00])
        .dwords(0x10, &[0xde00_0000])
        .bytes(0x18, &[0x02, 0x03, 0x0a])
        .bytes(0x34, &[0x68])
        .bytes(0x68, &[0x10, 0x00, 0x52, 0x00])
        .dwords(0x6c, &[0x0000_8004])
        .words(0x70, &[0x513f, 0x0000])
        .dwords(0x74, &[0x0007_b903])
        .words(0x78, &[0x0002, 0x1103])
        .dwords(0x94, &[0x0e])
        .words(0x98, &[0x0003])
        .0
}

/// AER, serial number, ATS, SR-IOV with 4 of 16 functions, Resizable BAR, ACS without any service.
fn adapter() -> Vec<u8> {
    Space::new(4096)
        .words(0x00, &[0x15b3, 0x1021, 0x0146, 0x0010])
        .bytes(0x08, &[0x00, 0x00, 0x07, 0x02, 0x10, 0x00, 0x80, 0x00])
        .dwords(0x10, &[0xe000_000c, 0x0000_21ff, 0x0000_e001])
        .words(0x2c, &[0x15b3, 0x0041])
        .bytes(0x34, &[0x60])
        .bytes(0x3d, &[0x01])
        .bytes(0x60, &[0x10, 0x00, 0x02, 0x00])
        .dwords(0x64, &[0x1000_8022])
        .words(0x68, &[0x2936, 0x0000])
        .dwords(0x6c, &[0x0040_0d05])
        .words(0x70, &[0x0042, 0x1044])
        .dwords(0x8c, &[0x3e])
        .words(0x90, &[0x0004])
        .extended(0x100, 0x01, 2, 0x150)
        .dwords(
            0x104,
            &[
                0x0010_4010,
                0x0040_0000,
                0x0046_2030,
                0x0000_2001,
                0x0000_e000,
            ],
        )
        .extended(0x150, 0x03, 1, 0x180)
        .dwords(0x154, &[0x0012_3456, 0xb8ce_f603])
        .extended(0x180, 0x0f, 1, 0x1c0)
        .words(0x184, &[0x0065, 0x8001])
        .extended(0x1c0, 0x10, 1, 0x230)
        .words(
            0x1c8,
            &[
                0x0009, 0x0000, 0x0010, 0x0010, 0x0004, 0x0000, 0x0002, 0x0001,
            ],
        )
        .words(0x1da, &[0x101e])
        .dwords(0x1dc, &[0x553, 0x1, 0xf000_000c, 0x0000_21ff, 0xd000_0000])
        .extended(0x230, 0x15, 1, 0x250)
        .dwords(0x234, &[0x0003_fff0, 0x0000_0f40, 0x0010_0100, 0x0001_0602])
        .extended(0x250, 0x0d, 1, 0)
        .0
}

/// PCI Express 1.1 without extended capabilities: the short structure.
fn legacy_endpoint() -> Vec<u8> {
    Space::new(256)
        .words(0x00, &[0x10de, 0x0e0f, 0x0006, 0x0010])
        .bytes(0x08, &[0xa1, 0x00, 0x03, 0x04])
        .dwords(0x10, &[0xfb08_0000])
        .bytes(0x34, &[0x78])
        .bytes(0x3d, &[0x02])
        .bytes(0x78, &[0x10, 0x00, 0x11, 0x00])
        .dwords(0x7c, &[0x0000_8da0])
        .words(0x80, &[0x2810, 0x0000])
        .dwords(0x84, &[0x0003_3d02])
        .words(0x88, &[0x0003, 0x1101])
        .0
}

/// No link registers.
fn integrated_endpoint() -> Vec<u8> {
    Space::new(4096)
        .words(0x00, &[0x8086, 0x0b25, 0x0146, 0x0010])
        .bytes(0x08, &[0x00, 0x00, 0x80, 0x08])
        .dwords(0x10, &[0xffc0_000c, 0x0000_20ff])
        .bytes(0x34, &[0x40])
        .bytes(0x40, &[0x10, 0x00, 0x92, 0x00])
        .dwords(0x44, &[0x1000_8022])
        .words(0x48, &[0x2950, 0x0000])
        .extended(0x100, 0x0f, 1, 0)
        .words(0x104, &[0x0020, 0x8000])
        .0
}
