//! A communicator: rank, size, and an all-gather with a timeout.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::Error;
use super::functions::{Handle, Mpi, check};

/// An MPI communicator of this process.
#[derive(Debug, Clone, Copy)]
pub struct Communicator {
    pub(crate) mpi: Mpi,
    pub(crate) handle: Handle,
    rank: u32,
    size: u32,
}

/// Tests without a pause, before the CPU is yielded between them.
const SPINS: u32 = 1000;

impl Communicator {
    /// # Safety
    ///
    /// The handle is a communicator of this MPI while the result lives.
    pub(crate) unsafe fn new(mpi: Mpi, handle: Handle) -> Result<Self, Error> {
        if !mpi.is_initialized() {
            return Err(Error::NotInitialized);
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the caller's promise.
        check("MPI_Comm_rank", unsafe { (mpi.0.comm_rank)(handle, &raw mut rank) })?;
        // SAFETY: as above.
        check("MPI_Comm_size", unsafe { (mpi.0.comm_size)(handle, &raw mut size) })?;
        Ok(Self {
            mpi,
            handle,
            rank: rank.max(0).cast_unsigned(),
            size: size.max(1).cast_unsigned(),
        })
    }

    /// This process's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Lets errors be returned instead of ending the process.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`].
    pub fn return_errors(&self) -> Result<(), Error> {
        self.mpi.return_errors(self.handle)
    }

    /// Gathers the bytes of all ranks, which may differ in length, by rank. Every rank must call it, from the thread that uses MPI.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]: later collective operations of this communicator are then out of step. [`Error::Length`],
    /// [`Error::NotInitialized`], [`Error::Failed`].
    pub fn all_gather(&self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let length =
            u32::try_from(bytes.len()).map_err(|_| Error::Length { bytes: bytes.len() })?;
        let lengths = self.gather_equal(length.to_ne_bytes().to_vec(), timeout)?;
        let (lengths, _) = lengths.as_chunks::<4>();
        let lengths: Vec<usize> =
            lengths.iter().map(|length| u32::from_ne_bytes(*length) as usize).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); self.size as usize]);
        }
        let mut padded = bytes.to_vec();
        padded.resize(longest, 0);
        let all = self.gather_equal(padded, timeout)?;
        let parts = all.chunks(longest).zip(lengths);
        Ok(parts.map(|(part, length)| part[..length].to_vec()).collect())
    }

    /// Gathers as many bytes from each rank.
    fn gather_equal(&self, own: Vec<u8>, timeout: Duration) -> Result<Vec<u8>, Error> {
        const NAME: &str = "MPI_Iallgather";
        if !self.mpi.is_initialized() {
            return Err(Error::NotInitialized);
        }
        let bytes = own.len() * self.size as usize;
        let count = c_int::try_from(own.len()).map_err(|_| Error::Length { bytes })?;
        let mut all = vec![0; bytes];
        let (functions, mut request, byte) = (self.mpi.0, 0, self.mpi.0.byte);
        // SAFETY: both buffers live until MPI has completed the request, or for ever if it does not.
        check(NAME, unsafe {
            (functions.iallgather)(
                own.as_ptr().cast(),
                count,
                byte,
                all.as_mut_ptr().cast(),
                count,
                byte,
                self.handle,
                &raw mut request,
            )
        })?;
        let start = Instant::now();
        for tests in 0_u32.. {
            let mut done = 0;
            // SAFETY: the request is in progress; the status is MPI_STATUS_IGNORE.
            let code =
                unsafe { (functions.test)(&raw mut request, &raw mut done, functions.no_status) };
            if let Err(error) = check("MPI_Test", code) {
                std::mem::forget((own, all));
                return Err(error);
            }
            if done != 0 {
                return Ok(all);
            }
            if tests > SPINS {
                std::thread::yield_now();
            }
            if start.elapsed() >= timeout {
                break;
            }
        }
        // MPI may still write them.
        std::mem::forget((own, all));
        Err(Error::TimedOut { function: NAME, timeout })
    }

    pub(crate) fn arguments(&self, bytes: usize, rank: u32) -> Result<(c_int, c_int), Error> {
        if !self.mpi.is_initialized() {
            return Err(Error::NotInitialized);
        }
        match (c_int::try_from(bytes), c_int::try_from(rank)) {
            (Ok(count), Ok(rank)) => Ok((count, rank)),
            _ => Err(Error::Length { bytes }),
        }
    }
}
