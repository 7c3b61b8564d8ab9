//! What a plugin may change of a session that is about to start: the one table, and the one place
//! that asks it.
//!
//! In: what a plugin wants changed, what it was allowed, and whether the session will be confined.
//! Out: the changes that are changes, or why none of them is made: a plugin that oversteps has
//! failed, and its failure policy says what follows. Every way by which a plugin changes a start
//! goes through [`checked`]. Deliberately absent: how a change is carried out.

use greenroom_formats::manifest::{Allowed, Hook, HookName};
use serde_json::{Map, Value};

use super::shape::Decision;
use crate::runtime::CallFailure;
use crate::runtime::verdict::shown;

/// The capability without which nothing of a start is changed.
pub const CAPABILITY: &str = "session.transform";

/// Variables that decide which code runs, or that are ours: no plugin sets or removes them. By
/// family; a name with `*` at its end or its beginning stands for all that begin or end so.
pub const FIXED: &[(&str, &str)] = &[
    (
        "shells, and where programs are found",
        "PATH CDPATH HOME SHELL IFS ENV BASH_* BASHOPTS SHELLOPTS EXECIGNORE PS0 PS1 PS2 PS3 PS4 \
         PROMPT RPROMPT RPS1 PROMPT_COMMAND ZDOTDIR FPATH fish_* INPUTRC HISTFILE",
    ),
    (
        "the loader and libraries",
        "LD_* DYLD_* GCONV_PATH GLIBC_TUNABLES LOCPATH NLSPATH HOSTALIASES RESOLV_HOST_CONF \
         OPENSSL_* KRB5_CONFIG SASL_PATH GTK_* GIO_* GST_* QT_* QML* MAGICK_*",
    ),
    (
        "programs that others start",
        "EDITOR VISUAL PAGER BROWSER FCEDIT MANPAGER LESS* *_EDITOR *_PAGER *_BROWSER *_ASKPASS \
         SSH_ASKPASS* GIT_* SVN_* HG HG* RSYNC_* TAR_OPTIONS GROFF_* MANOPT GNUPGHOME GPG_* FZF_* \
         TMUX_TMPDIR SCREENRC",
    ),
    (
        "scripting languages",
        "PYTHON* PIP_* PIPENV_* PIPX_* POETRY_* UV_* VIRTUAL_ENV CONDA_* MAMBA_* JUPYTER_* \
         IPYTHONDIR PYENV_* PERL* RUBY* GEM_* BUNDLE_* RBENV_* IRBRC NODE_* npm_* NPM_* YARN_* \
         PNPM_* BUN_* DENO_* NVM_* COREPACK_* VOLTA_* ELECTRON_* TS_NODE_* PHPRC PHP_* COMPOSER_* \
         LUA_* R_* TCLLIBPATH TCL_* GUILE_* JULIA_* OCTAVE_* AWKPATH AWKLIBPATH PSModulePath",
    ),
    (
        "compiled languages and virtual machines",
        "JAVA_* _JAVA_OPTIONS JDK_* CLASSPATH MAVEN_* M2_HOME GRADLE_* ANT_* SBT_* SCALA_* KOTLIN_* \
         GROOVY_* LEIN_* DOTNET_* COMPlus_* CORECLR_* NUGET_* MONO_* MSBUILD* RUST* CARGO CARGO_* \
         GOFLAGS GOENV GOROOT GOPATH GOBIN GOPROXY GOSUMDB GONOSUMDB GOINSECURE GOPRIVATE GOWORK \
         GOTOOL* GOMODCACHE CGO_* ERL_* ELIXIR_* MIX_* HEX_* REBAR_* OCAML* CAML* OPAM* DUNE_* GHC* \
         STACK_* CABAL_* SWIFT_* DART_* PUB_*",
    ),
    (
        "compilers and what builds",
        "CC CXX CPP LD AR AS NM RANLIB STRIP FC F77 HOSTCC HOSTCXX *FLAGS CPATH C_INCLUDE_PATH \
         CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_* CCC_* CCACHE_* SCCACHE_* DISTCC_* \
         PKG_CONFIG* ACLOCAL* AUTOM4TE* CMAKE_* CTEST_* MESON* NINJA* BAZEL* MAKE MAKEFILES MAKE_*",
    ),
    (
        "agents, and tools whose settings name programs or servers",
        "CLAUDE_* CODEX_* GEMINI_* OPENCODE_* AIDER_* GOOSE_* QWEN_* KUBECONFIG KUBE_* HELM_* \
         DOCKER_* BUILDKIT_* BUILDX_* COMPOSE_* PODMAN_* CONTAINER_* CONTAINERS_* AWS_CONFIG_FILE \
         AWS_SHARED_CREDENTIALS_FILE AZURE_CONFIG_DIR CLOUDSDK_* BOTO_CONFIG TF_* ANSIBLE_* \
         VAGRANT_* PACKER_* PULUMI_* GH_CONFIG_DIR GH_PATH GLAB_* NIX_* ASDF_* MISE_* DIRENV_* \
         SDKMAN_* RIPGREP_CONFIG_PATH BAT_* ACKRC CURL_HOME WGETRC NETRC PSQLRC PGSERVICEFILE \
         PGSYSCONFDIR MYSQL_* ODBC* VIM VIMRUNTIME VIMINIT MYVIMRC NVIM_* EXINIT EMACSLOADPATH \
         EMACSPATH STARSHIP_*",
    ),
    ("places of settings", "XDG_* TERMINFO* TERMCAP DBUS_* MAILCAPS"),
    ("greenroom's own", "GREENROOM_*"),
];

/// Fields that say where and what a confined session is: its fence was agreed to as it is.
const FENCED: &[&str] = &[
    "project_dir",
    "cwd",
    "argv",
    "argv_wrap",
    "command",
    "writable_paths",
    "writable",
    "backend",
];

/// Whether no plugin may touch a variable.
pub fn is_fixed(name: &str) -> bool {
    let fixed = FIXED.iter().flat_map(|(_, names)| names.split_whitespace());
    fixed.into_iter().any(|fixed| match (fixed.strip_suffix('*'), fixed.strip_prefix('*')) {
        (Some(prefix), _) => name.starts_with(prefix),
        (_, Some(suffix)) => name.ends_with(suffix),
        _ => name == fixed,
    })
}

/// What is known of the session and of the plugin that wants to change its start.
pub struct Start<'a> {
    /// What the plugins were told.
    pub told: &'a Map<String, Value>,
    pub grants: &'a Allowed,
    /// A sandbox will be around it.
    pub confined: bool,
}

/// Lets a decision about a start pass, without what is no change, or says why it is refused.
pub fn checked(
    hook: HookName,
    start: &Start<'_>,
    decision: Decision,
) -> Result<Decision, CallFailure> {
    let Decision::Change(fields) = decision else { return Ok(decision) };
    if hook.hook != Hook::SessionBefore {
        return Ok(Decision::Change(fields));
    }
    let changes = differing(start.told, fields);
    if changes.is_empty() {
        return Ok(Decision::Pass);
    }
    let names: Vec<String> = changes.keys().map(|name| shown(name)).collect();
    let refused = |what: String| Err(CallFailure::NotAllowed(what));
    // datawatch's contract lets its hook change a start; whoever agreed to it was told so.
    let allowed = hook.datawatch || start.grants.get(CAPABILITY).is_some_and(|allow| allow.any());
    if !allowed {
        let names = names.join(", ");
        return refused(format!("to change {names} of a start: it lacks {CAPABILITY}"));
    }
    if let Some(Value::Object(env)) = changes.get("env")
        && let Some((name, value)) = env.iter().find(|(name, _)| is_fixed(name))
    {
        let (verb, name) = (if value.is_null() { "remove" } else { "set" }, shown(name));
        return refused(format!("to {verb} the variable {name}: it decides what runs"));
    }
    if start.confined
        && let Some(name) = FENCED.iter().find(|name| changes.contains_key(**name))
    {
        return refused(format!("to change {name} of a confined session"));
    }
    Ok(Decision::Change(changes))
}

/// What differs from what was told; of labels and variables name by name.
fn differing(told: &Map<String, Value>, fields: Map<String, Value>) -> Map<String, Value> {
    let changed = |(name, value): (String, Value)| match (told.get(&name), value) {
        (Some(old), new) if *old == new => None,
        (Some(Value::Object(old)), Value::Object(new)) => {
            let new: Map<String, Value> =
                new.into_iter().filter(|(key, value)| old.get(key) != Some(value)).collect();
            (!new.is_empty()).then_some((name, Value::Object(new)))
        }
        (None, Value::Object(new)) if new.is_empty() => None,
        (_, new) => Some((name, new)),
    };
    fields.into_iter().filter_map(changed).collect()
}

#[cfg(test)]
mod tests {
    use greenroom_formats::manifest::Allow;
    use serde_json::json;

    use super::*;

    fn check(
        granted: bool,
        datawatch: bool,
        confined: bool,
        fields: Value,
    ) -> Result<Value, String> {
        let told = json!({ "task": "t", "project_dir": "/p", "labels": { "a": "1" } });
        let mut grants = Allowed::new();
        grants.insert(CAPABILITY.to_owned(), Allow::Flag(granted));
        let start = Start { told: told.as_object().unwrap(), grants: &grants, confined };
        let hook = HookName { hook: Hook::SessionBefore, datawatch };
        let change = Decision::Change(fields.as_object().unwrap().clone());
        match checked(hook, &start, change) {
            Ok(Decision::Change(fields)) => Ok(Value::Object(fields)),
            Ok(Decision::Pass) => Ok(json!({})),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn nothing_is_changed_without_the_capability() {
        for fields in [
            json!({ "task": "x" }),
            json!({ "labels": { "a": "2" } }),
            json!({ "env": { "A": "b" } }),
        ] {
            let said = check(false, false, false, fields.clone()).unwrap_err();
            assert!(said.contains("session.transform"), "{said}");
            assert!(check(true, false, false, fields.clone()).is_ok());
            assert!(check(false, true, false, fields).is_ok(), "datawatch's contract");
        }
        // To say again what was told is no change.
        let same = json!({ "task": "t", "project_dir": "/p", "labels": { "a": "1" }, "env": {} });
        assert_eq!(check(false, false, true, same), Ok(json!({})));
    }

    #[test]
    fn what_runs_code_is_nobodys() {
        let fixed = [
            "PATH",
            "HOME",
            "SHELL",
            "IFS",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "ENV",
            "PS1",
            "PS4",
            "PROMPT_COMMAND",
            "LD_PRELOAD",
            "LD_",
            "DYLD_INSERT_LIBRARIES",
            "GIT_SSH",
            "SSH_ASKPASS",
            "EDITOR",
            "VISUAL",
            "PAGER",
            "BROWSER",
            "PYTHONPATH",
            "PERL5LIB",
            "RUBYOPT",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "CARGO_HOME",
            "XDG_CONFIG_HOME",
            "ZDOTDIR",
            "TERMINFO",
            "GREENROOM_SESSION_KEY",
        ];
        let more = "MAKEFILES DOTNET_STARTUP_HOOKS R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER \
             PHPRC PHP_INI_SCAN_DIR OPENSSL_CONF OPENSSL_MODULES GOFLAGS CC CXX LD CLASSPATH \
             JAVA_HOME _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS GEM_HOME GEM_PATH \
             BUNDLE_GEMFILE LUA_PATH LUA_CPATH LUA_INIT LUA_INIT_5_4 ERL_FLAGS ERL_AFLAGS \
             ELIXIR_ERL_OPTIONS FCEDIT SUDO_EDITOR SUDO_ASKPASS CLAUDE_CONFIG_DIR CODEX_HOME \
             GEMINI_CLI_HOME KUBECONFIG DOCKER_HOST DOCKER_CONFIG AWS_CONFIG_FILE MANPAGER \
             LESSOPEN LESSCLOSE GCONV_PATH LOCPATH NIX_PATH VIRTUAL_ENV CONDA_PREFIX TCLLIBPATH \
             GUILE_LOAD_PATH OCAMLPATH OCAMLRUNPARAM VIMINIT EXINIT INPUTRC HISTFILE \
             RIPGREP_CONFIG_PATH npm_config_script_shell NPM_CONFIG_PREFIX YARN_RC_FILENAME \
             PIP_INDEX_URL UV_INDEX CFLAGS MAKEFLAGS RUSTFLAGS GIT_EDITOR KUBE_EDITOR GH_PAGER \
             XDG_DATA_DIRS PERLLIB";
        for name in fixed.into_iter().chain(more.split_whitespace()) {
            for value in [json!("x"), Value::Null] {
                for datawatch in [true, false] {
                    let said =
                        check(true, datawatch, false, json!({ "env": { "A": "b", name: value } }));
                    assert!(said.unwrap_err().contains(name), "{name}");
                }
            }
        }
        let free = json!({ "env": {
            "path": "x", "MY_PATH": "x", "NODE": "x", "PYTHO": null, "CCX": "x", "LANG": "C", "TZ": "UTC", "GOAL": "x",
            "API_KEY": "x", "AWS_PROFILE": "x", "PORT": "1",
        }});
        assert_eq!(check(true, false, true, free.clone()), Ok(free));
    }

    #[test]
    fn the_reference_lists_every_one() {
        let reference = include_str!("../../../../docs/hooks-reference.md");
        for (family, names) in FIXED {
            assert!(reference.contains(&format!("| {family} | `{names}` |")), "{family}");
        }
    }

    #[test]
    fn a_fence_stays_where_it_was_agreed_to() {
        for datawatch in [true, false] {
            // An agent's name gives it its state and the hosts of its model.
            for moved in [json!({ "project_dir": "/other" }), json!({ "backend": "claude" })] {
                assert!(
                    check(true, datawatch, true, moved.clone()).unwrap_err().contains("confined")
                );
                assert_eq!(check(true, datawatch, false, moved.clone()), Ok(moved));
            }
        }
    }
}
