//! Machines that lack something: the program never runs, and whoever asks is told what is missing.

use greenroom_sandbox::layer::Layer;
use greenroom_sandbox::plan::{Refused, compile};
use greenroom_sandbox::policy::Level;
use greenroom_sandbox::probe::{Probe, Trial, TrialResult};

use crate::cage::{Caged, User, World, plan};

/// Calls that fail, with what, and the layer that is missing then.
const LACKS: &[(&str, i32, Layer)] = &[
    ("landlock_create_ruleset", libc::ENOSYS, Layer::Landlock),
    ("landlock_create_ruleset", libc::EOPNOTSUPP, Layer::Landlock),
    ("landlock_restrict_self", libc::EPERM, Layer::Landlock),
    ("unshare", libc::EPERM, Layer::UserNamespace),
    // As with AppArmor: the namespace is there, and nothing can be done in it.
    ("mount,move_mount,fsopen,fsmount,mount_setattr,umount2", libc::EPERM, Layer::Mounts),
    ("mount_setattr", libc::ENOSYS, Layer::Mounts),
    ("open_tree", libc::ENOSYS, Layer::Mounts),
    ("capset", libc::EPERM, Layer::Capabilities),
    ("seccomp", libc::ENOSYS, Layer::Seccomp),
];

#[test]
fn the_program_never_runs_without_a_layer() {
    for user in User::all() {
        for (calls, errno, layer) in LACKS {
            let world = World::new(user);
            let mut command = user.command(world.escapee());
            command.arg("degraded").arg(calls).arg(errno.to_string());
            // A plan made where nothing was missing.
            let plan = plan(&world, &world.policy(Level::Full));
            let outcome = Caged::start_with(&world, &plan, &["touch", "ran"], command).end();
            let fault = outcome.fault.unwrap_or_else(|| panic!("{calls}: it ran"));
            assert_eq!(fault.layer, *layer, "{calls}: {fault}");
            assert!(!world.path("work/ran").exists(), "{calls}");
        }
    }
}

#[test]
fn level_reduced_never_runs_without_its_layers_either() {
    for (calls, errno, layer) in LACKS {
        let world = World::new(User::Ordinary);
        let mut command = world.user.command(world.escapee());
        command.arg("degraded").arg(calls).arg(errno.to_string());
        let plan = plan(&world, &world.policy(Level::Reduced));
        let outcome = Caged::start_with(&world, &plan, &["touch", "ran"], command).end();
        let needed = [Layer::Landlock, Layer::Seccomp, Layer::Capabilities].contains(layer);
        assert_eq!(outcome.fault.map(|fault| fault.layer), needed.then_some(*layer), "{calls}");
        assert_eq!(world.path("work/ran").exists(), !needed, "{calls}");
    }
}

/// What a trial finds on such a machine.
fn probe_without(world: &World, calls: &str, errno: i32) -> Probe {
    let mut command = world.user.command(world.escapee());
    let output = command.args(["degraded", calls, &errno.to_string(), "probe"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let trials = text.lines().map(|line| {
        let (name, outcome) = line.split_once(": ").unwrap();
        let layer = Layer::ALL.into_iter().find(|layer| layer.name() == name).unwrap();
        let outcome = match outcome {
            "works" => TrialResult::Works,
            other => TrialResult::Failed { errno, step: other.to_owned() },
        };
        Trial { layer, outcome }
    });
    let landlock_abi = if calls.starts_with("landlock_create") { 0 } else { 7 };
    Probe { kernel: "x".into(), uid: world.user.uid(), landlock_abi, trials: trials.collect() }
}

#[test]
fn what_is_missing_is_found_by_trial_and_refused_before_the_start() {
    for (calls, errno, layer) in LACKS {
        let world = World::new(User::Ordinary);
        let probe = probe_without(&world, calls, *errno);
        assert!(!probe.works(*layer), "{calls}: {probe:?}");
        let refused = compile(&world.policy(Level::Full), &probe).unwrap_err();
        let Refused::Missing(missing) = refused else { panic!("{refused}") };
        assert!(missing.layers.iter().any(|(it, _)| it == layer), "{calls}: {missing}");
        let without_namespaces = ![Layer::Landlock, Layer::Seccomp].contains(layer);
        assert_eq!(missing.reduced_works, without_namespaces, "{calls}");
        assert_eq!(compile(&world.policy(Level::Reduced), &probe).is_ok(), without_namespaces);
    }
}

/// As in most containers: parts of `/proc` are covered, so a fresh one would show too much and is
/// refused.
#[test]
fn a_masked_proc_is_found_and_refused() {
    if !User::all().contains(&User::Root) {
        eprintln!("NOT RUN: only root can cover a part of /proc");
        return;
    }
    let world = World::new(User::Root);
    let masked = |run: &str| {
        let mut command = std::process::Command::new("unshare");
        let script =
            format!("mount -t tmpfs none /proc/irq && exec {} {run}", world.escapee().display());
        command.args(["-m", "sh", "-c", &script]);
        command
    };
    let plan = plan(&world, &world.policy(Level::Full));
    // The harness's argument is the shell's own name here, and therefore repeated.
    let caged = Caged::start_with(&world, &plan, &["touch", "ran"], masked("__sandbox-exec"));
    let fault = caged.end().fault.expect("it ran");
    assert_eq!((fault.layer, fault.errno), (Layer::Proc, libc::EPERM), "{fault}");
    assert!(!world.path("work/ran").exists());
    let output = masked("probe").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("proc: cannot mount a fresh /proc: Operation not permitted"), "{text}");
    assert!(text.contains("mounts: works"), "{text}");
}

#[test]
fn the_trial_finds_everything_where_everything_is() {
    let world = World::new(User::Ordinary);
    // A call nobody makes.
    let probe = probe_without(&world, "close_range", libc::EINVAL);
    let missing: Vec<_> =
        probe.trials.iter().filter(|it| it.outcome != TrialResult::Works).collect();
    assert!(missing.is_empty(), "this machine cannot test level full: {missing:?}");
}
