//! Giving up root for good.
use rustix::process::{
    geteuid, getppid, parent_process_death_signal, set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::{fmt, fs, io, ptr};

/// User that a server is to run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// Reason why [`User::find`] failed.
#[derive(Debug)]
pub enum UserError {
    /// No user of that name or number is in `/etc/passwd`.
    NoUser(String),
    /// No group of that name is in `/etc/group`.
    NoGroup(String),
    /// A file could not be read.
    Unreadable(&'static str, io::Error),
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUser(name) => write!(
                f,
                "there is no user {name:?} in /etc/passwd; \
                 give numbers as UID:GID, such as 65534:65534, for one that does not stand there"
            ),
            Self::NoGroup(name) => write!(f, "there is no group {name:?} in /etc/group"),
            Self::Unreadable(path, error) => write!(f, "cannot read {path}: {error}"),
        }
    }
}

impl std::error::Error for UserError {}

impl User {
    /// Finds the user that `NAME`, `UID`, `NAME:GROUP` or `UID:GID` stands for.
    ///
    /// Reads `/etc/passwd` and `/etc/group` only: asking the name service would load its plug-ins,
    /// which may start threads, into a process that is about to fork.
    ///
    /// # Errors
    /// There is no such user or group.
    pub fn find(spec: &str) -> Result<Self, UserError> {
        // Two numbers are enough: a container from scratch has neither file.
        let read = |path| match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|error| UserError::Unreadable(path, error)),
        };
        Self::find_in(spec, &read("/etc/passwd")?, &read("/etc/group")?)
    }

    fn find_in(spec: &str, passwd: &str, group: &str) -> Result<Self, UserError> {
        let (user, wanted_group) = match spec.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (spec, None),
        };
        // name:password:uid:gid:…, passwd(5)
        let row = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let uid: u32 = fields.nth(1)?.parse().ok()?;
            let gid: u32 = fields.next()?.parse().ok()?;
            (name == user || user.parse() == Ok(uid)).then_some((name, uid, gid))
        });
        let uid = row.map(|row| row.1).or_else(|| user.parse().ok());
        let uid = uid.ok_or_else(|| UserError::NoUser(user.to_owned()))?;
        // name:password:gid:member,member…, group(5)
        let rows = group.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let gid: u32 = fields.nth(1)?.parse().ok()?;
            Some((name, gid, fields.next().unwrap_or("")))
        });
        let gid = match wanted_group {
            Some(wanted) => (rows.clone().find(|row| row.0 == wanted).map(|row| row.1))
                .or_else(|| wanted.parse().ok())
                .ok_or_else(|| UserError::NoGroup(wanted.to_owned()))?,
            None => row.map(|row| row.2).ok_or_else(|| UserError::NoUser(user.to_owned()))?,
        };
        let member = |members: &str| {
            row.is_some_and(|(name, ..)| members.split(',').any(|member| member == name))
        };
        let groups = rows.filter(|row| member(row.2)).map(|row| row.1).collect();
        Ok(Self { uid, gid, groups })
    }
}

/// Makes this process, with all its threads, run as `user`: real, effective and saved numbers, and
/// exactly the user's groups. Verifies that root cannot be regained.
///
/// The kernel marks the process: others of the same user may not trace or read it. It also forgets
/// the parent-death signal. This function sets that again: a worker still dies with its master.
///
/// # Errors
/// The process is neither root nor that user already; or root could be regained, or the parent
/// ended meanwhile. In the latter two cases the caller can only exit.
pub fn set_user(user: &User) -> io::Result<()> {
    let (signal, parent) = (parent_process_death_signal()?, getppid());
    become_user(user)?;
    if signal.is_some() {
        set_parent_process_death_signal(signal)?;
        if getppid() != parent {
            return Err(io::Error::other("the parent is gone already"));
        }
    }
    Ok(())
}

/// Switches this process to the user that serves, or remains the present one. Gives up the right to
/// read the files of all users (`CAP_DAC_READ_SEARCH`): a master that is not root may have it for
/// keys of certificates. Call it before starting threads, which it does not reach.
///
/// # Errors
/// As [`set_user`]; or the right could not be given up, and the caller can only exit.
pub fn serve_as(user: Option<&User>) -> io::Result<()> {
    user.map_or(Ok(()), set_user)?;
    // Root reads all files without it.
    if geteuid().is_root() {
        return Ok(());
    }
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let right = CapabilitySet::DAC_READ_SEARCH;
    if permitted.intersects(right) {
        set_capabilities(
            None,
            CapabilitySets {
                effective: effective.difference(right),
                permitted: permitted.difference(right),
                inheritable: inheritable.difference(right),
            },
        )?;
    }
    Ok(())
}

fn become_user(user: &User) -> io::Result<()> {
    let (uid, gid) = (user.uid, user.gid);
    let (own_uid, own_gid) = (geteuid(), rustix::process::getegid());
    // Root that stays root keeps its groups: a namespace with one user forbids changing them.
    let stays = (uid, gid) == (0, 0) && own_uid.is_root() && own_gid.is_root();
    if own_uid.is_root() && !stays {
        // SAFETY: the pointer and the length describe `user.groups`, which is live and only read.
        check(unsafe { libc::setgroups(user.groups.len(), user.groups.as_ptr()) })?;
    }
    // SAFETY: takes three integers and no memory, so nothing has to hold.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: takes three integers and no memory, so nothing has to hold.
    check(unsafe { libc::setresuid(uid, uid, uid) })?;
    if uid == 0 {
        return Ok(());
    }
    // SAFETY: takes three integers and no memory, so nothing has to hold. Meant to fail.
    let back = unsafe { libc::setresuid(0, 0, 0) };
    // SAFETY: for a length of 0 the null pointer is not read through. Meant to fail.
    let groups = unsafe { libc::setgroups(0, ptr::null()) };
    if back == 0 || groups == 0 {
        return Err(io::Error::other("the process could become root again"));
    }
    Ok(())
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if this process's user namespace (user_namespaces(7)) does not have the user, or forbids
/// setting groups.
#[must_use]
pub fn is_unmapped(user: &User) -> bool {
    let has = |map: &str, id: u32| {
        fs::read_to_string(map).map_or(true, |map| {
            map.lines().any(|line| {
                let mut words = line.split_whitespace().map(|word| word.parse::<u64>().ok());
                let (first, _, count) = (words.next(), words.next(), words.next());
                let (Some(Some(first)), Some(Some(count))) = (first, count) else { return true };
                (first..first.saturating_add(count)).contains(&u64::from(id))
            })
        })
    };
    let denied = fs::read_to_string("/proc/self/setgroups").is_ok_and(|text| text.trim() == "deny");
    denied || !has("/proc/self/uid_map", user.uid) || !has("/proc/self/gid_map", user.gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n# odd line\n\
        www:x:33:34:Web:/srv:/usr/sbin/nologin\n";
    const GROUP: &str = "root:x:0:\nwww:x:34:\nlogs:x:40:adm,www\nshort:x\nmedia:x:50:wwwx\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let www = User { uid: 33, gid: 34, groups: vec![40] };
        for spec in ["www", "33", "www:www", "33:34", "www:34"] {
            assert_eq!(User::find_in(spec, PASSWD, GROUP).unwrap(), www, "{spec}");
        }
        let other = User { uid: 33, gid: 50, groups: vec![40] };
        assert_eq!(User::find_in("www:media", PASSWD, GROUP).unwrap(), other);
        let unknown = User { uid: 65534, gid: 7, groups: vec![] };
        assert_eq!(User::find_in("65534:7", PASSWD, GROUP).unwrap(), unknown);
        // As in a container from scratch.
        assert_eq!(User::find_in("65534:7", "", "").unwrap(), unknown);
    }

    #[test]
    fn unknown_users_are_named() {
        for spec in ["", "nobody", "65534", "nobody:www", "-1", "short:x"] {
            let error = User::find_in(spec, PASSWD, GROUP).unwrap_err();
            assert!(matches!(error, UserError::NoUser(_)), "{spec}: {error}");
        }
        let error = User::find_in("www:nogroup", PASSWD, GROUP).unwrap_err();
        assert!(error.to_string().contains("nogroup"));
    }
}
