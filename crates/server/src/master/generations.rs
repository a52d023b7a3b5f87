//! Generations of workers: state of the last image of the master, the trial, and its handover.
use super::{
    Child, clock,
    errand::Errands,
    image::{Trial, own_arguments, own_program, refuse, run, take},
    inherited::Inherited,
    old::Old,
};
use crate::{
    Failure, Sources, WorkFault,
    config::address::{Place, place},
    config::release::RulesInForce,
    config_text::ConfigText,
    findings::Findings,
    front::ClientTable,
    handover::{
        AdminProcess, CertificateId, ClientWords, FORMAT, Handover, HandoverError, Listener,
        OldChild, OldGeneration, OpenSocketFile, TicketMemory,
    },
    heartbeat::{Role, Watched},
    log::{AccessLog, ErrorLog, LogDestination},
    messages,
    notify::{Manager, Message},
    refusals::RefusedReload,
    root::RootWatch,
    succession::{Act, Earlier, Kind, Outcome, Succession, SuccessionEvent, TrialVerdict},
    ticket_keys::TicketKeys,
};
use regatta_metrics::{Arena, Control, Counter, Totals};
use regatta_op::Tick;
use regatta_sys::{
    Bell,
    channel::Channel,
    exec::{read_sealed, sealed},
    process::Exit,
    shm::SharedWords,
    socket,
    unix::SocketFile,
    wait::{Interest, Poll, Poller as _},
};
use std::{
    ffi::OsString,
    fmt,
    io::{self, PipeWriter},
    mem,
    ops::Range,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Time for old workers to empty the backlog of a removed address, milliseconds.
pub(super) const DROPPED_MS: u64 = 250;

/// Keys of the master's poller: this bit, the generation, the place of the child; the trial.
pub(super) const OLD: u64 = 1 << 48;
pub(super) const TRIAL: u64 = u64::MAX - 4;
const PLACES: u64 = 1 << 20;

/// Layout of the words of [`ClientTable`].
const CLIENTS_LAYOUT: u64 = 1;

/// Limit of the rules that are read, bytes.
const RULES_BYTES_MAX: u64 = 1 << 30;

/// Configured address, and the listening socket.
pub(super) type Listening = (String, OwnedFd);

/// State that outlives this image or precedes it.
#[derive(Debug)]
pub(crate) struct Generations {
    succession: Succession,
    /// Generation of this image.
    pub(super) number: u64,
    pub(super) started_unix_ms: u64,
    /// Program of an upgrade, and the arguments of the first image. A program that needs others
    /// adds them.
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Configuration file, or directory, of this image, its text in force, and the text that is
    /// tried, if it differs.
    pub(super) config_file: Option<PathBuf>,
    pub(super) config: Option<ConfigText>,
    pub(super) tried: Option<ConfigText>,
    /// Requests that were carried out, and those that were not.
    pub(super) reloads: [u64; 2],
    /// Faults of the request in progress.
    reasons: Vec<String>,
    /// The last refusal, for the command that has asked.
    refusal: Option<OwnedFd>,
    /// Limit of reloads for one root ([`crate::handover::Handover::root_reload`]).
    pub(super) root_reload: [u64; 2],
    /// Rules in force when this image began.
    pub(super) rules: RulesInForce,
    /// Table of clients of the image before.
    pub(super) clients: Option<ClientTable>,
    /// Certificates of the image before.
    pub(super) certificates: Vec<CertificateId>,
    /// Keys of session tickets, of this image or of the one before.
    pub(super) tickets: Option<TicketKeys>,
    pub(super) pid_file: Option<PathBuf>,
    /// Admin process of the image before, until this one has its own.
    pub(super) admin: Option<Inherited>,
    /// Sockets of the image before, and whether this image has taken them.
    pub(super) inherited: Vec<(Listening, bool)>,
    /// Addresses of sockets from the service manager.
    pub(super) given: Vec<Place>,
    /// Addresses of the image before.
    addresses: Vec<Place>,
    /// Files of Unix sockets, of this image and of the one before.
    pub(super) files: Vec<SocketFile>,
    /// Tick at which inherited sockets that were not taken stop listening.
    pub(super) dropped_at: Tick,
    pub(super) old: Vec<Old>,
    /// Counts of generations that are gone.
    ended: Box<Totals>,
    /// Whether the next image can receive counters of this one. Until then, those of dead
    /// generations are handed on unchanged.
    begun: bool,
    /// Sockets that this image has made while old workers serve.
    made: Vec<OwnedFd>,
    pub(super) trial: Option<Trial>,
    /// Findings of the last trial, for the next image.
    pub(super) found: Option<Vec<OwnedFd>>,
    /// Findings of the trial of this image.
    pub(super) findings: Option<Findings>,
    /// Channel for the findings of this image, if it is a trial.
    pub(super) findings_to: Option<Channel>,
    pub(super) errands: Errands,
    /// No worker is left that serves.
    pub(super) gave_up: bool,
    /// Tick of the request to end, while only old workers serve.
    pub(super) told_at: Option<Tick>,
    pub(super) errors: ErrorLog,
    /// Access log of this image, once its configuration has been read.
    pub(super) access: Option<Arc<AccessLog>>,
    manager: Manager,
}

/// State of this image that the next one receives.
#[derive(Default)]
pub(super) struct Own<'a> {
    pub(super) listeners: Vec<(&'a str, BorrowedFd<'a>)>,
    pub(super) admin: Option<(String, BorrowedFd<'a>, Option<&'a Child>)>,
    pub(super) arena: Option<BorrowedFd<'a>>,
    /// Control words of the arena.
    pub(super) control: Option<Control<'a>>,
    pub(super) keeper: bool,
    /// Tick until which its workers drain: they could not begin, and the old ones serve.
    pub(super) drains_until: Option<u64>,
    pub(super) children: Vec<(&'a Child, Range<usize>)>,
    pub(super) bells: Vec<&'a Bell>,
    /// Roots.
    pub(super) roots: Option<&'a RootWatch>,
    /// Table of clients.
    pub(super) clients: Option<&'a ClientTable>,
    /// Certificates that its workers serve.
    pub(super) certificates: Option<&'a [CertificateId]>,
}

impl Generations {
    /// Creates the state of the first image, or of one that inherits. Also returns the pipe for the
    /// report of a trial.
    pub(crate) fn new(
        sources: &Sources<'_>,
        inherit: Option<RawFd>,
    ) -> Result<(Self, Option<PipeWriter>), Failure> {
        let errors = ErrorLog::open(LogDestination::Stderr, None, None)
            .map_err(|fault| Failure::Work(WorkFault::Log(fault)))?;
        let handover = match inherit {
            Some(raw) => Some(Handover::read(take(raw)?)?),
            None => None,
        };
        let mut this = Self {
            succession: Succession::new(),
            number: 1,
            started_unix_ms: unix_ms(),
            program: own_program(),
            arguments: own_arguments(),
            config_file: sources.file.map(Path::to_owned),
            config: None,
            tried: None,
            reloads: [0; 2],
            reasons: Vec::new(),
            refusal: None,
            root_reload: [0; 2],
            clients: None,
            certificates: Vec::new(),
            tickets: None,
            rules: RulesInForce::default(),
            pid_file: None,
            admin: None,
            inherited: Vec::new(),
            given: Vec::new(),
            addresses: Vec::new(),
            files: Vec::new(),
            dropped_at: Tick::NEVER,
            old: Vec::new(),
            ended: Box::default(),
            begun: false,
            made: Vec::new(),
            trial: None,
            found: None,
            findings: None,
            findings_to: None,
            errands: Errands::default(),
            gave_up: false,
            told_at: None,
            errors,
            access: None,
            manager: Manager::none(),
        };
        let Some(handover) = handover else {
            this.take_given()?;
            this.config = this.config_now();
            return Ok((this, None));
        };
        let report = handover.report.map(take).transpose()?.map(PipeWriter::from);
        match (this.adopt(handover), &report) {
            (Ok(()), _) => Ok((this, report)),
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(report)) => refuse(report, &Failure::from(error)),
        }
    }

    /// Adopts the rules in force, the table of clients, and the keys of session tickets.
    fn adopt_memory(
        &mut self,
        rules: Option<RawFd>,
        clients: Option<ClientWords>,
        tickets: Option<TicketMemory>,
    ) -> Result<(), HandoverError> {
        if let Some(fd) = rules
            && let Ok(rules) = read_sealed(take(fd)?, RULES_BYTES_MAX)
        {
            self.rules = RulesInForce::decode(&rules);
        }
        if let Some(ClientWords { layout: CLIENTS_LAYOUT, fd, seed }) = clients {
            let memory = SharedWords::adopt(take(fd)?);
            self.clients = memory.ok().map(|memory| ClientTable { memory, seed });
        }
        if let Some(tickets) = tickets {
            self.tickets = TicketKeys::adopt(take(tickets.fd)?, &tickets);
        }
        Ok(())
    }

    fn adopt(&mut self, handover: Handover) -> Result<(), HandoverError> {
        let Handover { generation, started_unix_ms, program, config, reloads, .. } = handover;
        (self.number, self.started_unix_ms, self.program) = (generation, started_unix_ms, program);
        if let Some(arguments) = handover.arguments {
            self.arguments = arguments.into_iter().map(OsString::from).collect();
        }
        (self.root_reload, self.certificates) = (handover.root_reload, handover.certificates);
        self.adopt_memory(handover.rules, handover.clients, handover.tickets)?;
        (self.config, self.reloads, self.pid_file) = (config, reloads, handover.pid_file);
        self.given = handover.given.iter().filter_map(|of| place(of).ok()).collect();
        for Listener { asked, fd } in handover.listeners {
            let fd = take(fd)?;
            let place = socket::place(fd.as_fd()).ok();
            if let Some(Place::Unix(path)) = place.as_ref().filter(|place| !self.is_given(place))
                && handover.files.is_none()
            {
                // An earlier build has no list of files: the path finds the file.
                self.files.extend(SocketFile::at(path));
            }
            self.addresses.extend(place);
            self.inherited.push(((asked, fd), false));
        }
        if let Some(AdminProcess { asked, fd, pid, pidfd }) = handover.admin {
            let adopt = |(pid, fd)| take(fd).map(|fd| Child::adopt(pid, fd));
            let child = pid.zip(pidfd).map(adopt).transpose()?.flatten();
            let listener = take(fd)?;
            if let Ok(Place::Unix(path)) = socket::place(listener.as_fd())
                && handover.files.is_none()
            {
                self.files.extend(SocketFile::at(&path));
            }
            self.admin = Some(Inherited { asked, listener, child });
        }
        for OpenSocketFile { path, fd } in handover.files.into_iter().flatten() {
            // A file that is gone by now is not ours.
            self.files.extend(SocketFile::adopt(path, take(fd)?));
        }
        for old in handover.old {
            self.old.push(Old::adopt(old)?);
        }
        self.findings_to = handover.findings.map(take).transpose()?.map(Channel::adopt);
        if let Some(found) = handover.found {
            match found.into_iter().map(take).collect::<Result<_, _>>().and_then(Findings::read) {
                Ok(findings) => {
                    self.config = findings.config.clone();
                    self.findings = Some(findings);
                }
                // This image repeats the checks of the trial.
                Err(fault) => self.note(messages::RELOAD_FAULT, format_args!("reload: {fault}")),
            }
        }
        // The last generation has the counts of all before it.
        if let Some(last) = self.old.iter().max_by_key(|old| old.number) {
            last.arena.add_ended(&mut self.ended);
        }
        let earlier =
            |old: &Old| Earlier { number: old.number, leaves: old.drains_until.is_some() };
        let alive = self.old.iter().filter(|old| !old.is_gone()).map(earlier).collect();
        let asked = handover.asked.map(|name| Kind::from_name(&name).unwrap_or(Kind::Reload));
        self.succession = Succession::after_exec(alive, asked, clock::now().tick);
        Ok(())
    }

    /// Reads the configuration for the first image. A failure is reported where the text is needed.
    fn config_now(&self) -> Option<ConfigText> {
        ConfigText::read(self.config_file.as_deref()?).ok()
    }

    /// Text of the configuration for this image, if it has been read before.
    pub(crate) fn config(&self) -> Option<ConfigText> {
        self.config.clone()
    }

    /// True if workers of an earlier image have not ended.
    pub(crate) fn has_old(&self) -> bool {
        self.old.iter().any(|old| !old.is_gone())
    }

    pub(super) fn find_manager(&mut self) {
        let told = Manager::of_environment().map(|manager| self.manager = manager);
        if let Err(error) = told {
            let what = format_args!("the service manager is told nothing: {error}");
            self.note(messages::MANAGER_NOT_TOLD, what);
        }
    }

    /// Tells the service manager, if there is one and it listens.
    pub(super) fn notify_manager(&self, message: Message<'_>) {
        // The manager may be restarting, and is not waited for.
        let _ = self.manager.notify(message);
    }

    /// True if a worker of an earlier image has had a heartbeat recently.
    pub(super) fn old_answer(&self, now: Tick) -> bool {
        self.old.iter().any(|old| old.answers(now))
    }

    /// True if workers of this image serve.
    pub(super) const fn serves(&self) -> bool {
        self.succession.serves()
    }

    /// Ends the admin process of the image before; false if there is none. `next`: address of this
    /// image's own.
    pub(super) fn end_admin(&mut self, next: Option<&Place>) -> bool {
        let Some(admin) = self.admin.take() else { return false };
        let place = socket::place(admin.listener.as_fd()).ok();
        admin.end();
        self.remove_files(|of| Some(of) == place.as_ref() && Some(of) != next);
        true
    }

    /// True if only workers of an earlier image serve.
    pub(super) fn is_waiting(&self) -> bool {
        self.succession.is_waiting()
    }

    /// Takes the first inherited socket that was configured as `asked`, or listens there.
    pub(super) fn take_listener(&mut self, asked: &str) -> io::Result<Option<OwnedFd>> {
        let is_it = |(of, socket): &Listening| {
            let there = socket::place(socket.as_fd());
            of == asked || there.is_ok_and(|address| address.to_string() == asked)
        };
        Ok(self.take_listeners(1, is_it)?.pop().map(|(_, socket)| socket))
    }

    /// Takes matching inherited sockets, `most` at most. Until this image has begun, they are also
    /// kept for another.
    pub(super) fn take_listeners(
        &mut self,
        most: usize,
        is_such: impl Fn(&Listening) -> bool,
    ) -> io::Result<Vec<Listening>> {
        let left = self.inherited.iter_mut().filter(|(of, taken)| !taken && is_such(of));
        let take = |((asked, socket), taken): &mut (Listening, bool)| {
            *taken = true;
            Ok((asked.clone(), socket.try_clone()?))
        };
        left.take(most).map(take).collect()
    }

    /// File of the socket at this path: without it, no client reaches the socket.
    pub(super) fn file(&self, path: &Path) -> Option<&SocketFile> {
        self.files.iter().find(|file| file.path() == path)
    }

    /// Removes the files of sockets that the image before did not have: this image cannot begin.
    pub(super) fn remove_made_files(&mut self) {
        let mut known = self.addresses.clone();
        let admin = self.admin.as_ref();
        known.extend(admin.and_then(|admin| socket::place(admin.listener.as_fd()).ok()));
        self.remove_files(|place| !known.contains(place));
    }

    pub(super) fn has_begun(&mut self) {
        self.inherited.retain(|(_, taken)| !taken);
        self.begun = true;
    }

    /// Remembers a new socket of this image: no worker accepts from it yet.
    pub(super) fn has_made(&mut self, socket: &OwnedFd) -> io::Result<()> {
        if self.has_old() {
            self.made.push(socket.try_clone()?);
        }
        Ok(())
    }

    /// Stops listening on new sockets: no worker of this image will accept from them.
    fn stop_made(&mut self) {
        for socket in self.made.drain(..) {
            // The next image that receives it may have it listen again.
            let _ = socket::stop_listening(socket.as_fd());
        }
    }

    /// True for a socket that has lost its file, because no worker was to accept from it.
    fn is_unmade(&self, socket: BorrowedFd<'_>) -> bool {
        let Ok(Place::Unix(path)) = socket::place(socket) else { return false };
        let has_file = self.file(&path).is_some();
        let place = Place::Unix(path);
        !has_file && !self.is_known(&place) && !self.is_given(&place)
    }

    /// True if the image before listened there.
    pub(super) fn is_known(&self, place: &Place) -> bool {
        self.addresses.contains(place)
    }

    /// Lists the children that are not this image's own workers.
    pub(super) fn family(&self) -> impl Iterator<Item = Watched<'_>> {
        let of = |old: &Old| {
            let (generation, leaves) = (old.number, old.drains_until.is_some());
            Role::Old { generation, leaves }
        };
        let old = self.old.iter().flat_map(move |old| {
            old.children.iter().flatten().map(move |(child, _)| Watched::new(of(old), child))
        });
        let admin = self.admin.iter().filter_map(|admin| admin.child.as_ref());
        let admin = admin.map(|child| Watched::new(Role::Admin, child));
        let trial = self.trial.iter().map(|trial| Watched::new(Role::Trial, &trial.child));
        old.chain(admin).chain(trial).chain(self.errands.family())
    }

    /// Has the poller report the ends of old children.
    pub(super) fn watch(&self, poller: &mut Poll) -> io::Result<()> {
        for old in &self.old {
            for (place, child) in (0..).zip(&old.children) {
                if let Some((child, _)) = child {
                    let key = OLD | (old.number * PLACES) | place;
                    poller.add(child.as_fd(), key, Interest::READ)?;
                }
            }
        }
        Ok(())
    }

    /// Handles an event: does what is possible here, and returns the rest.
    pub(super) fn handle(
        &mut self,
        event: SuccessionEvent,
        own: &Own<'_>,
        poller: &mut Poll,
    ) -> Vec<Act> {
        let (mut rest, mut events) = (Vec::new(), vec![event]);
        while let Some(event) = events.pop() {
            let acts = self.succession.handle(event, clock::now().tick);
            if self.succession.pending() > 0 {
                // Before the configuration is read: later commands wait for another request.
                self.tell_commands(own.control);
            }
            for act in acts {
                match act {
                    Act::Try(kind) => {
                        self.reasons.clear();
                        self.notify_manager(Message::Reloading {
                            monotonic_us: clock::nanos() / 1_000,
                        });
                        if let Err(error) = self.start_trial(kind, own, poller) {
                            self.fail(kind, &error);
                            events.push(SuccessionEvent::TrialEnded(TrialVerdict::Died));
                        }
                    }
                    Act::KillTrial => {
                        self.trial.iter().for_each(Trial::kill);
                    }
                    Act::Exec(kind) => {
                        let error = self.execute(kind, own);
                        self.fail(kind, &error);
                        events.push(SuccessionEvent::ExecFailed);
                    }
                    Act::Report(outcome) => self.report(outcome),
                    Act::GiveUp => self.gave_up = true,
                    Act::KillNew => {
                        self.stop_made();
                        // A Unix socket would not listen again.
                        self.remove_made_files();
                        rest.push(act);
                    }
                    Act::DrainOld | Act::LeaveOld => rest.push(act),
                }
            }
            self.tell_commands(own.control);
        }
        rest
    }

    /// Reports the state of requests to commands, in all arenas: a waiting command may not know
    /// this image's.
    fn tell_commands(&self, own: Option<Control<'_>>) {
        for old in &self.old {
            self.tell_at(&old.arena.control());
        }
        own.iter().for_each(|own| self.tell_at(own));
    }

    fn tell_at(&self, control: &Control<'_>) {
        control.set_reloads(self.reloads[0], self.reloads[1]);
        control.set_reloads_pending(self.succession.pending());
    }

    fn report(&mut self, outcome: Outcome) {
        let what = match outcome {
            Outcome::Done => {
                self.reloads[0] += 1;
                self.dropped_at = clock::now().tick.after(DROPPED_MS);
                self.made.clear();
                self.refusal = None;
                return self.note(
                    messages::RELOAD_SERVES,
                    format_args!("reload: generation {} serves", self.number),
                );
            }
            Outcome::Refused(TrialVerdict::Late) => {
                "it took too long to try, and was killed: a file or a directory does not answer"
            }
            Outcome::Refused(_) => "it was refused",
            Outcome::NotExecuted => "the program could not be executed",
            Outcome::NotStarted => "its workers could not begin, or not in time",
            Outcome::Dropped => "",
        };
        self.reloads[1] += 1;
        if outcome == Outcome::Dropped {
            let what = format_args!("reload: it is dropped, because the server ends");
            return self.note(messages::RELOAD_DROPPED, what);
        }
        self.publish(what);
        self.notify_manager(Message::Unchanged);
        self.note(
            messages::RELOAD_REFUSED,
            format_args!("reload: {what}: the workers that serve go on as they are"),
        );
    }

    /// Tick of the next [`Generations::due`] or [`Event::Time`].
    pub(super) fn wake_at(&self) -> Tick {
        let kill_at = self.old.iter().map(|old| old.kill_at).min().unwrap_or(Tick::NEVER);
        let rotate_at = self.tickets.as_ref().map_or(Tick::NEVER, TicketKeys::rotate_at);
        let wake_at = self.succession.wake_at().min(kill_at).min(self.dropped_at);
        wake_at.min(self.errands.wake_at()).min(rotate_at)
    }

    /// Does the work that is due.
    pub(super) fn due(&mut self, now: Tick) {
        self.errands.kill_late(now);
        self.tickets.iter_mut().for_each(|tickets| tickets.rotate(now, &self.errors));
        for old in &mut self.old {
            if old.kill_if_late(now) {
                let what = format_args!("generation {} did not end in time: killed", old.number);
                self.errors.note(messages::GENERATION_LATE, what);
            }
        }
        // A refused monitor learns more than one that waits for nothing.
        drop(self.admin.take_if(|admin| admin.is_gone()));
        if self.dropped_at <= now {
            self.dropped_at = Tick::NEVER;
            for ((_, socket), _) in mem::take(&mut self.inherited) {
                let place = socket::place(socket.as_fd()).ok();
                self.remove_files(|other| Some(other) == place.as_ref());
                // Draining workers have it, too.
                let _ = socket::stop_listening(socket.as_fd());
            }
        }
    }

    /// Reaps a child of an old generation. Returns [`Event::OldGone`] after the last.
    pub(super) fn reap(
        &mut self,
        key: u64,
        poller: &mut Poll,
    ) -> io::Result<Option<SuccessionEvent>> {
        let (number, place) = ((key & !OLD) / PLACES, key % PLACES);
        let Some(old) = self.old.iter_mut().find(|old| old.number == number) else {
            return Ok(None);
        };
        let post = usize::try_from(place).ok().and_then(|place| old.children.get_mut(place));
        let Some(post) = post else { return Ok(None) };
        let Some((child, slots)) = &*post else { return Ok(None) };
        let Some(exit) = child.try_wait()? else { return Ok(None) };
        let closed = match exit {
            Exit::Code(0) => Counter::ClosedDrained,
            _ => Counter::ClosedWorkerDied,
        };
        old.arena.settle(slots.clone(), closed);
        if exit != Exit::Code(0) {
            let pid = child.pid();
            let what = format_args!("process {pid} of generation {number} {exit}");
            self.errors.note(messages::OLD_WORKER_FAILED, what);
        }
        poller.remove(child.as_fd())?;
        *post = None;
        let gone = old.is_gone();
        if gone {
            self.errors
                .note(messages::GENERATION_GONE, format_args!("generation {number} is gone"));
        }
        Ok(gone.then_some(SuccessionEvent::OldGone(number)))
    }

    /// Forgets the generations that are gone, but not their counts.
    fn bury(&mut self) {
        if !self.begun {
            return;
        }
        let ended = &mut self.ended;
        self.old.retain(|old| {
            if old.is_gone() {
                old.arena.add_workers(ended);
            }
            !old.is_gone()
        });
    }

    /// Adds up the counts of generations before this one.
    pub(super) fn fold(&mut self, arena: &Arena<'_>) {
        self.bury();
        let mut totals = self.ended.clone();
        self.old.iter().for_each(|old| old.arena.add_workers(&mut totals));
        arena.ended().set(&self.ended);
        arena.departed().set(&totals);
        self.tell_at(&arena.control());
    }

    /// Program to execute, and its arguments.
    pub(super) fn program_of(&self, kind: Kind) -> (PathBuf, Vec<OsString>) {
        match kind {
            Kind::Root | Kind::Reload => (PathBuf::from("/proc/self/exe"), own_arguments()),
            Kind::Upgrade => (self.program.clone(), self.arguments.clone()),
        }
    }

    /// Executes the next image; returns only if that fails.
    fn execute(&self, kind: Kind, own: &Own<'_>) -> io::Error {
        match self.hand_over(own, None) {
            Ok((memory, rules, mut keep)) => {
                keep.extend([memory.as_fd(), rules.as_fd()]);
                let (program, arguments) = self.program_of(kind);
                run(&program, arguments, &memory, &keep)
            }
            Err(error) => error,
        }
    }

    /// Makes the handover for the next image, and lists its descriptors. `trial`: pipe for its
    /// report and channel for its findings, if it only tries.
    pub(super) fn hand_over<'a>(
        &'a self,
        own: &Own<'a>,
        trial: Option<[RawFd; 2]>,
    ) -> io::Result<(OwnedFd, OwnedFd, Vec<BorrowedFd<'a>>)> {
        let mut keep = Vec::new();
        let mut number = |fd: BorrowedFd<'a>| {
            keep.push(fd);
            fd.as_raw_fd()
        };
        let inherited = self.inherited.iter().map(|((asked, fd), _)| (&**asked, fd.as_fd()));
        let listeners = own.listeners.iter().copied().filter(|(_, fd)| !self.is_unmade(*fd));
        let listeners = listeners.chain(inherited);
        let listeners =
            listeners.map(|(asked, fd)| Listener { asked: asked.to_owned(), fd: number(fd) });
        let listeners = listeners.collect();
        let old = self.hand_over_workers(own, &mut number);
        let inherited = self.admin.as_ref().map(|admin| {
            let Inherited { asked, listener, child } = admin;
            (asked.clone(), listener.as_fd(), child.as_ref())
        });
        // An image whose workers do not serve has none yet.
        let admin = inherited.or_else(|| own.admin.clone()).map(|(asked, fd, child)| {
            let (pid, pidfd) = child.map(|child| (child.pid(), number(child.as_fd()))).unzip();
            AdminProcess { asked, fd: number(fd), pid, pidfd }
        });
        let file = |file: &'a SocketFile| OpenSocketFile {
            path: file.path().to_owned(),
            fd: number(file.as_fd()),
        };
        let files = Some(self.files.iter().map(file).collect());
        let found = self.found.iter().filter(|_| trial.is_none());
        let found = found.map(|found| found.iter().map(|fd| number(fd.as_fd())).collect()).next();
        let clients = own.clients.or(self.clients.as_ref()).map(|table| ClientWords {
            layout: CLIENTS_LAYOUT,
            fd: number(table.memory.as_fd()),
            seed: table.seed,
        });
        // A trial serves no client.
        let tickets = self.tickets.as_ref().filter(|_| trial.is_none());
        let (report, findings) = trial.map(|[report, findings]| (report, findings)).unzip();
        let asked = self.succession.asked().map(|kind| kind.name().to_owned());
        let text = |word: &OsString| word.to_str().map(str::to_owned);
        // In force are the rules of this image's workers, or, if it has none, the inherited ones.
        let rules = own.roots.map(RootWatch::rules_in_force);
        let rules = rules.unwrap_or_else(|| self.rules.clone());
        let rules = sealed("regatta-rules", &rules.encode())?;
        let handover = Handover {
            format: FORMAT,
            report,
            findings,
            found,
            generation: self.number + 1,
            started_unix_ms: self.started_unix_ms,
            program: self.program.clone(),
            arguments: self.arguments.iter().map(text).collect(),
            config: self.tried.clone(),
            reloads: self.reloads,
            root_reload: self.root_reload,
            certificates: own.certificates.unwrap_or(&self.certificates).to_vec(),
            rules: Some(rules.as_raw_fd()),
            clients,
            tickets: tickets.map(|keys| keys.hand_over(number(keys.as_fd()))),
            asked,
            listeners,
            files,
            given: self.given.iter().map(ToString::to_string).collect(),
            admin,
            pid_file: self.pid_file.clone(),
            old,
        };
        Ok((handover.write()?, rules, keep))
    }

    /// Lists the generations that have not ended, this image's own included. `number` gives the
    /// number of a descriptor.
    fn hand_over_workers<'a>(
        &'a self,
        own: &Own<'a>,
        number: &mut dyn FnMut(BorrowedFd<'a>) -> RawFd,
    ) -> Vec<OldGeneration> {
        let mut old: Vec<OldGeneration> = self.old.iter().map(|of| of.hand_over(number)).collect();
        if let Some(arena) = own.arena {
            let children = own.children.iter();
            let children = children.map(|(child, slots)| (*child, slots.clone()));
            old.push(OldGeneration {
                number: self.number,
                arena: number(arena),
                keeper: own.keeper,
                drains_until: own.drains_until,
                children: children
                    .map(|(child, slots)| OldChild::new(child.pid(), number(child.as_fd()), &slots))
                    .collect(),
                bells: own.bells.iter().copied().map(|bell| number(bell.as_fd())).collect(),
            });
        }
        old
    }

    fn note(&self, message: &messages::Message, text: fmt::Arguments<'_>) {
        self.errors.note(message, text);
    }

    fn fail(&mut self, kind: Kind, error: &io::Error) {
        let what = if kind == Kind::Upgrade { "upgrade" } else { "reload" };
        self.note(messages::RELOAD_FAULT, format_args!("{what}: {error}"));
        self.reasons.push(error.to_string());
    }

    /// Logs a fault of the request in progress, and keeps it for the command that has asked.
    pub(super) fn blame(&mut self, message: &messages::Message, fault: String) {
        self.note(message, format_args!("reload: {fault}"));
        self.reasons.push(fault);
    }

    /// Keeps the refusal for the command that has asked; without memory, the log alone has it.
    fn publish(&mut self, outcome: &str) {
        let (refused, faults) = (self.reloads[1], mem::take(&mut self.reasons));
        self.refusal =
            RefusedReload { refused, outcome: outcome.to_owned(), faults }.publish().ok();
    }
}

fn unix_ms() -> u64 {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(started.as_millis()).unwrap_or(0)
}
