//! Outputs against real readers: slow ones, full ones, ones that come and go.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode};
use warpline_outputs::{ChainEnd, Counts, Destination, Format, Output, Registry, Writer};

fn open(registry: &Registry, name: &str, folder: &Path) -> Arc<Output> {
    let destination = Destination::parse(name, folder).unwrap();
    let format = Format::lines().beginning(|_| b"first\n".to_vec());
    registry.open(destination, None, format).unwrap()
}

fn line(number: u64) -> Vec<u8> {
    format!("{number:>99}\n").into_bytes()
}

/// The numbers of lines of [`line`].
fn numbers(text: &str) -> Vec<u64> {
    let whole = |line: &str| line.len() == 99 || line == "first";
    assert!(text.is_empty() || text.ends_with('\n') && text.lines().all(whole), "a torn line");
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Far beyond what a slow machine takes.
const LIMIT: Duration = Duration::from_secs(60);

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn counts(registry: &Registry) -> (u64, u64) {
    let [Counts { written, lost, .. }] = registry.counts()[..] else { panic!("one output") };
    (written, lost)
}

#[test]
fn lines_of_two_writers_stay_whole_and_a_failure_is_reported_once() {
    struct Disk(usize, Arc<Mutex<Vec<u8>>>);
    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.1.lock().unwrap();
            if taken.len() + bytes.len() > self.0 {
                return Err(ErrorKind::StorageFull.into());
            }
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let taken = Arc::default();
    let output = Arc::new(Output::new("disk", Box::new(Disk(20_000, Arc::clone(&taken)))));
    let writers = [true, false].map(|waits| Writer::new(Arc::clone(&output), waits));
    for number in 0..300 {
        writers[number as usize % 2].write(&line(number));
    }
    assert_eq!(writers[0].finish().unwrap(), "can't write disk: no storage space");
    assert_eq!((writers[1].finish(), output.counts().written), (None, 200));
    let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
    assert!(numbers(&text).into_iter().eq(0..200));
}

#[test]
fn a_reader_that_stops_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    // A program that makes it would hold connections of other tests open until it runs.
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
    let registry = Registry::queued(LIMIT);
    let output = open(&registry, "pipe", folder.path());
    let [writer, waiting] = [false, true].map(|waits| Writer::new(Arc::clone(&output), waits));
    // More than the queue, the thread and the pipe have room for.
    let (total, started) = (200_000, Instant::now());
    (0..total).for_each(|number| writer.write(&line(number)));
    assert!(started.elapsed() < LIMIT);
    let (_, lost) = counts(&registry);
    assert!(lost > total / 2, "{lost}");
    soon("a message", || {
        registry.take_messages().iter().any(|message| message.contains("loses records"))
    });
    let reader = thread::spawn(move || {
        let mut text = String::new();
        std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    soon("all that was kept", || counts(&registry).0 == total - lost);
    (total..2 * total).for_each(|number| waiting.write(&line(number)));
    assert_eq!(waiting.finish(), None);
    assert_eq!(counts(&registry), (2 * total - lost, lost), "who waits loses nothing");
    soon("a message", || {
        registry.take_messages().iter().any(|message| message.contains("written again"))
    });
    registry.close(|| false);
    let numbers = numbers(&reader.join().unwrap());
    assert_eq!(numbers.len() as u64, 2 * total - lost);
    assert!(numbers.is_sorted());
}

#[test]
fn a_reader_that_never_reads_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    let registry = Registry::queued(Duration::from_millis(100));
    let writer = Writer::new(open(&registry, "unix:socket", folder.path()), false);
    let (_stalled, _) = socket.accept().unwrap();
    (0..100_000).for_each(|number| writer.write(&line(number)));
    let started = Instant::now();
    let at_end = registry.close(|| false);
    // A write waits for 30 seconds.
    assert!(started.elapsed() < Duration::from_secs(20));
    let (written, lost) = counts(&registry);
    assert_eq!(written + lost, 100_000, "{written} + {lost}");
    let [(_, at_end)] = at_end[..] else { panic!("{at_end:?}") };
    assert!(at_end > 0 && at_end < lost, "{at_end} of {lost}");
}

/// More than the queue has room for, to a reader that begins once the queue is full.
#[test]
fn a_chain_that_ends_waits_for_a_slow_reader() {
    let total = 200_000;
    for is_read in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        let patience = if is_read { LIMIT } else { Duration::from_millis(100) };
        let registry = Registry::queued(patience);
        let output = open(&registry, "unix:socket", folder.path());
        let end = Arc::new(ChainEnd::new(false));
        let writer = Writer::of_chain(output, Arc::clone(&end));
        let (connection, _) = socket.accept().unwrap();
        let mut sent = 0;
        while counts(&registry).1 == 0 {
            writer.write(&line(sent));
            sent += 1;
        }
        end.begin(registry.end_of_chain());
        let reader = is_read.then(|| {
            let mut connection = connection.try_clone().unwrap();
            thread::spawn(move || {
                let mut text = String::new();
                connection.read_to_string(&mut text).unwrap();
                text
            })
        });
        (sent..sent + total).for_each(|number| writer.write(&line(number)));
        let at_end = registry.close(|| false);
        let (written, lost) = counts(&registry);
        assert_eq!(written + lost, sent + total);
        match reader {
            Some(reader) => {
                assert_eq!((lost, at_end), (1, Vec::new()), "only before the end");
                drop((writer, registry));
                assert_eq!(numbers(&reader.join().unwrap()).len() as u64, written);
            }
            None => assert_eq!(at_end, [(at_end[0].0.clone(), lost - 1)]),
        }
    }
}

#[test]
fn files_that_move_are_opened_again() {
    for registry in [Registry::default(), Registry::queued(LIMIT)] {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::new(open(&registry, "log", folder.path()), true);
        let done = Arc::new(AtomicBool::new(false));
        let writing = {
            let (writer, done) = (writer.clone(), Arc::clone(&done));
            thread::spawn(move || {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    writer.write(&line(number));
                    number += 1;
                }
                number
            })
        };
        let log = folder.path().join("log");
        let moved = |number: u32| folder.path().join(format!("log.{number}"));
        for number in 0..10 {
            soon("a line", || log.metadata().is_ok_and(|about| about.len() > 10_000));
            std::fs::rename(&log, moved(number)).unwrap();
            registry.reopen();
        }
        soon("the last file", || log.exists());
        // A file that did not move continues.
        registry.reopen();
        done.store(true, Ordering::Relaxed);
        let total = writing.join().unwrap();
        writer.write(&line(total));
        assert_eq!(writer.finish(), None);
        let files = (0..10).map(moved).chain([log.clone()]);
        let texts: Vec<_> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert!(numbers(&texts.concat()).into_iter().eq(0..=total));
        let first = texts.iter().map(|text| text.matches("first\n").count());
        assert!(first.eq([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
    }
}

/// A writer may itself write the line that its files begin with.
#[test]
fn a_file_that_is_opened_again_before_its_first_line_begins_once() {
    for registry in [Registry::default(), Registry::queued(LIMIT)] {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::new(open(&registry, "log", folder.path()), true);
        registry.reopen();
        writer.write(b"first\n");
        writer.write(&line(0));
        assert_eq!(writer.finish(), None);
        registry.close(|| false);
        let text = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!((text.matches("first\n").count(), numbers(&text)), (1, vec![0]));
    }
}

/// Nobody reads, and an operator asks for the end again.
#[test]
fn the_end_of_the_wait_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    let registry = Registry::queued(10 * LIMIT);
    let writer = Writer::new(open(&registry, "unix:socket", folder.path()), false);
    (0..20_000).for_each(|number| writer.write(&line(number)));
    let started = Instant::now();
    let lost = registry.close(|| started.elapsed() > Duration::from_millis(200));
    assert!(started.elapsed() < LIMIT);
    assert!(lost[0].1 > 0, "{lost:?}");
}

#[test]
fn files_of_an_earlier_run_continue_with_interfaces_only() {
    let folder = tempfile::tempdir().unwrap();
    let run = |registry: Registry, name: &str, format: Format, bytes: &[u8]| {
        let destination = Destination::parse(name, folder.path()).unwrap();
        let writer = Writer::new(registry.open(destination, None, format).unwrap(), true);
        writer.write(bytes);
        assert_eq!(writer.finish(), None);
        registry.close(|| false);
        let [counts] = &registry.counts()[..] else { panic!("one output") };
        assert_eq!((counts.written, counts.lost), (1, 0));
        (writer.continues(), std::fs::read(folder.path().join(name)).unwrap())
    };
    let live = |bytes: &[u8]| run(Registry::queued(LIMIT), "lines", Format::lines(), bytes);
    assert_eq!(live(b"a\n"), (false, b"a\n".to_vec()));
    assert_eq!(live(b"b\n"), (true, b"a\nb\n".to_vec()));
    let captures = run(Registry::default(), "lines", Format::lines(), b"c\n");
    assert_eq!(captures, (false, b"c\n".to_vec()));
    // One record is the whole file, however long it is.
    for len in [100_000, 6 << 20] {
        let whole = vec![b'.'; len];
        assert!(run(Registry::queued(LIMIT), "whole", Format::whole(), &whole) == (false, whole));
    }
}

/// Accepts a connection, reads from it, closes it, and accepts another.
fn reconnects(name: &str, folder: &Path, accept: &dyn Fn() -> Box<dyn Read + Send>) {
    let registry = Registry::queued(LIMIT);
    let writer = Writer::new(open(&registry, name, folder), false);
    let mut first = accept();
    (0..100).for_each(|number| writer.write(&line(number)));
    let mut bytes = [0; 5000];
    first.read_exact(&mut bytes).unwrap();
    assert!(numbers(std::str::from_utf8(&bytes).unwrap()).into_iter().eq(0..50));
    // The system holds the rest before the reader leaves. Later lines find it gone.
    soon("all", || counts(&registry).0 == 100);
    drop(first);
    (100..200).for_each(|number| writer.write(&line(number)));
    let mut second = accept();
    let mut text = String::new();
    let closing = thread::spawn(move || registry.close(|| false));
    second.read_to_string(&mut text).unwrap();
    closing.join().unwrap();
    assert!(text.starts_with("first\n"), "a later connection starts anew");
    let numbers = numbers(&text);
    assert!(numbers.iter().copied().eq(100..200), "{name}: {numbers:?}");
}

#[test]
fn connections_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
    reconnects("unix:socket", folder.path(), &|| Box::new(unix.accept().unwrap().0));
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("tcp:{}", tcp.local_addr().unwrap());
    reconnects(&name, folder.path(), &|| Box::new(tcp.accept().unwrap().0));
}

#[test]
fn a_reader_that_comes_before_the_end_gets_all() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::queued(LIMIT);
    let writer = Writer::new(open(&registry, "unix:socket", folder.path()), false);
    (0..100).for_each(|number| writer.write(&line(number)));
    // Attempts fail. Pauses between them grow.
    thread::sleep(Duration::from_millis(300));
    let socket = UnixListener::bind(folder.path().join("socket")).unwrap();
    registry.close(|| false);
    assert_eq!(counts(&registry), (100, 0));
    let mut text = String::new();
    socket.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert!(numbers(&text).into_iter().eq(0..100));
}

#[test]
fn a_run_over_captures_needs_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let destination = Destination::parse("unix:socket", folder.path()).unwrap();
    let refused = Registry::default().open(destination.clone(), None, Format::lines());
    assert!(refused.err().unwrap().starts_with("can't connect to unix:"));
    assert!(Registry::queued(LIMIT).open(destination, None, Format::lines()).is_ok());
}
