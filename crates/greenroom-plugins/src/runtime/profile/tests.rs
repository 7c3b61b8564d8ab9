//! Grants to policies, and what a machine lacks to a level.

use greenroom_sandbox::layer::Layer;
use greenroom_sandbox::probe::{Probe, Trial, TrialResult};
use tempfile::TempDir;

use super::*;

struct Place {
    dir: TempDir,
}

fn able(lacks: &[Layer], landlock_abi: u32, uid: u32) -> Probe {
    let outcome = |layer: &Layer| match lacks.contains(layer) {
        true => TrialResult::Failed { errno: 1, step: "try".into() },
        false => TrialResult::Works,
    };
    let trial = |layer: &Layer| Trial { layer: *layer, outcome: outcome(layer) };
    Probe {
        kernel: "6.18".into(),
        uid,
        landlock_abi,
        trials: Layer::ALL.iter().map(trial).collect(),
    }
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home/.ssh", "home/plugin", "home/shared", "state", "run"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("home/plugin/main"), "#!/bin/sh\n").unwrap();
        Place { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn profiled(
        &self,
        probe: &Probe,
        least: Enforcement,
        format: Format,
        grants: &[(&str, Allow)],
    ) -> Result<Profiled, ProfileError> {
        let profiles = Profiles {
            home: self.path("home"),
            state: self.path("state"),
            hidden: vec![self.path("run"), self.path("state")],
            least,
            probe: probe.clone().into(),
        };
        let runtime = Runtime { command: vec!["./main".into(), "x".into()], ..Runtime::default() };
        let grants: Allowed =
            grants.iter().map(|(name, allow)| ((*name).to_owned(), allow.clone())).collect();
        profiles.launch(ProgramSpec {
            plugin: "guard",
            root: &self.path("home/plugin"),
            format,
            runtime: &runtime,
            grants: &grants,
            env: vec![("TOKEN".into(), "secret".into()), ("LANG".into(), "de".into())],
        })
    }

    fn granted(&self, grants: &[(&str, Allow)]) -> Policy {
        let profiled =
            self.profiled(&able(&[], 7, 1000), Enforcement::Enforced, Format::Native, grants);
        profiled.unwrap().launch.plan.policy.clone()
    }
}

fn list(entries: &[&str]) -> Allow {
    Allow::List(entries.iter().map(|it| (*it).to_owned()).collect())
}

#[test]
fn without_grants_it_has_its_tree_its_data_and_nothing_else() {
    let place = Place::new();
    let policy = place.granted(&[]);
    let data = place.path("state/data/guard");
    assert_eq!(policy.writable, std::slice::from_ref(&data));
    let sh = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(policy.reads, Reads::Only(vec![place.path("home/plugin"), sh]));
    assert_eq!(policy.hidden, ["run", "state", "home"].map(|name| place.path(name)));
    assert_eq!((policy.network, policy.spawn, policy.allow.unix), (Network::None, false, false));
    assert!(policy.pipes && policy.limits.processes == Some(PROCESSES));
    assert!(data.is_dir());
}

#[test]
fn grants_widen_it_by_what_they_name() {
    let place = Place::new();
    let shared = place.path("home/shared").display().to_string();
    let policy = place.granted(&[
        ("fs.read", list(&["~/.ssh"])),
        ("fs.write", list(&[&shared])),
        ("net.connect", list(&["rules.example.com:443", "*.example.org"])),
        ("proc.exec", Allow::Flag(true)),
        ("output.filter", Allow::Flag(true)),
    ]);
    assert!(policy.writable.contains(&place.path("home/shared")));
    let reads = vec![place.path("home/.ssh"), place.path("home/plugin")];
    assert_eq!(policy.reads, Reads::Only(reads));
    assert!(policy.spawn);
    let Network::Hosts(hosts) = policy.network else { panic!("{:?}", policy.network) };
    assert_eq!(hosts.len(), 2);
    assert_eq!(place.granted(&[("net.connect", Allow::Flag(true))]).network, Network::Open);
}

#[test]
fn what_cannot_be_granted_is_refused_with_its_name() {
    let place = Place::new();
    let home = place.path("home").display().to_string();
    for (grant, fragment) in [
        (("fs.read", list(&["relative"])), "not an absolute path"),
        (("fs.read", list(&["/no/such"])), "/no/such"),
        (("fs.write", list(&[&home])), "your home directory"),
        (("net.connect", list(&["x.example.com:22"])), "443"),
        (("net.connect", list(&["*"])), "every host"),
    ] {
        let probe = able(&[], 7, 1000);
        let failed = place.profiled(&probe, Enforcement::Advisory, Format::Native, &[grant]);
        let text = failed.err().expect("refused").to_string();
        assert!(text.contains(fragment), "{text}");
    }
}

#[test]
fn the_level_is_the_strongest_there_is_and_never_below_what_is_accepted() {
    let place = Place::new();
    let spaces = [Layer::UserNamespace, Layer::MountNamespace, Layer::PidNamespace];
    let all = [Layer::UserNamespace, Layer::Seccomp];
    use Enforcement::{Advisory, Enforced, Partial};
    for (probe, level, found) in [
        (able(&[], 7, 1000), Level::Full, Enforced),
        (able(&[], 7, 0), Level::Full, Enforced),
        (able(&[Layer::Landlock], 0, 1000), Level::Full, Partial),
        (able(&spaces, 7, 1000), Level::Reduced, Partial),
        (able(&spaces, 7, 0), Level::Bare, Advisory),
        (able(&all, 7, 1000), Level::Bare, Advisory),
    ] {
        for &least in Enforcement::ALL {
            let profiled = place.profiled(&probe, least, Format::Datawatch, &[]);
            match profiled {
                Ok(profiled) => {
                    assert!(found >= least);
                    assert_eq!((profiled.launch.plan.steps.level, profiled.level), (level, found));
                }
                Err(ProfileError::TooWeak { found: told, .. }) => {
                    assert!(told == found && found < least);
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn allowed_hosts_need_the_level_that_holds_them() {
    let place = Place::new();
    let grants = [("net.connect", list(&["rules.example.com"]))];
    let reduced = able(&[Layer::UserNamespace], 7, 1000);
    let weak = place.profiled(&reduced, Enforcement::Partial, Format::Native, &grants);
    assert!(matches!(weak, Err(ProfileError::TooWeak { found: Enforcement::Advisory, .. })));
    let advisory =
        place.profiled(&reduced, Enforcement::Advisory, Format::Native, &grants).unwrap();
    assert_eq!(advisory.launch.reach, None);
    let full = able(&[], 7, 1000);
    let full = place.profiled(&full, Enforcement::Enforced, Format::Native, &grants).unwrap();
    assert_eq!(full.launch.reach.unwrap().hosts.len(), 1);
}

#[test]
fn its_environment_is_its_own_and_ours_and_nothing_inherited() {
    let place = Place::new();
    let probe = able(&[], 7, 1000);
    let profiled = place.profiled(&probe, Enforcement::Enforced, Format::Datawatch, &[]).unwrap();
    let launch = profiled.launch;
    let names: Vec<_> = launch.env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    let expected = [
        "TOKEN",
        "LANG",
        "PATH",
        "HOME",
        "GREENROOM_PLUGIN",
        "GREENROOM_PLUGIN_ROOT",
        "GREENROOM_PLUGIN_DATA",
    ];
    assert_eq!(names, expected);
    assert!(!format!("{launch:?}").contains("secret"));
    assert_eq!(launch.terms, Terms::DATAWATCH);
    assert_eq!(launch.argv, [place.path("home/plugin/main").into_os_string(), "x".into()]);
    assert!(launch.plan.policy.spawn);
}

#[test]
fn words_come_back() {
    for &level in Enforcement::ALL {
        assert_eq!(Enforcement::named(level.word()), Some(level));
    }
    assert_eq!(Enforcement::named("full"), None);
}
