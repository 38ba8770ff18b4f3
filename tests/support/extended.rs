//! Extended capabilities, chained from 0x100: ACS, serial number, ATS, SR-IOV.

use super::config::Space;
use super::device::{Device, Sriov};
use super::files::unhex;

/// Writes those the device has. ACS comes first, where the recorded machines have it too.
pub fn write(space: &mut Space, device: &Device) {
    let bodies = [
        acs(device),
        device.serial.as_deref().map(serial),
        device.ats.map(ats),
        device.sriov.as_ref().map(sriov),
    ];
    let present: Vec<_> = bodies.into_iter().flatten().collect();
    let mut at = 0x100;
    for (nth, (id, body)) in present.iter().enumerate() {
        let after = (at + 4 + body.len()).next_multiple_of(8);
        let next = if nth + 1 < present.len() { after } else { 0 };
        space.put32(at, u32::from(*id) | 1 << 16 | (next as u32) << 20);
        space.bytes(at + 4, body);
        at = after;
    }
}

type Capability = Option<(u16, Vec<u8>)>;

fn acs(device: &Device) -> Capability {
    let control = device.acs_ctl?;
    // sysroot.py, whose machines record 0 where lspci printed no capability bits, gives them all but EC.
    let capability = match device.acs_cap.map_or(0, |cap| cap.0) {
        0 => 0x5f,
        given => given,
    };
    let mut body = [capability as u16, control.0 as u16]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect::<Vec<_>>();
    // Bits 15:8 are the vector's length in bits, and 0 says 256.
    if capability & 1 << 5 != 0 {
        let bits = match capability >> 8 {
            0 => 256,
            bits => bits as usize,
        };
        let mut vector = vec![0_u8; bits.div_ceil(32) * 4];
        for port in &device.acs_egress {
            vector[usize::from(*port) / 8] |= 1 << (port % 8);
        }
        body.extend(vector);
    }
    Some((0x000d, body))
}

/// The text is the most significant byte first, the registers the least.
fn serial(text: &str) -> (u16, Vec<u8>) {
    let mut bytes = unhex(&text.replace('-', ""));
    bytes.reverse();
    (0x0003, bytes)
}

fn ats(enabled: bool) -> (u16, Vec<u8>) {
    // Page-aligned requests, global invalidation; enable is bit 15 of the control register.
    (0x000f, vec![0x60, 0, 0, u8::from(enabled) << 7])
}

fn sriov(sriov: &Sriov) -> (u16, Vec<u8>) {
    let mut body = vec![0; 0x3c];
    let mut word = |at: usize, value: u16| body[at..at + 2].copy_from_slice(&value.to_le_bytes());
    let on = sriov.vfs > 0;
    word(0x04, u16::from(on) | u16::from(on) << 3);
    word(0x08, sriov.total);
    word(0x0a, sriov.total);
    word(0x0c, sriov.vfs);
    word(0x10, sriov.offset);
    word(0x12, sriov.stride);
    word(0x16, sriov.device.0 as u16);
    word(0x18, 0x0553);
    word(0x1c, 0x0001);
    (0x0010, body)
}
