//! Decompresses a stream: an initramfs, or a file that a user named. Memory is bounded: dictionaries and
//! windows up to 32 MiB, as `xz -8` and `zstd -19` need.

use std::cell::Cell;
use std::io::{self, Read};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use xz4rust::{XzDecoder, XzError};

use super::lookahead::{Lookahead, fill, invalid, truncated};
use super::syntax::zstd_error;

const LARGEST: usize = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
    Lz4,
}

impl Compression {
    /// Detects the compression of an initramfs from its first bytes like the kernel (lib/decompress.c).
    pub fn of(first: &[u8]) -> io::Result<Self> {
        match first {
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => Ok(Self::None),
            _ => Self::signature(first)?.ok_or_else(|| invalid("not an initramfs")),
        }
    }

    fn signature(first: &[u8]) -> io::Result<Option<Self>> {
        match first {
            [0x1f, 0x8b | 0x9e, ..] => Ok(Some(Self::Gzip)),
            [0xfd, b'7', ..] => Ok(Some(Self::Xz)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Some(Self::Zstd)),
            [0x02, 0x21, 0x4c, 0x18, ..] => Ok(Some(Self::Lz4)),
            [b'B', b'Z', b'h', ..] => Err(invalid("bzip2 compression is not supported")),
            [0x5d, 0x00, ..] => Err(invalid("lzma compression is not supported")),
            [0x89, 0x4c, 0x5a, 0x4f, ..] => Err(invalid("lzop compression is not supported")),
            _ => Ok(None),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// The decompressed stream; afterwards the input is positioned after it.
    pub fn unpack<'i, 's>(self, input: &'i mut Lookahead<'s>) -> io::Result<Box<dyn Read + 'i>> {
        Ok(match self {
            Self::None => Box::new(input),
            Self::Gzip => Box::new(Gzip::new(input, false)?),
            Self::Xz => Box::new(Xz {
                input,
                // 1 MiB is dracut's choice; grows up to the limit if the stream needs more.
                decoder: XzDecoder::in_heap_with_alloc_dict_size(1 << 20, LARGEST),
                ended: false,
            }),
            Self::Zstd => {
                let mut decoder = FrameDecoder::new();
                decoder.set_max_window_size(LARGEST as u64);
                let decoder = StreamingDecoder::new_with_decoder(input, decoder);
                Box::new(Zstd(decoder.map_err(|error| invalid(zstd_error(&error)))?))
            }
            Self::Lz4 => {
                input.consume(4);
                Box::new(Lz4 { input, block: Vec::new(), at: 0 })
            }
        })
    }
}

/// Passes the content of a file that a user named to `read`, decompressed if it is compressed.
///
/// A file of a few bytes can unpack to terabytes of zeros, so reading fails beyond 1 GiB, except for a
/// file that is large itself: logs and archives of reports shrink by factors of 5 to 50.
pub fn unpacked<T, E: From<io::Error>>(
    file: &mut dyn Read,
    read: impl FnOnce(&mut Lookahead<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let packed = Cell::new(0);
    let mut file = Counted { file, count: &packed };
    let mut input = Lookahead::new(&mut file);
    let content: Box<dyn Read + '_> = match Compression::signature(input.peek(6)?)? {
        None => return read(&mut input),
        Some(Compression::Gzip) => Box::new(Gzip::new(&mut input, true)?),
        Some(compression) => compression.unpack(&mut input)?,
    };
    let mut content = Limited { content, count: 0, packed: &packed };
    read(&mut Lookahead::new(&mut content))
}

const MAX_UNPACKED: u64 = 1 << 30;
const MAX_RATIO: u64 = 100;

struct Counted<'f> {
    file: &'f mut dyn Read,
    count: &'f Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(out)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

struct Limited<'f> {
    content: Box<dyn Read + 'f>,
    count: u64,
    packed: &'f Cell<u64>,
}

impl Read for Limited<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(out)?;
        self.count += count as u64;
        if self.count > MAX_UNPACKED.max(self.packed.get().saturating_mul(MAX_RATIO)) {
            return Err(invalid(format!(
                "the file unpacks to more than {} GiB and to more than {MAX_RATIO} times its size",
                MAX_UNPACKED >> 30
            )));
        }
        Ok(count)
    }
}

/// A decoder whose errors are plain words.
struct Zstd<R>(R);

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|error| invalid(zstd_error(&error)))
    }
}

/// One gzip member (RFC 1952), or all of a file: programs append members to a log. Their checksums are not
/// verified.
struct Gzip<'i, 's> {
    input: &'i mut Lookahead<'s>,
    state: Box<InflateState>,
    all: bool,
    ended: bool,
}

impl<'i, 's> Gzip<'i, 's> {
    fn new(input: &'i mut Lookahead<'s>, all: bool) -> io::Result<Self> {
        gzip_header(input)?;
        Ok(Self { input, state: InflateState::new_boxed(DataFormat::Raw), all, ended: false })
    }

    /// Skips a member's checksum and the header of the next.
    fn next_member(&mut self) -> io::Result<()> {
        skip(self.input, 8)?;
        self.ended = !(self.all && self.input.peek(2)? == [0x1f, 0x8b]);
        if !self.ended {
            gzip_header(self.input)?;
            self.state.reset(DataFormat::Raw);
        }
        Ok(())
    }
}

fn gzip_header(input: &mut Lookahead<'_>) -> io::Result<()> {
    let mut head = [0; 10];
    fill(input, &mut head)?;
    let flags = head[3];
    if flags & 4 != 0 {
        let mut length = [0; 2];
        fill(input, &mut length)?;
        skip(input, u64::from(u16::from_le_bytes(length)))?;
    }
    // File name and comment.
    for flag in [8, 16] {
        let mut byte = [u8::from(flags & flag != 0)];
        while byte[0] != 0 {
            fill(input, &mut byte)?;
        }
    }
    match flags & 2 {
        0 => Ok(()),
        _ => skip(input, 2),
    }
}

impl Read for Gzip<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !out.is_empty() {
            let buffered = self.input.buffered()?;
            let at_end = buffered.is_empty();
            let done = inflate(&mut self.state, buffered, out, MZFlush::None);
            self.input.consume(done.bytes_consumed);
            match done.status {
                Ok(MZStatus::StreamEnd) => self.next_member()?,
                Ok(_) if done.bytes_written == 0 && done.bytes_consumed == 0 && at_end => {
                    return Err(truncated());
                }
                Ok(_) => {}
                Err(_) if at_end => return Err(truncated()),
                Err(_) => return Err(invalid("invalid gzip data")),
            }
            if done.bytes_written > 0 {
                return Ok(done.bytes_written);
            }
        }
        Ok(0)
    }
}

struct Xz<'i, 's> {
    input: &'i mut Lookahead<'s>,
    decoder: Box<XzDecoder<'static>>,
    ended: bool,
}

impl Read for Xz<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !out.is_empty() {
            let buffered = self.input.buffered()?;
            if buffered.is_empty() {
                return Err(truncated());
            }
            match self.decoder.decode(buffered, out) {
                Ok(done) => {
                    self.input.consume(done.input_consumed());
                    self.ended = done.is_end_of_stream();
                    if done.output_produced() > 0 {
                        return Ok(done.output_produced());
                    }
                    if !done.made_progress() && !self.ended && !self.input.more()? {
                        return Err(truncated());
                    }
                }
                Err(XzError::NeedsLargerInputBuffer) => {
                    if !self.input.more()? {
                        return Err(truncated());
                    }
                }
                Err(error) => return Err(invalid(format!("invalid xz data: {error}"))),
            }
        }
        Ok(0)
    }
}

/// LZ4's legacy frame, which the kernel uses: blocks of 8 MiB, each after its compressed length.
struct Lz4<'i, 's> {
    input: &'i mut Lookahead<'s>,
    block: Vec<u8>,
    at: usize,
}

/// Size of a block, and its maximum when compressed (LZ4_compressBound).
const BLOCK: usize = 8 << 20;
const MAX_PACKED: usize = BLOCK + BLOCK / 255 + 16;

impl Read for Lz4<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.next()? {
            return Ok(0);
        }
        let rest = &self.block[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

impl Lz4<'_, '_> {
    /// Decompresses the next block; false at the end.
    fn next(&mut self) -> io::Result<bool> {
        const MAGIC: usize = 0x184c_2102;
        let length = loop {
            match *self.input.peek(4)? {
                [a, b, c, d] => match u32::from_le_bytes([a, b, c, d]) as usize {
                    MAGIC => self.input.consume(4),
                    0 => return Ok(false),
                    length => break length,
                },
                // Too short for a block.
                _ => return Ok(false),
            }
        };
        if length > MAX_PACKED {
            return Err(invalid("invalid LZ4 data"));
        }
        self.input.consume(4);
        let packed = self.input.peek(length)?;
        if packed.len() < length {
            return Err(truncated());
        }
        self.block.resize(BLOCK, 0);
        let unpacked = lz4_flex::block::decompress_into(packed, &mut self.block);
        self.input.consume(length);
        self.at = 0;
        self.block.truncate(unpacked.map_err(|_| invalid("invalid LZ4 data"))?);
        // An empty block would look like the end of the stream.
        if self.block.is_empty() { Err(invalid("invalid LZ4 data")) } else { Ok(true) }
    }
}

fn skip(input: &mut Lookahead<'_>, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut input.take(count), &mut io::sink())?;
    if skipped < count {
        return Err(truncated());
    }
    Ok(())
}
