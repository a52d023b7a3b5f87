//! What one image of the master hands to the next, in memory that has a descriptor and no name:
//! numbers of descriptors, who the old workers are, and the configuration that has been tried.
use regatta_sys::exec::{read_sealed, sealed_text};
use serde_json::{Value, json};
use std::{
    io,
    ops::Range,
    os::fd::{OwnedFd, RawFd},
    path::PathBuf,
};

/// Raised when a member changes its meaning; members that are not known are passed over.
pub const FORMAT: u64 = 1;

/// The longest text of a handover that is read, bytes: a configuration, and some hundred bytes for
/// each of some thousand workers.
pub const HANDOVER_BYTES_MAX: u64 = 16 << 20;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// The image only tries whether it could serve: it writes here what is wrong, and exits.
    pub report: Option<RawFd>,
    /// The number of the generation that the next image starts.
    pub generation: u64,
    /// When the server started: milliseconds since 1970-01-01T00:00:00Z.
    pub started_unix_ms: u64,
    /// The program that an upgrade executes.
    pub program: PathBuf,
    /// What it is given, its name included; nothing if that is no text.
    pub arguments: Option<Vec<String>>,
    /// The text of the configuration file, read once: what is tried is what serves.
    pub config: Option<String>,
    /// Requests for another generation: carried out, and not.
    pub reloads: [u64; 2],
    /// How long another reload because of one root waits, and until when: milliseconds, the second
    /// of the monotonic clock.
    pub root_reload: [u64; 2],
    /// Another one has been asked for besides: `root`, `reload` or `upgrade`.
    pub asked: Option<String>,
    /// The sockets that listen.
    pub listeners: Vec<Listener>,
    /// Where sockets listen that the service manager has given.
    pub given: Vec<String>,
    /// The admin process.
    pub admin: Option<AdminProcess>,
    /// The file with the master's number, if it has been written.
    pub pid_file: Option<PathBuf>,
    /// The generations that have not ended.
    pub old: Vec<OldGeneration>,
}

/// A socket that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address as it was configured: port 0 stays the port that the kernel chose.
    pub asked: String,
    /// Its descriptor.
    pub fd: RawFd,
}

/// The admin process: it answers until the next image has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminProcess {
    /// Where it listens, as it was configured.
    pub asked: String,
    /// The descriptor of the socket that listens there.
    pub fd: RawFd,
    /// Process, and its descriptor, if there is one.
    pub child: Option<(u32, RawFd)>,
}

/// A generation whose workers, or keeper, have not all ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldGeneration {
    /// Its number.
    pub number: u64,
    /// Its counters.
    pub arena: RawFd,
    /// Its child is a keeper.
    pub keeper: bool,
    /// Until when it drains: milliseconds of the monotonic clock; nothing as long as it serves.
    pub drains_until: Option<u64>,
    /// Process, its descriptor, and the slots that it counts in.
    pub children: Vec<(u32, RawFd, Range<usize>)>,
    /// What is rung when the control words have changed.
    pub bells: Vec<RawFd>,
}

impl Handover {
    /// In memory that cannot be changed any more, for the next image: hand on its descriptor.
    ///
    /// # Errors
    /// No memory or descriptors left.
    pub fn write(&self) -> io::Result<OwnedFd> {
        sealed_text("regatta-handover", &self.to_text())
    }

    /// What the image before this one has written.
    ///
    /// # Errors
    /// It cannot be read or understood: what is wrong, and what to do.
    pub fn read(fd: OwnedFd) -> Result<Self, String> {
        let text = read_sealed(fd, HANDOVER_BYTES_MAX);
        Self::from_text(&text.map_err(|error| format!("no handover: {error}; {ANEW}"))?)
    }

    /// As text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let listener = |of: &Listener| {
            let Listener { asked, fd } = of;
            json!({"asked": asked, "fd": fd})
        };
        let admin = |of: &AdminProcess| {
            let (pid, pidfd) = of.child.unzip();
            json!({"asked": of.asked, "fd": of.fd, "pid": pid, "pidfd": pidfd})
        };
        let old = |of: &OldGeneration| {
            let children = of.children.iter().map(|(pid, fd, slots)| {
                json!({"pid": pid, "fd": fd, "from": slots.start, "to": slots.end})
            });
            json!({
                "number": of.number,
                "arena": of.arena,
                "keeper": of.keeper,
                "drains_until": of.drains_until,
                "children": children.collect::<Vec<_>>(),
                "bells": of.bells,
            })
        };
        json!({
            "format": FORMAT,
            "report": self.report,
            "generation": self.generation,
            "started_unix_ms": self.started_unix_ms,
            "program": self.program.to_string_lossy(),
            "arguments": self.arguments,
            "config": self.config,
            "reloads": self.reloads,
            "root_reload": self.root_reload,
            "asked": self.asked,
            "listeners": self.listeners.iter().map(listener).collect::<Vec<_>>(),
            "given": self.given,
            "admin": self.admin.as_ref().map(admin),
            "pid_file": self.pid_file.as_ref().map(|path| path.to_string_lossy()),
            "old": self.old.iter().map(old).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// What an image of the master, perhaps of another build, has handed over.
    ///
    /// # Errors
    /// It cannot be understood: what is wrong, and what to do.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let all: Value = serde_json::from_str(text)
            .map_err(|error| format!("the handover is no JSON: {error}; {ANEW}"))?;
        let all = Member { value: &all, name: "handover" };
        match all.number("format")? {
            FORMAT => {}
            other => return Err(format!("the handover has format {other}, not {FORMAT}; {ANEW}")),
        }
        let reloads = all.list("reloads", |count| count.into_number())?;
        Ok(Self {
            report: all.optional("report", |fd| fd.into_fd())?,
            generation: all.number("generation")?,
            started_unix_ms: all.number("started_unix_ms")?,
            program: all.text("program")?.into(),
            arguments: all.optional("arguments", |_| all.list("arguments", Member::into_text))?,
            config: all.optional("config", |text| text.into_text())?,
            reloads: reloads.try_into().map_err(|_| all.wrong("reloads"))?,
            // Earlier builds do not say it.
            root_reload: all
                .optional("root_reload", |waits| waits.each(Member::into_number))?
                .and_then(|waits| waits.try_into().ok())
                .unwrap_or_default(),
            asked: all.optional("asked", |asked| asked.into_text())?,
            listeners: all.list("listeners", Listener::read)?,
            // Earlier builds do not say it.
            given: all
                .optional("given", |given| given.each(Member::into_text))?
                .unwrap_or_default(),
            admin: all.optional("admin", AdminProcess::read)?,
            pid_file: all.optional("pid_file", |path| path.into_text())?.map(PathBuf::from),
            old: all.list("old", OldGeneration::read)?,
        })
    }
}

/// What to do when a handover cannot be understood.
const ANEW: &str = "stop the server and start this program anew, it cannot follow that one";

impl Listener {
    fn read(of: Member<'_>) -> Result<Self, String> {
        Ok(Self { asked: of.text("asked")?, fd: of.fd("fd")? })
    }
}

impl AdminProcess {
    fn read(of: Member<'_>) -> Result<Self, String> {
        let pid = of.optional("pid", |pid| pid.into_number())?;
        let pid = pid.map(u32::try_from).transpose().map_err(|_| of.wrong("pid"))?;
        let child = match pid {
            Some(pid) => Some((pid, of.fd("pidfd")?)),
            None => None,
        };
        Ok(Self { asked: of.text("asked")?, fd: of.fd("fd")?, child })
    }
}

impl OldGeneration {
    fn read(of: Member<'_>) -> Result<Self, String> {
        let slot = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let child = |child: Member<'_>| -> Result<(u32, RawFd, Range<usize>), String> {
            let pid = u32::try_from(child.number("pid")?).map_err(|_| child.wrong("pid"))?;
            let slots = slot(child.number("from")?)..slot(child.number("to")?);
            Ok((pid, child.fd("fd")?, slots))
        };
        Ok(Self {
            number: of.number("number")?,
            arena: of.fd("arena")?,
            keeper: of.flag("keeper")?,
            drains_until: of.optional("drains_until", |until| until.into_number())?,
            children: of.list("children", child)?,
            bells: of.list("bells", |bell| bell.into_fd())?,
        })
    }
}

/// A part of the text, and what it is called.
#[derive(Clone, Copy)]
struct Member<'a> {
    value: &'a Value,
    name: &'a str,
}

impl<'a> Member<'a> {
    fn wrong(self, name: &str) -> String {
        format!("the handover has no good \"{name}\" in its \"{}\"; {ANEW}", self.name)
    }

    fn get(self, name: &'a str) -> Option<Self> {
        let value = self.value.get(name)?;
        Some(Self { value, name })
    }

    fn number(self, name: &'a str) -> Result<u64, String> {
        self.get(name).ok_or_else(|| self.wrong(name))?.into_number()
    }

    fn text(self, name: &'a str) -> Result<String, String> {
        self.get(name).ok_or_else(|| self.wrong(name))?.into_text()
    }

    fn fd(self, name: &'a str) -> Result<RawFd, String> {
        self.get(name).ok_or_else(|| self.wrong(name))?.into_fd()
    }

    fn flag(self, name: &'a str) -> Result<bool, String> {
        self.get(name).and_then(|flag| flag.value.as_bool()).ok_or_else(|| self.wrong(name))
    }

    fn optional<T>(
        self,
        name: &'a str,
        read: impl Fn(Self) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.get(name).filter(|member| !member.value.is_null()).map(read).transpose()
    }

    fn list<T>(
        self,
        name: &'a str,
        read: impl Fn(Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.get(name).ok_or_else(|| self.wrong(name))?.each(read)
    }

    fn each<T>(self, read: impl Fn(Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let list = self.value.as_array().ok_or_else(|| self.wrong("list"))?;
        list.iter().map(|value| read(Self { value, name: self.name })).collect()
    }

    fn into_number(self) -> Result<u64, String> {
        self.value.as_u64().ok_or_else(|| self.wrong("number"))
    }

    fn into_text(self) -> Result<String, String> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.wrong("text"))
    }

    fn into_fd(self) -> Result<RawFd, String> {
        RawFd::try_from(self.into_number()?).map_err(|_| self.wrong("descriptor"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Handover {
        let listener = |fd| Listener { asked: "127.0.0.1:0".to_owned(), fd };
        let asked = "unix:/run/regatta.sock".to_owned();
        Handover {
            report: Some(6),
            generation: 3,
            started_unix_ms: 1_700_000_000_000,
            program: "/usr/bin/regatta".into(),
            arguments: Some(vec!["regatta".to_owned(), "serve".to_owned()]),
            config: Some("[server]\nroot = \"/srv\"\n".to_owned()),
            reloads: [2, 5],
            root_reload: [4_000, 123_456],
            asked: Some("upgrade".to_owned()),
            listeners: vec![listener(7), listener(8)],
            given: vec!["127.0.0.1:80".to_owned(), asked.clone()],
            admin: Some(AdminProcess { asked, fd: 14, child: Some((4_002, 15)) }),
            pid_file: Some("/run/regatta.pid".into()),
            old: vec![OldGeneration {
                number: 2,
                arena: 9,
                keeper: false,
                drains_until: Some(8_000),
                children: vec![(4_000, 10, 0..2), (4_001, 11, 2..4)],
                bells: vec![12, 13],
            }],
        }
    }

    #[test]
    fn what_is_handed_over_arrives() {
        let mut alone = some();
        alone.admin.iter_mut().for_each(|admin| admin.child = None);
        for handover in [some(), alone, Handover::default()] {
            let memory = handover.write().expect("there is memory");
            assert_eq!(Handover::read(memory), Ok(handover));
        }
    }

    #[test]
    fn an_earlier_build_was_given_no_sockets() {
        let (without, said) = (Handover { given: Vec::new(), ..some() }, some().to_text());
        let given = "\"given\":[\"127.0.0.1:80\",\"unix:/run/regatta.sock\"],";
        assert!(said.contains(given), "{said}");
        assert_eq!(Handover::from_text(&said.replacen(given, "", 1)), Ok(without));
        assert!(Handover::from_text(&said.replacen(given, "\"given\":[80],", 1)).is_err());
    }

    /// A later build may say more.
    #[test]
    fn members_that_are_not_known_are_passed_over() {
        let text = some().to_text().replacen('{', "{\"weather\": [1, {}], ", 1);
        assert_eq!(Handover::from_text(&text), Ok(some()));
    }

    #[test]
    fn what_cannot_be_understood_is_refused_with_what_to_do() {
        let good = some().to_text();
        let faults = [
            ("\"format\":1", "\"format\":2", "format 2"),
            ("\"fd\":7", "\"fd\":-7", "\"fd\""),
            ("\"fd\":7", "\"fd\":4294967296", "\"fd\""),
            ("\"pid\":4000", "\"pid\":\"4000\"", "\"pid\""),
            ("\"reloads\":[2,5]", "\"reloads\":[2]", "\"reloads\""),
            ("\"keeper\":false", "\"keeper\":1", "\"keeper\""),
        ];
        for (from, to, says) in faults {
            assert!(good.contains(from), "{from}: {good}");
            let said = Handover::from_text(&good.replacen(from, to, 1)).unwrap_err();
            assert!(said.contains(says) && said.contains("anew"), "{said}");
        }
        for length in 0..good.len() {
            assert!(Handover::from_text(&good[..length]).is_err());
        }
    }
}
