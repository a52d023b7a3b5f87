//! Admin process and service manager, from the master's side.
use super::{
    ADMIN, Child, EXIT_CANNOT_WORK, ErrorLog, Failure, Generations, Interest, Master, Poller,
    Prepared, clock, fork_worker, hook, io, listen_fault, messages, process, signal,
};
use crate::{
    SocketFault, WorkFault,
    admin::{About, EXCHANGE_MAX, Hosts, OwnServer, listen, serve, try_listening},
    config::{check::Config, options},
    expiry::{ExpiryWatch, next_expiry, next_soon},
    heartbeat::answers,
    notify::{self, Message, Watchdog},
    supervise::{Gone, MasterAction, Staff},
    top::Reader,
};
use regatta_metrics::Attendant;
use regatta_op::Tick;
use regatta_origin::ClearHttp1;
use regatta_sys::{
    shm,
    socket::{self, Place},
};
use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    time::SystemTime,
};

/// Parts of the admin process.
pub(super) struct Admin {
    /// Configured address: a reload keeps a port of the kernel's choice.
    pub(super) place: Place,
    pub(super) listener: OwnedFd,
    /// The configuration, with every option written out.
    config: String,
    /// The hosts that a request may name.
    hosts: Hosts,
}

impl Admin {
    /// Listens at the configured address, or keeps listening; `None` without one, or if this image
    /// only `tries`.
    pub(super) fn new(
        config: &Config,
        errors: &ErrorLog,
        generations: &mut Generations,
        tries: bool,
    ) -> Result<Option<Self>, Failure> {
        let Some(place) = config.admin.clone() else { return Ok(None) };
        let inherited = generations.admin.as_ref().filter(|it| it.asked == place.to_string());
        let listener = match inherited {
            Some(inherited) => inherited.listener.try_clone().map(|it| Some((it, None))),
            None if tries => try_listening(&place).map(|()| None),
            None => listen(&place).map(Some),
        };
        let listener = listener.map_err(|error| {
            let fault = listen_fault(&place, &error);
            let problem = config.said.problem(messages::CANNOT_LISTEN, "admin.listen", &fault);
            Failure::Work(WorkFault::Sockets(vec![SocketFault::Listen(problem)]))
        })?;
        let Some((listener, file)) = listener.filter(|_| !tries) else { return Ok(None) };
        generations.files.extend(file);
        if let Ok(there) = socket::place(listener.as_fd()) {
            errors.note(messages::ADMIN_LISTENS, format_args!("monitors are answered at {there}"));
        }
        let text = config.settings().text("admin.listen");
        let hosts = match &place {
            Place::Unix(_) => Hosts::All,
            Place::Inet(_) => {
                Hosts::Named(text.rsplit_once(':').map_or(text, |of| of.0).to_owned())
            }
        };
        Ok(Some(Self { place, listener, config: options::print(config.settings()), hosts }))
    }
}

/// Receivers of reports about the server: the admin process and the service manager.
pub(super) struct Monitors {
    /// `None`: no admin process is wanted, or not yet.
    staff: Option<Staff>,
    pub(super) child: Option<Child>,
    watchdog: Watchdog,
    expiry: ExpiryWatch,
}

impl Monitors {
    pub(super) fn new(prepared: &Prepared, now: Tick) -> Self {
        let (watchdog, expiry) = match prepared.is_keeper() {
            // The master of the keeper has them.
            true => (Watchdog::none(), None),
            false => (notify::watchdog(now), next_expiry(prepared.front.certificates())),
        };
        let soon = next_soon(prepared.front.certificates());
        Self { staff: None, child: None, watchdog, expiry: ExpiryWatch::new(expiry, soon, now) }
    }

    /// Tick of the next due step.
    pub(super) fn wake_at(&self, now: Tick) -> Tick {
        let staff = self.staff.as_ref().map_or(Tick::NEVER, Staff::wake_at);
        staff.min(self.watchdog.wake_at(now)).min(self.expiry.wake_at())
    }
}

impl Drop for Monitors {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // The process has nothing to finish, and may have ended.
            let _ = child.kill(signal::Signal::Kill);
            let _ = child.wait();
        }
    }
}

impl Prepared {
    /// Forks the admin process. It needs no keys of certificates and tickets, and drops them.
    fn start_admin(&mut self) -> io::Result<Child> {
        let Self { env, errors, admin: Some(admin), .. } = &*self else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let about = About {
            reader: Reader::own(env.arena.view(), process::id()),
            hosts: admin.hosts.clone(),
            own: Some(OwnServer {
                arena: env.arena.view(),
                slots: env.shares.iter().map(|share| share.slots.clone()).collect(),
                config: admin.config.clone(),
                next_expiry: next_expiry(self.front.certificates()),
            }),
        };
        let log = errors.inherited();
        let keep = log.iter().map(AsFd::as_fd).chain([admin.listener.as_fd()]);
        let keep: Vec<RawFd> = keep.map(|fd| fd.as_raw_fd()).collect();
        fork_worker(&keep, || {
            self.env.links = Box::new(ClearHttp1);
            self.front.forget_keys();
            shm::forget_protected();
            self.answer_monitors(&about).unwrap_or_else(|code| code)
        })
    }

    /// Runs the admin process; the code to exit with.
    fn answer_monitors(&self, about: &About) -> Result<i32, i32> {
        self.confine_admin()?;
        hook::inject_as_told();
        hook::probe(about.reader.pid());
        let control = self.env.arena.control();
        let beat = |now: Tick| control.set_heartbeat_ms(Attendant::Admin, now.0);
        let Some(admin) = &self.admin else { return Err(EXIT_CANNOT_WORK) };
        let error = serve(admin.listener.as_fd(), about, EXCHANGE_MAX, &beat);
        // The log may have been renamed since.
        self.errors.tick();
        self.errors.note(
            messages::ADMIN_CANNOT_ACCEPT,
            format_args!("the admin process cannot accept: {error}"),
        );
        Ok(EXIT_CANNOT_WORK)
    }
}

impl Master<'_> {
    /// Starts the admin process if it is due, reports life to the watchdog, and warns before a
    /// certificate expires.
    pub(super) fn attend_monitors(&mut self) -> io::Result<()> {
        let now = clock::now().tick;
        if let Some(warning) = self.monitors.expiry.warning(now, SystemTime::now()) {
            self.note(messages::CERTIFICATE_EXPIRES, format_args!("{warning}"));
        }
        let env = &self.prepared.env;
        let mut slots = env.shares.iter().map(|share| env.arena.slot(share.slots.start));
        let old_answer = |generations: &Generations| generations.old_answer(now);
        let answers = slots.any(|slot| answers(&slot, now))
            || self.generations.as_ref().is_some_and(old_answer);
        if self.monitors.watchdog.is_due(answers, now) {
            self.tell_manager(Message::Alive);
        }
        let Self { monitors: Monitors { staff, child, .. }, prepared, poller, .. } = self;
        // The keeper has none. Until these workers serve, the one before answers about the others.
        let serving = self.generations.as_mut().filter(|generations| generations.serves());
        let Some(generations) = serving else { return Ok(()) };
        if generations.end_admin(prepared.admin.as_ref().map(|admin| &admin.place)) {
            // Counts in the next answer are no lower than in the last.
            generations.fold(&prepared.env.arena);
        }
        if prepared.admin.is_none() {
            return Ok(());
        }
        let staff = staff.get_or_insert_with(|| Staff::new(1, 0, now));
        if !matches!(staff.due(now), Some(MasterAction::Start(_))) {
            return Ok(());
        }
        match prepared.start_admin() {
            Ok(started) => {
                poller.add(started.as_fd(), ADMIN, Interest::READ)?;
                *child = Some(started);
                staff.started(0, now);
            }
            Err(error) => {
                let wait = staff.gone(0, Gone::Crashed, now).unwrap_or_default();
                prepared.errors.note(
                    messages::ADMIN_NOT_STARTED,
                    format_args!(
                        "cannot start the admin process: {error}; next attempt in {wait} ms"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Handles the end of the admin process, which never ends unasked.
    pub(super) fn reap_admin(&mut self) -> io::Result<()> {
        let Self { monitors: Monitors { staff, child, .. }, prepared, poller, .. } = self;
        let (Some(ended), Some(staff)) = (child.as_ref(), staff) else { return Ok(()) };
        let Some(exit) = ended.try_wait()? else { return Ok(()) };
        poller.remove(ended.as_fd())?;
        let (pid, wait) = (ended.pid(), staff.gone(0, Gone::Crashed, clock::now().tick));
        *child = None;
        let ms = wait.unwrap_or_default();
        prepared.errors.note(
            messages::ADMIN_REPLACED,
            format_args!("the admin process (process {pid}) {exit}; replaced in {ms} ms"),
        );
        Ok(())
    }

    /// Notifies the service manager, if there is one and it listens.
    pub(super) fn tell_manager(&self, message: Message<'_>) {
        self.generations.iter().for_each(|generations| generations.notify_manager(message));
    }

    /// Notifies the service manager that all workers serve.
    pub(super) fn tell_ready(&self) {
        let Prepared { architecture, workers, env, .. } = &*self.prepared;
        self.tell_manager(Message::Ready {
            workers: *workers,
            architecture: architecture.name,
            generation: env.arena.generation(),
        });
    }
}
