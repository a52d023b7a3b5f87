//! A client of HTTP/2 for other drivers' schedules: it requests files, and opens its windows wide.
use super::{encoder::FieldText, stream::read_response, violation::push_frame};
use crate::{
    BrokenCheck,
    dice::index,
    frames::{Answer, FAILED, NOT_FOUND, UNAVAILABLE},
    reader::Response,
    trace::Stamp,
};
use regatta_http::h2::{
    frame::{
        self, ACK, END_HEADERS, END_STREAM, FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES, FrameHead,
        FrameKind, PREFACE,
    },
    hpack::{HpackDecoder, TABLE_BYTES_DEFAULT, write_field},
};

/// Windows, bytes: more than all answers have.
const WINDOW_BYTES: u32 = 1 << 24;
/// Number of the setting of a stream's first window.
const INITIAL_WINDOW_SIZE: u8 = 4;

/// Request of a client.
#[derive(Debug, Default)]
struct Fetch {
    file: u8,
    response: Option<Response>,
    is_over: bool,
}

/// Client that requests files by HTTP/2, each in a stream of its own.
#[derive(Debug)]
pub struct Http2Fetcher {
    names: &'static [&'static str],
    fetches: Vec<Fetch>,
    decoder: HpackDecoder,
    inbox: Vec<u8>,
    block: Option<(u32, u8, Vec<u8>)>,
    /// Whether the server has answered an unfinished preface by HTTP/1.
    is_text: bool,
}

impl Http2Fetcher {
    /// Requests these files, by number. A number beyond the names is that of a missing file.
    #[must_use]
    pub fn new(names: &'static [&'static str], files: Vec<u8>) -> Self {
        let fetch = |file| Fetch { file, ..Fetch::default() };
        Self {
            names,
            fetches: files.into_iter().map(fetch).collect(),
            decoder: HpackDecoder::for_client(TABLE_BYTES_DEFAULT),
            inbox: Vec::new(),
            block: None,
            is_text: false,
        }
    }

    /// All bytes that the client sends, and the ends of its requests in them. It acknowledges the
    /// server's settings in advance.
    #[must_use]
    pub fn wire(&self) -> (Vec<u8>, Vec<usize>) {
        let (mut wire, mut ends) = (PREFACE.to_vec(), Vec::new());
        let [a, b, c, d] = WINDOW_BYTES.to_be_bytes();
        let settings = [0, INITIAL_WINDOW_SIZE, a, b, c, d];
        push_frame(&mut wire, FrameKind::Settings.number(), 0, 0, &settings);
        push_frame(&mut wire, FrameKind::Settings.number(), ACK, 0, &[]);
        frame::write_window_update(&mut wire, 0, WINDOW_BYTES);
        for (number, fetch) in self.fetches.iter().enumerate() {
            let name = self.names.get(usize::from(fetch.file)).unwrap_or(&"none");
            let mut block = Vec::new();
            let fields: [FieldText; 4] = [
                (":method", "GET".to_owned()),
                (":scheme", "http".to_owned()),
                (":path", format!("/{name}")),
                (":authority", "a".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value.into_bytes()));
            for (name, value) in &fields {
                write_field(&mut block, name, value);
            }
            let flags = END_HEADERS | END_STREAM;
            push_frame(&mut wire, FrameKind::Headers.number(), flags, stream_of(number), &block);
            ends.push(wire.len());
        }
        (wire, ends)
    }

    /// Number of answered requests.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.fetches.iter().filter(|fetch| fetch.is_over).count()
    }

    /// Whether an answer has arrived in part.
    #[must_use]
    pub fn has_part(&self) -> bool {
        let begun = |fetch: &Fetch| fetch.response.is_some() && !fetch.is_over;
        // Behind the last answer there may be a part of GOAWAY.
        let awaits = self.answers() < self.fetches.len();
        awaits && !self.inbox.is_empty() || self.fetches.iter().any(begun)
    }

    /// Takes received bytes, and passes each whole answer to `judge`.
    ///
    /// # Errors
    /// Bytes that must not arrive, or the error of `judge`.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        judge: &mut dyn FnMut(Answer) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        self.inbox.extend_from_slice(bytes);
        self.is_text |= self.inbox.starts_with(b"HTTP/1.1 408 ");
        if self.is_text {
            self.inbox.clear();
        }
        if self.inbox.starts_with(b"HTT") {
            return Ok(());
        }
        while let Some(head) = FrameHead::read(&self.inbox) {
            if head.bytes > FRAME_BYTES_DEFAULT {
                return Err(format!("a frame of {} bytes", head.bytes).into());
            }
            let end = FRAME_HEAD_BYTES + index(u64::from(head.bytes));
            if self.inbox.len() < end {
                break;
            }
            let payload = self.inbox[FRAME_HEAD_BYTES..end].to_vec();
            self.inbox.drain(..end);
            self.take(head, &payload, judge)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        judge: &mut dyn FnMut(Answer) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        let id = head.stream;
        match head.kind {
            FrameKind::Headers | FrameKind::Continuation => {
                let first = (id, head.flags, Vec::new());
                let (of, flags, mut block) = self.block.take().unwrap_or(first);
                block.extend_from_slice(payload);
                if of != id || !head.has(END_HEADERS) {
                    self.block = Some((of, flags, block));
                    return if of == id { Ok(()) } else { Err("a block in a block".into()) };
                }
                let response = read_response(&mut self.decoder, &block, Stamp::default())?;
                let fetch = self.fetch(id)?;
                if fetch.response.replace(response).is_some() {
                    return Err(format!("HEADERS twice on stream {id}").into());
                }
                self.end_if(flags & END_STREAM != 0, id, judge)
            }
            FrameKind::Data => {
                let Some(response) = &mut self.fetch(id)?.response else {
                    return Err(format!("DATA on stream {id} before its response").into());
                };
                response.body.extend_from_slice(payload);
                self.end_if(head.has(END_STREAM), id, judge)
            }
            FrameKind::RstStream => {
                let (number, fetch) = (number_of(id), self.fetch(id)?);
                fetch.is_over = true;
                judge(Answer { number, file: fetch.file, code: FAILED, body: Vec::new() })
            }
            FrameKind::Settings | FrameKind::WindowUpdate | FrameKind::Ping | FrameKind::GoAway => {
                Ok(())
            }
            kind => Err(format!("{kind:?} from a server").into()),
        }
    }

    /// The request of a stream, which is not over.
    fn fetch(&mut self, id: u32) -> Result<&mut Fetch, BrokenCheck> {
        let fetch = self.fetches.get_mut(number_of(id)).filter(|fetch| !fetch.is_over);
        fetch.ok_or_else(|| format!("a frame on stream {id}, which is not open").into())
    }

    /// Judges an answer if it is complete.
    fn end_if(
        &mut self,
        ends: bool,
        id: u32,
        judge: &mut dyn FnMut(Answer) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        if !ends {
            return Ok(());
        }
        let (number, fetch) = (number_of(id), self.fetch(id)?);
        fetch.is_over = true;
        let response = fetch.response.take().unwrap_or_default();
        let code = match response.status {
            200 => 0,
            404 => NOT_FOUND,
            503 => UNAVAILABLE,
            _ => FAILED,
        };
        let body = if code == 0 { response.body } else { Vec::new() };
        judge(Answer { number, file: fetch.file, code, body })
    }
}

/// The stream of a request.
fn stream_of(number: usize) -> u32 {
    u32::try_from(2 * number + 1).expect("few requests")
}

/// The request of a stream; one that does not exist, for an even number.
fn number_of(id: u32) -> usize {
    if id % 2 == 1 { index(u64::from(id / 2)) } else { usize::MAX }
}
