//! A connection to another machine by the program ssh, which every command shares: a command costs
//! no handshake, and all of them end with it.

use crate::group::{Group, INTERRUPTED, STEP};
use crate::programs;
use crate::units::At;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time in which the other machine must answer, seconds.
const CONNECT_S_MAX: u64 = 15;
/// Time that ssh has to exit.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// A connection. All that runs over it ends when this is dropped, or when we die.
#[derive(Debug)]
pub(super) struct Connection {
    destination: String,
    /// Path of the socket for commands.
    place: PathBuf,
    /// Holds the connection.
    master: RefCell<Group>,
}

impl Connection {
    /// Connects as `~/.ssh/config` says, and asks nothing of the user.
    pub(super) fn open(destination: &str, stop: &AtomicBool) -> Result<Self, String> {
        if programs::find("ssh").is_none() {
            return Err("needs ssh (apt-get install openssh-client)".to_owned());
        }
        let place = std::env::temp_dir().join(format!("regatta-ssh-{}", std::process::id()));
        // A killed lab with our process number may have left this.
        let _ = fs::remove_dir_all(&place);
        DirBuilder::new().mode(0o700).create(&place).at(&place)?;
        let connected = Self::connect(destination, place.clone(), stop);
        if connected.is_err() {
            let _ = fs::remove_dir_all(&place);
        }
        connected
    }

    fn connect(destination: &str, place: PathBuf, stop: &AtomicBool) -> Result<Self, String> {
        let errors = place.join("errors");
        let file = fs::File::create(&errors).map_err(|error| error.to_string())?;
        let timeout = format!("-oConnectTimeout={CONNECT_S_MAX}");
        // If we die without dropping this, the kernel ends it.
        let mut ssh = Command::new("setpriv");
        ssh.args(["--pdeathsig", "TERM", "ssh", "-M", "-N", "-oControlPersist=no", &timeout]);
        // A connection that is cut is noticed after 15 s.
        ssh.args(["-oBatchMode=yes", "-oServerAliveInterval=5", "-oServerAliveCountMax=3"]);
        ssh.args(["-oClearAllForwardings=yes", "-S"]).arg(place.join("s")).arg(destination);
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut master = Group::start(&mut ssh, &[], LEAVE_MAX)?;
        let end = Instant::now() + Duration::from_secs(2 * CONNECT_S_MAX);
        while !place.join("s").exists() {
            if stop.load(Ordering::Relaxed) {
                return Err(INTERRUPTED.to_owned());
            }
            if master.has_ended() || Instant::now() > end {
                let said = fs::read_to_string(&errors).unwrap_or_default();
                return Err(refused(destination, &said));
            }
            std::thread::sleep(STEP);
        }
        Ok(Self { destination: destination.to_owned(), place, master: RefCell::new(master) })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.master.borrow_mut().has_ended()
    }

    pub(super) fn words(&self, script: &str) -> Vec<OsString> {
        // Without the connection there is no command: no second way in is looked for.
        let options = ["-oBatchMode=yes", "-oControlMaster=no", "-oProxyCommand=false", "-S"];
        let mut words: Vec<OsString> = vec!["ssh".into()];
        words.extend(options.map(OsString::from));
        words.extend([self.place.join("s").into(), OsString::from(&self.destination)]);
        // Whatever shell the user has there.
        words.push(format!("exec sh -c {}", quoted(script)).into());
        words
    }

    pub(super) fn command(&self, script: &str) -> Command {
        let words = self.words(script);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// Output of a script there, up to its end.
    pub(super) fn said(&self, script: &str) -> Result<String, String> {
        let output = self.command(script).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("ssh: {error}"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            return Ok(said(&output.stdout));
        }
        Err(format!("{}: {}", self.destination, said(&output.stderr)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place);
    }
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Explains why ssh gave up, and what to do about it.
fn refused(destination: &str, said: &str) -> String {
    let why = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let why = why.unwrap_or("it does not answer");
    let has = |words: &str| said.contains(words);
    let hint = if has("Permission denied") || has("Too many authentication failures") {
        "let it in by a key without a question: ssh-copy-id, ssh-add, or IdentityFile in \
         ~/.ssh/config"
    } else if has("Host key verification failed") {
        "its key is not known here: log in once by hand and compare the key"
    } else {
        "is it switched on, does its name resolve, does sshd listen there?"
    };
    format!("{destination} cannot be used ({why}): {hint}; `ssh {destination} true` must work")
}

#[cfg(test)]
mod tests {
    use super::{quoted, refused};
    use std::process::Command;

    #[test]
    fn a_shell_reads_a_quoted_text_as_one_word() {
        for text in ["a b", "it's", "$(id) `id` \\ \"x\" !", "p99<50ms,errors<1%", ""] {
            // Quoted like the script of a script, as the words of a load are.
            let script = format!("exec sh -c {}", quoted(&format!("printf %s {}", quoted(text))));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        for (said, hint) in [
            ("Warning: x\nu@h: Permission denied (publickey).\n", "ssh-copy-id"),
            ("Host key verification failed.\n", "by hand"),
            ("ssh: connect to host h port 22: Connection refused\n", "sshd"),
            ("", "it does not answer"),
        ] {
            let why = refused("ssh://h", said);
            assert!(why.contains(hint) && why.contains("`ssh ssh://h true` must work"), "{why}");
        }
    }
}
