//! `regatta film`: what a request passes in each architecture.

use crate::prelude::*;
use std::process::{Command, Stdio};

/// The film of what clients do meanwhile, one connection after another.
fn filmed(server: &Server) -> Value {
    let pid = server.pid().to_string();
    let mut command = Command::new(program());
    command.args(["film", "--pid", &pid, "--for", "500ms", "--json"]);
    let mut films = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a film");
    let text = crate::harness::collect(films.stdout.take().expect("piped"));
    while films.try_wait().expect("our child").is_none() {
        let mut client = server.connect();
        client.get("/size-65537.bin").expect(200);
        client.ask("GET", "/small.txt", &[("Connection", "close")]).expect(200);
        client.finish();
        thread::sleep(Duration::from_millis(20));
    }
    serde_json::from_str(&text.recv_timeout(PATIENCE).expect("a film")).expect("JSON")
}

fn list<'v>(film: &'v Value, name: &str) -> &'v [Value] {
    film[name].as_array().map_or(&[], Vec::as_slice)
}

/// Whether these events come in this order, perhaps with others in between.
fn has_in_order(events: &[String], wanted: &[&str]) -> bool {
    let mut events = events.iter();
    wanted.iter().all(|wanted| events.any(|event| event == wanted))
}

pub(crate) fn shows_what_a_request_passes(variant: &Variant) {
    let server = start(variant);
    let film = filmed(&server);
    let lost = [&film["records_lost"], &film["threads_left_out"]];
    assert_eq!(lost.map(Value::as_u64), [Some(0), Some(0)], "{film}");
    let connections = list(&film, "connections").iter().enumerate();
    let is_whole = |it: &Value| it["accepted_ns"].is_u64() && it["closed_ns"].is_u64();
    let mut whole = connections.filter(|(_, it)| is_whole(it)).map(|(at, _)| at);
    // The first may have come while the marks were made.
    let whole = whole.nth(1).unwrap_or_else(|| panic!("no connection was filmed: {film}"));
    let of_it = |records: &[Value], at: usize| -> Vec<Value> {
        records.iter().filter(|record| record[at] == whole).cloned().collect()
    };
    let records = of_it(list(&film, "records"), 2);
    let word = |record: &Value, at: usize| record[at].as_str().unwrap_or_default().to_owned();
    let events: Vec<String> = records
        .iter()
        .map(|record| format!("{} {}", word(record, 4), word(record, 5)).trim().to_owned())
        .collect();
    let opens = ["accepted", "turn_begins", "issued recv"];
    let answers = ["done recv", "issued send", "done send"];
    let passes = [&opens[..], &answers, &answers, &["issued close", "closed"]].concat();
    assert!(has_in_order(&events, &passes), "{events:?}");
    let times: Vec<u64> = records.iter().filter_map(|record| record[0].as_u64()).collect();
    assert!(times.is_sorted() && times.len() == records.len(), "{records:?}");
    let requests: Vec<_> =
        list(&film, "requests").iter().filter(|it| it["connection"] == whole).collect();
    let numbers: Vec<_> = requests.iter().filter_map(|it| it["number"].as_u64()).collect();
    assert_eq!(numbers, [1, 2], "{requests:?}");
    assert!(requests.iter().all(|it| it["from_ns"].as_u64() < it["to_ns"].as_u64()));
    let lasts = film["lasts_ns"].as_u64().expect("a length");
    for bar in list(&film, "bars") {
        let [from, to] = ["from_ns", "to_ns"].map(|name| bar[name].as_u64().expect("a time"));
        assert!(from < to && to <= lasts, "{bar}");
    }
    let sends = |bar: &&Value| bar["connection"] == whole && bar["what"] == "send";
    assert!(list(&film, "bars").iter().any(|bar| sends(&bar)), "nothing is sent: {film}");
}

pub(crate) fn one_film_at_a_time_and_a_page_by_default() {
    let server = start(Variant::find("symped"));
    let pid = server.pid().to_string();
    let out = Site::new();
    let page = out.beside("film.html");
    let page_text = page.to_str().expect("our paths are text");
    let mut command = Command::new(program());
    command.args(["film", "--pid", &pid, "--for", "3s", "--out", page_text]);
    let mut films = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a film");
    let maps = format!("/proc/{}/maps", films.id());
    soon(|| fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("regatta-film")));
    // It is locked a moment after it is mapped.
    thread::sleep(Duration::from_millis(100));
    let refused = ends_with(1, &["film", "--pid", &pid, "--for", "10ms", "--json"]);
    refused.names(&["another command is filming process", "try again in"]);
    assert!(films.wait().expect("our child").success());
    let text = fs::read_to_string(&page).expect("the page");
    assert!(text.contains("\"architecture\":\"symped\"") && !text.contains("/*scenes*/"));
    ends_with(0, &["film", "--pid", &pid, "--for", "10ms", "--format", "trace-event"]);
    ends_with(2, &["film", "--pid", &pid, "--for", "2min"]).names(&["1 min"]);
    ends_with(2, &["film", page_text]).names(&["not a film"]);
    ends_with(1, &["film", "--pid", "1"]).names(&["process 1"]);
}
