//! Messages of the error log and kinds of configuration problems: each has an identifier that stays
//! the same while its text may change. `cargo xtask gen` writes the tables of `docs/operating.md`
//! from this file.

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something worth knowing: started, reloaded, drained.
    Notice,
    /// A fault, despite which the server continues.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// Word in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A message of the error log, or a kind of configuration problem.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// Identifier in the log and in JSON.
    pub id: &'static str,
    /// Severity in the log.
    pub level: Level,
    /// Meaning, and what to do, as markdown.
    pub meaning: &'static str,
}

/// Messages about one topic.
#[derive(Debug)]
pub struct MessageGroup {
    /// Heading of its table.
    pub title: &'static str,
    /// Rows of its table.
    pub messages: &'static [&'static Message],
}

/// Declares messages, and the list of their groups.
macro_rules! messages {
    ($(#[$doc:meta])* $list:ident, $names:ident; $($title:literal {
        $($name:ident $id:literal $level:ident: $meaning:literal;)+
    })+) => {
        $($(
            #[doc = concat!("Message `", $id, "`.")]
            pub const $name: &Message =
                &Message { id: $id, level: Level::$level, meaning: $meaning };
        )+)+

        $(#[$doc])*
        pub const $list: &[MessageGroup] =
            &[$(MessageGroup { title: $title, messages: &[$($name),+] }),+];

        #[cfg(test)]
        const $names: &[(&str, &Message)] = &[$($((stringify!($name), $name)),+),+];
    };
}

messages! {
    /// Messages of the error log.
    LOG, LOG_NAMES;
    "Start and configuration" {
        SERVER_STARTS "server-starts" Notice:
            "The first line: the values that the server derived from the machine and its limits. \
             If they do not fit, set the option.";
        SERVES_AS_ROOT "serves-as-root" Warning:
            "Workers keep root's rights: an attacker in a worker would control the machine. Set \
             `--user`.";
        RIGHTS_GIVEN_UP "rights-given-up" Notice:
            "Rights that the workers no longer have (`server.sandbox`). A right that is not listed \
             is one that this kernel cannot take away.";
        NOT_CONFINED "not-confined" Error:
            "The process does not serve: `server.sandbox = required` is not possible, or a sandbox \
             rule fails. Do what the line says.";
        USER_NOT_CHANGED "user-not-changed" Error:
            "The process may not change to the serving user. See [Containers](#containers), or \
             start the server as that user.";
        SERVER_FILE_FAILED "server-file-failed" Error:
            "The server cannot write or remove its PID file or a socket's file. The line has the \
             reason. The server serves.";
        DISK_SIMULATED "disk-simulated" Warning:
            "`lab.disk_heads` is set. It is for experiments: do not serve users with it.";
        CERTIFICATE_EXPIRES "certificate-expires" Warning:
            "The certificate that expires first does so soon (`tls-expires-soon`), or has expired. \
             Renew it, and run `regatta reload`. The line comes once a day. A start has \
             `tls-expires-soon` or `tls-expired` instead, which name the certificate.";
        SIGNAL_IGNORED "signal-ignored" Warning:
            "The master received a signal that it does not use. Nothing happened.";
        DRAINING "draining" Notice:
            "The master received SIGTERM or SIGINT. Requests in progress may finish.";
    }
    "Roots" {
        ROOT_CHANGED "root-changed" Notice:
            "The root leads to another directory, or its rules or error pages have changed. The \
             server serves what is there now.";
        ROOT_FAULT "root-fault" Warning:
            "Something is wrong [below the root](#faults-below-a-root). Do what the line says.";
        ROOT_OUT_OF_REACH "root-out-of-reach" Warning:
            "The new directory is where the running workers may not read (`server.sandbox`). The \
             server reloads the configuration in force, then serves it. Such reloads wait 4 s, \
             then 8 s and so on, up to 10 min.";
    }
    "Workers" {
        WORKER_FULL "worker-full" Warning:
            "The worker has its maximum of connections. Do what the line says.";
        WORKERS_ALL_BUSY "workers-all-busy" Warning:
            "Under `mp` each connection needs a process, and all are busy or soon will be. The \
             server logs this once. If clients wait, raise `limits.connections_max` or lower \
             `limits.idle_ms_max`.";
        WORKERS_VARIED "workers-varied" Notice:
            "Under `hybrid-adapt` the number of workers follows how long they wait for the disk. \
             The line has the measurement and the limit. See `staff.*`.";
        WAITS_UNKNOWN "waits-unknown" Warning:
            "Under `hybrid-adapt` the kernel must say how long a worker ran, and does not. The \
             number of workers stays. Do what the line says.";
        WORKER_CANNOT_WORK "worker-cannot-work" Error:
            "The worker cannot work. The line has the reason.";
        WORKER_SILENT "worker-silent" Error:
            "The process does not answer. A worker's event loop does not run, and its connections \
             wait. It is stopped (SIGSTOP, a debugger) or waits for a disk. See [A disk that \
             hangs](#a-disk-that-hangs). `regatta top` shows the other workers. With `its thread`, \
             this thread of the process does not return to its work.";
        WORKER_BACK "worker-back" Notice: "The worker or the named thread runs again.";
        WORKER_KILLED "worker-killed" Error:
            "The process did not answer, and the server killed it. See [Processes that \
             hang](#processes-that-hang) for the causes. The line has the consequence. The \
             connections of a worker are lost. If it happens again, report it.";
        WORKERS_ALL_KILLED "workers-all-killed" Error:
            "All workers that share a cache were silent for longer than a disk may take. The \
             server replaces them, and their connections are lost. Report it.";
        WORKER_REPLACED "worker-replaced" Error:
            "A process ended unexpectedly; the server replaces it. If you did not send signal 9, \
             the kernel probably did, because memory was low. See the kernel's log.";
        WORKER_LOST "worker-lost" Error:
            "A process ended during shutdown, or could not work at all. The line before has the \
             reason.";
        WORKER_NOT_STARTED "worker-not-started" Error:
            "A fork failed for lack of memory or processes, as the line says. The server tries \
             again.";
        WORKER_LATE "worker-late" Warning:
            "The worker did not end within `server.drain_ms_max`, and the server killed it. Raise \
             this if transfers are long.";
        KEEPER_NOT_STARTED "keeper-not-started" Error:
            "The process that starts the workers could not start. The line has the reason.";
        KEEPER_FAILED "keeper-failed" Error:
            "The process that starts the workers failed. The server replaces it.";
        CONTROLLER_DECISION "controller-decision" Notice:
            "A decision of a controller of the architecture. `stages.decisions` or `adapt.trace` \
             asked for it.";
    }
    "Logs and files" {
        DISK_SILENT "disk-silent" Warning:
            "An operation on a file has taken longer than a second. The line names the file, and \
             says how many operations wait for its disk or file server. See [A disk that \
             hangs](#a-disk-that-hangs).";
        DISK_BACK "disk-back" Notice: "No operation on a file takes longer than a second any more.";
        FILE_FAULT "file-fault" Error:
            "The file exists, but the server may not open it (403), or the disk or file system \
             fails (500). Check the permissions or the disk.";
        ACCESS_LOG_CLOSED "access-log-closed" Error:
            "A worker cannot open the access log, and drops its lines. Do what the line says, then \
             send SIGUSR1.";
        ACCESS_LOG_NOT_MADE "access-log-not-made" Warning:
            "A worker that starts cannot create or open the access log. Do what the line says, \
             then send SIGUSR1.";
        LOG_NOT_REOPENED "log-not-reopened" Warning:
            "The server cannot reopen a log, and continues with the old file. Correct the reason \
             in the line, then send SIGUSR1 again.";
        LOG_ON_STDERR "log-on-stderr" Warning:
            "This process cannot open the error log, and writes to standard error. Correct the \
             reason in the line, then send SIGUSR1.";
        ACCESS_LOG_FAILED "access-log-failed" Error:
            "The disk is full, or the reader of the pipe is too slow. The server drops lines and \
             counts them. Free space; nothing else is needed.";
        ACCESS_LOG_WORKS "access-log-works" Notice:
            "Writing works again. The line has the number of lost lines.";
    }
    "Reloads" {
        RELOAD_SERVES "reload-serves" Notice: "All new workers are ready, and the old ones drain.";
        RELOAD_REFUSED "reload-refused" Error:
            "The server continues unchanged. This line or the lines before have the reason; \
             correct it and reload again. A trial longer than 10 s waits for a disk, a file server \
             or a FIFO.";
        RELOAD_DROPPED "reload-dropped" Notice:
            "The reload was requested before or during a shutdown.";
        RELOAD_FAULT "reload-fault" Error:
            "An error in the new configuration or program, with its position.";
        TRIAL_FAILED "trial-failed" Error:
            "The new program failed without a reason, or its message is on standard error. Run \
             `regatta check` with it. *Exited with code 0* means another program, or a wrapper \
             without `exec`.";
        GENERATION_GONE "generation-gone" Notice: "The last old worker has ended.";
        GENERATION_LATE "generation-late" Warning:
            "Old workers did not end within `server.drain_ms_max`, and the server killed them. \
             Raise this if transfers are long.";
        OLD_WORKER_FAILED "old-worker-failed" Warning:
            "An old worker failed or was killed while it drained. The server does not replace it.";
    }
    "Session tickets" {
        TICKET_KEYS_ROTATED "ticket-keys-rotated" Notice:
            "`tls.ticket_rotate_s` has passed. Sessions begun before the rotation before this one \
             begin with a full handshake again.";
        TICKET_KEYS_KEPT "ticket-keys-kept" Error:
            "The kernel gave no random numbers, so the keys stay. The server tries again at the \
             next rotation.";
        TICKET_KEYS_UNLOCKED "ticket-keys-unlocked" Warning:
            "The master may not lock the page with the keys in memory, so the kernel may write it \
             to swap space. Raise `RLIMIT_MEMLOCK` (`LimitMEMLOCK=` of the unit, `ulimit -l`), or \
             use no swap space. The server serves.";
    }
    "systemd and monitors" {
        MANAGER_NOT_TOLD "manager-not-told" Warning:
            "`NOTIFY_SOCKET` has no address that receives messages. The server serves, but systemd \
             may wait for READY in vain.";
        SOCKET_GIVEN "socket-given" Notice:
            "The socket from systemd stays open when the server ends. See [Sockets from \
             systemd](#sockets-from-systemd).";
        SOCKET_SHARED "socket-shared" Warning:
            "systemd gave one socket, and all workers share it. Nothing is lost, but the kernel \
             does not balance connections: a fast worker accepts more. To change this, remove the \
             address from the socket unit.";
        ADMIN_LISTENS "admin-listens" Notice:
            "The address of `admin.listen`, with the port if the kernel chose it.";
        ADMIN_CANNOT_ACCEPT "admin-cannot-accept" Error:
            "Monitors receive no answers. The server replaces the process.";
        ADMIN_NOT_STARTED "admin-not-started" Error:
            "A fork failed for lack of memory or processes, as the line says. The server tries \
             again.";
        ADMIN_REPLACED "admin-replaced" Error:
            "The process that answers monitors ended. The server replaces it; clients do not \
             notice.";
    }
}

messages! {
    /// Kinds of configuration problems. One that does not stop the server is logged as a warning.
    PROBLEMS, PROBLEM_NAMES;
    "Files and options" {
        CONFIG_UNREADABLE "config-unreadable" Warning:
            "The configuration file does not exist, is too long, or the server may not read it.";
        BAD_TOML "bad-toml" Warning:
            "The file is not TOML, or sets a key twice. Compare the line with \
             [options.md](options.md).";
        UNKNOWN_SECTION "unknown-section" Warning: "There is no section of this name.";
        UNKNOWN_OPTION "unknown-option" Warning: "There is no option of this name.";
        UNKNOWN_FIELD "unknown-field" Warning:
            "A table such as `[[headers]]` has no field of this name.";
        UNKNOWN_ARCHITECTURE "unknown-architecture" Warning:
            "There is no architecture of this name. `regatta architectures` lists them.";
        BAD_ARGUMENT "bad-argument" Warning: "An argument of the command line has another form.";
        BAD_VALUE "bad-value" Warning:
            "The option or field does not take this value. The message has what it takes.";
        TOO_MANY "too-many" Warning: "The list or table has more entries than are allowed.";
        NOT_PER_HOST "not-per-host" Warning:
            "A host sets an option that is the same for all hosts.";
        OPTIONS_CONFLICT "options-conflict" Warning:
            "The values of two options do not fit each other.";
        OPTION_UNUSED "option-unused" Warning:
            "The architecture does not have this option, or ignores it, or another option that \
             would use it is missing. The server serves.";
    }
    "Addresses and clients" {
        NO_ADDRESS "no-address" Warning:
            "There is no address in `server.listen`, `tls.listen` or `tls.client_listen`.";
        BAD_ADDRESS "bad-address" Warning:
            "The text is no address to listen on, or its host name has no address.";
        ADDRESS_TWICE "address-twice" Warning:
            "An address is listed twice, or both in the clear and with HTTPS.";
        CANNOT_LISTEN "cannot-listen" Warning:
            "The server cannot listen on the address. The message has the reason.";
        NO_TRUSTED_PROXY "no-trusted-proxy" Warning:
            "`server.forwarded` or `server.proxy_protocol` is set, but `server.trusted` lacks the \
             proxy. Add its address, or `unix:`.";
        ADMIN_EXPOSED "admin-exposed" Warning:
            "Other machines can read the counters at `admin.listen`. The server serves.";
    }
    "HTTPS" {
        TLS_INCOMPLETE "tls-incomplete" Warning:
            "An address with HTTPS needs another option. The message names it.";
        TLS_UNREADABLE "tls-unreadable" Warning:
            "The user that starts the server cannot read a file of `tls.*`. The message has the \
             file and the reason.";
        TLS_NO_CERTIFICATE "tls-no-certificate" Warning:
            "The file has no certificate, or a malformed one. It must be PEM.";
        TLS_NO_KEY "tls-no-key" Warning:
            "The file has no private key, a malformed one, or one with a passphrase. It must be \
             PEM.";
        TLS_KEY_MISMATCH "tls-key-mismatch" Warning:
            "The private key is that of another certificate. Name the files that were made \
             together; the server's own certificate is the first of a chain.";
        TLS_KEY_EXPOSED "tls-key-exposed" Warning:
            "Every user of the machine can read the private key. Run `chmod o-rwx` on the file. \
             The server serves.";
        TLS_RSA_KEY "tls-rsa-key" Notice:
            "The key is RSA. An ECDSA key with P-256 takes less processor time in each handshake. \
             With a certificate of each kind for the same names, the message is omitted. The \
             server serves.";
        TLS_RARE_KEY "tls-rare-key" Warning:
            "Browsers refuse certificates with Ed25519 keys, and some those with P-521: they show \
             an error instead of the site. List a certificate with an ECDSA key (P-256) for the \
             same names. The server serves.";
        TLS_SHORT_CHAIN "tls-short-chain" Warning:
            "The chain is one certificate, and clients may not know its issuer: some browsers \
             fetch the missing one, other clients refuse the certificate. Name the file with the \
             whole chain. The server serves.";
        TLS_EXPIRED "tls-expired" Warning:
            "The certificate has expired. Renew it, then run `regatta reload`. A server that \
             starts with it, or has it, serves; a reload that brings it is refused.";
        TLS_NOT_YET_VALID "tls-not-yet-valid" Warning:
            "The certificate is not yet valid. Check the clock of the machine. A server that \
             starts with it, or has it, serves; a reload that brings it is refused.";
        TLS_EXPIRES_SOON "tls-expires-soon" Warning:
            "The certificate expires within 14 days, and within the last third of its validity. \
             Renew it, then run `regatta reload`. The server serves.";
        TLS_NAME_MISSING "tls-name-missing" Warning:
            "No certificate has the name of a host, so browsers refuse it over HTTPS. The server \
             serves.";
        TLS_BAD_FILE "tls-bad-file" Warning:
            "A file with an OCSP response or with revoked certificates is malformed.";
    }
    "Limits" {
        LIMIT_EXCEEDED "limit-exceeded" Warning:
            "The machine's limits on descriptors, processes or memory do not allow this many \
             connections or workers.";
        CACHE_TOO_LARGE "cache-too-large" Warning:
            "The caches may grow beyond the memory of the machine or group. The server serves.";
    }
    "Users and files of the server" {
        BAD_USER "bad-user" Warning:
            "The user does not exist, or the server cannot become that user.";
        NOT_WRITABLE "not-writable" Warning: "The server cannot write a log or its PID file.";
        BAD_TICKET_KEY "bad-ticket-key" Warning:
            "A file of `tls.ticket_keys` is unreadable, has another length than 48 or 80 bytes, or \
             is open to all users.";
        DISK_UNKNOWN "disk-unknown" Warning:
            "The simulated disk needs to know what is in memory, and the kernel reports it only to \
             the owner of the files.";
    }
    "Roots and hosts" {
        NO_ROOT "no-root" Warning:
            "A host has no root, or the root on the command line is no directory.";
        ROOT_UNCHECKED "root-unchecked" Warning:
            "The server could not check what is below the root. The message has the reason.";
        ROOT_NESTED "root-nested" Warning:
            "The root is also served by another host, whose rules apply there. The server serves.";
        HOST_TWICE "host-twice" Warning: "Two hosts have the same name.";
        SIBLINGS_STALE "siblings-stale" Warning:
            "Precompressed files are older than their originals. Run `regatta precompress`. The \
             server serves them.";
    }
    "Rules" {
        BAD_RULE "bad-rule" Warning:
            "A field of the rule has the wrong form. In a rules file, the server skips the line.";
        RULE_TWICE "rule-twice" Warning:
            "Another rule has the same paths. From rules files, the first one applies.";
        RULE_CUT "rule-cut" Warning:
            "The rule would make requests too expensive, and the server serves without it.";
        RULE_UNUSED "rule-unused" Warning:
            "The rule changes nothing, because the server or another rule decides. The server \
             serves.";
        REDIRECT_LOOP "redirect-loop" Warning:
            "Redirects lead from path to path without an end. The server serves.";
        FIELD_NOT_SENT "field-not-sent" Warning:
            "A fallback or a redirect with status 200 answers such paths with a file whose own \
             path lacks a security field. Set the field for that path too. The server serves.";
        FILE_PROTECTED "file-protected" Warning:
            "The page is below a path that `[[auth]]` protects, and the option would send it to \
             clients without a password. The server does not send it: name a page outside that \
             path. The server serves.";
    }
}

#[cfg(test)]
mod tests {
    use super::{LOG, LOG_NAMES, PROBLEM_NAMES, PROBLEMS};
    use std::collections::BTreeSet;

    #[test]
    fn identifiers_are_short_unique_and_named_as_their_constants() {
        let mut known = BTreeSet::new();
        for (name, message) in LOG_NAMES.iter().chain(PROBLEM_NAMES) {
            let id = message.id;
            assert_eq!(*name, id.to_ascii_uppercase().replace('-', "_"));
            let is_word =
                |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(id.len() <= 32 && id.split('-').all(is_word), "{id}");
            assert!(known.insert(id), "{id} is there twice");
        }
        let titles = LOG.iter().chain(PROBLEMS).map(|group| group.title);
        assert_eq!(titles.collect::<BTreeSet<_>>().len(), LOG.len() + PROBLEMS.len());
    }

    #[test]
    fn a_meaning_is_a_cell_of_a_table() {
        for message in LOG.iter().chain(PROBLEMS).flat_map(|group| group.messages) {
            let meaning = message.meaning;
            assert!(!meaning.contains(['|', '\n']) && meaning.ends_with('.'), "{}", message.id);
        }
    }
}
