//! Gathers bytes of all ranks and sends messages around, with the MPI library of the launcher: `mpirun -n 3 mpi_gather`.

use std::io::Write as _;
use std::time::Duration;

use mp::mpi::{Error, Memory, Mpi};

const LENGTH: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mpi = Mpi::open()?;
    assert_eq!(mpi.world().err(), Some(Error::NotInitialized));
    mpi.init()?;
    let world = mpi.world()?;
    let (rank, size) = (world.rank(), world.size());
    for length in [0, 1, 5000] {
        let own = vec![rank as u8; length * rank as usize];
        let all = world.all_gather(&own, Duration::from_secs(60))?;
        let expected = |rank: u32| vec![rank as u8; length * rank as usize];
        assert!(all.into_iter().eq((0..size).map(expected)));
    }
    // Both directions at once, and a message that is too long for its buffer.
    world.return_errors()?;
    let host = gpu::Gpu::sim().pageable(2 * LENGTH)?;
    let memory = Memory::Host(host.clone());
    for bytes in [1, LENGTH] {
        host.write(0, &vec![rank as u8 + 1; bytes])?;
        let mut requests = [
            world.irecv(&memory, (LENGTH, bytes), (rank + size - 1) % size)?,
            world.isend(&memory, (0, bytes), (rank + 1) % size)?,
        ];
        for request in &mut requests {
            while !request.is_done()? {}
        }
        let mut received = vec![0; bytes];
        host.read(LENGTH, &mut received)?;
        let previous = (rank + size - 1) % size;
        assert!(received.iter().all(|byte| *byte == previous as u8 + 1));
    }
    let outside = world.isend(&memory, (LENGTH, LENGTH + 1), 0).err();
    assert!(matches!(outside, Some(Error::Range { .. })), "{outside:?}");
    let nobody = world.isend(&memory, (0, 1), size).err();
    let Some(Error::Failed { code, .. }) = nobody else {
        return Err(format!("a message to nobody: {nobody:?}").into());
    };
    assert!(mpi.meaning(code).contains("rank"), "{}", mpi.meaning(code));
    let line = format!(
        "rank {rank} of {size}: {:?}, {}, {:?}, {:?}\n",
        mpi.abi(),
        mpi.version(),
        mpi.cuda_support()?,
        mpi.file()
    );
    std::io::stdout().write_all(line.as_bytes())?;
    // Rank 0 does not call it.
    let timeout = Duration::from_millis(200);
    if rank == 0 {
        std::thread::sleep(timeout * 4);
    } else {
        let late = world.all_gather(&[1], timeout);
        assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    }
    // MPI_Finalize would wait for the exchange.
    std::process::exit(0);
}
