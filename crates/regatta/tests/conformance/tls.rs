//! TLS itself: versions, names and tickets, the beginning and the end of a connection, and clients
//! that others have written.

use crate::changes::{SHRINKS, shrunk};
use crate::folder::Folder;
use crate::prelude::*;
use regatta_testkit::tls::{TlsClient, TlsOffer, TlsStream, VERSION_12, VERSION_13};
use std::io::{ErrorKind, Read, Write};
use std::process::{Command, Stdio};

/// Start of a message by which a client begins, with the header of its record.
const HELLO_START: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";

/// Time for the handshake where a test waits for its end.
const SHORT: &str = "tls.handshake_ms_max=1500";

/// A connection without a handshake.
pub(crate) fn raw(server: &Server) -> TcpStream {
    let socket = TcpStream::connect_timeout(&server.address(), PATIENCE).expect("connects");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket
}

/// A client with these settings.
pub(crate) fn offering(offer: TlsOffer<'_>) -> TlsClient {
    TlsClient::new(&identity().authority, offer)
}

/// Connects, and shakes hands for the certificate of `name`.
pub(crate) fn shake(server: &Server, client: &TlsClient, name: &str) -> std::io::Result<TlsStream> {
    let stream = client.connect(raw(server), name);
    stream.shake_hands()?;
    Ok(stream)
}

/// Fails unless the server refuses the handshake by this alert.
#[track_caller]
fn is_refused(server: &Server, client: &TlsClient, alert: &str) {
    let why = shake(server, client, NAME).expect_err("a refusal").to_string();
    assert!(why.contains(alert), "{why}");
}

pub(crate) fn a_request_in_the_clear_gets_400_in_the_clear(variant: &Variant) {
    let server = serve(variant);
    // Bytes that the server has not read must not make the kernel throw the answer away.
    for more in [0, 300_000] {
        let mut client = Client::connect(server.address());
        client.send([get("/small.txt"), vec![b'x'; more]].concat());
        let said = String::from_utf8(client.rest()).expect("text");
        assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
        let fields = ["\r\nConnection: close\r\n", "expects TLS"];
        assert!(fields.iter().all(|field| said.contains(field)), "{said}");
    }
    server.connect().get("/small.txt").expect(200);
}

pub(crate) fn tls_on_an_address_in_the_clear_gets_400(variant: &Variant) {
    let server = Launch::new(variant, common()).listen_in_the_clear().start();
    let mut client = Client::connect(server.clear_address());
    client.send(HELLO_START);
    let answer = client.answer("GET").expect(400);
    assert!(answer.text().contains("speaks HTTP, not HTTPS"), "{answer:?}");
    drop(client);
    Client::connect(server.clear_address()).get("/small.txt").expect(200);
    server.connect().get("/small.txt").expect(200);
}

/// Bodies of a single record, of several pieces and of many; from files and from memory.
pub(crate) fn bodies_are_exact(variant: &Variant) {
    const BODIES: [usize; 3] = [4 << 10, 200_000, 5 << 20];
    let site = Site::new();
    BODIES.iter().for_each(|len| site.put(&format!("{len}.bin"), pattern(*len, *len)));
    let server = Launch::new(variant, &site.root()).start();
    let mut client = server.connect();
    for len in BODIES.into_iter().chain(BODIES) {
        client.get(&format!("/{len}.bin")).expect(200).has(&pattern(len, len));
    }
    let part = client.ask("GET", "/200000.bin", &[("Range", "bytes=70001-")]).expect(206);
    part.has(&pattern(200_000, 200_000)[70_001..]);
}

/// The closing alert precedes the end of the stream. The client accepts nothing else.
pub(crate) fn the_end_is_a_closing_alert(variant: &Variant) {
    let server = serve(variant);
    let close = [("Connection", "close")];
    for size in [0, 4096, 5 << 20] {
        let mut client = server.connect();
        let answer = client.ask("GET", &format!("/size-{size}.bin"), &close).expect(200);
        assert!(answer.closes() && answer.body == sized(size), "{answer:?}");
        client.finish();
    }
    for (text, status) in [("GET /small.txt HTTP/1.0\r\n\r\n", 200), ("BAD\r\n\r\n", 400)] {
        let mut client = server.asked(text);
        client.answer("GET").expect(status);
        client.finish();
    }
}

pub(crate) fn half_a_handshake_has_a_deadline(variant: &Variant) {
    let server = start_with(variant, &[SHORT]);
    for start in [&b""[..], HELLO_START] {
        let mut socket = raw(&server);
        let begin = Instant::now();
        socket.write_all(start).expect("the server takes the bytes");
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = socket.read_to_end(&mut rest);
        let took = begin.elapsed();
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
        assert!(took >= Duration::from_millis(1_400), "ended early, after {took:?}");
        assert!(took < Duration::from_secs(10), "ended late, after {took:?}");
    }
    server.counts("closed_handshake_deadline", 2);
    server.connect().get("/small.txt").expect(200);
}

pub(crate) fn versions_are_agreed_on(variant: &Variant) {
    let server = serve(variant);
    for version in [VERSION_12, VERSION_13] {
        let client = offering(TlsOffer { versions: &[version], ..TlsOffer::default() });
        let stream = shake(&server, &client, NAME).expect("a handshake");
        assert_eq!(stream.version(), Some(version));
        get_sizes(&mut Client::sealed(stream));
    }
    let both = shake(&server, &identity().client, NAME).expect("a handshake");
    assert_eq!(both.version(), Some(VERSION_13));
}

/// A ClientHello of TLS 1.1.
fn old_hello() -> Vec<u8> {
    let mut body = vec![3, 2];
    body.extend([7; 32]);
    // No session; two cipher suites; no compression.
    body.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    // One extension, signature_algorithms, with one algorithm.
    body.extend([0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
    let len = u8::try_from(body.len()).expect("short");
    [vec![22, 3, 1, 0, len + 4, 1, 0, 0, len], body].concat()
}

pub(crate) fn old_versions_are_refused(variant: &Variant) {
    let server = start_with(variant, &["tls.version_min=1.3"]);
    let mut socket = raw(&server);
    socket.write_all(&old_hello()).expect("the server takes the bytes");
    let mut said = Vec::new();
    socket.read_to_end(&mut said).expect("an end in order");
    // RFC 8446 §6: a fatal alert, protocol_version.
    assert_eq!(said.first(), Some(&21), "{}", said.escape_ascii());
    assert!(said.ends_with(&[0, 2, 2, 70]), "{}", said.escape_ascii());
    let client = offering(TlsOffer { versions: &[VERSION_12], ..TlsOffer::default() });
    is_refused(&server, &client, "ProtocolVersion");
    let newest = shake(&server, &identity().client, NAME).expect("a handshake");
    assert_eq!(newest.version(), Some(VERSION_13));
}

pub(crate) fn protocols_are_agreed_on(variant: &Variant) {
    let server = serve(variant);
    let rows: [(&[&str], Option<&[u8]>); 3] = [
        (&["http/1.1"], Some(b"http/1.1")),
        (&["unknown/1", "http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ];
    for (protocols, agreed) in rows {
        let client = offering(TlsOffer { protocols, ..TlsOffer::default() });
        let stream = shake(&server, &client, NAME).expect("a handshake");
        assert_eq!(stream.protocol().as_deref(), agreed, "{protocols:?}");
        Client::sealed(stream).get("/small.txt").expect(200);
    }
    let client = offering(TlsOffer { protocols: &["unknown/1"], ..TlsOffer::default() });
    is_refused(&server, &client, "NoApplicationProtocol");
    let both = offering(TlsOffer { protocols: &["http/1.1", "h2"], ..TlsOffer::default() });
    let without = start_with(variant, &["http2.enabled=false"]);
    for (server, agreed) in [(&*server, &b"h2"[..]), (&without, b"http/1.1")] {
        let stream = shake(server, &both, NAME).expect("a handshake");
        assert_eq!(stream.protocol().as_deref(), Some(agreed));
    }
}

pub(crate) fn names_choose_certificates(variant: &Variant) {
    let folder = Folder::new("names");
    let authority = &identity().authority;
    let one = authority.issue(&["one.test", "127.0.0.1"]);
    let two = authority.issue(&["two.test", "*.two.test"]);
    let both = format!("{},{}", one.write(&folder, "one-"), two.write(&folder, "two-"));
    let server = Launch::new(variant, common()).certificate(both).start();
    let client = offering(TlsOffer { any_name: true, ..TlsOffer::default() });
    for (name, issued) in [
        ("one.test", &one),
        ("two.test", &two),
        ("TWO.test", &two),
        ("a.two.test", &two),
        // A wildcard stands for one label.
        ("a.b.two.test", &one),
        ("unknown.test", &one),
        // A client that asks for an address sends no name.
        ("127.0.0.1", &one),
    ] {
        let stream = shake(&server, &client, name).expect("a handshake");
        assert!(stream.certificate().as_deref() == Some(&*issued.der), "{name}");
        Client::sealed(stream).get("/small.txt").expect(200);
    }
}

pub(crate) fn a_reload_reads_certificates_again(variant: &Variant) {
    let folder = Folder::new("renewal");
    let certificate = || {
        let issued = identity().authority.issue(&[NAME]);
        (issued.write(&folder, ""), issued.der)
    };
    let (paths, old) = certificate();
    let server = Launch::new(variant, common()).certificate(paths).start();
    let shown = || {
        let stream = shake(&server, &identity().client, NAME).expect("a handshake");
        stream.certificate().expect("one")
    };
    assert!(shown() == old, "another certificate");
    let (_, new) = certificate();
    assert!(shown() == old, "the files were read again unasked");
    succeed(&server, "reload");
    assert!(shown() == new, "the old certificate");
}

/// Asks on a new connection, so that tickets arrive. Returns whether it resumed a session.
fn resumes(server: &Server, client: &TlsClient) -> bool {
    let stream = shake(server, client, NAME).expect("a handshake");
    let is_resumed = stream.is_resumed();
    Client::sealed(stream).get("/small.txt").expect(200);
    is_resumed
}

/// Fails unless each of several connections, which several workers may accept, resumes a session.
#[track_caller]
fn all_resume(server: &Server, client: &TlsClient, when: &str) {
    for number in 0..8 {
        assert!(resumes(server, client), "connection {number} {when}");
    }
}

/// The master keeps the keys of tickets: a ticket of one worker is good for all, also for later
/// ones.
pub(crate) fn tickets_resume_sessions(variant: &Variant) {
    let server = start(variant);
    for version in [VERSION_12, VERSION_13] {
        let versions = &[version];
        let client = offering(TlsOffer { versions, resumes: true, ..TlsOffer::default() });
        assert!(!resumes(&server, &client), "there is nothing to resume");
        all_resume(&server, &client, "of the first workers");
        server.kill_workers();
        all_resume(&server, &client, "after all workers were killed");
        succeed(&server, "reload");
        all_resume(&server, &client, "after a reload");
    }
}

pub(crate) fn without_tickets_nothing_is_resumed(variant: &Variant) {
    let server = start_with(variant, &["tls.ticket_rotate_s=0"]);
    let client = offering(TlsOffer { resumes: true, ..TlsOffer::default() });
    for number in 0..3 {
        assert!(!resumes(&server, &client), "connection {number}");
    }
}

/// Processes that are copies of one another must not repeat each other's random numbers.
pub(crate) fn server_randoms_differ(variant: &Variant) {
    const HANDSHAKES: usize = 200;
    let server = start(variant);
    let mut seen = HashSet::new();
    for number in 0..HANDSHAKES {
        if number == HANDSHAKES / 2 {
            server.kill_workers();
        }
        let stream = shake(&server, &identity().client, NAME).expect("a handshake");
        let random = stream.server_random().expect("a ServerHello comes first");
        assert!(seen.insert(random), "handshake {number} repeats a random");
    }
}

/// The client notices that the file is not whole, even if it did not know its length.
pub(crate) fn a_file_that_shrinks_has_no_closing_alert(variant: &Variant) {
    let site = Site::new();
    let (server, mut slow) = shrunk(&site, Launch::new(variant, &site.root()));
    let (rest, in_order) = slow.rest_and_end();
    assert!(SHRINKS > 20_000 + rest.len() as u64, "padded to {} bytes", rest.len());
    assert!(!in_order, "a closing alert after {} bytes of {SHRINKS}", rest.len());
    server.counts("closed_truncated", 1);
}

pub(crate) fn an_altered_record_ends_the_connection(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    client.get("/small.txt").expect(200);
    let mut socket = client.socket();
    let record = [&[23, 3, 3, 0, 40][..], &[7; 40]].concat();
    socket.write_all(&record).expect("the server takes the bytes");
    let (rest, in_order) = client.rest_and_end();
    assert!(rest.is_empty() && !in_order, "{}", rest.escape_ascii());
    server.connect().get("/small.txt").expect(200);
}

/// A PROXY header precedes the handshake, in the clear.
pub(crate) fn a_proxy_is_in_front(variant: &Variant) {
    let site = Site::new();
    let log = site.beside("access.log");
    let proxy = ["server.proxy_protocol=true", "server.trusted=127.0.0.1", "log.format=json"];
    let server = Launch::new(variant, common()).log(&log).sets(&proxy).start();
    let mut socket = raw(&server);
    socket.write_all(b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\n").expect("it is read");
    let mut client = Client::sealed(identity().client.connect(socket, NAME));
    client.get("/small.txt").expect(200);
    drop(client);
    let peer = "\"peer\":\"192.0.2.7\"";
    soon(|| fs::read_to_string(&log).is_ok_and(|text| text.contains(peer)));
}

/// Runs a program with this input, and returns its output; `None` if the program is missing, which
/// is reported. The program must succeed.
pub(crate) fn output_of(program: &str, args: &[&str], input: &[u8]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(&format!("needs {program}"));
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let mut stdin = child.stdin.take().expect("piped");
    // A program that does not start to read has said why.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("our child");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {stdout}\n{stderr}");
    Some(stdout)
}

pub(crate) fn text_of(path: &Path) -> &str {
    path.to_str().expect("our paths are text")
}

/// `s_client` verifies the certificate and the closing alert, and resumes its session.
pub(crate) fn openssl_is_served(variant: &Variant) {
    let server = start(variant);
    let folder = Folder::new("openssl");
    let (address, session) = (server.address().to_string(), folder.join("session.pem"));
    let request = request("GET", "/small.txt", &[("Connection", "close")]);
    let authority = text_of(&identity().authority_file);
    for (flag, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        for (session_flag, kind) in [("-sess_out", "New"), ("-sess_in", "Reused")] {
            let args = ["s_client", flag, "-connect", &address, "-servername", NAME];
            let trust = ["-CAfile", authority, "-verify_return_error", "-verify_hostname", NAME];
            let rest = ["-alpn", "http/1.1", "-ign_eof", session_flag, text_of(&session)];
            let args = [&args[..], &trust, &rest].concat();
            let Some(said) = output_of("openssl", &args, &request) else { return };
            assert!(said.contains(&format!("{kind}, {version}, Cipher is")), "{said}");
            for part in ["Verify return code: 0 (ok)", "ALPN protocol: http/1.1", "\r\n\r\nsmall\n"]
            {
                assert!(said.contains(part), "no {part:?} in {said}");
            }
        }
    }
}

pub(crate) fn curl_is_served(variant: &Variant) {
    const SIZE: usize = (1 << 20) + 1;
    let server = serve(variant);
    let folder = Folder::new("curl");
    let (port, to) = (server.address().port(), folder.join("body.bin"));
    let url = format!("https://{NAME}:{port}/size-{SIZE}.bin");
    let resolve = format!("{NAME}:{port}:127.0.0.1");
    let authority = text_of(&identity().authority_file);
    let versions: [&[&str]; 2] = [&["--tlsv1.2", "--tls-max", "1.2"], &["--tlsv1.3"]];
    for version in versions {
        let args = ["-sS", "--fail", "--noproxy", "*", "--cacert", authority];
        // Twice the same file, on one connection.
        let rest = ["--resolve", &resolve, "-o", text_of(&to), &url, "-o", text_of(&to), &url];
        let args = [version, &args, &rest].concat();
        if output_of("curl", &args, b"").is_none() {
            return;
        }
        assert!(fs::read(&to).expect("a body") == sized(SIZE), "{version:?}");
    }
}
