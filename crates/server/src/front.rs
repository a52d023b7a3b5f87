//! Client of a connection, and the limits of one client.
use crate::{Failure, config::address::naming, handover::CertificateId, tls::TlsFront};
use regatta_arch::{
    conn::clients::{ClientLimits, ClientNotes, Clients},
    options::Settings,
};
use regatta_http::{
    Fields,
    forwarded::Naming,
    prefix::{Prefix, any_contains},
};
use regatta_op::Now;
use regatta_origin::{Admission, Links, ListenerClass, Peer, Seal};
use regatta_sys::{
    limits,
    shm::{self, SharedWords},
    socket::UNIX,
};
use std::{
    hash::{BuildHasher, RandomState},
    io,
    net::IpAddr,
    ops::Range,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Number of this process among the workers.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Makes this process that worker.
pub(crate) fn enter(worker: usize) {
    PROCESS.store(worker, Relaxed);
}

/// Trusted peers, and how they name clients.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    prefixes: Arc<[Prefix]>,
    /// Whether all peers at Unix sockets are trusted.
    unix: bool,
    /// Whether connections begin with a PROXY header.
    greets: bool,
    /// Field of each request that names its client.
    naming: Option<Naming>,
}

impl Trust {
    /// Reads a checked configuration.
    pub(crate) fn read(settings: &Settings) -> Self {
        let listed = settings.list("server.trusted");
        Self {
            prefixes: listed.iter().filter_map(|text| text.parse().ok()).collect(),
            unix: listed.iter().any(|text| text == UNIX),
            greets: settings.flag("server.proxy_protocol"),
            naming: naming(settings),
        }
    }

    fn trusts(&self, peer: Peer) -> bool {
        peer.ip().map_or(self.unix, |ip| any_contains(&self.prefixes, ip))
    }

    pub(crate) fn client(&self, peer: Peer, fields: &Fields<'_>) -> Peer {
        let naming = self.naming.filter(|_| self.trusts(peer));
        let is_trusted = |ip| any_contains(&self.prefixes, ip);
        let named = naming.and_then(|naming| naming.client(fields, is_trusted));
        named.map_or(peer, |named| Peer::from(named).in_class(peer.class()))
    }

    /// Explains which client a request from `peer` counts for.
    pub(crate) fn explain(&self, peer: Peer, fields: &Fields<'_>) -> String {
        let (by, client) = (name(peer), name(self.client(peer, fields)));
        let is_trusted = self.trusts(peer);
        match self.naming.map(Naming::field) {
            _ if self.greets && !is_trusted => {
                format!("{by}, which may not send a PROXY header: closed without an answer")
            }
            Some(field) if client != by => format!("{client}, as {field} says; {by} is trusted"),
            Some(field) if !is_trusted && fields.get(field).is_some() => {
                format!("{by}, which is not trusted: {field} is not read")
            }
            _ if self.greets => format!("{by}, or whom its PROXY header names"),
            _ => by,
        }
    }

    /// True if the limits of one client hold for this one. A proxy stands for many, and a peer at a
    /// Unix socket has no address.
    pub(crate) fn limits(&self, client: Peer) -> bool {
        client.ip().is_some() && !self.trusts(client)
    }
}

fn name(peer: Peer) -> String {
    peer.ip().map_or_else(|| UNIX.to_owned(), |ip| ip.to_string())
}

/// Decisions about connections before their first request.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    /// `None` if no client is limited.
    clients: Option<Clients<'static>>,
    table: Option<Arc<ClientTable>>,
    trust: Trust,
    tls: TlsFront,
}

/// Table of clients in shared memory, for the next image of the master.
#[derive(Debug)]
pub(crate) struct ClientTable {
    pub(crate) memory: SharedWords,
    pub(crate) seed: u64,
}

impl Front {
    /// Prepares for this many workers, which are forked later. The process has raised its limit on
    /// descriptors. `earlier`: the table of the image before, which has charged clients.
    ///
    /// No memory to share.
    pub(crate) fn new(
        settings: &Settings,
        workers: usize,
        earlier: Option<&ClientTable>,
        tls: TlsFront,
    ) -> Result<Self, Failure> {
        let rate: u32 = settings.number_as("limits.client_rate");
        let burst = match settings.number_as("limits.client_burst") {
            0 => 2 * rate,
            burst => burst,
        };
        let connections_max = settings.number_as("limits.client_connections_max");
        let limits = ClientLimits { connections_max, rate, burst };
        let is_limited = connections_max > 0 || rate > 0;
        let clients = is_limited.then(|| clients(limits, workers, earlier)).transpose();
        let (clients, table) =
            clients.map_err(Failure::system("cannot make the table of clients"))?.unzip();
        Ok(Self { clients, table: table.map(Arc::new), trust: Trust::read(settings), tls })
    }

    /// Drops the keys of certificates.
    pub(crate) fn forget_keys(&mut self) {
        self.tls = TlsFront::default();
    }

    /// The certificates that are served.
    pub(crate) fn certificates(&self) -> &[CertificateId] {
        self.tls.certificates()
    }

    pub(crate) fn table(&self) -> Option<&ClientTable> {
        self.table.as_deref()
    }

    /// Closes all connections of ended workers in the table.
    pub(crate) fn release_clients(&self, workers: Range<usize>) {
        if let Some(clients) = &self.clients {
            for worker in workers {
                clients.release_all(worker);
            }
        }
    }

    /// Table and address, where limits hold for the client.
    fn limits(&self, client: Peer) -> Option<(&Clients<'static>, IpAddr)> {
        let (clients, ip) = (self.clients.as_ref()?, client.ip()?);
        self.trust.limits(client).then_some((clients, ip))
    }
}

fn clients(
    limits: ClientLimits,
    workers: usize,
    earlier: Option<&ClientTable>,
) -> io::Result<(Clients<'static>, ClientTable)> {
    let descriptors = usize::try_from(limits::descriptors().soft).unwrap_or(usize::MAX);
    let create = |words| shm::create_named("regatta-clients", words);
    let memory = create(Clients::WORDS)?;
    let words = create(Clients::note_words(workers, descriptors))?.words();
    let notes = ClientNotes { words, descriptors };
    let seed = earlier.map_or_else(|| RandomState::new().hash_one(process::id()), |of| of.seed);
    let clients = Clients::new(memory.words(), notes, seed, limits);
    if let Some(earlier) = earlier {
        clients.adopt_charges(earlier.memory.words());
    }
    Ok((clients, ClientTable { memory, seed }))
}

const fn nanos(now: Now) -> u64 {
    now.tick.0 * 1_000_000
}

impl<F> Links<F> for Front {
    fn greets(&self, peer: Peer) -> Option<bool> {
        self.trust.greets.then(|| self.trust.trusts(peer))
    }

    fn client(&self, peer: Peer, fields: &Fields<'_>) -> Peer {
        self.trust.client(peer, fields)
    }

    fn opened(&self, peer: Peer, fd: i32, now: Now) -> Admission {
        match self.limits(peer) {
            Some((clients, ip)) => clients.open(ip, fd, PROCESS.load(Relaxed), nanos(now)),
            None => Admission::Admitted,
        }
    }

    fn closing(&self, fd: i32) {
        if let Some(clients) = &self.clients {
            clients.close(fd, PROCESS.load(Relaxed));
        }
    }

    fn may_ask(&self, peer: Peer, now: Now) -> bool {
        self.limits(peer).is_none_or(|(clients, ip)| clients.may_ask(ip, nanos(now)))
    }

    fn seal(&self, class: ListenerClass) -> Option<Box<dyn Seal>> {
        self.tls.seal(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::raw::tests::of_sets,
        listens::{TLS, TLS_CLIENTS, TlsParts},
    };
    use regatta_http::h1::{HeadLimits, parse_request};
    use regatta_testkit::certificates::{MadeCertificate, PKCS_ECDSA_P256_SHA256};
    use regatta_tls::{CertificateFiles, ServedCertificate, ServedCertificates};
    use std::net::SocketAddr;

    /// Explanation of a request with these field lines, and whether limits hold.
    fn explain(sets: &[&str], from: &str, lines: &str) -> (String, bool) {
        let trust = Trust::read(&of_sets(sets).settings);
        let peer: Option<IpAddr> = from.parse().ok();
        let class = ListenerClass(3);
        let peer = Peer::from(peer.map(|ip| SocketAddr::new(ip, 0))).in_class(class);
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let head = parse_request(head.as_bytes(), &HeadLimits::default()).unwrap();
        let client = trust.client(peer, &head.fields);
        assert_eq!(client.class(), class, "it stays that of the listener");
        (trust.explain(peer, &head.fields), trust.limits(client))
    }

    #[test]
    fn a_front_seals_until_it_forgets_its_keys() {
        let made = MadeCertificate::new(&["a.example"], 2020..2100, &PKCS_ECDSA_P256_SHA256);
        let files = CertificateFiles { chain: made.chain.as_bytes(), key: made.key.as_bytes() };
        let certificate = ServedCertificate::read(files).unwrap();
        let certificates = ServedCertificates::new([certificate]);
        let parts = TlsParts { certificates, ids: Vec::new(), clients: None };
        let settings = of_sets(&["tls.listen=127.0.0.1:443"]).settings;
        let tls = TlsFront::new(&settings, Some(parts), None).unwrap();
        let mut front = Front::new(&settings, 1, None, tls).unwrap();
        let seals = |front: &Front, class| Links::<()>::seal(front, class).is_some();
        assert!(seals(&front, TLS));
        assert!(!seals(&front, TLS_CLIENTS) && !seals(&front, ListenerClass::CLEAR));
        front.forget_keys();
        assert!(!seals(&front, TLS));
    }

    #[test]
    fn trusted_proxies_name_the_client_and_others_do_not() {
        let trusted = "server.trusted=10.0.0.0/8,unix:";
        let field = [trusted, "server.forwarded=x-forwarded-for"];
        let header = [trusted, "server.proxy_protocol=true"];
        let said = "X-Forwarded-For: 203.0.113.9, 192.0.2.7, 10.0.0.2\r\n";
        let by_field = "192.0.2.7, as X-Forwarded-For says; 10.0.0.1 is trusted";
        for (sets, from, lines, says, limited) in [
            (&[][..], "192.0.2.1", said, "192.0.2.1", true),
            (&[trusted], "10.0.0.1", said, "10.0.0.1", false),
            (&field, "10.0.0.1", said, by_field, true),
            (&field, UNIX, said, "192.0.2.7, as X-Forwarded-For says; unix: is trusted", true),
            (&field, "10.0.0.1", "", "10.0.0.1", false),
            (&field, "192.0.2.1", said, "192.0.2.1, which is not trusted: X-Forwarded-For", true),
            (&field[1..], UNIX, said, "unix:, which is not trusted", false),
            (&header, "10.0.0.1", said, "10.0.0.1, or whom its PROXY header names", false),
            (&header, "192.0.2.1", said, "192.0.2.1, which may not send a PROXY header", true),
        ] {
            let (explained, limits) = explain(sets, from, lines);
            assert!(explained.starts_with(says), "{explained}\n{says}");
            assert_eq!(limits, limited, "{explained}");
        }
    }
}
