//! Fake NICs through crate `verbs`: memory of a fake GPU, RoCE addresses, state changes of queue pairs.

mod ends;
mod machine;
mod paths;
mod queue_memory;
mod roce;
mod state;

use std::error::Error as _;
use std::os::fd::AsFd as _;

use gpu::pointer::{DmaBufMapping, dmabuf};
use gpu::{Allocation, DeviceMemory, Gpu, Kind, Pattern, Stream};
use serde_json::json;
use verbs::{
    Access, Buffer, Context, Dmabuf, Error, MemoryRegion, Pages, ProtectionDomain, Request, Work,
};

use ends::{domain, ends};
use machine::{machine, on};

const BYTES: usize = 64 << 10;

/// How the NIC accesses GPU memory.
#[derive(Debug, Clone, Copy)]
enum MemoryPath {
    Peermem,
    DmaBuf,
}

use MemoryPath::{DmaBuf, Peermem};

impl MemoryPath {
    fn register(
        self,
        domain: &ProtectionDomain,
        memory: &DeviceMemory,
    ) -> Result<MemoryRegion, Error> {
        match self {
            Peermem => domain.register_device(memory, Access::ALL),
            DmaBuf => {
                let file =
                    dmabuf(memory.address(), BYTES, DmaBufMapping::Default).expect("a dma-buf");
                domain.register_dmabuf(memory, file.as_fd(), 0, Access::ALL)
            }
        }
    }
}

/// A GPU's stream, and memory on it.
fn memory(ordinal: u32) -> (Stream, DeviceMemory) {
    let gpu = Gpu::open(ordinal).expect("a GPU");
    let memory = gpu.allocate(Allocation::Malloc, BYTES).expect("memory");
    (gpu.stream().expect("a stream"), memory)
}

/// A pattern of the offset and a seed.
fn bytes(seed: usize) -> Vec<u8> {
    (0..BYTES).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ (seed * 77)) as u8).collect()
}

fn all_of(stream: &Stream, memory: &DeviceMemory) -> Vec<u8> {
    let mut seen = vec![0; BYTES];
    stream.read(memory, 0, &mut seen).expect("it is read");
    seen
}

/// The message, and the library's error below it.
fn words(error: &Error) -> (String, String) {
    let source = error.source().map(ToString::to_string);
    (error.to_string(), source.unwrap_or_default())
}

#[test]
fn moves_gpu_memory() {
    on("moves_gpu_memory", &machine(), || {
        let (mut here, there) = ends();
        let ((near_stream, local), (far_stream, peer)) = (memory(0), memory(1));
        for (seed, (from, to)) in
            [(Peermem, Peermem), (Peermem, DmaBuf), (DmaBuf, Peermem), (DmaBuf, DmaBuf)]
                .into_iter()
                .enumerate()
        {
            let source = from.register(&here.domain, &local).expect("it is registered");
            let target = to.register(&there.domain, &peer).expect("it is registered");
            let (sent, was) = (bytes(seed), bytes(seed + 100));
            near_stream.write(&local, 0, &sent).expect("it is written");
            far_stream.write(&peer, 0, &was).expect("it is written");
            let pieces = [source.sge(100, 10_000).expect("it is inside")];
            here.works(Work::Write(target.remote().offset(20_001), None), &pieces);
            let mut expected = was;
            expected[20_001..30_001].copy_from_slice(&sent[100..10_100]);
            assert!(all_of(&far_stream, &peer) == expected, "written, {from:?} to {to:?}");

            let pieces = [source.sge(50_000, 15_536).expect("it is inside")];
            here.works(Work::Read(target.remote().offset(4096)), &pieces);
            let mut back = sent;
            back[50_000..].copy_from_slice(&expected[4096..19_632]);
            assert!(all_of(&near_stream, &local) == back, "read, {from:?} to {to:?}");
        }
    });
}

#[test]
fn kernels_and_nic_see_each_other() {
    let test = "kernels_and_nic_see_each_other";
    on(test, &machine(), || {
        let (mut here, there) = ends();
        let ((near_stream, local), (far_stream, peer)) = (memory(0), memory(1));
        // Words 0 and 1000 of these patterns, computed with Python's integers (crates/gpu/src/pattern.rs).
        for (memory_path, seed, first, word) in
            [(Peermem, 0, 0, 0xdc1b_77ae_u32), (DmaBuf, 0x1234_5678_9abc_def0, 1000, 0x3faf_5197)]
        {
            let source = memory_path.register(&here.domain, &local).expect("it is registered");
            let target = memory_path.register(&there.domain, &peer).expect("it is registered");
            let pattern = Pattern::new(seed);
            near_stream.fill_pattern(&local, 0, BYTES, pattern, first).expect("a kernel");
            near_stream.synchronize().expect("it ends");
            let differ = |expected: u64| {
                let found =
                    far_stream.check_pattern(&peer, 0, BYTES, pattern, first).expect("a kernel");
                assert_eq!(found.words, expected, "{memory_path:?}");
            };
            differ(BYTES as u64 / 4);
            let half = [source.sge(0, BYTES / 2).expect("it is inside")];
            here.works(Work::Write(target.remote(), None), &half);
            differ(BYTES as u64 / 8);
            let rest = [source.sge(BYTES / 2, BYTES / 2).expect("it is inside")];
            here.works(Work::Write(target.remote().offset(BYTES as u64 / 2), None), &rest);
            differ(0);
            assert_eq!(all_of(&far_stream, &peer)[..4], word.to_le_bytes());
        }
    });
}

#[test]
fn requires_peer_memory_client() {
    let mut machine = machine();
    machine["verbs"]["devices"][0]["peermem"] = json!(false);
    machine["gpus"][1]["attributes"] = json!({"116": 0});
    on("requires_peer_memory_client", &machine, || {
        let (without, with) = (domain("mlx5_0"), domain("mlx5_1"));
        let ((_, first), (_, second)) = (memory(0), memory(1));
        // Rejected by the NIC, and by the GPU without GPUDirect RDMA.
        for (name, domain, memory) in [
            ("mlx5_0", &without, &first),
            ("mlx5_0", &without, &second),
            ("mlx5_1", &with, &second),
        ] {
            let error = Peermem.register(domain, memory).expect_err("no peer client");
            let (said, library) = words(&error);
            assert_eq!(said, format!("{name} cannot register 65536 bytes (ibv_reg_mr)"));
            assert_eq!(library, "Bad address (os error 14)");
            assert_eq!(error.errno(), Some(14));
        }
        Peermem.register(&with, &first).expect("it is registered");
        DmaBuf.register(&without, &first).expect("the other memory path");
        let pinned = Gpu::open(0).and_then(|gpu| gpu.pinned(4096)).expect("memory");
        without.register_host(&pinned, Access::ALL).expect("host memory");
    });
}

#[test]
fn reports_missing_dma_buf_support() {
    let mut machine = machine();
    machine["verbs"]["devices"][0]["dmabuf"] = json!(95);
    machine["verbs"]["devices"][1]["dmabuf"] = json!(93);
    on("reports_missing_dma_buf_support", &machine, || {
        let (_, memory) = memory(0);
        for (name, number, library) in [
            ("mlx5_0", 95, "Operation not supported (os error 95)"),
            ("mlx5_1", 93, "Protocol not supported (os error 93)"),
        ] {
            let context = Context::open(name).expect("a NIC");
            assert_eq!(context.dmabuf().expect("an answer"), Dmabuf::Refuses(number));
            let domain = context.domain().expect("a domain");
            let error = DmaBuf.register(&domain, &memory).expect_err("no such operation");
            let said = format!("{name} cannot register 65536 bytes (ibv_reg_dmabuf_mr)");
            assert_eq!(words(&error), (said, library.to_owned()));
            assert_eq!(error.errno(), Some(number));
            Peermem.register(&domain, &memory).expect("the other memory path");
        }
    });
}

#[test]
fn rejects_short_dma_buf() {
    on("rejects_short_dma_buf", &machine(), || {
        let domain = domain("mlx5_0");
        let (_, memory) = memory(0);
        let register = |skipped: usize, bytes: usize, offset: u64| {
            let address = memory.address().offset(skipped as u64);
            let file = dmabuf(address, bytes, DmaBufMapping::Default).expect("a dma-buf");
            domain.register_dmabuf(&memory, file.as_fd(), offset, Access::ALL).map(drop)
        };
        register(0, BYTES, 0).expect("it is registered");
        // Too short, starting elsewhere, and past the end.
        for (skipped, bytes, offset) in
            [(0, BYTES - 4096, 0), (4096, BYTES - 4096, 0), (0, BYTES, 4096)]
        {
            let error = register(skipped, bytes, offset).expect_err("it is not all there");
            assert_eq!(error.errno(), Some(22), "{error}");
        }
    });
}

#[test]
fn reports_missing_dma_buf_export() {
    let mut machine = machine();
    machine["gpus"][1]["attributes"] = json!({"124": 0});
    machine["dmabuf_pcie"] = json!(false);
    on("reports_missing_dma_buf_export", &machine, || {
        let ((_, first), (_, second)) = (memory(0), memory(1));
        let refused = |memory: &DeviceMemory, bytes, mapping, said: &str, kind| {
            let error = dmabuf(memory.address(), bytes, mapping).expect_err("it is refused");
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            assert_eq!(source, format!("cuMemGetHandleForAddressRange: {said}"));
            assert_eq!(error.kind(), kind);
        };
        for mapping in [DmaBufMapping::Default, DmaBufMapping::Pcie] {
            refused(&second, BYTES, mapping, "CUDA_ERROR_NOT_SUPPORTED (801)", Kind::Unsupported);
        }
        // A driver without the flag, and a length that is not a multiple of the page size.
        let invalid = "CUDA_ERROR_INVALID_VALUE (1)";
        refused(&first, BYTES, DmaBufMapping::Pcie, invalid, Kind::Invalid);
        refused(&first, 5000, DmaBufMapping::Default, invalid, Kind::Invalid);
        dmabuf(first.address(), BYTES, DmaBufMapping::Default).expect("a dma-buf");
    });
}

#[test]
fn pcie_mapping() {
    on("pcie_mapping", &machine(), || {
        let (mut here, there) = ends();
        let ((near_stream, local), (far_stream, peer)) = (memory(0), memory(1));
        let file = dmabuf(peer.address(), BYTES, DmaBufMapping::Pcie).expect("a dma-buf");
        let target = there.domain.register_dmabuf(&peer, file.as_fd(), 0, Access::ALL);
        let target = target.expect("it is registered");
        let source = Peermem.register(&here.domain, &local).expect("it is registered");
        near_stream.write(&local, 0, &bytes(3)).expect("it is written");
        let pieces = [source.sge(0, BYTES).expect("it is inside")];
        here.works(Work::Write(target.remote(), None), &pieces);
        assert!(all_of(&far_stream, &peer) == bytes(3));
    });
}

#[test]
fn rejects_inline_gpu_memory() {
    on("rejects_inline_gpu_memory", &machine(), || {
        let (mut here, there) = ends();
        let ((near_stream, local), (far_stream, peer)) = (memory(0), memory(1));
        near_stream.write(&local, 0, b"of the GPU").expect("it is written");
        far_stream.fill(&peer, 0, BYTES, 0).expect("it is filled");
        far_stream.synchronize().expect("it ends");
        let target = DmaBuf.register(&there.domain, &peer).expect("it is registered");
        let pinned = local.gpu().pinned(4096).expect("memory");
        pinned.write(0, b"of the host").expect("it is inside");
        let host = here.domain.register_host(&pinned, Access::ALL).expect("it is registered");
        let host = host.sge(0, 11).expect("it is inside");
        for memory_path in [Peermem, DmaBuf] {
            let source = memory_path.register(&here.domain, &local).expect("it is registered");
            let device = source.sge(0, 10).expect("it is inside");
            for pieces in [&[device][..], &[host, device]] {
                let work = Work::Write(target.remote(), None);
                let request = Request { inline: true, ..Request::new(1, work, pieces) };
                let error = here.done(&request).expect_err("the CPU does not reach it");
                assert!(matches!(error, Error::Inline), "{error:?}");
                assert_eq!(error.to_string(), "inline data cannot be GPU memory");
            }
            assert!(here.is_idle(), "nothing was posted");
            assert_eq!(all_of(&far_stream, &peer)[..11], [0; 11]);
            // The same request works without inline, and the pair is unchanged.
            here.works(Work::Write(target.remote().offset(100), None), &[device]);
            assert_eq!(all_of(&far_stream, &peer)[99..111], *b"\0of the GPU\0");
        }
        // Host memory can be inline.
        let pieces = [host];
        let request = Request {
            inline: true,
            ..Request::new(2, Work::Write(target.remote().offset(200), None), &pieces)
        };
        let completion = here.done(&request).expect("it is taken");
        assert!(completion.outcome.is_ok(), "{completion:?}");
        assert_eq!(all_of(&far_stream, &peer)[199..212], *b"\0of the host\0");
    });
}

#[test]
fn registers_part_of_buffer() {
    on("registers_part_of_buffer", &machine(), || {
        let domain = domain("mlx5_0");
        let buffer = Buffer::new(8192, Pages::Ordinary).expect("memory");
        let access = Access { remote_read: true, ..Access::default() };
        let region = domain.register_part(&buffer, 4096..6144, access).expect("it is registered");
        assert_eq!((region.remote().address, region.len()), (buffer.address() + 4096, 2048));
        assert!(region.sge(2000, 49).is_err());
        for part in [4096..8193, 8192..8193, 9000..9001] {
            let error =
                domain.register_part(&buffer, part.clone(), access).expect_err("beyond its end");
            assert!(matches!(error, Error::Range { .. }), "{part:?}: {error}");
        }
    });
}
