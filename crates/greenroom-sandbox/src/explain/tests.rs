use super::*;
use crate::plan::compile;
use crate::policy::{HostPattern, Policy};
use crate::probe::tests::able;

fn explained(policy: &Policy) -> String {
    explain(&compile(policy, &able()).unwrap()).to_string()
}

#[test]
fn level_full_in_words() {
    let policy = Policy {
        hidden: vec!["/home/u/.ssh".into()],
        network: Network::Hosts(vec![HostPattern::parse("*.example.com").unwrap()]),
        git: Some(GitRules::Worktree {
            worktree: "/w".into(),
            common_dir: "/r/.git".into(),
            admin_dir: "/r/.git/worktrees/w".into(),
            refs: Refs::Shared { branch: "greenroom/x".into() },
        }),
        ..Policy::new(Level::Full, "/w", "/s/tmp")
    };
    insta::assert_snapshot!(explained(&policy), @"
    sandbox level full
      hidden        /run (if it is there)  [mounts]
      write         /tmp (its own: /s/tmp)  [mounts, landlock]
      write         /w  [mounts, landlock]
      fixed         /run/current-system (if it is there)  [mounts]
      fixed         /run/booted-system (if it is there)  [mounts]
      fixed         /run/opengl-driver (if it is there)  [mounts]
      fixed         /w/.git  [mounts]
      hidden        /home/u/.ssh (if it is there)  [mounts]
      write         /r/.git/objects  [mounts, landlock]
      write         /r/.git/worktrees/w  [mounts, landlock]
      fixed         /r/.git/objects/pack  [mounts]
      fixed         /r/.git/objects/info  [mounts]
      write         /r/.git/refs/heads/greenroom  [mounts, landlock]
      fixed         /r/.git/worktrees/w/commondir  [mounts]
      fixed         /r/.git/worktrees/w/gitdir  [mounts]
      fixed         /r/.git/worktrees/w/config.worktree  [mounts]
      fixed         /r/.git/refs/heads/greenroom/* except x  [mounts]
      write         /r/.git/logs/refs/heads/greenroom  [mounts, landlock]
      fixed         /r/.git/logs/refs/heads/greenroom/* except x  [mounts]
      write         /dev/shm (its own)  [mounts, landlock]
      read          whatever you may read, except what is hidden  [landlock]
      network       a loopback of its own; through the proxy on port 3128: *.example.com  [network namespace, the daemon's proxy]
      unix sockets  refused, and /run is hidden  [seccomp]
      processes     sees and signals its own only; all end with the session  [pid namespace]
      terminals     its own only  [own devpts]
      privileges    no capabilities, no set-user-id programs  [no new privileges, seccomp]
      kernel        no mounts, namespaces, modules, keys, bpf, io_uring  [seccomp]
      limits        core=0 message_queue=0  [rlimit]
    not protected:
      - what it can read and is not hidden; with any network it could send that away
      - what you run of its results later: build scripts, hooks of tools, committed code
      - files it can write that have another name outside (hard links made before)
      - branches below refs/heads/greenroom made there after its start
      - the kernel: it is shared, this is no virtual machine
    ");
}

#[test]
fn level_reduced_in_words() {
    let policy = Policy {
        hidden: vec!["/home/u/.ssh".into()],
        ..Policy::new(Level::Reduced, "/home/u/p", "/s/tmp")
    };
    insta::assert_snapshot!(explained(&policy), @"
    sandbox level reduced
      write         /home/u/p  [landlock]
      write         /tmp  [landlock]
      write         /dev/shm  [landlock]
      write         /s/tmp  [landlock]
      hidden        /home/u/.ssh (contents; names can be listed)  [landlock]
      read          whatever you may read, except what is hidden  [landlock]
      network       none, not even loopback  [seccomp, landlock]
      unix sockets  refused  [seccomp]
      processes     cannot trace, read or slow down others  [landlock, seccomp]
      privileges    no capabilities, no set-user-id programs  [no new privileges, seccomp]
      kernel        no mounts, namespaces, modules, keys, bpf, io_uring  [seccomp]
      limits        core=0 message_queue=0  [rlimit]
    not protected:
      - what it can read and is not hidden; with any network it could send that away
      - what you run of its results later: build scripts, hooks of tools, committed code
      - files it can write that have another name outside (hard links made before)
      - modes, times and attributes of your files elsewhere (contents are protected)
      - other programs' files in /tmp and /dev/shm
      - processes it leaves running after the session
      - protected paths inside of what it may write: .git/hooks and .git/config among them
      - the kernel: it is shared, this is no virtual machine
    ");
}

#[test]
fn every_grant_takes_a_sentence_of_the_promise_back() {
    let strict = Policy::new(Level::Full, "/w", "/t");
    let before = explain(&compile(&strict, &able()).unwrap()).not_protected.len();
    let mut open = strict.clone();
    open.network = Network::Open;
    let mut unix = strict.clone();
    unix.allow.unix = true;
    let mut debug = strict;
    debug.allow.debug = true;
    for policy in [open, unix, debug] {
        let after = explain(&compile(&policy, &able()).unwrap()).not_protected.len();
        assert_eq!(after, before + 1);
    }
}
