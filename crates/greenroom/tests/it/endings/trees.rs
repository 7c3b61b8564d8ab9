//! Random trees of processes, ended in every way, beside strangers.

use test_kit::process::{sleep_mark, with_argument};
use test_kit::series::Dice;

use super::{Stranger, keeper_pid, kill_9, none_left, wait_for};
use crate::support::{Home, eventually};

/// How a tree is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    Timeout,
}

/// Who dies before that.
#[derive(Clone, Copy, Debug)]
enum Death {
    Nobody,
    Daemon,
    Keeper,
}

/// A shell command that leaves a process with the mark behind, or several, and how many at least.
fn limb(dice: &mut Dice, mark: &str, depth: u64, inside: bool) -> (String, usize) {
    let quiet = "</dev/null >/dev/null 2>&1";
    let stubborn = "trap \"\" HUP TERM INT USR1";
    match dice.below(if depth > 0 { 9 } else { 7 }) {
        0 => (format!("sleep {mark} &"), 1),
        1 => (format!("(setsid sleep {mark} {quiet} &);"), 1),
        2 => (format!("(trap '' HUP TERM; exec sleep {mark} {quiet}) &"), 1),
        3 => (
            format!(
                "(env -i /usr/bin/setsid /bin/sh -c '{stubborn}; exec /bin/sleep {mark}' {quiet} &);"
            ),
            1,
        ),
        // A private terminal with a number of its own.
        4 if !inside => {
            // Its input must not end: `script` would.
            let run = format!("sleep {mark} | script -qec \"sleep {mark}\" /dev/null");
            (format!("(setsid sh -c '{run}' >/dev/null 2>&1 &);"), 1)
        }
        // Stopped by itself: from outside it could be stopped before it has the mark.
        5 => (format!("sh -c 'kill -STOP $$; exec sleep 1000' {mark} &"), 1),
        // The pid moves on all the time.
        6 => (format!("(setsid sh -c 'while :; do sleep 0.02; done' {mark} {quiet} &);"), 1),
        7 if !inside => (format!("(setsid unshare -Urpf sleep {mark} {quiet} &);"), 0),
        4..=7 => (format!("sleep {mark} &"), 1),
        _ => {
            let (one, a) = limb(dice, mark, depth - 1, inside);
            let (two, b) = limb(dice, mark, depth - 1, inside);
            (format!("( {one} {two} wait ) &"), a + b)
        }
    }
}

fn case(dice: &mut Dice, number: u64) {
    let home = Home::new();
    let ours = sleep_mark();
    let boxed = dice.below(4) == 0;
    let limbs: Vec<(String, usize)> =
        (0..1 + dice.below(4)).map(|_| limb(dice, &ours, 2, boxed)).collect();
    let expected: usize = limbs.iter().map(|(_, count)| count).sum();
    let body: String = limbs.iter().map(|(text, _)| text.as_str()).collect();
    // Its program may have ended by itself; in a sandbox that would end all of it.
    let leaves = !boxed && dice.coin();
    let last = if leaves { "read x" } else { "while :; do sleep 1000; done" };
    let script = format!("{body} {last}");
    let death = *dice.pick(&[Death::Nobody, Death::Daemon, Death::Keeper]);
    // A limit gives ten seconds between TERM and KILL, so it is the rarer one.
    let end = if dice.below(4) == 0 { End::Timeout } else { End::Kill };
    let what =
        format!("case {number}: {death:?}, {end:?}, sandbox {boxed}, leaves {leaves}: {script}");

    let mut strangers = [Some(65534), None].map(|uid| Stranger::start(&sleep_mark(), uid));
    let (beside, other) = (sleep_mark(), sleep_mark());
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    home.ok(&[
        "new",
        "--name",
        "beside",
        "--",
        "sh",
        "-c",
        &format!("(setsid sleep {beside} &); sleep {beside}"),
    ]);
    let nested = home.run(&[
        "new",
        "--name",
        "other",
        "--sandbox",
        "--cwd",
        work.to_str().unwrap(),
        "--",
        "sleep",
        &other,
    ]);
    let has_sandbox = nested.code == 0;
    if boxed && !has_sandbox {
        return;
    }
    let mut words = vec!["new", "--name", "tree", "--cwd", work.to_str().unwrap()];
    if boxed {
        words.push("--sandbox");
    }
    if matches!(end, End::Timeout) {
        words.extend(["--timeout", "4s"]);
    }
    words.extend(["--", "sh", "-c", &script]);
    home.ok(&words);
    if matches!(end, End::Kill) {
        let (have, all) = (|| with_argument(&ours).len() >= expected, &what);
        eventually(&format!("{expected} processes run: {all}"), || have().then_some(()));
        wait_for(&beside, 2);
    }
    if leaves {
        home.run(&["send", "tree", "--enter", "go"]);
        home.run(&["wait", "tree", "--until", "exit", "--timeout", "30s"]);
    }
    match death {
        Death::Nobody => {}
        Death::Daemon => {
            let before = with_argument(&beside).len();
            kill_9(home.daemon_pid());
            assert_eq!(with_argument(&beside).len(), before, "{what}");
        }
        Death::Keeper => {
            kill_9(keeper_pid(&home));
            none_left(&ours);
            none_left(&beside);
        }
    }
    if matches!(end, End::Kill) {
        let killed = eventually("an answer", || {
            let said = home.run(&["kill", "tree", "--grace", "50ms"]);
            (said.code != 7).then_some(said)
        });
        let over = killed.err.contains("has ended already");
        assert!(killed.code == 0 || over, "{what}\n{killed:?}");
        assert_eq!(with_argument(&ours), [] as [i32; 0], "{what}");
    }
    none_left(&ours);
    if !matches!(death, Death::Keeper) {
        assert_eq!(with_argument(&beside).len(), 2, "{what}");
        assert!(!has_sandbox || !with_argument(&other).is_empty(), "{what}");
    }
    strangers.iter_mut().for_each(Stranger::lives);
    home.run(&["shutdown", "--grace", "50ms"]);
    none_left(&beside);
    none_left(&other);
    strangers.iter_mut().for_each(Stranger::lives);
}

#[test]
fn soak_random_trees_end_and_nobody_else_does() {
    let series = test_kit::series::series("random trees", 6, 200);
    for number in 0..series.cases {
        case(&mut series.dice(number), number);
    }
}
