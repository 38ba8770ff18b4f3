//! One end of the connection: a proxy HCA, a queue pair, registered memory, a stream and a TCP control connection.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use gdsync::hca::proxy::{Options, ProxyHca};
use gdsync::hca::{Access, Endpoint, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::queue::CompletionQueue;
use gdsync::wire::{Completion, Event, RemoteAddress, Wqe};
use gdsync::{Allocator, MappedMemory, MemoryLocation};
use gpu::{Gpu, Stream};

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const PORT: u16 = 18520;
/// Timeout of every wait; long, because CPUs may be emulated.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of each end's memory.
const BYTES: usize = 2 * BULK;
/// Bytes of a bulk transfer.
pub const BULK: usize = 64 << 10;

pub struct End {
    hca: ProxyHca,
    pair: QueuePair,
    pub memory: MappedMemory,
    pub region: MemoryRegion,
    stream: Stream,
    control: TcpStream,
    reader: BufReader<TcpStream>,
    peer: RemoteAddress,
}

impl End {
    pub fn server(device: &str) -> Outcome<Self> {
        let listener = TcpListener::bind(("0.0.0.0", PORT))?;
        Self::new(device, listener.accept()?.0)
    }

    pub fn client(device: &str, address: &str) -> Outcome<Self> {
        let start = Instant::now();
        loop {
            match TcpStream::connect((address, PORT)) {
                Ok(control) => return Self::new(device, control),
                Err(error) if start.elapsed() > TIMEOUT => return Err(error.into()),
                // The server does not listen yet.
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn new(device: &str, control: TcpStream) -> Outcome<Self> {
        control.set_read_timeout(Some(TIMEOUT * 2))?;
        let allocator = Allocator::new(Gpu::sim(), None);
        let options = Options {
            // ACK timeout of about 4 s.
            timeout: 20,
            ..Options::default()
        };
        let hca = ProxyHca::open(allocator.clone(), &verbs::Context::open(device)?, options)?;
        let memory = allocator.place(MemoryLocation::Host, BYTES)?;
        let mut end = Self {
            pair: hca.create(&Request::default())?,
            region: hca.register(&memory, Access::ALL)?,
            stream: allocator.gpu().stream()?,
            reader: BufReader::new(control.try_clone()?),
            peer: RemoteAddress { address: 0, key: 0 },
            control,
            memory,
            hca,
        };
        let (address, key) = (end.region.address, end.region.rkey);
        writeln!(end.control, "{} {address:x} {key:x}", end.pair.endpoint)?;
        let line = end.line()?;
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or("truncated message from the peer");
        let peer: Endpoint = word()?.parse()?;
        end.peer.address = u64::from_str_radix(word()?, 16)?;
        end.peer.key = u32::from_str_radix(word()?, 16)?;
        end.hca.connect(end.pair.endpoint, peer, RetryPolicy::default())?;
        println!("{} to {peer}", end.pair.endpoint);
        Ok(end)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Waits until both ends have reached this point.
    pub fn synchronize_with_peer(&mut self, name: &str) -> Outcome {
        writeln!(self.control, "{name}")?;
        let line = self.line()?;
        if line != name {
            return Err(format!("expected {name:?} from the peer, received {line:?}").into());
        }
        Ok(())
    }

    pub fn peer(&self, offset: usize) -> RemoteAddress {
        RemoteAddress { address: self.peer.address + offset as u64, ..self.peer }
    }

    pub fn post(&mut self, offset: usize, bytes: usize) -> Outcome {
        self.pair.receive.post(&[self.region.segment(offset as u64, bytes as u32)])?;
        Ok(())
    }

    pub fn ring(&mut self, entry: &Wqe) -> Outcome {
        let prepared = self.pair.send.prepare(entry)?;
        Ok(self.stream.batch(&prepared.operations()?)?)
    }

    /// Makes the stream wait for the next send completion.
    pub fn wait_sent(&mut self) -> Outcome {
        let wait = self.pair.send_completions.take_wait()?;
        Ok(self.stream.batch(&wait.operations(true)?)?)
    }

    /// Makes the stream wait for the next receive completion.
    pub fn wait_received(&mut self) -> Outcome {
        let wait = self.pair.receive_completions.take_wait()?;
        Ok(self.stream.batch(&wait.operations(true)?)?)
    }

    pub fn synchronize(&self) -> Outcome {
        Ok(self.stream.synchronize_within(TIMEOUT)?)
    }

    /// Rings and waits by the stream.
    pub fn execute(&mut self, entry: &Wqe, opcode: u8) -> Outcome {
        self.ring(&entry.clone().signalled())?;
        self.wait_sent()?;
        self.synchronize()?;
        self.expect_sent(opcode)
    }

    pub fn expect_sent(&mut self, opcode: u8) -> Outcome {
        let completion = next(&mut self.pair.send_completions)?;
        self.pair.send.complete(&completion)?;
        match completion.event {
            Event::Sent { opcode: done } if done == opcode => Ok(()),
            other => Err(format!("opcode {opcode:#x}: unexpected {other:?}").into()),
        }
    }

    pub fn expect_received(&mut self, counter: usize, event: Event, bytes: usize) -> Outcome {
        let completion = next(&mut self.pair.receive_completions)?;
        self.pair.receive.complete(&completion)?;
        let seen = (usize::from(completion.counter), completion.event, completion.bytes as usize);
        if seen != (counter, event, bytes) {
            return Err(format!("received {seen:?}, expected {:?}", (counter, event, bytes)).into());
        }
        Ok(())
    }

    pub fn expect_failure(&mut self, what: &str, code: u8) -> Outcome {
        let completion = next(&mut self.pair.send_completions)?;
        match completion.event {
            Event::SendFailed(failed) if failed.syndrome.code() == code => {
                println!("ok: {what}: {}", failed.syndrome);
                Ok(())
            }
            other => Err(format!("{what}: {other:?}").into()),
        }
    }

    /// Expects that a posted receive failed.
    pub fn expect_receive_failure(&mut self) -> Outcome {
        let completion = next(&mut self.pair.receive_completions)?;
        match completion.event {
            Event::ReceiveFailed(failed) => {
                println!("ok: the posted receive failed: {}", failed.syndrome);
                Ok(())
            }
            other => Err(format!("expected a failed receive: {other:?}").into()),
        }
    }

    pub fn is_quiet(&mut self) -> Outcome {
        match self.pair.send_completions.poll()? {
            None => Ok(()),
            Some(completion) => Err(format!("unexpected {completion:?}").into()),
        }
    }

    pub fn compare(&self, what: &str, offset: usize, expected: &[u8]) -> Outcome {
        let mut seen = vec![0; expected.len()];
        self.memory.read(offset, &mut seen)?;
        match seen.iter().zip(expected).position(|(seen, expected)| seen != expected) {
            None => println!("ok: {what}, {} bytes", expected.len()),
            Some(at) => {
                return Err(format!("{what}: byte {at} of {} is wrong", expected.len()).into());
            }
        }
        Ok(())
    }
}

fn next(queue: &mut CompletionQueue) -> Outcome<Completion> {
    let start = Instant::now();
    loop {
        if let Some(completion) = queue.poll()? {
            return Ok(completion);
        }
        if start.elapsed() > TIMEOUT {
            return Err("no completion".into());
        }
        std::thread::yield_now();
    }
}
