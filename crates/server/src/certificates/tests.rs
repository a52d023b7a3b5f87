//! Findings about certificates, and the classes that they make.
use super::*;
use crate::{
    config::environment::Environment,
    config::raw::{Arguments, Flag, read, tests::of_good_file},
    folder::Folder,
    tls::TlsFront,
};
use regatta_origin::ListenerClass;
use regatta_testkit::certificates::{
    Authority, MadeCertificate, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, RSA_PEM,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

const DAY_S: u64 = 86_400;
/// 2030-01-01, when all certificates end.
const END: u64 = 1_893_456_000;
const NOW: u64 = END - 100 * DAY_S;

/// Folder with files, and the findings on configurations that name them.
struct Files(Folder);

impl Files {
    fn new() -> Self {
        let files = Self(Folder::new("certificates"));
        for (name, hosts) in [("a", &["a.example", "*.w.example"]), ("b", &["b.example", "c"])] {
            let made = MadeCertificate::new(hosts, 2020..2030, &PKCS_ECDSA_P256_SHA256);
            let MadeCertificate { chain, key } = made;
            files.write(&format!("{name}.pem"), 0o644, chain.as_bytes());
            files.write(&format!("{name}.key"), 0o600, key.as_bytes());
        }
        files.write("empty.pem", 0o600, b"");
        files.write("torn.pem", 0o600, b"-----BEGIN CERTIFICATE-----\nAAAA\n");
        files.write("torn.key", 0o600, b"-----BEGIN PRIVATE KEY-----\nAAAA\n");
        files.write("good.ocsp", 0o600, &[0x30, 0]);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, mode: u32, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Problems and warnings without the folder. `options` are lines of the section tls, and more.
    fn findings(
        &self,
        options: &str,
        now: u64,
        untimely: Untimely<'_>,
    ) -> (Vec<String>, Vec<String>) {
        let home = format!("{}/", Path::new(&*self.0).display());
        let text = format!("[tls]\nlisten = \"127.0.0.1:0\"\n{options}").replace('@', &home);
        let said = of_good_file(&text);
        let files = TlsFiles::read(&said.settings);
        let Encrypted { parts, problems, warnings } = understand(&said, &files, now, untimely);
        let front = TlsFront::new(&said.settings, parts, None).unwrap();
        let is_whole = problems.is_empty() && options.contains("certificate");
        assert_eq!(front.seal(listens::TLS).is_some(), is_whole, "{problems:?}");
        let has_clients = is_whole && options.contains("client_listen");
        assert_eq!(front.seal(listens::TLS_CLIENTS).is_some(), has_clients, "{problems:?}");
        assert!(front.seal(ListenerClass::CLEAR).is_none());
        let shown = |problems: Vec<Problem>| {
            problems.iter().map(|it| format!("[{}] {it}", it.kind.id).replace(&home, "@")).collect()
        };
        (shown(problems), shown(warnings))
    }

    #[track_caller]
    fn check(&self, options: &str, problems: &[&str], warnings: &[&str]) {
        let found = self.findings(options, NOW, Untimely::Refused(&[]));
        for (found, expected) in [(found.0, problems), (found.1, warnings)] {
            assert_eq!(found.len(), expected.len(), "{options}\n{found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}\n{expected}");
                assert!(found.contains("\n  hint: "), "{found}");
            }
        }
    }
}

#[test]
fn good_files_have_no_findings() {
    let files = Files::new();
    for options in [
        "certificate = \"@a.pem:@a.key\"\n",
        "certificate = [\"@a.pem:@a.key\", \"@b.pem:@b.key\"]\nocsp = \"@b.pem:@good.ocsp\"\n",
        "certificate = \"@a.pem:@a.key\"\nclient_listen = \"[::1]:0\"\nclient_ca = \"@b.pem\"\n",
        "",
    ] {
        files.check(options, &[], &[]);
    }
    let both = [fs::read(files.path("a.pem")).unwrap(), fs::read(files.path("a.key")).unwrap()];
    files.write("both.pem", 0o640, &both.concat());
    files.check("certificate = \"@both.pem\"\n", &[], &[]);
}

#[test]
fn faults_of_certificates_have_positions() {
    let files = Files::new();
    let at = "r:3:15: tls.certificate: ";
    let unfit = "\"@b.key\": the key does not fit the certificate in \"@a.pem\"";
    for (value, id, what) in [
        ("@none.pem:@a.key", "tls-unreadable", "\"@none.pem\": the file cannot be read: No such"),
        ("@a.pem:@none.key", "tls-unreadable", "\"@none.key\": the file cannot be read: No such"),
        ("@empty.pem:@a.key", "tls-no-certificate", "\"@empty.pem\": no certificate in it"),
        ("@torn.pem:@a.key", "tls-no-certificate", "\"@torn.pem\": bad PEM: "),
        ("@a.pem:@empty.pem", "tls-no-key", "\"@empty.pem\": no private key in it"),
        ("@a.pem:@torn.key", "tls-no-key", "\"@torn.key\": bad PEM: "),
        ("@a.pem:@b.key", "tls-key-mismatch", unfit),
    ] {
        let expected = format!("[{id}] {at}{what}");
        files.check(&format!("certificate = \"{value}\"\n"), &[&expected], &[]);
    }
    let expected = format!("[tls-unreadable] {at}\"@none.pem\"");
    let twice = "certificate = [\"@none.pem\", \"@none.pem\"]\n";
    files.check(twice, &[&expected], &[]);
}

/// A user of `serve --https` has set no option, and has no file to name.
#[test]
fn the_certificate_for_development_is_made_by_another_start() {
    let files = Files::new();
    let home = format!("{}/", Path::new(&*files.0).display());
    let both = [fs::read(files.path("a.pem")).unwrap(), fs::read(files.path("a.key")).unwrap()];
    files.write("both.pem", 0o600, &both.concat());
    for (name, now, id, what, first) in [
        (
            "none.pem",
            NOW,
            "tls-unreadable",
            "the file cannot be read: No such file or directory (os error 2)",
            "",
        ),
        (
            "empty.pem",
            NOW,
            "tls-no-certificate",
            "no certificate in it (BEGIN CERTIFICATE)",
            "remove the file: ",
        ),
        (
            "both.pem",
            END + 1,
            "tls-expired",
            "the certificate has expired on Tue, 01 Jan 2030 00:00:00 GMT",
            "",
        ),
    ] {
        let flag = |key, value: String| Flag { key, name: development::FLAG, values: vec![value] };
        let path = files.path(name).display().to_string();
        let flags = vec![flag(CERTIFICATE, path), flag("tls.listen", "127.0.0.1:0".to_owned())];
        let (said, faults) =
            read(&[], &Arguments { flags, sets: Vec::new() }, &Environment::default());
        assert_eq!(faults, []);
        let found = TlsFiles::read(&said.settings);
        let problems = understand(&said, &found, now, Untimely::Refused(&[])).problems;
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        let text = format!("[{}] {problem}", problem.kind.id).replace(&home, "@");
        let hint = format!("{first}`regatta serve --https` makes a new certificate when");
        let expected = format!("[{id}] --https: \"@{name}\": {what}\n  hint: {hint}");
        assert!(text.starts_with(&expected), "{text}\n{expected}");
    }
}

#[test]
fn times_of_certificates_are_judged() {
    let files = Files::new();
    let options = "certificate = \"@a.pem:@a.key\"\n";
    let soon = "[tls-expires-soon] r:3:15: tls.certificate: \"@a.pem\": the certificate expires on \
                Tue, 01 Jan 2030 00:00:00 GMT\n  hint: renew it";
    let expired = "[tls-expired] r:3:15: tls.certificate: \"@a.pem\": the certificate has expired \
                   on Tue, 01 Jan 2030 00:00:00 GMT\n  hint: renew it";
    let early = "[tls-not-yet-valid] r:3:15: tls.certificate: \"@a.pem\": the certificate is not \
                 valid before Wed, 01 Jan 2020 00:00:00 GMT\n  hint: it is Thu, 01 Jan 1970";
    let id = |name: &str, valid_until| {
        let path = files.path(name).display().to_string();
        CertificateId { path, valid_until, soon_s: 0 }
    };
    let [end, before] = [END, END - DAY_S].map(|at| i64::try_from(at).unwrap());
    let same = [id("b.pem", end), id("a.pem", end)];
    let others = [id("b.pem", end), id("a.pem", before)];
    for (now, untimely, problem, warning) in [
        (END - 14 * DAY_S, Untimely::Refused(&[]), None, None),
        (END - 14 * DAY_S + 1, Untimely::Refused(&[]), None, Some(soon)),
        (END, Untimely::Refused(&[]), None, Some(soon)),
        (END + 1, Untimely::Refused(&[]), Some(expired), None),
        (END + 1, Untimely::Refused(&others), Some(expired), None),
        (END + 1, Untimely::Refused(&same), None, Some(expired)),
        (END + 1, Untimely::Served, None, Some(expired)),
        (0, Untimely::Refused(&[]), Some(early), None),
        (0, Untimely::Served, None, Some(early)),
    ] {
        let (problems, warnings) = files.findings(options, now, untimely);
        for (found, expected) in [(problems, problem), (warnings, warning)] {
            let matches = |(found, expected): (&String, &str)| found.starts_with(expected);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{now}: {found:?}");
            assert!(found.iter().zip(expected).all(matches), "{now}: {found:?}");
        }
    }
}

#[test]
fn keys_of_rsa_are_noted_unless_a_cheaper_one_has_their_names() {
    let files = Files::new();
    files.write("rsa.pem", 0o600, RSA_PEM.as_bytes());
    let note = "[tls-rsa-key] r:3:15: tls.certificate: \"@rsa.pem\": the key is RSA; ECDSA takes";
    files.check("certificate = \"@rsa.pem\"\n", &[], &[note]);
    files.check("certificate = [\"@a.pem:@a.key\", \"@rsa.pem\"]\n", &[], &[note]);
    let made = MadeCertificate::new(&["rsa.example"], 2020..2030, &PKCS_ECDSA_P256_SHA256);
    files.write("both.pem", 0o600, (made.chain + &made.key).as_bytes());
    files.check("certificate = [\"@both.pem\", \"@rsa.pem\"]\n", &[], &[]);
}

#[test]
fn keys_that_browsers_refuse_are_noted_unless_another_has_their_names() {
    let files = Files::new();
    let made = MadeCertificate::new(&["b.example", "c"], 2020..2030, &PKCS_ED25519);
    files.write("rare.pem", 0o600, (made.chain + &made.key).as_bytes());
    let note = "[tls-rare-key] r:3:15: tls.certificate: \"@rare.pem\": browsers refuse";
    files.check("certificate = \"@rare.pem\"\n", &[], &[note]);
    files.check("certificate = [\"@a.pem:@a.key\", \"@rare.pem\"]\n", &[], &[note]);
    files.check("certificate = [\"@b.pem:@b.key\", \"@rare.pem\"]\n", &[], &[]);
}

#[test]
fn chains_without_their_issuer_are_noted() {
    let files = Files::new();
    let _ = Authority::new().issue(&["a.example"]).write(Path::new(&*files.0), "");
    files.check("certificate = \"@chain.pem:@key.pem\"\n", &[], &[]);
    let whole = fs::read_to_string(files.path("chain.pem")).unwrap();
    let (first, _) = whole.split_once("-----END").unwrap();
    files.write("short.pem", 0o644, format!("{first}-----END CERTIFICATE-----\n").as_bytes());
    let note = "[tls-short-chain] r:3:15: tls.certificate: \"@short.pem\": the certificate of its";
    files.check("certificate = \"@short.pem:@key.pem\"\n", &[], &[note]);
}

#[test]
fn a_key_that_all_may_read_is_a_warning() {
    let files = Files::new();
    let key = fs::read(files.path("a.key")).unwrap();
    let expected = "[tls-key-exposed] r:3:15: tls.certificate: \"@x.key\": every user of this \
                    machine can read the private key\n  hint: `chmod o-rwx @x.key`";
    for (mode, warnings) in [(0o600, &[][..]), (0o640, &[]), (0o644, &[expected])] {
        files.write("x.key", mode, &key);
        files.check("certificate = \"@a.pem:@x.key\"\n", &[], warnings);
    }
}

#[test]
fn hosts_without_a_certificate_are_named() {
    let files = Files::new();
    let host = |names: &str| format!("[[hosts]]\nroot = \"/srv\"\nnames = [{names}]\n");
    let certificate = "certificate = \"@a.pem:@a.key\"\n".to_owned();
    let good = host("\"A.example.\", \"x.w.example\", \"[::1]\", \"192.0.2.1\"");
    files.check(&(certificate.clone() + &good), &[], &[]);
    let expected = "[tls-name-missing] r:6:9: hosts.names: \"x.y.w.example\": no certificate has";
    files.check(&(certificate.clone() + &host("\"x.y.w.example\"")), &[], &[expected]);
    let many: Vec<String> = (0..11).map(|at| format!("\"{at}.example\"")).collect();
    let (_, warnings) =
        files.findings(&(certificate + &host(&many.join(", "))), NOW, Untimely::Served);
    assert_eq!(warnings.len(), NAMED_MAX + 1);
    assert!(warnings[NAMED_MAX].contains("no certificate has 3 further names"), "{warnings:#?}");
}

#[test]
fn responses_and_authorities_are_judged() {
    let files = Files::new();
    let certificate = "certificate = \"@a.pem:@a.key\"\n";
    let clients = "client_listen = \"[::1]:0\"\n";
    let (ocsp, ca, crl) = ("r:4:8: tls.ocsp", "r:4:13: tls.client_ca", "r:5:7: tls.crl");
    let both = "client_ca = \"@b.pem\"\ncrl = \"@b.pem\"\n";
    let other = "\"@b.pem\": no certificate of tls.certificate has";
    let empty = "\"@empty.pem\": no certificate in it";
    let no_list = "\"@b.pem\": no list in it (BEGIN X509 CRL)";
    for (options, id, at, what) in [
        ("ocsp = \"@b.pem:@good.ocsp\"\n", "options-conflict", ocsp, other),
        ("ocsp = \"@a.pem:@none\"\n", "tls-unreadable", ocsp, "\"@none\": the file"),
        ("ocsp = \"@a.pem:@b.pem\"\n", "tls-bad-file", ocsp, "\"@b.pem\": no response"),
        ("client_ca = \"@none\"\n", "tls-unreadable", ca, "\"@none\": the file"),
        ("client_ca = \"@empty.pem\"\n", "tls-no-certificate", ca, empty),
        (both, "tls-bad-file", crl, no_list),
    ] {
        let expected = format!("[{id}] {at}: {what}");
        files.check(&format!("{certificate}{options}{clients}"), &[&expected], &[]);
    }
}
