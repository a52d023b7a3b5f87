//! Content codings: compression of files, and decoding that accepts nothing but whole forms.
use brotli::{
    BrotliDecompressStream, BrotliResult, BrotliState, enc::BrotliEncoderParams,
    reader::StandardAlloc,
};
use flate2::{Compression, bufread::MultiGzDecoder, write::GzEncoder};
use regatta_op::Coding;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Window of zstd that every browser accepts, as a power of two: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Levels of zstd up to this one have no longer window.
pub(crate) const ZSTD_LEVEL_MAX: i32 = 19;
/// Level of Brotli with the smallest result.
const BROTLI_LEVEL: i32 = 11;
/// Windows of Brotli, as powers of two (RFC 7932 §9.1).
const BROTLI_WINDOW_LOGS: (u32, u32) = (10, 24);
/// Bytes at the end of a window of Brotli that are not used.
const BROTLI_WINDOW_GAP: u64 = 16;
/// Bytes of a form that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Compresses the input by gzip, without a name and a time: equal inputs have equal results.
pub(crate) fn gzip(mut input: impl Read, level: u32) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    io::copy(&mut input, &mut encoder)?;
    encoder.finish()
}

/// Compresses the input, which has this length, by zstd. The frame contains the length. `level` is
/// at most [`ZSTD_LEVEL_MAX`].
pub(crate) fn zstd(mut input: impl Read, len: u64, level: i32) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), level.min(ZSTD_LEVEL_MAX))?;
    encoder.set_pledged_src_size(Some(len))?;
    io::copy(&mut input, &mut encoder)?;
    encoder.finish()
}

/// Compresses the input, which has about this length, by Brotli at its highest level. The window is
/// no longer than the input needs: that saves memory of clients.
pub(crate) fn brotli(mut input: impl Read, len: u64) -> io::Result<Vec<u8>> {
    let (min, max) = BROTLI_WINDOW_LOGS;
    let window_log = (u64::BITS - (len + BROTLI_WINDOW_GAP).leading_zeros()).clamp(min, max);
    let params = BrotliEncoderParams {
        quality: BROTLI_LEVEL,
        lgwin: window_log.cast_signed(),
        size_hint: usize::try_from(len).unwrap_or(usize::MAX),
        ..BrotliEncoderParams::default()
    };
    let mut form = Vec::new();
    brotli::BrotliCompress(&mut input, &mut form, &params)?;
    Ok(form)
}

/// Decodes a form. Reading fails where the form is malformed or truncated, and where more bytes
/// follow its end. As with the programs of the codings, several members of gzip or frames of zstd
/// may follow each other. Memory is limited by the window of the coding.
pub(crate) fn decoder<'a>(coding: Coding, form: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let form = BufReader::with_capacity(READ_BYTES, form);
    Ok(match coding {
        Coding::Gzip => Box::new(MultiGzDecoder::new(form)),
        Coding::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(form)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        Coding::Brotli => Box::new(BrotliDecoder::new(form)),
    })
}

/// Decoder of one stream of Brotli. Readers of the library stop at the end of the stream, and
/// report no bytes behind it.
struct BrotliDecoder<R> {
    form: R,
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    ended: bool,
}

impl<R: BufRead> BrotliDecoder<R> {
    fn new(form: R) -> Self {
        let alloc = StandardAlloc::default;
        // No windows over 16 MiB, which are an extension.
        Self { form, state: BrotliState::new_strict(alloc(), alloc(), alloc()), ended: false }
    }
}

impl<R: BufRead> Read for BrotliDecoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !into.is_empty() {
            let form = self.form.fill_buf()?;
            if self.ended {
                let is_whole = form.is_empty();
                return if is_whole { Ok(0) } else { Err(ErrorKind::InvalidData.into()) };
            }
            let (mut unread, mut read) = (form.len(), 0);
            let (mut room, mut written, mut total) = (into.len(), 0, 0);
            let result = BrotliDecompressStream(
                &mut unread,
                &mut read,
                form,
                &mut room,
                &mut written,
                into,
                &mut total,
                &mut self.state,
            );
            let is_at_end = form.is_empty();
            self.form.consume(read);
            match result {
                BrotliResult::ResultFailure => return Err(ErrorKind::InvalidData.into()),
                BrotliResult::ResultSuccess => self.ended = true,
                BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            }
            if written > 0 {
                return Ok(written);
            }
            if is_at_end && !self.ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that compresses well.
    fn text(times: usize) -> Vec<u8> {
        let lines = (0..times).map(|line| format!("all work and no play, line {line}\n"));
        lines.collect::<String>().into_bytes()
    }

    fn encoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let len = bytes.len() as u64;
        let form = match coding {
            Coding::Gzip => gzip(bytes, 9),
            Coding::Zstd => zstd(bytes, len, ZSTD_LEVEL_MAX),
            Coding::Brotli => brotli(bytes, len),
        };
        form.expect("memory does not fail")
    }

    fn decoded(coding: Coding, form: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        decoder(coding, form)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn forms_decode_to_their_bytes_and_are_small() {
        for bytes in [Vec::new(), b"x".to_vec(), text(20), text(5_000)] {
            for coding in Coding::ALL {
                let form = encoded(coding, &bytes);
                assert_eq!(form, encoded(coding, &bytes), "{coding:?} has no time");
                assert!(form.len() < bytes.len() / 2 + 30, "{coding:?}: {}", form.len());
                assert_eq!(decoded(coding, &form).expect("it is whole"), bytes, "{coding:?}");
            }
        }
    }

    /// Every part of a form but the whole is refused, and so is any byte behind it.
    #[test]
    fn only_whole_forms_are_accepted() {
        let bytes = text(20);
        for coding in Coding::ALL {
            let form = encoded(coding, &bytes);
            for len in 1..form.len() {
                assert!(decoded(coding, &form[..len]).is_err(), "{coding:?}: {len} bytes");
            }
            for trailing in [&b"\0"[..], b"x", b"trailing bytes"] {
                let longer = [&*form, trailing].concat();
                assert!(decoded(coding, &longer).is_err(), "{coding:?} and {trailing:?}");
            }
            let twice = decoded(coding, &[&*form, &form].concat());
            match coding {
                // A stream of Brotli has its length, and no other may follow.
                Coding::Brotli => assert!(twice.is_err()),
                _ => assert_eq!(twice.expect("two are a form"), [&*bytes, &bytes].concat()),
            }
        }
    }

    /// The end of a stream may be the end of what was read at once.
    #[test]
    fn bytes_that_are_read_after_the_end_are_refused() {
        let form = encoded(Coding::Brotli, &text(20));
        for (trailing, is_whole) in [(&b""[..], true), (b"x", false)] {
            let longer = [&*form, trailing].concat();
            for capacity in [1, 7, form.len()] {
                let slow = BufReader::with_capacity(capacity, &*longer);
                let read = BrotliDecoder::new(slow).read_to_end(&mut Vec::new());
                assert_eq!(read.is_ok(), is_whole, "{capacity} bytes at once");
            }
        }
    }

    #[test]
    fn windows_are_those_that_browsers_accept() {
        let bytes = vec![b'x'; (9 << 20) + 1];
        let form = encoded(Coding::Zstd, &bytes);
        assert_eq!(decoded(Coding::Zstd, &form).expect("8 MiB at most").len(), bytes.len());
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("a level");
        encoder.window_log(ZSTD_WINDOW_LOG_MAX + 1).expect("a window");
        io::copy(&mut &*bytes, &mut encoder).expect("memory does not fail");
        let form = encoder.finish().expect("memory does not fail");
        assert!(decoded(Coding::Zstd, &form).is_err(), "16 MiB");
        // Brotli's extension has windows of up to 1 GiB.
        let params = BrotliEncoderParams {
            quality: 5,
            large_window: true,
            lgwin: 26,
            ..BrotliEncoderParams::default()
        };
        let mut form = Vec::new();
        brotli::BrotliCompress(&mut &bytes[..5_000], &mut form, &params).expect("memory");
        assert!(decoded(Coding::Brotli, &form).is_err());
    }
}
