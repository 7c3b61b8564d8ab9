use std::time::SystemTime;

use greenroom_engine::SessionId;
use greenroom_protocol::api::ask::{Asked, SandboxAsk, SandboxLevel};
use greenroom_sandbox::layer::Layer;
use greenroom_sandbox::policy::{GitRules, Refs};
use greenroom_sandbox::probe::{Trial, TrialResult};
use serde_json::Value;

use super::*;
use crate::spec::{EndedHow, GitPlace};
use crate::testing::{spec, surroundings};

fn able() -> Probe {
    let trial = |layer: &Layer| Trial { layer: *layer, outcome: TrialResult::Works };
    let trials = Layer::ALL.iter().map(trial).collect();
    Probe { kernel: "6.18".into(), uid: 1000, landlock_abi: 7, trials }
}

struct Stage {
    home: tempfile::TempDir,
    plugin: Sandbox,
}

impl Stage {
    fn new(config: SandboxConfig, probe: Probe) -> Stage {
        let home = tempfile::tempdir().unwrap();
        for dir in ["work", "state", "config", "run", ".ssh", ".claude"] {
            std::fs::create_dir(home.path().join(dir)).unwrap();
        }
        std::fs::write(home.path().join(".claude/settings.json"), "{}").unwrap();
        let plugin = Sandbox::new(config, &surroundings(home.path()), probe.into());
        Stage { home, plugin }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(path)
    }

    fn spec(&self, ask: SandboxAsk) -> SessionSpec {
        let mut spec = spec(5);
        spec.base.cwd = self.at("work");
        spec.project_dir = self.at("work");
        spec.ask.sandbox = Asked::Yes(ask);
        spec
    }
}

#[test]
fn a_worktree_with_everything() {
    let stage = Stage::new(SandboxConfig::default(), able());
    std::fs::create_dir(stage.at("extra")).unwrap();
    std::fs::create_dir_all(stage.at("repo/.git/worktrees/x")).unwrap();
    let mut spec = stage.spec(SandboxAsk {
        allow_hosts: vec!["*.Example.org".into()],
        allow_write: vec!["../extra".into()],
        ..SandboxAsk::default()
    });
    spec.git = Some(GitPlace {
        worktree: stage.at("work"),
        common_dir: stage.at("repo/.git"),
        admin_dir: stage.at("repo/.git/worktrees/x"),
        branch: "greenroom/x".into(),
        resumed: false,
    });
    let Fenced { plan, .. } = stage.plugin.plan(&spec).unwrap();
    let policy = &plan.policy;
    assert_eq!(policy.writable, [stage.at("work"), stage.at("extra")]);
    let hidden = ["config", "run", "state", ".ssh"].map(|path| stage.at(path));
    assert!(hidden.iter().all(|path| policy.hidden.contains(path)), "{:?}", policy.hidden);
    assert_eq!(policy.tmp_dir, stage.at("state/tmp/s5"));
    let shared = Refs::Shared { branch: "greenroom/x".into() };
    assert!(matches!(&policy.git, Some(GitRules::Worktree { refs, .. }) if *refs == shared));
    let summary = policy::summary(policy);
    assert!(summary.starts_with("level full; writes: "), "{summary}");
    assert!(summary.ends_with("network: *.example.org"), "{summary}");
}

#[test]
fn a_known_agent_gets_its_state_and_its_hosts() {
    let stage = Stage::new(SandboxConfig::default(), able());
    let mut spec = stage.spec(SandboxAsk::default());
    spec.base.argv = vec!["/usr/local/bin/claude".into()];
    let Fenced { plan, notes, .. } = stage.plugin.plan(&spec).unwrap();
    assert_eq!(plan.policy.writable, [stage.at("work")], "nothing of the user's");
    let private: Vec<&PathBuf> = plan.policy.private.iter().map(|it| &it.at).collect();
    let pipe = stage.at("state/told/s5");
    assert_eq!(private, [&stage.at(".claude"), &stage.at(".claude.json"), &pipe]);
    let fixed: Vec<&PathBuf> = plan.policy.protected.iter().map(|it| &it.path).collect();
    assert_eq!(fixed, [&stage.at("work/.claude")], "what a later agent believes there");
    let Network::Hosts(hosts) = &plan.policy.network else { panic!("{:?}", plan.policy.network) };
    assert!(hosts.iter().any(|host| host.matches("api.anthropic.com")));
    assert_eq!(
        notes,
        ["claude has a private copy of its state and may use the hosts of its model"]
    );
}

#[test]
fn the_configuration_hides_and_shows() {
    let config = SandboxConfig {
        hide: vec!["~/work2".into()],
        show: vec!["~/.ssh".into(), "~/state".into()],
        ..SandboxConfig::default()
    };
    let stage = Stage::new(config, able());
    std::fs::create_dir(stage.at("work2")).unwrap();
    let hidden = stage.plugin.plan(&stage.spec(SandboxAsk::default())).unwrap().plan.policy.hidden;
    assert!(hidden.contains(&stage.at("work2")) && !hidden.contains(&stage.at(".ssh")));
    assert!(hidden.contains(&stage.at("state")), "ours cannot be shown");
}

#[test]
fn submodules_are_found_below_names_with_slashes() {
    let stage = Stage::new(SandboxConfig::default(), able());
    let module = stage.at("work/.git/modules/libs/deep");
    std::fs::create_dir_all(&module).unwrap();
    for file in ["HEAD", "config"] {
        std::fs::write(module.join(file), "").unwrap();
    }
    let policy = stage.plugin.plan(&stage.spec(SandboxAsk::default())).unwrap().plan.policy;
    let Some(greenroom_sandbox::policy::GitRules::Checkout { modules, .. }) = policy.git else {
        panic!("a checkout: {:?}", policy.git)
    };
    assert_eq!(modules, [module]);
}

#[tokio::test]
async fn refusals_name_the_cause_and_the_fix() {
    let stage = Stage::new(SandboxConfig::default(), able());
    let refuse = |ask: SandboxAsk| stage.plugin.plan(&stage.spec(ask)).err().unwrap();
    let bad = refuse(SandboxAsk { allow_hosts: vec!["10.0.0.1".into()], ..SandboxAsk::default() });
    assert!(bad.what.starts_with("cannot allow the host"), "{bad}");
    let bad = refuse(SandboxAsk {
        level: SandboxLevel::Reduced,
        allow_hosts: vec!["a.example".into()],
        ..SandboxAsk::default()
    });
    assert_eq!(bad.hint.as_deref(), Some("use --sandbox=full, or leave out --allow-host"));
    let bad = refuse(SandboxAsk { allow_write: vec!["~".into()], ..SandboxAsk::default() });
    assert!(bad.what.contains("it is your home directory"), "{bad}");
    let bad = refuse(SandboxAsk { allow_write: vec!["none".into()], ..SandboxAsk::default() });
    assert!(bad.what.contains("No such file"), "{bad}");
    let mut unable = able();
    unable.trials[Layer::UserNamespace as usize].outcome =
        TrialResult::Failed { errno: 1, step: "make a user namespace".into() };
    let stage = Stage::new(SandboxConfig::default(), unable);
    let mut spec = stage.spec(SandboxAsk::default());
    let bad = stage.plugin.dry_run(&mut spec).await.unwrap_err();
    assert!(bad.what.contains("cannot be enforced on this machine"), "{bad}");
    assert!(bad.hint.unwrap().ends_with("more: greenroom sandbox doctor"));
    assert!(spec.base.confinement.is_none());
}

#[tokio::test]
async fn its_tmp_goes_with_it_whatever_is_in_it() {
    let stage = Stage::new(SandboxConfig::default(), able());
    let mut spec = stage.spec(SandboxAsk::default());
    spec.set_env("GREENROOM_SOCKET", "/x");
    let mut state = PluginState::of(Value::Null);
    stage.plugin.before_session(&mut spec, &mut state).await.unwrap();
    assert!(spec.env("GREENROOM_SOCKET").is_none());
    let fence = spec.base.confinement.clone().unwrap();
    assert_eq!((fence.level(), noted(state.value()).unwrap().reach), ("full", None));
    fence.plan(&spec.base).unwrap();
    let tmp = stage.at("state/tmp/s5");
    let pipe = stage.at("state/told/s5");
    let kind = std::os::unix::fs::FileTypeExt::is_fifo;
    assert!(kind(&pipe.symlink_metadata().unwrap().file_type()));
    assert_eq!(noted(state.value()).unwrap().pipe, Some(pipe.clone()));
    std::fs::create_dir_all(tmp.join("a/b")).unwrap();
    std::os::unix::fs::symlink(stage.at("work"), tmp.join("link")).unwrap();
    std::fs::set_permissions(tmp.join("a"), std::os::unix::fs::PermissionsExt::from_mode(0o000))
        .unwrap();
    let end = SessionEnd { id: SessionId(5), how: EndedHow::NeverStarted, at: SystemTime::now() };
    for _ in 0..2 {
        assert_eq!(stage.plugin.after_session(&end, &state).await.unwrap(), Cleanup::Nothing);
    }
    assert!(!tmp.exists() && !pipe.exists() && stage.at("work").exists());
    std::fs::create_dir_all(stage.at("state/tmp/s9")).unwrap();
    sweep(&surroundings(Path::new(stage.home.path())));
    assert!(!stage.at("state/tmp/s9").exists());
}
