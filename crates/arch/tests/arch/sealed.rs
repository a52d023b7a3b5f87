//! Sealed connections: links that seal, and a client whose calls block.
use regatta_op::Now;
use regatta_origin::{
    Cx, Links, ListenerClass, Peer, Progress, Protocol, RECORD_PLAIN_BYTES_MAX, Seal, Toy,
};
use regatta_sys::StaticFile;
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Seals every connection, or those of one class, and lets `inner` choose the protocol.
pub(crate) struct Sealing<L> {
    inner: L,
    /// The only class that is sealed.
    class: Option<ListenerClass>,
    number: AtomicU64,
}

impl<L> Sealing<L> {
    pub(crate) const fn new(inner: L, class: Option<ListenerClass>) -> Self {
        Self { inner, class, number: AtomicU64::new(1) }
    }
}

impl<L: Links<StaticFile>> Links<StaticFile> for Sealing<L> {
    fn seal(&self, class: ListenerClass) -> Option<Box<dyn Seal>> {
        let is_sealed = self.class.is_none_or(|only| only == class);
        let toy = || Toy::server(self.number.fetch_add(1, Relaxed));
        is_sealed.then(|| Box::new(toy()) as Box<dyn Seal>)
    }

    fn protocol(
        &self,
        peer: Peer,
        agreed: &[u8],
        now: Now,
        cx: &Cx<'_, StaticFile>,
    ) -> Option<Box<dyn Protocol<StaticFile> + Send>> {
        self.inner.protocol(peer, agreed, now, cx)
    }
}

/// Client's end of a sealed connection.
pub(crate) struct SealedClient {
    socket: TcpStream,
    toy: Toy,
    /// Bytes of a record that is not whole.
    inbox: Vec<u8>,
    /// Opened bytes that have not been read.
    plain: Vec<u8>,
}

impl SealedClient {
    /// Shakes hands; `number` is the client's part of the secret.
    pub(crate) fn new(mut socket: TcpStream, number: u64) -> Self {
        let mut wire = Vec::new();
        let toy = Toy::client(number, &mut wire);
        socket.write_all(&wire).unwrap();
        let mut client = Self { socket, toy, inbox: Vec::new(), plain: Vec::new() };
        while client.toy.progress() == Progress::Handshaking {
            client.fetch().unwrap();
        }
        client
    }

    /// Receives and opens records, and sends the answers to them.
    fn fetch(&mut self) -> io::Result<()> {
        let (mut piece, mut reply) = (vec![0; 64 << 10], Vec::new());
        let n = self.socket.read(&mut piece)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.inbox.extend_from_slice(&piece[..n]);
        let opened = self.toy.open_all(&mut self.inbox, &mut self.plain, &mut reply);
        opened.map_err(|fault| io::Error::other(format!("{fault:?}")))?;
        self.socket.write_all(&reply)
    }
}

impl Read for SealedClient {
    /// Reads plain bytes; none after the server's closing alert.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            if self.toy.progress() == Progress::PeerClosed {
                return Ok(0);
            }
            self.fetch()?;
        }
        let n = self.plain.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.plain[..n]);
        self.plain.drain(..n);
        Ok(n)
    }
}

impl Write for SealedClient {
    /// Sends one record.
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let n = plain.len().min(RECORD_PLAIN_BYTES_MAX);
        let mut wire = Vec::new();
        let sealed = self.toy.seal(&plain[..n], &mut wire);
        sealed.map_err(|fault| io::Error::other(format!("{fault:?}")))?;
        self.socket.write_all(&wire)?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
