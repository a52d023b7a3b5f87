//! The server's end of a TLS connection: rustls behind [`Seal`]. The sealed link of
//! `regatta_origin` calls it with bytes that have arrived, and with bytes to send.
use crate::{fault::seal_fault, hello, subject::subject};
use regatta_origin::{
    Handshake, Progress, RECORD_BYTES_MAX, RECORD_PLAIN_BYTES_MAX, Seal, SealFault,
};
use rustls::{
    CipherSuite, HandshakeKind, ProtocolVersion,
    server::UnbufferedServerConnection,
    unbuffered::{
        ConnectionState, EncodeError, EncodeTlsData, EncryptError, ReadTraffic, UnbufferedStatus,
        WriteTraffic,
    },
};
use std::{fmt, mem, time::Instant};

/// Type, version and length of a record.
const HEADER_BYTES: usize = 5;
/// Bytes of a record besides its contents, with an answer to a key update before it.
const OVERHEAD_BYTES: usize = 64;
/// Bytes of the tag behind a sealed record, of every cipher suite of TLS 1.3.
const TAG_BYTES: usize = 16;
/// Type of a record with data. In TLS 1.3, handshake messages are in such records too, sealed.
const APPLICATION_DATA: u8 = 23;
/// The longest record in the clear (RFC 8446 §5.1).
const CLEAR_RECORD_BYTES_MAX: usize = HEADER_BYTES + RECORD_PLAIN_BYTES_MAX;
/// The most records in a row, behind the handshake, that bring no data: key updates, empty records,
/// warnings. rustls bounds each kind, and begins again where another comes between.
const BARREN_RECORDS_MAX: u8 = 64;
/// Types of records: change of cipher, alert, handshake, data, heartbeat.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=24;

/// The server's end of a TLS connection.
///
/// rustls keeps offsets into the records of a handshake message that is not whole, and panics when
/// it is then shown another buffer. So these records stay in `pending`, and every call of rustls
/// receives them. Between two calls the buffer loses what rustls discards at its front, and gains
/// one record at its end.
pub struct Tls {
    conn: UnbufferedServerConnection,
    /// Records that rustls has not discarded. Empty, except within a handshake message.
    pending: Vec<u8>,
    handshake_bytes_max: usize,
    /// Time that the handshake has taken, nanoseconds.
    nanos: u64,
    /// Name that the client asks for, and the subject of its certificate, for the log.
    server_name: Option<Box<[u8]>>,
    client_subject: Option<Box<[u8]>>,
    /// Reason why the connection is unusable. rustls is not called again.
    fault: Option<SealFault>,
    /// A record has been opened.
    begun: bool,
    /// Something has been sent. Until then, the peer reads alerts in the clear.
    answered: bool,
    /// Records in a row that brought no data since the handshake was over.
    barren: u8,
    /// The last answer was made of tickets.
    is_ticket: bool,
    peer_closed: bool,
    closed: bool,
}

/// Alerts (RFC 8446 §6).
const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;
const HANDSHAKE_FAILURE: u8 = 40;

/// A fatal alert in the clear.
const fn clear_alert(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

/// Bytes to encrypt once rustls has nothing else to do.
#[derive(Clone, Copy)]
enum Then<'p> {
    Nothing,
    Text(&'p [u8]),
    Close,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Tls");
        shown.field("progress", &self.progress()).field("fault", &self.fault);
        shown.field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

impl Tls {
    /// A connection that was accepted just now. It keeps at most one record or
    /// `handshake_bytes_max` of an incomplete handshake message, whichever is more.
    pub(crate) const fn new(conn: UnbufferedServerConnection, handshake_bytes_max: usize) -> Self {
        Self {
            conn,
            pending: Vec::new(),
            handshake_bytes_max,
            nanos: 0,
            server_name: None,
            client_subject: None,
            fault: None,
            begun: false,
            answered: false,
            barren: 0,
            is_ticket: false,
            peer_closed: false,
            closed: false,
        }
    }

    /// Bytes of an incomplete handshake message that are kept, with their records.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Opens one whole record.
    fn open_record(
        &mut self,
        record: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<(), SealFault> {
        if self.pending.is_empty() {
            let used = self.process(record, Then::Nothing, plain, reply)?;
            let rest = &record[used..];
            if !is_skipped(rest) {
                self.pending.extend_from_slice(rest);
            }
        } else {
            let mut bytes = mem::take(&mut self.pending);
            bytes.extend_from_slice(record);
            let used = self.process(&mut bytes, Then::Nothing, plain, reply)?;
            self.keep(bytes, used);
        }
        Ok(())
    }

    /// The longest record that may arrive now.
    const fn record_bytes_max(&self) -> usize {
        if self.answered { RECORD_BYTES_MAX } else { CLEAR_RECORD_BYTES_MAX }
    }

    /// Refuses a record by its header: it is none, or too long, or there is no room for it. The
    /// first record has an alert of our own. Otherwise rustls reads the header with a length that
    /// no record has, so that it makes the alert.
    fn refuse(&mut self, header: [u8; HEADER_BYTES], reply: &mut Vec<u8>) -> SealFault {
        let len = record_len(header);
        let is_known = RECORD_TYPES.contains(&header[0]) && header[1] == 3;
        let alert = if !is_known || len == HEADER_BYTES {
            Some(UNEXPECTED_MESSAGE)
        } else {
            (len > self.record_bytes_max()).then_some(RECORD_OVERFLOW)
        };
        if let Some(alert) = alert
            && !self.answered
        {
            reply.extend_from_slice(&clear_alert(alert));
            return self.fail(SealFault::Record);
        }
        let mut bytes = mem::take(&mut self.pending);
        bytes.extend_from_slice(&[header[0], header[1], header[2], 0xff, 0xff]);
        let refused = self.process(&mut bytes, Then::Nothing, &mut Vec::new(), reply);
        self.fail(refused.err().unwrap_or(SealFault::Record))
    }

    /// Encrypts, after what rustls has to say by itself.
    fn write(&mut self, then: Then<'_>, wire: &mut Vec<u8>) -> Result<(), SealFault> {
        let mut bytes = mem::take(&mut self.pending);
        let used = self.process(&mut bytes, then, &mut Vec::new(), wire)?;
        self.keep(bytes, used);
        Ok(())
    }

    /// Keeps the bytes that rustls has not discarded, and frees the buffer if there are none.
    fn keep(&mut self, mut bytes: Vec<u8>, used: usize) {
        if used < bytes.len() {
            bytes.drain(..used);
            self.pending = bytes;
        }
    }

    /// Marks the connection as unusable.
    const fn fail(&mut self, fault: SealFault) -> SealFault {
        self.fault = Some(fault);
        fault
    }

    /// Shows rustls these bytes until it waits for more. Returns the number of those it discards.
    /// After a fault, the alert is in `wire`.
    fn process(
        &mut self,
        bytes: &mut [u8],
        then: Then<'_>,
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<usize, SealFault> {
        let before = wire.len();
        let (used, result) = self.drive(bytes, then, plain, wire);
        let is_clear = self.peer_reads_clear();
        self.answered |= wire.len() > before;
        match result {
            Ok(()) => Ok(used),
            Err(fault) => {
                self.flush(&mut bytes[used..], wire);
                // For some faults rustls has no alert. One may have been encoded by `drive`.
                if is_clear && wire.len() == before {
                    match fault {
                        SealFault::Record => {
                            wire.extend_from_slice(&clear_alert(UNEXPECTED_MESSAGE));
                        }
                        SealFault::NothingInCommon => {
                            wire.extend_from_slice(&clear_alert(HANDSHAKE_FAILURE));
                        }
                        _ => {}
                    }
                }
                Err(self.fail(fault))
            }
        }
    }

    /// True if the peer reads our alerts in the clear: before the first answer, and until the end
    /// of a full handshake of TLS 1.2.
    fn peer_reads_clear(&self) -> bool {
        let is_tls12 = self.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        let is_full = self.conn.handshake_kind() == Some(HandshakeKind::Full);
        !self.answered || is_tls12 && is_full && self.conn.is_handshaking()
    }

    /// Counts records that bring no data.
    fn count_barren(&mut self, is_barren: bool) -> Result<(), SealFault> {
        self.barren = if is_barren { self.barren + 1 } else { 0 };
        if self.barren > BARREN_RECORDS_MAX {
            return Err(self.fail(SealFault::Record));
        }
        Ok(())
    }

    fn drive(
        &mut self,
        bytes: &mut [u8],
        then: Then<'_>,
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> (usize, Result<(), SealFault>) {
        let mut used = 0;
        loop {
            let status = self.conn.process_tls_records(&mut bytes[used..]);
            let UnbufferedStatus { mut discard, state } = status;
            let over = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => match read(&mut traffic, plain) {
                    Ok(more) => {
                        discard += more;
                        None
                    }
                    Err(fault) => Some(Err(fault)),
                },
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, wire).err().map(Err)
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    None
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    Some(encrypt(&mut traffic, then, wire))
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed)
                    if matches!(then, Then::Nothing) =>
                {
                    Some(Ok(()))
                }
                Ok(_) => Some(Err(SealFault::Other)),
                Err(error) => Some(Err(seal_fault(&error))),
            };
            used += discard;
            if let Some(result) = over {
                return (used, result);
            }
        }
    }

    /// Encodes what rustls still has to send after a fault. It does not read the bytes again, which
    /// would be a second fault: it encodes first.
    fn flush(&mut self, bytes: &mut [u8], wire: &mut Vec<u8>) {
        while self.conn.wants_write() {
            let UnbufferedStatus { state, .. } = self.conn.process_tls_records(&mut *bytes);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, wire).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while traffic.next_record().is_some() {}
                }
                _ => return,
            }
        }
    }
}

/// Bytes of the record with this header.
fn record_len(header: [u8; HEADER_BYTES]) -> usize {
    HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]))
}

/// True if rustls has skipped this record, which it has not discarded, as rejected early data
/// (RFC 8446 §4.2.10). It would try such a record again with each that follows, and count it each
/// time towards the 16 KiB that it skips.
///
/// rustls opens records in place. One that it has opened, and keeps as part of a handshake message,
/// has its type behind its contents, so a byte there is not zero. Where a record cannot be opened,
/// both libraries clear all but its tag. If one did not, the record would be kept.
fn is_skipped(record: &[u8]) -> bool {
    let Some(([APPLICATION_DATA, ..], body)) = record.split_first_chunk::<HEADER_BYTES>() else {
        return false;
    };
    body[..body.len().saturating_sub(TAG_BYTES)].iter().all(|byte| *byte == 0)
}

/// Registered name of a cipher suite (RFC 8446 §B.4). rustls has names of its own for those of
/// TLS 1.3.
fn registered_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        suite => suite.as_str().unwrap_or_default(),
    }
}

/// Takes the opened data. Returns the number of bytes to be discarded for it.
fn read<Data>(
    traffic: &mut ReadTraffic<'_, '_, Data>,
    plain: &mut Vec<u8>,
) -> Result<usize, SealFault> {
    let mut discard = 0;
    while let Some(record) = traffic.next_record() {
        let record = record.map_err(|error| seal_fault(&error))?;
        discard += record.discard;
        plain.extend_from_slice(record.payload);
    }
    Ok(discard)
}

/// Appends a record that rustls has made.
fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, wire: &mut Vec<u8>) -> Result<(), SealFault> {
    let at = wire.len();
    loop {
        match data.encode(&mut wire[at..]) {
            Ok(n) => {
                wire.truncate(at + n);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(room)) => wire.resize(at + room.required_size, 0),
            Err(EncodeError::AlreadyEncoded) => return Err(SealFault::Other),
        }
    }
}

/// Appends a record with plain bytes, or the closing alert.
fn encrypt<Data>(
    traffic: &mut WriteTraffic<'_, Data>,
    then: Then<'_>,
    wire: &mut Vec<u8>,
) -> Result<(), SealFault> {
    let at = wire.len();
    let mut room = match then {
        Then::Nothing => return Ok(()),
        Then::Text(plain) => plain.len() + OVERHEAD_BYTES,
        Then::Close => OVERHEAD_BYTES,
    };
    loop {
        wire.resize(at + room, 0);
        let written = match then {
            Then::Text(plain) => traffic.encrypt(plain, &mut wire[at..]),
            Then::Nothing | Then::Close => traffic.queue_close_notify(&mut wire[at..]),
        };
        match written {
            Ok(n) => {
                wire.truncate(at + n);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(more)) if more.required_size > room => {
                room = more.required_size;
            }
            Err(_) => {
                wire.truncate(at);
                return Err(SealFault::Other);
            }
        }
    }
}

impl Seal for Tls {
    fn open(
        &mut self,
        wire: &mut [u8],
        plain: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<usize, SealFault> {
        self.is_ticket = false;
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        // A method in the clear: its answer is no alert.
        if !self.begun && wire.first().is_some_and(u8::is_ascii_uppercase) {
            return Err(self.fail(SealFault::NotTls));
        }
        let Some(&header) = wire.first_chunk::<HEADER_BYTES>() else { return Ok(0) };
        let [kind, major, ..] = header;
        let len = record_len(header);
        // A record with nothing in it is never valid: a record of data has at least a tag. As
        // rejected early data it would not count, and there would be no bound on their number.
        let has_len = len > HEADER_BYTES && len <= self.record_bytes_max();
        let is_record = RECORD_TYPES.contains(&kind) && major == 3 && has_len;
        if is_record && wire.len() < len {
            return Ok(0);
        }
        if self.passes_over() {
            // Nothing that the peer sends now matters. An alert for it would be a second end.
            return if is_record { Ok(len) } else { Err(self.fail(SealFault::Record)) };
        }
        if !mem::replace(&mut self.begun, true) {
            self.server_name = wire.get(..len).and_then(hello::server_name).map(Box::from);
        }
        let pending = self.pending.len();
        let fits = pending == 0 || pending + len <= self.handshake_bytes_max;
        if !is_record || !fits {
            return Err(self.refuse(header, reply));
        }
        let started = self.conn.is_handshaking().then(Instant::now);
        let (before, opened) = (reply.len(), plain.len());
        self.open_record(&mut wire[..len], plain, reply)?;
        if let Some(started) = started {
            let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.nanos = self.nanos.saturating_add(nanos);
            // In TLS 1.3, tickets alone answer the client's last message. In TLS 1.2, the server's
            // last message does.
            if !self.conn.is_handshaking() {
                let chain = self.conn.peer_certificates();
                self.client_subject = chain.and_then(|chain| subject(chain.first()?));
            }
            let is_tls13 = self.conn.protocol_version() == Some(ProtocolVersion::TLSv1_3);
            self.is_ticket = is_tls13 && !self.conn.is_handshaking() && reply.len() > before;
        } else {
            self.count_barren(plain.len() == opened && !self.peer_closed)?;
        }
        Ok(len)
    }

    fn reply_may_wait(&self) -> bool {
        self.is_ticket
    }

    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), SealFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.closed || self.conn.is_handshaking() {
            return Err(SealFault::Other);
        }
        self.write(Then::Text(plain), wire)
    }

    fn progress(&self) -> Progress {
        if self.peer_closed {
            Progress::PeerClosed
        } else if self.conn.is_handshaking() {
            Progress::Handshaking
        } else {
            Progress::Open
        }
    }

    fn handshake(&self) -> Option<Handshake> {
        if self.conn.is_handshaking() {
            return None;
        }
        let version = match self.conn.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => 0x0303,
            Some(ProtocolVersion::TLSv1_3) => 0x0304,
            _ => 0,
        };
        let resumed = self.conn.handshake_kind() == Some(HandshakeKind::Resumed);
        let suite = self.conn.negotiated_cipher_suite();
        let suite = suite.map_or("", |suite| registered_name(suite.suite()));
        Some(Handshake { resumed, version, suite, nanos: self.nanos })
    }

    fn agreed(&self) -> &[u8] {
        self.conn.alpn_protocol().unwrap_or_default()
    }

    fn server_name(&self) -> Option<&[u8]> {
        self.server_name.as_deref()
    }

    fn client_subject(&self) -> Option<&[u8]> {
        self.client_subject.as_deref()
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        if self.closed || self.fault.is_some() || self.conn.is_handshaking() {
            return;
        }
        // After a fault there is no notice.
        let _ = self.write(Then::Close, wire);
        self.closed = true;
        self.pending = Vec::new();
    }

    fn passes_over(&self) -> bool {
        self.closed || self.peer_closed
    }
}
