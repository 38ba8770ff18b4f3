//! WQEs compared with literal bytes, from the layouts of mlx5dv.h and the segment order of qp.c.

use super::*;
use proptest::prelude::*;

const PEER: RemoteAddress = RemoteAddress { address: 0x1122_3344_5566_7788, key: 0x99aa_bbcc };

const LOCAL: DataSegment =
    DataSegment { length: 0x1000, key: 0xdead_beef, address: 0x0102_0304_0506_0708 };

const PEER_BYTES: [u8; 16] =
    [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0, 0, 0, 0];
const LOCAL_BYTES: [u8; 16] = [0, 0, 0x10, 0, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8];

/// Encodes at block 0x0203 of queue pair 0x040506 and checks that it decodes back.
fn encoded(entry: &Wqe, transport: Transport) -> Vec<u8> {
    let mut bytes = vec![0xee; MAX_BLOCKS * BLOCK];
    let blocks = entry.encode(0x04_0506, 0x0203, &mut bytes).unwrap();
    assert!(bytes[blocks * BLOCK..].iter().all(|&byte| byte == 0xee));
    bytes.truncate(blocks * BLOCK);
    let decoded = Wqe::decode(&bytes, transport).unwrap();
    assert_eq!((decoded.qpn, decoded.index), (0x04_0506, 0x0203));
    assert_eq!((&decoded.entry, decoded.blocks), (entry, blocks));
    bytes
}

fn control(opcode: u8, segments: u8, flags: u8, immediate: u32) -> Vec<u8> {
    let mut bytes = vec![0, 2, 3, opcode, 4, 5, 6, segments, 0, 0, 0, flags];
    bytes.extend(immediate.to_be_bytes());
    bytes
}

/// The parts, padded with zeros to whole blocks.
fn blocks(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    bytes
}

#[test]
fn send_write_and_read_match_bytes() {
    let send = encoded(&Wqe::send(&[LOCAL]), Transport::Connected);
    assert_eq!(send, blocks(&[&control(0x0a, 2, 0, 0), &LOCAL_BYTES]));
    let write = encoded(&Wqe::write(PEER, &[LOCAL]).signalled(), Transport::Connected);
    assert_eq!(write, blocks(&[&control(0x08, 3, 8, 0), &PEER_BYTES, &LOCAL_BYTES]));
    let read = encoded(&Wqe::read(PEER, &[LOCAL]), Transport::Connected);
    assert_eq!(read, blocks(&[&control(0x10, 3, 0, 0), &PEER_BYTES, &LOCAL_BYTES]));
    let immediate = encoded(&Wqe::send(&[LOCAL]).immediate(0x0a0b_0c0d), Transport::Connected);
    assert_eq!(immediate, blocks(&[&control(0x0b, 2, 0, 0x0a0b_0c0d), &LOCAL_BYTES]));
    let immediate = encoded(&Wqe::write(PEER, &[]).immediate(7), Transport::Connected);
    assert_eq!(immediate, blocks(&[&control(0x09, 2, 0, 7), &PEER_BYTES]));
}

#[test]
fn omits_empty_segments() {
    assert_eq!(encoded(&Wqe::nop(), Transport::Connected), blocks(&[&control(0, 1, 0, 0)]));
    let empty = DataSegment { length: 0, ..LOCAL };
    let mut bytes = [0; 64];
    Wqe::send(&[empty, LOCAL, empty]).encode(0x04_0506, 0x0203, &mut bytes).unwrap();
    assert_eq!(bytes[..], blocks(&[&control(0x0a, 2, 0, 0), &LOCAL_BYTES]));
    Wqe::send(&[]).inline(&[]).encode(0x04_0506, 0x0203, &mut bytes).unwrap();
    assert_eq!(bytes[..], blocks(&[&control(0x0a, 1, 0, 0)]));
}

#[test]
fn atomics_match_bytes() {
    let result = DataSegment { length: 8, ..LOCAL };
    let mut result_bytes = LOCAL_BYTES;
    result_bytes[..4].copy_from_slice(&[0, 0, 0, 8]);
    let operation = Operation::CompareSwap { remote: PEER, compare: 2, swap: 1 };
    let bytes = encoded(&Wqe::new(operation, &[result]), Transport::Connected);
    let atomic = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2];
    assert_eq!(bytes, blocks(&[&control(0x11, 4, 0, 0), &PEER_BYTES, &atomic, &result_bytes]));
    // The segment's length is ignored.
    let add = Wqe::new(Operation::FetchAdd { remote: PEER, add: 1 }, &[LOCAL]);
    let mut bytes = [0; 64];
    add.encode(0x04_0506, 0x0203, &mut bytes).unwrap();
    let atomic = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes[..], blocks(&[&control(0x12, 4, 0, 0), &PEER_BYTES, &atomic, &result_bytes]));
    // Decoding rejects another length.
    bytes[51] = 12;
    assert_eq!(Wqe::decode(&bytes, Transport::Connected), Err(Error::SegmentLength { length: 12 }));
}

#[test]
fn pads_inline_data() {
    let twelve: Vec<u8> = (1..=12).collect();
    let bytes = encoded(&Wqe::send(&[]).inline(&twelve), Transport::Connected);
    let header = [0x80, 0, 0, 12];
    assert_eq!(bytes, blocks(&[&control(0x0a, 2, 0, 0), &header, &twelve]));
    let thirteen: Vec<u8> = (1..=13).collect();
    let bytes = encoded(&Wqe::write(PEER, &[]).inline(&thirteen), Transport::Connected);
    let header = [0x80, 0, 0, 13];
    assert_eq!(bytes, blocks(&[&control(0x08, 4, 0, 0), &PEER_BYTES, &header, &thirteen]));
    // The limit: 62 segments of 16 bytes less the header, in 16 blocks.
    let most = vec![0x5a; 62 * 16 - 4];
    assert_eq!(encoded(&Wqe::send(&[]).inline(&most), Transport::Connected).len(), 16 * 64);
    let more = Wqe::send(&[]).inline(&vec![0; 62 * 16 - 3]);
    assert_eq!(more.blocks(), Err(Error::TooLarge { segments: 64 }));
}

#[test]
fn datagrams_match_bytes() {
    let route = GlobalRoute {
        gid: [0xfe; 16],
        source_index: 3,
        flow_label: 0x4_5678,
        traffic_class: 0x11,
        hop_limit: 0x40,
    };
    let mac = [1, 2, 3, 4, 5, 6];
    let roce = Datagram {
        qpn: 0x0a_0b0c,
        key: 0x1111_1111,
        path: AddressVector::ethernet(mac, 0xc000, 5, 0, route),
    };
    let mut address = vec![0x11, 0x11, 0x11, 0x11, 0, 0, 0, 0, 0x80, 0x0a, 0x0b, 0x0c];
    // Priority 5 is encoded as 10; the UDP port replaces the LID.
    address.extend([10, 0, 0xc0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0x11, 0x40]);
    address.extend([0x00, 0x34, 0x56, 0x78]);
    address.extend([0xfe; 16]);
    let bytes = encoded(&Wqe::send(&[LOCAL]).to(roce), Transport::Datagram);
    // Five segments: two blocks.
    assert_eq!(bytes, blocks(&[&control(0x0a, 5, 0, 0), &address, &LOCAL_BYTES]));
    assert_eq!(bytes.len(), 128);

    let infiniband =
        Datagram { path: AddressVector::infiniband(0x1234, 1, 9, 2, Some(route)), ..roce };
    let bytes = encoded(&Wqe::send(&[]).to(infiniband), Transport::Datagram);
    assert_eq!(bytes[28..32], [0x29, 1, 0x12, 0x34]);
    assert_eq!(bytes[36..42], [0; 6]);
    // The route's flag is bit 30.
    assert_eq!(bytes[44..48], [0x40, 0x34, 0x56, 0x78]);
    let local = Datagram { path: AddressVector::infiniband(0x1234, 0, 0, 0, None), ..roce };
    let bytes = encoded(&Wqe::send(&[]).to(local), Transport::Datagram);
    assert_eq!(bytes[42..64], [0; 22]);
}

#[test]
fn rejects_invalid_wqes() {
    let mut room = [0; 64];
    let wide = Wqe::nop().encode(1 << 24, 0, &mut room);
    assert!(matches!(wide, Err(Error::Wide { bits: 24, .. })), "{wide:?}");
    let short = Wqe::nop().encode(1, 0, &mut room[..63]);
    assert_eq!(short, Err(Error::Short { need: 64, have: 63 }));
    let huge = DataSegment { length: 1 << 31, ..LOCAL };
    let huge = Wqe::send(&[huge]).encode(1, 0, &mut room);
    assert_eq!(huge, Err(Error::SegmentLength { length: 1 << 31 }));
    for wrong in [
        Wqe::read(PEER, &[]).inline(&[1]),
        Wqe::nop().inline(&[1]),
        Wqe::write(PEER, &[LOCAL]).to(Datagram { qpn: 1, key: 2, path: AddressVector::default() }),
    ] {
        let refused = wrong.encode(1, 0, &mut room);
        assert!(matches!(refused, Err(Error::Meaning { .. })), "{refused:?}");
    }
}

#[test]
fn rejects_wrong_sizes() {
    let mut bytes = [0; 64];
    Wqe::write(PEER, &[LOCAL]).encode(1, 0, &mut bytes).unwrap();
    bytes[7] = 1;
    let short = Wqe::decode(&bytes, Transport::Connected);
    assert_eq!(short, Err(Error::Size { segments: 1, need: 2 }));
    // A segment of 0 bytes, which a NIC reads as 2 GiB.
    bytes[7] = 4;
    let empty = Wqe::decode(&bytes, Transport::Connected);
    assert_eq!(empty, Err(Error::SegmentLength { length: 0 }));
    bytes[7] = 5;
    let beyond = Wqe::decode(&bytes, Transport::Connected);
    assert_eq!(beyond, Err(Error::Short { need: 80, have: 64 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Decoding any bytes fails or gives a WQE that encodes to the same fields.
    #[test]
    fn decoding_any_bytes_round_trips(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..1100),
        opcode in proptest::sample::select(Opcode::ALL.to_vec()),
        segments in 0_u8..70,
        known in any::<bool>(),
        datagram in any::<bool>(),
    ) {
        // Half of the cases have a valid control segment.
        if known && bytes.len() >= 16 {
            bytes[0] = 0;
            bytes[3] = opcode as u8;
            bytes[7] = segments;
            bytes[11] &= 0x6a;
        }
        let transport = if datagram { Transport::Datagram } else { Transport::Connected };
        if let Ok(decoded) = Wqe::decode(&bytes, transport) {
            let mut again = vec![0; decoded.blocks * BLOCK];
            // Encoding an atomic operation changes its segment lengths.
            if !decoded.entry.operation.opcode().is_atomic() {
                let blocks = decoded.entry.encode(decoded.qpn, decoded.index, &mut again).unwrap();
                prop_assert_eq!(blocks, decoded.blocks);
                prop_assert_eq!(Wqe::decode(&again, transport).unwrap(), decoded);
            }
        }
        let _ = Control::decode(&bytes);
    }
}
