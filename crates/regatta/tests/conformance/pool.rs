//! systems.md §8.6, Hybrid: connections without a request hold no thread, and others hold one each.

use crate::prelude::*;

/// A server with two threads.
fn pair(variant: &Variant) -> Server {
    Launch::new(variant, common()).set("pool.threads=2").start()
}

/// Counts connections that are in the queue or with a thread; none of them has been closed there.
fn count_away(server: &Server) -> u64 {
    let backs = server.count("hand_backs");
    server.count("hand_overs").saturating_sub(backs)
}

pub(crate) fn threads_are_the_other_tasks(variant: &Variant) {
    let server = Launch::new(variant, common()).set("pool.threads=3").start();
    let main = worker(&server);
    let pool = || tasks(main).iter().filter(|name| *name == "pool").count();
    soon(|| pool() == 3);
    let mut clients = server.clients(30);
    send_all(&mut clients, get("/size-65537.bin"));
    assert_eq!((tasks(main).len(), pool()), (4, 3), "{:?}", tasks(main));
    answer_all(&mut clients, 200);
    assert_eq!(server.count("threads_started"), 3);
    assert_eq!(server.count("threads_ended"), 0);
    let puts = server.count("queue_puts");
    assert!(puts >= 30 && puts == server.count("hand_overs"), "{puts} hand-overs");
}

/// The dispatcher waits for clients that pause between requests or within one.
pub(crate) fn idle_connections_hold_no_thread(variant: &Variant) {
    let server = pair(variant);
    let mut idle = server.busy_clients(200);
    for client in idle.iter_mut().take(10) {
        client.send("GET /small.txt HTTP/1.1\r\nHo");
    }
    server.connect().get("/a.txt").expect(200);
    comes_to(|| count_away(&server), |away| *away <= 1);
    for client in idle.iter_mut().take(10) {
        client.send("st: a\r\n\r\n");
        client.answer("GET").expect(200);
    }
    assert_eq!(server.count("connections_open_max"), 201);
}

/// The dispatcher closes a connection that has only ended: the threads get requests alone.
pub(crate) fn an_end_is_no_request(variant: &Variant) {
    let server = start(variant);
    let mut clients = server.clients(30);
    clients.iter_mut().for_each(|client| client.repeat(2, "/small.txt"));
    let before = server.count("hand_overs");
    assert!(before >= 60, "{before} hand-overs of 60 requests");
    clients.pop().expect("one of thirty").abort();
    drop(clients);
    server.counts("connections_closed", 30);
    assert_eq!(server.count("hand_overs"), before);
    let reasons = ["closed_peer_closed", "closed_reset"].map(|name| server.count(name));
    assert_eq!(reasons, [29, 1]);
}

pub(crate) fn a_slow_reader_holds_one_thread(variant: &Variant) {
    let server = pair(variant);
    let _slow = server.stuck_client();
    let mut others = server.clients(20);
    (0..5).for_each(|_| get_all(&mut others, "/small.txt"));
    comes_to(|| count_away(&server), |away| *away == 1);
}

/// All threads are held: requests wait for one, in their order. New connections do not wait.
pub(crate) fn slow_readers_hold_all_threads(variant: &Variant) {
    let server = pair(variant);
    let mut first = server.connect();
    first.get("/small.txt").expect(200);
    let slow: Vec<_> = (0..2).map(|_| server.stuck_client()).collect();
    first.send(get("/a.txt"));
    assert!(first.silent_for(Duration::from_millis(300)), "there is a third thread");
    let second = server.asked(get("/a.txt"));
    server.counts("accept_ok", 4);
    slow.into_iter().for_each(Client::abort);
    bodies_are(&mut [first, second], b"the letter a\n");
    assert!(server.count("queue_wait_ns") > 200_000_000);
}

/// A request that has begun holds its thread, as in Tomcat.
pub(crate) fn a_slow_request_holds_a_thread_if_that_is_asked(variant: &Variant) {
    let server = start_with(variant, &["pool.threads=2", "pool.return=idle"]);
    let mut slow = server.clients(2);
    send_all(&mut slow, "GET /small.txt HTTP/1.1\r\nHo");
    server.counts("hand_overs", 2);
    let mut other = server.waiting_client("/a.txt", "there is a third thread");
    slow[0].send("st: a\r\n\r\n");
    slow[0].answer("GET").expect(200);
    assert_eq!(other.answer("GET").expect(200).body, b"the letter a\n");
}
