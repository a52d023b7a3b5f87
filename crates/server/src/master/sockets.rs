//! Sockets that all workers inherit.
use super::generations::{Generations, Listening};
use crate::{
    Failure, SocketFault, WorkFault,
    config::{address::socket_mode, check::Config},
    listens::{listen_key, unsent_bytes_max},
    log::ErrorLog,
    messages,
};
use regatta_arch::{
    conn::accept::AcceptOptions,
    layout::{ADDRESSES_MAX, ListenPlace, SocketPlan, class_at},
};
use regatta_origin::ListenerClass;
use regatta_sys::{
    process::User,
    socket::{self, ListenSpec, Place, Steps},
    unix::{self, UnixSpec},
};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// `TCP_DEFER_ACCEPT`: how long the kernel keeps a silent connection to itself, seconds.
const DEFER_ACCEPT_S: u32 = 10;

/// Makes the sockets, or takes inherited ones. The master keeps all open as long as it lives:
/// connections that wait for a dead worker are not lost. Workers also accept from surplus inherited
/// sockets at these addresses, because closing one would reset its backlog. `owner`: owner of the
/// files at paths.
pub(super) fn sockets(
    config: &mut Config,
    owner: Option<&User>,
    generations: &mut Generations,
    tries: bool,
) -> Result<Vec<Listening>, Failure> {
    let mut sockets: Vec<Listening> = Vec::new();
    let mut faults = Vec::new();
    for (plan, class) in config.layout.sockets.iter().zip(&config.layout.classes) {
        let first = plan.port_of.and_then(|of| sockets.get(of)).map(|(_, socket)| socket);
        let given = generations.is_given(&plan.place);
        let made = match (&plan.place, first) {
            (place, Some(first)) if given || matches!(place, Place::Unix(_)) => {
                first.try_clone().map(|listener| (place.to_string(), listener))
            }
            (Place::Inet(address), None) if given => {
                let plan = SocketPlan { reuse_port: false, ..plan.clone() };
                let spec = listen_spec(config, *address, *class, &plan);
                let made = given_socket(&spec, generations, tries);
                made.map(|listener| (plan.place.to_string(), listener))
            }
            (Place::Inet(address), _) => {
                let known = first.and_then(|first| socket::local_addr(first.as_fd()).ok());
                let spec = listen_spec(config, known.unwrap_or(*address), *class, plan);
                let made = socket_of(&spec, first.is_some(), generations, tries);
                made.map(|listener| (spec.addr.to_string(), listener))
            }
            (Place::Unix(path), _) => {
                let made = unix_socket(&unix_spec(config, path, owner), generations, tries);
                made.map(|listener| (plan.place.to_string(), listener))
            }
        };
        match made {
            Ok(listening) => sockets.push(listening),
            Err(error) => {
                let (kind, fault) = (messages::CANNOT_LISTEN, listen_fault(&plan.place, &error));
                let problem = config.said.problem(kind, listen_key(*class), &fault);
                faults.push(SocketFault::Listen(problem));
            }
        }
    }
    faults.extend(generations.left_of_given());
    faults.extend(unsteerable(config, generations));
    if !faults.is_empty() {
        faults.dedup();
        return Err(Failure::Work(WorkFault::Sockets(faults)));
    }
    if tries {
        return Ok(sockets);
    }
    for first in &config.layout.steered {
        let socket = sockets[*first].1.as_fd();
        socket::steer_by_cpu(socket, &config.layout.places)
            .map_err(Failure::system("event.partition: cannot steer by processor"))?;
    }
    if let Steps::All(_) = (config.architecture.driver.steps)(config.settings()) {
        // Each thread or process accepts from one socket: none is left for a surplus one.
        return Ok(sockets);
    }
    share_surplus(config, generations, &mut sockets)?;
    Ok(sockets)
}

/// Shares inherited sockets that no worker would have among those at the same addresses. Each has
/// the class of its address in this configuration.
fn share_surplus(
    config: &mut Config,
    generations: &mut Generations,
    sockets: &mut Vec<Listening>,
) -> Result<(), Failure> {
    let untold = Failure::system("cannot tell the address");
    let each = sockets.iter().map(|(_, socket)| socket);
    let own = addresses(each, &config.layout.classes).map_err(&untold)?;
    let class = |(_, socket): &Listening| class_at(&socket::place(socket.as_fd()).ok()?, &own);
    let room = ADDRESSES_MAX.saturating_sub(sockets.len());
    let surplus = generations.take_listeners(room, |socket| class(socket).is_some());
    let surplus = surplus.map_err(Failure::system("cannot share a socket"))?;
    let classes: Option<Vec<ListenerClass>> = surplus.iter().map(class).collect();
    let classes = classes.ok_or_else(|| untold(io::ErrorKind::AddrNotAvailable.into()))?;
    for (at, socket) in config.layout.give(&classes).into_iter().zip(surplus) {
        sockets.insert(at, socket);
    }
    Ok(())
}

/// Takes the inherited socket for an address, or makes one; a trial only tests whether it could.
fn socket_of(
    spec: &ListenSpec,
    shares_port: bool,
    generations: &mut Generations,
    tries: bool,
) -> io::Result<OwnedFd> {
    if let Some(inherited) = generations.take_listener(&spec.addr.to_string())? {
        if !tries {
            socket::adopt(inherited.as_fd(), spec)?;
        }
        return Ok(inherited);
    }
    if !shares_port {
        socket::is_free(spec.addr)?;
    }
    match (shares_port, tries) {
        // A trial does not give the first socket of the port the option that sharing needs.
        (true, true) => socket::try_sharing(spec.addr.ip()),
        (false, true) => socket::bind(spec),
        // Sockets that share a port share it only with our first one.
        (_, false) => {
            let made = socket::listen(spec)?;
            generations.has_made(&made)?;
            Ok(made)
        }
    }
}

/// Takes the socket from the service manager for an address. Earlier generations may hand on
/// several: each process had the one as its own listener.
fn given_socket(
    spec: &ListenSpec,
    generations: &mut Generations,
    tries: bool,
) -> io::Result<OwnedFd> {
    let socket = all_at(&Place::Inet(spec.addr), generations)?;
    // The image before this one had the socket.
    let socket = socket.ok_or(io::ErrorKind::AddrNotAvailable)?;
    if !tries {
        socket::adopt(socket.as_fd(), spec)?;
    }
    Ok(socket)
}

/// Fault of a given socket, if there is to be one for each processor.
fn unsteerable(config: &Config, generations: &Generations) -> Option<SocketFault> {
    let places = config.layout.steered.iter().map(|first| &config.layout.sockets[*first].place);
    let given = places.into_iter().find(|place| generations.is_given(place))?;
    Some(SocketFault::Unsteerable(given.clone()))
}

/// Logs which sockets are the service manager's, and whether workers share them for that reason.
pub(super) fn tell_given(config: &Config, generations: &Generations, errors: &ErrorLog) {
    for place in &generations.given {
        errors.note(
            messages::SOCKET_GIVEN,
            format_args!("{place}: the socket is the service manager's, which keeps it open"),
        );
        let shares = |plan: &SocketPlan| plan.place == *place && plan.port_of.is_some();
        if config.layout.sockets.iter().any(shares) && matches!(place, Place::Inet(_)) {
            errors.note(
                messages::SOCKET_SHARED,
                format_args!(
                    "{place}: one socket was given, and all workers share it: they have none of \
                     their own, as event.listen=reuseport would have it"
                ),
            );
        }
    }
}

/// Takes one of the inherited sockets at this address, if any; the others are the same.
fn all_at(place: &Place, generations: &mut Generations) -> io::Result<Option<OwnedFd>> {
    let is_it =
        |(_, socket): &Listening| socket::place(socket.as_fd()).is_ok_and(|it| it == *place);
    Ok(generations.take_listeners(usize::MAX, is_it)?.pop().map(|(_, socket)| socket))
}

/// Takes the inherited socket at a path, or makes one; a trial only tests whether it could.
fn unix_socket(
    spec: &UnixSpec<'_>,
    generations: &mut Generations,
    tries: bool,
) -> io::Result<OwnedFd> {
    let place = Place::Unix(spec.path.to_owned());
    let inherited = all_at(&place, generations)?;
    // The file of a given socket is not ours.
    match (inherited, generations.file(spec.path)) {
        (Some(socket), file) if file.is_some() || generations.is_given(&place) => {
            if !tries {
                unix::adopt(socket.as_fd(), file, spec)?;
            }
            Ok(socket)
        }
        _ if tries => unix::try_at(spec.path),
        _ => {
            let (socket, file) = unix::listen(spec)?;
            generations.files.push(file);
            Ok(socket)
        }
    }
}

fn unix_spec<'a>(config: &Config, path: &'a Path, owner: Option<&User>) -> UnixSpec<'a> {
    let options = AcceptOptions::read(config.settings());
    UnixSpec {
        path,
        mode: socket_mode(config.settings()),
        owner: owner.map(|owner| (owner.uid, owner.gid)),
        backlog: options.backlog,
        send_buffer_bytes: options.send_buffer_bytes,
        steps: (config.architecture.driver.steps)(config.settings()),
    }
}

fn listen_spec(
    config: &Config,
    address: SocketAddr,
    class: ListenerClass,
    plan: &SocketPlan,
) -> ListenSpec {
    let options = AcceptOptions::read(config.settings());
    ListenSpec {
        backlog: options.backlog,
        reuse_port: plan.reuse_port,
        defer_accept_s: if options.defer { DEFER_ACCEPT_S } else { 0 },
        send_buffer_bytes: options.send_buffer_bytes,
        receive_buffer_bytes: options.receive_buffer_bytes,
        pacing_rate: options.pacing_rate,
        unsent_bytes_max: unsent_bytes_max(config.settings(), class),
        steps: (config.architecture.driver.steps)(config.settings()),
        ..ListenSpec::new(address)
    }
}

/// Addresses and classes of the sockets, each address once.
pub(super) fn addresses<'a>(
    sockets: impl IntoIterator<Item = &'a OwnedFd>,
    classes: &[ListenerClass],
) -> io::Result<Vec<ListenPlace>> {
    let mut addresses: Vec<ListenPlace> = Vec::new();
    for (socket, class) in sockets.into_iter().zip(classes) {
        let place = socket::place(socket.as_fd())?;
        if class_at(&place, &addresses).is_none() {
            addresses.push(ListenPlace { place, class: *class });
        }
    }
    Ok(addresses)
}

pub(crate) fn listen_fault(place: &Place, error: &io::Error) -> String {
    let hint = match (place, error.kind()) {
        (Place::Inet(address), io::ErrorKind::AddrInUse) => {
            let port = address.port();
            format!("another process has it: `ss -ltnp sport = :{port}` shows which")
        }
        (Place::Unix(path), io::ErrorKind::AddrInUse) => format!(
            "another process has it: `ss -lxp src {0}` shows which; or {0} is no socket",
            path.display()
        ),
        (Place::Inet(_), io::ErrorKind::PermissionDenied) => {
            "ports below 1024 (net.ipv4.ip_unprivileged_port_start) need root's permission or \
             CAP_NET_BIND_SERVICE; or choose a higher port"
                .to_owned()
        }
        (Place::Unix(_), io::ErrorKind::PermissionDenied) => {
            "who starts the server must be able to write to its directory, and only root can give \
             it away (server.socket_owner)"
                .to_owned()
        }
        (Place::Unix(_), io::ErrorKind::NotFound) => {
            "make its directory first; systemd does with RuntimeDirectory=".to_owned()
        }
        (_, io::ErrorKind::AddrNotAvailable) => {
            "this machine has no such address: `ip address` lists those it has".to_owned()
        }
        _ => return format!("cannot listen on {place}: {error}"),
    };
    format!("cannot listen on {place}: {error}\n  hint: {hint}")
}
