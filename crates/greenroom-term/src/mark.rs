//! What a program says beside its picture: bell, title, directory, notification, prompt.
//!
//! In: finished OSC strings and bells. Out: a bounded list of [`Mark`]s.
//! Deliberately absent: any reaction. A clipboard *read* is not a mark and is never answered: it
//! would hand the operator's clipboard to the program.

/// One fact a program told its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// BEL. Bells without another mark between them are one mark.
    Bell,
    /// OSC 0 or 2, or a title popped from the stack; empty when the title was taken away.
    Title(String),
    /// OSC 7: the working directory, as a path where the program sent a `file:` URL.
    Cwd(String),
    /// OSC 9 or 777.
    Notify { title: Option<String>, body: String },
    /// OSC 9;4: 0 none, 1 normal, 2 error, 3 indeterminate, 4 paused.
    Progress { state: u8, percent: Option<u8> },
    /// OSC 52 store.
    Clipboard { selection: String, data: Vec<u8> },
    /// OSC 133;A
    PromptStart,
    /// OSC 133;B
    PromptEnd,
    /// OSC 133;C
    CommandStart,
    /// OSC 133;D
    CommandEnd { exit: Option<i32> },
}
