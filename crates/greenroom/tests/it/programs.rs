//! Real programs through `attach` and `key`.

use crate::attach::Outer;
use crate::support::Home;

#[test]
fn vim_through_key_and_attach() {
    let home = Home::new();
    let file = home.path().join("text");
    let name = file.display().to_string();
    home.ok(&["new", "--", "vim", "-u", "NONE", "-N", &name]);
    home.wait_text("s1", "~");
    home.ok(&["key", "s1", "i"]);
    home.wait_text("s1", "INSERT");
    home.ok(&["send", "s1", "first line"]);
    home.ok(&["key", "s1", "enter"]);
    home.ok(&["send", "s1", "second line"]);
    home.ok(&["key", "s1", "up", "home"]);
    home.ok(&["send", "s1", "the "]);
    home.ok(&["key", "s1", "esc"]);
    home.wait_text("s1", "^the first line\\nsecond line\\n~");

    let outer = Outer::new(&home);
    outer.type_line("greenroom attach s1");
    outer.sees("^the first line\\nsecond line\\n~");
    assert_eq!(outer.modes()["alternate_screen"], true);
    outer.type_bytes("\x1b[B");
    outer.type_bytes("A, typed\x1b");
    outer.sees("second line, typed");
    // Escape and the prefix in one burst would be Alt with it.
    home.ok(&["wait", "s1", "--until", "stable=100"]);
    outer.detach();
    outer.is_clean();
    home.ok(&["send", "s1", ":wq", "--enter"]);
    assert_eq!(home.ok(&["wait", "s1", "--until", "exit"]), "exited: status 0");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "the first line\nsecond line, typed\n");
}

#[test]
fn less_through_key_and_attach() {
    let home = Home::new();
    let file = home.path().join("numbers");
    let text: String = (1..=500).map(|n: u32| format!("number {n}\n")).collect();
    std::fs::write(&file, text).unwrap();
    home.ok(&["new", "--", "less", &file.display().to_string()]);
    home.wait_text("s1", "^number 1\\n");
    home.ok(&["key", "s1", "page_down"]);
    home.wait_text("s1", "^number 24\\n");
    home.ok(&["send", "s1", "/number 300", "--enter"]);
    home.wait_text("s1", "^number 300\\n");

    let outer = Outer::new(&home);
    outer.type_line("greenroom attach s1");
    outer.sees("^number 300\\n");
    outer.type_bytes("G");
    outer.sees("number 500\\n");
    outer.type_bytes("q");
    outer.sees("\\[s1 exited: status 0\\]\\s+outer>\\s*$");
    outer.is_clean();
}

#[test]
fn htop_through_key_and_attach() {
    let home = Home::new();
    home.ok(&["new", "--size", "100x30", "--env", "HTOPRC=/dev/null", "--", "htop", "-d", "100"]);
    home.wait_text("s1", "F1Help");
    let outer = Outer::new(&home);
    outer.type_line("greenroom attach s1");
    outer.sees("F1Help");
    outer.type_bytes("\x1bOP");
    outer.sees("htop dev team");
    outer.type_bytes(" ");
    outer.sees("F10Quit");
    outer.detach();
    outer.is_clean();
    home.ok(&["key", "s1", "f10"]);
    assert_eq!(home.ok(&["wait", "s1", "--until", "exit"]), "exited: status 0");
}

#[test]
fn tmux_within_a_session() {
    let home = Home::new();
    let socket = home.path().join("inner-tmux").display().to_string();
    let command = [
        "new",
        "--env",
        "PS1=pane> ",
        "--",
        "tmux",
        "-f",
        "/dev/null",
        "-S",
        &socket,
        "new-session",
        "sh -i",
    ];
    home.ok(&command);
    home.wait_text("s1", "pane>");
    home.ok(&["send", "s1", "echo $((40+2))", "--enter"]);
    home.wait_text("s1", "42\\s+pane>");
    // Its own prefix, by key: split, and both panes are there.
    home.ok(&["key", "s1", "ctrl-b", "%"]);
    home.wait_text("s1", "│(pane>|#|\\$)");

    let outer = Outer::new(&home);
    outer.type_line("greenroom attach s1");
    outer.sees("│(pane>|#|\\$)");
    // Through attach the prefix is doubled: the inner tmux splits again.
    outer.type_bytes("\x02\x02\"");
    outer.sees("├─");
    outer.type_bytes("echo in the $((1+2))rd\r");
    outer.sees("in the 3rd");
    outer.detach();
    outer.is_clean();
    // Leaving it by its own keys; its server would outlive the session otherwise.
    home.ok(&["key", "s1", "ctrl-b", "d"]);
    assert_eq!(home.ok(&["wait", "s1", "--until", "exit"]), "exited: status 0");
    let ended =
        std::process::Command::new("tmux").args(["-S", &socket, "kill-server"]).status().unwrap();
    assert!(ended.success());
}
