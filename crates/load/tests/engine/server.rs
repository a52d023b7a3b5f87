//! A server that does what a test says: a thread per connection, over the standard library.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Request line and fields.
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
    pub(crate) target: String,
    /// Number on the server and on its connection, from 0.
    pub(crate) number: u64,
    pub(crate) on_conn: u64,
    pub(crate) conn: u64,
    pub(crate) from: IpAddr,
    pub(crate) at: Instant,
    /// Bytes that were already there behind it: it was pipelined.
    pub(crate) followed: bool,
}

/// Reaction of the server.
pub(crate) struct Answer {
    /// Earliest time of the reaction.
    pub(crate) at: Option<Instant>,
    /// Pieces, each written on its own with a pause between.
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) close: bool,
    /// Close without the alert that ends a session of TLS.
    pub(crate) cut: bool,
    /// Say nothing, and read on.
    pub(crate) never: bool,
}

impl Answer {
    pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { at: None, pieces: vec![bytes.into()], close: false, cut: false, never: false }
    }

    pub(crate) fn ok(body: &[u8]) -> Self {
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Self::bytes(bytes)
    }

    pub(crate) fn at(self, at: Instant) -> Self {
        Self { at: Some(at), ..self }
    }

    pub(crate) fn closing(self) -> Self {
        Self { close: true, ..self }
    }

    pub(crate) fn cut(self) -> Self {
        Self { close: true, cut: true, ..self }
    }

    pub(crate) fn never() -> Self {
        Self { at: None, pieces: Vec::new(), close: false, cut: false, never: true }
    }
}

type Script = dyn Fn(&Asked) -> Answer + Send + Sync;

/// A running server; it stops when dropped.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn new(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::begin(None, script)
    }

    /// The same over TLS.
    pub(crate) fn over_tls(
        config: ServerConfig,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::begin(Some(Arc::new(config)), script)
    }

    fn begin(
        tls: Option<Arc<ServerConfig>>,
        script: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (script, asked): (Arc<Script>, _) = (Arc::new(script), Arc::default());
        let (over, number) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let server = Self { addr, asked: Arc::clone(&asked), over: Arc::clone(&over) };
        std::thread::spawn(move || {
            for (conn, stream) in (0..).zip(listener.incoming()) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                let (number, tls) = (Arc::clone(&number), tls.clone());
                std::thread::spawn(move || {
                    let line = Line { conn, script: &*script, asked: &asked, number: &number };
                    drop(line.serve(stream, tls));
                });
            }
        });
        server
    }

    pub(crate) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.addr)
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> u64 {
        self.asked.lock().unwrap().len() as u64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the listener up.
        let _ = TcpStream::connect(self.addr);
    }
}

/// A connection of the server.
struct Line<'a> {
    conn: u64,
    script: &'a Script,
    asked: &'a Mutex<Vec<Asked>>,
    number: &'a AtomicU64,
}

impl Line<'_> {
    fn serve(self, stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let from = stream.peer_addr()?.ip();
        let Some(tls) = tls else {
            return talk(&self, stream, from).map(drop);
        };
        let session = ServerConnection::new(tls).map_err(std::io::Error::other)?;
        let (mut stream, cut) = talk(&self, StreamOwned::new(session, stream), from)?;
        if !cut {
            stream.conn.send_close_notify();
            stream.flush()?;
        }
        Ok(())
    }
}

/// Serves until the client or the script ends it. Whether the script cuts it off.
fn talk<S: Read + Write>(
    line: &Line<'_>,
    mut stream: S,
    from: IpAddr,
) -> std::io::Result<(S, bool)> {
    let Line { conn, script, asked, number } = *line;
    let (mut held, mut buffer) = (Vec::new(), [0; 8192]);
    for on_conn in 0.. {
        let end = loop {
            if let Some(at) = held.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                return Ok((stream, false));
            }
            held.extend_from_slice(&buffer[..n]);
        };
        let head = String::from_utf8_lossy(&held[..end]).into_owned();
        held.drain(..end);
        let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next());
        let length = length.map_or(0, |length| length.parse().unwrap());
        while held.len() < length {
            let n = stream.read(&mut buffer)?;
            if n == 0 {
                return Ok((stream, false));
            }
            held.extend_from_slice(&buffer[..n]);
        }
        let content: Vec<u8> = held.drain(..length).collect();
        let target = head.split(' ').nth(1).unwrap_or("").to_owned();
        let number = number.fetch_add(1, Ordering::Relaxed);
        let followed = !held.is_empty();
        let at = Instant::now();
        let request = Asked { head, content, target, number, on_conn, conn, from, at, followed };
        let answer = script(&request);
        asked.lock().unwrap().push(request);
        if let Some(at) = answer.at {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
        }
        for (piece, bytes) in answer.pieces.iter().enumerate() {
            if piece > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            stream.write_all(bytes)?;
            stream.flush()?;
        }
        if answer.never {
            while stream.read(&mut buffer)? > 0 {}
        }
        if answer.close || answer.never {
            return Ok((stream, answer.cut));
        }
    }
    Ok((stream, false))
}

/// A queue, first come first served, whose service times are given: what it says is known.
pub(crate) struct Queue {
    free_at: Mutex<Option<Instant>>,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self { free_at: Mutex::new(None) }
    }

    /// Time at which a request that comes now and takes `service` has been served.
    pub(crate) fn serve(&self, service: Duration) -> Instant {
        let mut free_at = self.free_at.lock().unwrap();
        let now = Instant::now();
        let done = free_at.map_or(now, |at| at.max(now)) + service;
        *free_at = Some(done);
        done
    }
}
