//! Two processes send each other a message when their streams reach it.
//!
//! `mpirun -n 2 two_ranks`, with GPU 0 and an RDMA device; `mpirun -n 2 two_ranks sim` simulates both.

use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use gdsync::{Allocator, MemoryLocation};
use gpu::Gpu;
use mp::{Communicator, HcaKind, Options, Selection, Transfer, bootstrap};

fn main() -> Result<(), Box<dyn Error>> {
    let is_sim = std::env::args().any(|argument| argument == "sim");
    let (gpu, kind) =
        if is_sim { (Gpu::sim(), HcaKind::Software) } else { (Gpu::open(0)?, HcaKind::Auto) };
    // The ranks find each other by the variables of mpirun or srun, or by MP_RANK, MP_SIZE and MP_ADDRESS or MP_DIRECTORY.
    let timeout = Duration::from_secs(60);
    let mut ranks = bootstrap::from_environment(&|name| std::env::var(name).ok(), timeout)?;
    let allocator = Allocator::new(gpu, None);
    let selection = Selection { kind, ..Selection::default() };
    let opened = selection.open(&mut *ranks, &allocator, timeout)?;
    let ranks = Communicator::connect(ranks, opened.hca, allocator, Options::default())?;
    let peer = 1 - ranks.rank();

    let memory = ranks.allocator().place(MemoryLocation::Host, 4096)?;
    let region = ranks.register(&memory)?;
    // Before the peer sends.
    let received = ranks.receive(peer, &region, 2048..4096)?;
    let message = format!("hello from rank {}", ranks.rank());
    memory.write(0, message.as_bytes())?;

    let stream = ranks.allocator().gpu().stream()?;
    let sent = ranks.start_on(&stream, &Transfer::send(peer, &region, 0..message.len()))?;
    ranks.wait_on(&stream, [&received])?;
    // Kernels that are launched on the stream now see the message.
    let bytes = ranks.wait(received)?;
    ranks.wait(sent)?;

    let mut text = vec![0; bytes as usize];
    memory.read(2048, &mut text)?;
    let text = String::from_utf8_lossy(&text);
    writeln!(std::io::stdout(), "{}: {text}", opened.name)?;
    ranks.finalize()?;
    Ok(())
}
