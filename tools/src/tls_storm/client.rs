//! Clients of a storm: each shakes hands, asks for a file, and compares all bytes.

use crate::served::PATIENCE;
use regatta_testkit::certificates::Authority;
use regatta_testkit::tls::{TlsClient, TlsOffer, TlsStream, VERSION_12, VERSION_13};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Name in the certificate.
pub(crate) const NAME: &str = "storm.test";
/// Versions that clients offer, and whether they keep session tickets.
const OFFERS: [(u16, bool); 4] =
    [(VERSION_12, false), (VERSION_12, true), (VERSION_13, false), (VERSION_13, true)];
/// Lengths of the files, whose names are their places here: less than a record, one, and several.
pub(crate) const LENS: [usize; 6] = [1, 1_000, 16_384, 16_385, 60_000, 200_000];
/// Longest head of a response.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Most bytes of a head in a message.
const SHOWN_BYTES_MAX: usize = 40;
/// Most bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Connections that a client loses before it ends. A kill costs each client one.
const FAULTS_MAX: usize = 400;
/// Time between two checks by a client that waits.
const STEP: Duration = Duration::from_millis(1);

/// Number of a sequence that looks random (SplitMix64; Steele, Lea, Flood 2014).
pub(crate) fn mix(at: u64) -> u64 {
    let mut mixed = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Bodies of the files.
#[derive(Debug)]
pub(crate) struct StormFiles(Vec<Vec<u8>>);

impl StormFiles {
    /// Makes bodies in which bytes at other places, and of other files, differ.
    pub(crate) fn new(seed: u64) -> Self {
        let body = |(file, len): (u64, usize)| {
            let words = (0..).map(|at: u64| mix(mix(seed ^ file).wrapping_add(at)));
            words.flat_map(u64::to_le_bytes).take(len).collect()
        };
        Self((0..).zip(LENS).map(body).collect())
    }

    /// Writes the files.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        let mut files = self.0.iter().enumerate();
        files.try_for_each(|(name, body)| std::fs::write(root.join(name.to_string()), body))
    }
}

/// Handshakes of all clients of a round.
#[derive(Debug)]
pub(crate) struct Progress {
    wanted: u64,
    has_kills: bool,
    /// Number of the next handshake, from which a client draws its actions.
    next: AtomicU64,
    done: AtomicU64,
    is_over: AtomicBool,
    /// Whether the second half waits for the first kill.
    waits: AtomicBool,
}

impl Progress {
    /// A round of `wanted` handshakes whose numbers begin with `first`.
    pub(crate) fn new(wanted: u64, first: u64, has_kills: bool) -> Self {
        let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (next, waits) = (AtomicU64::new(first), AtomicBool::new(has_kills));
        Self { wanted, has_kills, next, done, is_over, waits }
    }

    /// Number of the next handshake; `None` at the end of the round.
    fn next(&self) -> Option<u64> {
        loop {
            if self.is_over.load(Ordering::Relaxed) || self.done() >= self.wanted {
                return None;
            }
            if !self.needs_kill() {
                return Some(self.next.fetch_add(1, Ordering::Relaxed));
            }
            std::thread::sleep(STEP);
        }
    }

    /// Successful handshakes.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Number of the first handshake that no client has begun.
    pub(crate) fn unused(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Whether there are to be kills.
    pub(crate) fn has_kills(&self) -> bool {
        self.has_kills
    }

    /// Whether clients wait for the first kill.
    pub(crate) fn needs_kill(&self) -> bool {
        self.waits.load(Ordering::Relaxed) && 2 * self.done() >= self.wanted
    }

    /// Notes a kill.
    pub(crate) fn has_killed(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Ends the round: no client begins another handshake.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Time from the begin to the end of a connection, or of a kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StormSpan {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// Fault that a client has found.
#[derive(Debug)]
pub(crate) enum StormFault {
    /// The connection ended early. A kill may be the reason.
    Lost,
    /// The connection was silent for [`PATIENCE`].
    Silent,
    /// The connection cannot be made, or its records are wrong.
    Broken(io::Error),
    /// The first message is no ServerHello.
    NoRandom,
    /// The head of the response, as far as it has arrived.
    Head(Vec<u8>),
    /// Place of the first wrong byte, missing byte or additional byte of a file.
    Body { file: usize, at: usize },
}

impl fmt::Display for StormFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("a connection ended early"),
            Self::Silent => write!(f, "a connection was silent for {} s", PATIENCE.as_secs()),
            Self::Broken(error) => write!(f, "a connection failed: {error}"),
            Self::NoRandom => f.write_str("a server began without a ServerHello"),
            Self::Head(head) => {
                let start = &head[..head.len().min(SHOWN_BYTES_MAX)];
                write!(f, "a response begins with \"{}\"", start.escape_ascii())
            }
            Self::Body { file, at } => write!(f, "file {file} is wrong from byte {at} on"),
        }
    }
}

impl From<io::Error> for StormFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::UnexpectedEof => Self::Lost,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::Silent,
            _ => Self::Broken(error),
        }
    }
}

/// Results of a client.
#[derive(Debug, Default)]
pub(crate) struct ClientResults {
    /// The server's random in each handshake.
    pub(crate) randoms: Vec<[u8; 32]>,
    /// Completed handshakes of clients that keep tickets, and those that resumed a session.
    pub(crate) keeping: usize,
    pub(crate) resumed: usize,
    /// Connections that ended early.
    pub(crate) lost: Vec<StormSpan>,
    /// All other faults.
    pub(crate) faults: Vec<StormFault>,
}

impl ClientResults {
    /// Adds those of another client.
    pub(crate) fn add(&mut self, other: Self) {
        self.randoms.extend(other.randoms);
        self.keeping += other.keeping;
        self.resumed += other.resumed;
        self.lost.extend(other.lost);
        self.faults.extend(other.faults);
    }
}

/// Actions of a client in one handshake, drawn from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StormChoice {
    /// Place in [`LENS`].
    file: usize,
    /// Place in [`OFFERS`].
    offer: usize,
    /// Whether the server closes the connection, and not the client.
    closes: bool,
}

impl StormChoice {
    fn new(seed: u64, number: u64) -> Self {
        let [file, offer, closes, ..] = mix(mix(seed).wrapping_add(number)).to_le_bytes();
        let (file, offer) = (usize::from(file) % LENS.len(), usize::from(offer) % OFFERS.len());
        Self { file, offer, closes: closes & 1 == 1 }
    }
}

/// Client with session tickets of its own, one connection at a time.
#[derive(Debug)]
pub(crate) struct StormClient<'a> {
    /// Addresses of the server, used round-robin.
    places: &'a [SocketAddr],
    files: &'a StormFiles,
    seed: u64,
    /// For each of [`OFFERS`].
    offers: Vec<TlsClient>,
}

impl<'a> StormClient<'a> {
    pub(crate) fn new(
        authority: &Authority,
        places: &'a [SocketAddr],
        files: &'a StormFiles,
        seed: u64,
    ) -> Self {
        let client = |(version, resumes)| {
            let versions = [version];
            let offer = TlsOffer { versions: &versions, resumes, ..TlsOffer::default() };
            TlsClient::new(authority, offer)
        };
        Self { places, files, seed, offers: OFFERS.map(client).into() }
    }

    /// Takes part in a round to its end.
    pub(crate) fn run(&self, progress: &Progress) -> ClientResults {
        let mut results = ClientResults::default();
        while let Some(number) = progress.next() {
            let from = Instant::now();
            match self.ask(number, &mut results) {
                Ok(()) => {
                    progress.done.fetch_add(1, Ordering::Relaxed);
                }
                Err(StormFault::Lost) => {
                    results.lost.push(StormSpan { from, until: Instant::now() });
                }
                Err(fault) => results.faults.push(fault),
            }
            if results.lost.len() + results.faults.len() >= FAULTS_MAX {
                break;
            }
        }
        results
    }

    /// Performs one handshake and one request.
    fn ask(&self, number: u64, results: &mut ClientResults) -> Result<(), StormFault> {
        let StormChoice { file, offer, closes } = StormChoice::new(self.seed, number);
        let place = usize::try_from(number).unwrap_or(0) % self.places.len();
        let socket = TcpStream::connect(self.places[place])?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut stream = self.offers[offer].connect(socket, NAME);
        let shaken = stream.shake_hands();
        let random = stream.server_random();
        results.randoms.extend(random);
        shaken?;
        if random.is_none() {
            return Err(StormFault::NoRandom);
        }
        if OFFERS[offer].1 {
            results.keeping += 1;
            results.resumed += usize::from(stream.is_resumed());
        }
        let close = if closes { "Connection: close\r\n" } else { "" };
        stream
            .write_all(format!("GET /{file} HTTP/1.1\r\nHost: {NAME}\r\n{close}\r\n").as_bytes())?;
        self.compare(&mut stream, file, closes)
    }

    /// Reads a response, and compares its body with the file. With `closes`, an end in order
    /// follows.
    fn compare(&self, stream: &mut TlsStream, file: usize, closes: bool) -> Result<(), StormFault> {
        let body = &*self.files.0[file];
        let mut piece = vec![0; PIECE_BYTES];
        let mut head = Vec::new();
        let end = loop {
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let read = stream.read(&mut piece)?;
            if read == 0 || head.len() > HEAD_BYTES_MAX {
                return Err(StormFault::Head(head));
            }
            head.extend_from_slice(&piece[..read]);
        };
        let start = head.split_off(end);
        if !is_whole(&head, body.len()) {
            return Err(StormFault::Head(head));
        }
        let mut at = 0;
        follows(body, file, &mut at, &start)?;
        while at < body.len() {
            let read = stream.read(&mut piece)?;
            if read == 0 {
                return Err(StormFault::Body { file, at });
            }
            follows(body, file, &mut at, &piece[..read])?;
        }
        if closes && stream.read(&mut piece)? > 0 {
            return Err(StormFault::Body { file, at });
        }
        Ok(())
    }
}

/// Whether a head announces a whole file of this length.
fn is_whole(head: &[u8], len: usize) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    text.starts_with("HTTP/1.1 200 ")
        && length.is_some_and(|(_, value)| value.trim().parse::<usize>() == Ok(len))
}

/// Compares bytes that follow the first `at` of a body, and counts them.
fn follows(body: &[u8], file: usize, at: &mut usize, bytes: &[u8]) -> Result<(), StormFault> {
    let rest = &body[*at..];
    let same = rest.iter().zip(bytes).take_while(|(one, other)| one == other).count();
    *at += same;
    if same < bytes.len() { Err(StormFault::Body { file, at: *at }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{LENS, OFFERS, Progress, StormChoice, StormFault, StormFiles, follows, is_whole};
    use std::io::{Error, ErrorKind};

    #[test]
    fn wrong_bytes_are_found_where_they_are() {
        let body = b"abcdef";
        let wrong = |at: usize, bytes: &[u8]| {
            let mut at = at;
            let place = match follows(body, 3, &mut at, bytes) {
                Err(StormFault::Body { file: 3, at }) => Some(at),
                _ => None,
            };
            (place, at)
        };
        assert_eq!(wrong(0, b"abc"), (None, 3));
        assert_eq!(wrong(3, b"def"), (None, 6));
        assert_eq!(wrong(1, b"bXd"), (Some(2), 2));
        assert_eq!(wrong(4, b"efg"), (Some(6), 6), "one byte too many");
    }

    #[test]
    fn heads_announce_the_length() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n";
        assert!(is_whole(head.as_bytes(), 60));
        assert!(!is_whole(head.as_bytes(), 61));
        assert!(!is_whole(head.replace("200 OK", "206 Partial Content").as_bytes(), 60));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n\r\n", 0));
    }

    #[test]
    fn files_differ_by_seed_and_have_their_lengths() {
        let [one, other] = [1, 2].map(StormFiles::new);
        for ((one, other), len) in one.0.iter().zip(&other.0).zip(LENS).skip(1) {
            assert!(one.len() == len && one != other);
        }
        assert_ne!(one.0[1][..], one.0[2][..LENS[1]]);
    }

    #[test]
    fn every_choice_occurs_and_repeats_with_the_seed() {
        let all: Vec<_> = (0..1_000).map(|number| StormChoice::new(7, number)).collect();
        for (offer, file) in (0..OFFERS.len()).flat_map(|o| (0..LENS.len()).map(move |f| (o, f))) {
            for closes in [true, false] {
                assert!(all.contains(&StormChoice { file, offer, closes }), "{offer} {file}");
            }
        }
        assert_eq!(all[5], StormChoice::new(7, 5));
    }

    #[test]
    fn a_kill_excuses_an_early_end_alone() {
        for (kind, is_lost) in [
            (ErrorKind::ConnectionReset, true),
            (ErrorKind::UnexpectedEof, true),
            (ErrorKind::WouldBlock, false),
            (ErrorKind::InvalidData, false),
            (ErrorKind::ConnectionRefused, false),
        ] {
            let fault = StormFault::from(Error::from(kind));
            assert_eq!(matches!(fault, StormFault::Lost), is_lost, "{kind}");
        }
    }

    #[test]
    fn the_second_half_waits_for_a_kill() {
        let progress = Progress::new(2, 10, true);
        assert_eq!((progress.next(), progress.needs_kill()), (Some(10), false));
        progress.done.store(1, std::sync::atomic::Ordering::Relaxed);
        assert!(progress.needs_kill());
        progress.has_killed();
        assert_eq!(progress.next(), Some(11));
        progress.end();
        assert_eq!((progress.next(), progress.unused()), (None, 12));
    }
}
