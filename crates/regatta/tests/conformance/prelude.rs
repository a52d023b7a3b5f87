//! Names that several modules of cases use.

pub(crate) use crate::client::{
    Answer, Client, Field, answer_all, bodies_are, burst, get, get_all, get_sizes, request,
    send_all, send_numbered,
};
pub(crate) use crate::counters::{counter, read};
pub(crate) use crate::disk::{tasks, worker};
pub(crate) use crate::harness::{
    Launch, PATIENCE, Said, Server, Variant, alive, children, comes_to, ends_with, eventually,
    halt, kill, program, run, serve, serve_root, serve_with, soon, start, start_with,
};
pub(crate) use crate::identity::{NAME, identity};
pub(crate) use crate::inspect;
pub(crate) use crate::protection::check_location;
pub(crate) use crate::reload::succeed;
pub(crate) use crate::shared::descriptors;
pub(crate) use crate::site::{
    MODIFIED, SECRET, SIZES, SPARSE_BYTES, Site, common, common_text, pattern, set_modified, sized,
};
pub(crate) use crate::variants::VARIANTS;
pub(crate) use regatta_sys::sandbox::landlock_version;
pub(crate) use regatta_testkit::{executables, skips::skip};
pub(crate) use rustix::process::Signal;
pub(crate) use serde_json::Value;
pub(crate) use std::collections::{BTreeMap, BTreeSet, HashSet};
pub(crate) use std::fs::{self, File};
pub(crate) use std::net::{SocketAddr, TcpListener, TcpStream};
pub(crate) use std::os::unix::fs::{PermissionsExt, symlink};
pub(crate) use std::path::{Path, PathBuf};
pub(crate) use std::thread;
pub(crate) use std::time::{Duration, Instant};
