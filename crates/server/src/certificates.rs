//! Certificates and keys: reading them, and their faults with positions.
//!
//! Their files are read where the configuration file is: at the start by the master, at a reload by
//! the trial, which hands the bytes over. A serving master opens none, so no disk holds it up.
mod files;
#[cfg(test)]
mod tests;

pub(crate) use files::{TlsFile, TlsFiles, wipe};

use crate::{
    config::{
        raw::{Location, Problem, Row, Said},
        tables,
    },
    development,
    expiry::soon_s,
    handover::CertificateId,
    listens::{self, TlsParts},
    messages::{self, Message},
};
use files::Pair;
use regatta_http::date;
use regatta_tls::{
    CertificateFault, CertificateFiles, ClientVerifier, ServedCertificate, ServedCertificates,
    verify_clients,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Option that lists certificates.
const CERTIFICATE: &str = "tls.certificate";
/// Option that lists responses of OCSP.
const OCSP: &str = "tls.ocsp";
/// Option that names the authorities of clients.
const CLIENT_CA: &str = "tls.client_ca";
/// Option that names the lists of revoked certificates.
const CRL: &str = "tls.crl";

/// Permission of every user to read a file.
const OTHERS_READ: u32 = 0o004;
/// Limit of hosts that are named; further ones are counted.
const NAMED_MAX: usize = 8;

/// Advice about an expired certificate, and about that of `serve --https`.
const RENEW: &str = "renew it, then run `regatta reload`";
const MADE_AGAIN: &str = "`regatta serve --https` makes a new certificate when it is started again";

/// Parts of encrypted connections, or the faults that prevent them.
#[derive(Debug, Default)]
pub(crate) struct Encrypted {
    /// `None` without addresses, or with a problem.
    pub(crate) parts: Option<TlsParts>,
    pub(crate) problems: Vec<Problem>,
    /// Warnings: allowed, and perhaps not meant.
    pub(crate) warnings: Vec<Problem>,
}

/// Effect of a certificate outside its validity period. It concerns the clients of its names alone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Untimely<'a> {
    /// A problem, for `check` and for a reload: the certificate before may be better. Those listed
    /// here are served already, and are warnings.
    Refused(&'a [CertificateId]),
    /// A warning, for a server that starts: without it, other hosts would not be served either.
    Served,
}

/// Interprets the files that options of TLS name. `now` is in seconds since 1970.
pub(crate) fn understand(
    said: &Said,
    files: &TlsFiles,
    now: u64,
    untimely: Untimely<'_>,
) -> Encrypted {
    if !listens::is_wanted(&said.settings) {
        return Encrypted::default();
    }
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let (problems, warnings) = (Vec::new(), Vec::new());
    let mut reader = Reader { said, files, now, untimely, problems, warnings };
    let mut certificates = Vec::new();
    for text in said.settings.list(CERTIFICATE) {
        let pair = Pair::parse(text);
        certificates.extend(reader.certificate(pair).map(|certificate| (pair, certificate)));
    }
    reader.rsa_keys(&certificates);
    reader.rare_keys(&certificates);
    for text in said.settings.list(OCSP) {
        reader.staple(Pair::parse(text), &mut certificates);
    }
    let clients = reader.clients();
    let is_whole = reader.problems.is_empty() && !certificates.is_empty();
    let id = |(pair, certificate): &(Pair<'_>, ServedCertificate)| CertificateId {
        path: pair.first.to_owned(),
        valid_until: certificate.valid_until(),
        soon_s: soon_s(certificate.valid_from(), certificate.valid_until()),
    };
    let ids = certificates.iter().map(id).collect();
    let certificates = certificates.into_iter().map(|(_, certificate)| certificate);
    let certificates = ServedCertificates::new(certificates);
    if is_whole {
        reader.hosts(&certificates);
    }
    let Reader { problems, warnings, .. } = reader;
    let parts = is_whole.then_some(TlsParts { certificates, ids, clients });
    Encrypted { parts, problems, warnings }
}

/// Reads files, and collects what is wrong with them.
struct Reader<'a> {
    said: &'a Said,
    files: &'a TlsFiles,
    now: i64,
    untimely: Untimely<'a>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn problem(&self, kind: &'static Message, key: &str, path: &str, what: &str) -> Problem {
        let message = format!("\"{path}\": {what}");
        if self.is_made(key) {
            // The user has set no option.
            return Problem::new(kind, self.said.place(key), message);
        }
        self.said.problem(kind, key, &message)
    }

    /// True if `serve --https` has made the certificate, and set the option.
    fn is_made(&self, key: &str) -> bool {
        let place = self.said.place(key);
        matches!(place, Location::Argument(flag) if flag == development::FLAG)
    }

    fn report(&mut self, kind: &'static Message, key: &str, path: &str, what: &str, hint: &str) {
        let problem = self.problem(kind, key, path, what).hint(hint);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Content of a file, unless it could not be read.
    fn file(&mut self, key: &str, path: &str) -> Option<&'a TlsFile> {
        let files = self.files;
        let found = files.get(path).filter(|file| file.fault.is_none());
        if found.is_none() {
            let fault = files.get(path).and_then(|file| file.fault.as_deref());
            let what = format!("the file cannot be read: {}", fault.unwrap_or("not found"));
            let hint = match self.is_made(key) {
                true => MADE_AGAIN,
                false => "name a file that the user who starts the server can read",
            };
            self.report(messages::TLS_UNREADABLE, key, path, &what, hint);
        }
        found
    }

    fn certificate(&mut self, pair: Pair<'_>) -> Option<ServedCertificate> {
        let chain = self.file(CERTIFICATE, pair.first);
        let key = self.file(CERTIFICATE, pair.second);
        let (chain, key) = (chain?, key?);
        if key.mode & OTHERS_READ != 0 {
            let what = "every user of this machine can read the private key";
            let found = self.problem(messages::TLS_KEY_EXPOSED, CERTIFICATE, pair.second, what);
            self.warn(found.hint(format!("`chmod o-rwx {}`", pair.second)));
        }
        let files = CertificateFiles { chain: &chain.bytes, key: &key.bytes };
        match ServedCertificate::read(files) {
            Ok(certificate) => {
                self.judge_times(pair.first, &certificate);
                if certificate.lacks_issuer() {
                    let what = "the certificate of its issuer is not in the chain";
                    let found =
                        self.problem(messages::TLS_SHORT_CHAIN, CERTIFICATE, pair.first, what);
                    self.warn(found.hint("name the whole chain, as fullchain.pem of certbot"));
                }
                Some(certificate)
            }
            Err(fault) => {
                self.refuse(pair, &fault);
                None
            }
        }
    }

    fn warn(&mut self, warning: Problem) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn refuse(&mut self, pair: Pair<'_>, fault: &CertificateFault) {
        let (first, second) = (pair.first, pair.second);
        let (kind, path, hint) = match fault {
            CertificateFault::NoKey | CertificateFault::BadKey(_) => (
                messages::TLS_NO_KEY,
                second,
                "name an RSA, ECDSA or Ed25519 key without a passphrase after a colon, as in \
                 \"chain.pem:key.pem\"",
            ),
            CertificateFault::LockedKey => (
                messages::TLS_NO_KEY,
                second,
                "remove the passphrase: `openssl pkey -in LOCKED.pem -out KEY.pem`",
            ),
            CertificateFault::KeyNotPem(_) => {
                (messages::TLS_NO_KEY, second, "name a whole file in PEM, as from certbot or lego")
            }
            CertificateFault::KeyMismatch => (
                messages::TLS_KEY_MISMATCH,
                second,
                "name the key that was made for it; the certificate of the server comes first in a \
                 chain",
            ),
            _ => (
                messages::TLS_NO_CERTIFICATE,
                first,
                "name a whole file in PEM, as fullchain.pem of certbot",
            ),
        };
        let what = match fault {
            CertificateFault::KeyMismatch => {
                format!("the key does not fit the certificate in \"{first}\"")
            }
            fault => fault.to_string(),
        };
        if self.is_made(CERTIFICATE) {
            let hint = format!("remove the file: {MADE_AGAIN}");
            return self.report(kind, CERTIFICATE, path, &what, &hint);
        }
        self.report(kind, CERTIFICATE, path, &what, hint);
    }

    /// Notes keys of RSA, except those for clients without ECDSA: for all their names there is a
    /// certificate with a cheaper key.
    fn rsa_keys(&mut self, certificates: &[(Pair<'_>, ServedCertificate)]) {
        let (rsa, others): (Vec<_>, Vec<_>) =
            certificates.iter().partition(|(_, of)| of.has_rsa_key());
        let has_other =
            |name: &String| others.iter().any(|(_, other)| other.names().contains(name));
        for (pair, certificate) in rsa {
            if certificate.names().is_empty() || !certificate.names().iter().all(has_other) {
                let what = "the key is RSA; ECDSA takes less processor time in each handshake";
                let found = self.problem(messages::TLS_RSA_KEY, CERTIFICATE, pair.second, what);
                self.warn(found.hint("request a certificate for an ECDSA key with P-256"));
            }
        }
    }

    /// Warns of keys that browsers refuse, except where all names have a certificate with another.
    fn rare_keys(&mut self, certificates: &[(Pair<'_>, ServedCertificate)]) {
        let (usual, rare): (Vec<_>, Vec<_>) =
            certificates.iter().partition(|(_, of)| of.suits_browsers());
        let has_usual = |name: &String| usual.iter().any(|(_, other)| other.names().contains(name));
        for (pair, certificate) in rare {
            if certificate.names().is_empty() || !certificate.names().iter().all(has_usual) {
                let what = "browsers refuse a certificate with a key of this kind";
                let found = self.problem(messages::TLS_RARE_KEY, CERTIFICATE, pair.second, what);
                self.warn(found.hint("list a certificate with an ECDSA key (P-256) for its names"));
            }
        }
    }

    /// Reports a certificate outside its validity period, which ends at `until`.
    fn report_untimely(
        &mut self,
        kind: &'static Message,
        path: &str,
        until: i64,
        what: &str,
        hint: &str,
    ) {
        let is_it = |id: &CertificateId| id.path == path && id.valid_until == until;
        match self.untimely {
            Untimely::Refused(served) if !served.iter().any(is_it) => {
                self.report(kind, CERTIFICATE, path, what, hint);
            }
            Untimely::Refused(_) | Untimely::Served => {
                let found = self.problem(kind, CERTIFICATE, path, what);
                self.warn(found.hint(hint));
            }
        }
    }

    fn judge_times(&mut self, path: &str, certificate: &ServedCertificate) {
        let (from, until, now) = (certificate.valid_from(), certificate.valid_until(), self.now);
        let renew = if self.is_made(CERTIFICATE) { MADE_AGAIN } else { RENEW };
        if until < now {
            let what = format!("the certificate has expired on {}", shown(until));
            self.report_untimely(messages::TLS_EXPIRED, path, until, &what, renew);
        } else if now < from {
            let what = format!("the certificate is not valid before {}", shown(from));
            let hint = format!("it is {} by the clock of this machine", shown(now));
            self.report_untimely(messages::TLS_NOT_YET_VALID, path, until, &what, &hint);
        } else if until.saturating_sub(now) < soon_s(from, until) {
            let what = format!("the certificate expires on {}", shown(until));
            let found = self.problem(messages::TLS_EXPIRES_SOON, CERTIFICATE, path, &what);
            self.warn(found.hint(renew));
        }
    }

    /// Has a response sent with the certificates of a chain.
    fn staple(&mut self, pair: Pair<'_>, certificates: &mut [(Pair<'_>, ServedCertificate)]) {
        if self
            .said
            .settings
            .list(CERTIFICATE)
            .iter()
            .all(|text| Pair::parse(text).first != pair.first)
        {
            let what = format!("no certificate of {CERTIFICATE} has this chain");
            let hint = "write the path of the chain as it is there, a colon, and the response";
            self.report(messages::OPTIONS_CONFLICT, OCSP, pair.first, &what, hint);
            return;
        }
        let Some(response) = self.file(OCSP, pair.second) else { return };
        for (of, certificate) in certificates {
            if of.first == pair.first
                && let Err(fault) = certificate.staple(&response.bytes)
            {
                let hint = "name a response as `openssl ocsp -respout` writes it";
                let what = fault.to_string();
                self.report(messages::TLS_BAD_FILE, OCSP, pair.second, &what, hint);
            }
        }
    }

    /// Judge of the certificates of clients, if there is to be one.
    fn clients(&mut self) -> Option<ClientVerifier> {
        let said = self.said;
        let (authorities, revoked) = (said.settings.text(CLIENT_CA), said.settings.text(CRL));
        if said.settings.list("tls.client_listen").is_empty() || authorities.is_empty() {
            return None;
        }
        let found = self.file(CLIENT_CA, authorities);
        let lists = match revoked {
            "" => None,
            path => Some(self.file(CRL, path)?),
        };
        let lists = lists.map(|file| &*file.bytes);
        match verify_clients(&found?.bytes, lists) {
            Ok(verifier) => Some(verifier),
            Err(fault) => {
                self.refuse_clients(&fault);
                None
            }
        }
    }

    fn refuse_clients(&mut self, fault: &CertificateFault) {
        let (kind, key) = match fault {
            CertificateFault::ListNotPem(_)
            | CertificateFault::NoRevocationList
            | CertificateFault::BadRevocationList => (messages::TLS_BAD_FILE, CRL),
            _ => (messages::TLS_NO_CERTIFICATE, CLIENT_CA),
        };
        let path = self.said.settings.text(key);
        self.report(kind, key, path, &fault.to_string(), "name a whole file in PEM");
    }

    /// Warns of hosts whose names no certificate has.
    fn hosts(&mut self, served: &ServedCertificates) {
        let rows = self.said.rows(tables::HOSTS);
        let mut missing: Vec<(&Row, String)> = Vec::new();
        for row in rows {
            for text in row.settings.list("hosts.names") {
                let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
                if !is_address(&name) && !served.has_name(&name) {
                    missing.push((row, name));
                }
            }
        }
        let hint = "list a certificate for it in tls.certificate";
        for (row, name) in missing.iter().take(NAMED_MAX) {
            let message = format!("\"{name}\": no certificate has this name");
            let found = row.problem(messages::TLS_NAME_MISSING, "hosts.names", &message);
            self.warnings.push(found.hint(hint));
        }
        if let Some((row, _)) = missing.get(NAMED_MAX) {
            let others = missing.len() - NAMED_MAX;
            let message = format!("no certificate has {others} further names, from here on");
            let found = row.problem(messages::TLS_NAME_MISSING, "hosts.names", &message);
            self.warnings.push(found.hint(hint));
        }
    }
}

/// True for an address in place of a name: no client asks for its certificate.
fn is_address(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    name.parse::<Ipv4Addr>().is_ok() || inner.is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok())
}

/// A time for messages.
fn shown(seconds: i64) -> String {
    String::from_utf8_lossy(&date::format(seconds)).into_owned()
}
