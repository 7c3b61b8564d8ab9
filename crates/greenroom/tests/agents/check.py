#!/usr/bin/env python3
"""Real agents in a sandbox: `make test-agents`. Claude Code and Codex start, work and resume inside of `--sandbox` with their own
state, as root and as an ordinary user; afterwards the agents outside are logged in, also after a token was refreshed inside, and
nothing of theirs has changed. Talks to a scripted model (`model.py`), so no account is needed."""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from model import Model, chatgpt_token

HOST = "model.example.com"
UID = 61002
PATIENCE = 120


class Trial:
    def __init__(self, greenroom, prefix, uid):
        self.uid = uid
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gr-real-agents-", dir="/var/tmp")).resolve()
        self.model = Model()
        for name in ["home/.claude", "home/.codex", "work", "host", "bin"]:
            (self.dir / name).mkdir(parents=True)
        shutil.copy(greenroom, self.dir / "bin/greenroom")
        self.env = {
            "HOME": str(self.dir / "home"), "GREENROOM_HOME": str(self.dir / "host"), "LANG": "C.UTF-8",
            "PATH": f"{self.dir}/bin:{prefix}/node_modules/.bin:/usr/local/bin:/usr/bin:/bin",
            "GREENROOM_PROXY_NAMES": f"{HOST}=127.0.0.1:{self.model.port}",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "TERM": "xterm-256color",
        }
        work = str(self.dir / "work")
        self.put("home/.claude.json", {
            "hasCompletedOnboarding": True, "theme": "dark", "projects": {work: {"hasTrustDialogAccepted": True}},
        })
        hook = [{"hooks": [{"type": "command", "command": "greenroom hook --agent claude"}]}]
        self.put("home/.claude/settings.json", {"hooks": {"PreToolUse": hook, "Stop": hook}})
        self.put("home/.claude/CLAUDE.md", "Be brief.\n")
        self.put("home/.claude/.credentials.json", {"claudeAiOauth": {
            "accessToken": "sk-ant-oat01-first", "refreshToken": "sk-ant-ort01-first", "expiresAt": ms(3600),
            "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
        }})
        self.put("home/.codex/config.toml", self.codex_config(work))
        token = chatgpt_token("first", -60)
        ago = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=30)
        self.put("home/.codex/auth.json", {
            "OPENAI_API_KEY": None, "auth_mode": "chatgpt", "last_refresh": ago.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "tokens": {"id_token": token, "access_token": token, "refresh_token": "refresh-token-first",
                       "account_id": "acct-1"},
        })
        for path in [self.dir, *self.dir.rglob("*")]:
            os.chown(path, uid, uid)

    @staticmethod
    def codex_config(work):
        return f"""model = "gpt-5"
model_provider = "scripted"
check_for_update_on_startup = false
cli_auth_credentials_store = "file"
[model_providers.scripted]
name = "scripted"
base_url = "http://{HOST}/v1"
wire_api = "responses"
requires_openai_auth = true
[projects."{work}"]
trust_level = "trusted"
[features]
daemon_auto_start = false
"""

    def put(self, name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        (self.dir / name).write_text(text)

    def read(self, name):
        path = self.dir / name
        return path.read_text() if path.exists() else ""

    def json(self, name):
        return json.loads(self.read(name) or "{}")

    def run(self, argv, **more):
        env = {**self.env, **more}
        user = {} if self.uid == os.geteuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}
        done = subprocess.run(argv, cwd=self.dir / "work", env=env, capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, **user)
        return done

    def greenroom(self, *args, **more):
        done = self.run(["greenroom", *args], **more)
        if done.returncode != 0:
            raise AssertionError(f"greenroom {' '.join(args)}: {done.returncode} {done.stdout} {done.stderr}")
        return done.stdout.strip()

    def inside(self, *argv, flags=()):
        """Runs an agent in a sandbox to its end; answers its screen."""
        variables = [f"ANTHROPIC_BASE_URL=http://{HOST}", f"CODEX_REFRESH_TOKEN_URL_OVERRIDE=http://{HOST}/oauth/token"]
        given = [word for variable in variables for word in ("--env", variable)]
        session = self.greenroom("new", "--size", "160x48", "--sandbox", "--allow-host", HOST, "--allow-http", *given,
                                 *flags, "--", *argv)
        self.greenroom("wait", session, "--until", "exit", "--timeout", "90s")
        screen = self.greenroom("read", session)
        said = f"{argv}: {self.greenroom('info', session)}\n{screen}"
        return screen, said

    def outside(self, *argv):
        """Runs an agent without a sandbox, with a straight way to the model."""
        home = f"http://127.0.0.1:{self.model.port}"
        config = self.read("home/.codex/config.toml")
        argv = [word.replace("{url}", home) for word in argv]
        done = self.run(argv, ANTHROPIC_BASE_URL=home, CODEX_REFRESH_TOKEN_URL_OVERRIDE=f"{home}/oauth/token")
        assert self.read("home/.codex/config.toml") == config
        return f"{done.returncode} {done.stdout} {done.stderr}"

    def believed(self):
        """What agents outside run or believe."""
        names = ["home/.claude.json", "home/.claude/settings.json", "home/.claude/CLAUDE.md", "home/.codex/config.toml"]
        entries = [str(path) for path in (self.dir / "home").rglob("*")]
        return [self.read(name) for name in names], sorted(entries)

    def close(self):
        self.run(["greenroom", "shutdown"])
        self.model.shutdown()
        shutil.rmtree(self.dir, ignore_errors=True)


def ms(seconds):
    return int((time.time() + seconds) * 1000)


def expect(what, good, said=""):
    print(f"  {'ok    ' if good else 'FAILED'} {what}", flush=True)
    if not good:
        print(said)
        raise SystemExit(1)


def claude(trial):
    work, before = trial.dir / "work", trial.believed()
    _, said = trial.inside("claude", "-p", f"WRITE {work}/hello.txt", "--permission-mode", "acceptEdits")
    expect("claude starts and writes a file", trial.read("work/hello.txt") == "written\n", said)
    alone = trial.model.last("anthropic")["messages"]
    expect("it uses the login", "sk-ant-oat01-first" in trial.model.last("anthropic")["token"], said)
    _, said = trial.inside("bash", "-c", "claude --continue -p 'RUN echo ran > ran.txt' --allowedTools Bash")
    expect("claude runs a command", trial.read("work/ran.txt") == "ran\n", said)
    expect("it resumes", trial.model.last("anthropic")["messages"] > alone, said)
    events = [json.loads(line) for line in trial.greenroom("events", "--json").splitlines()]
    tools = [it["data"]["data"].get("tool_name") for it in events if it["kind"] == "agent.event"]
    expect("its hooks are heard", "Bash" in tools and "Write" in tools, str(events))
    expect("nothing that agents outside believe has changed", trial.believed() == before, str(trial.believed()))
    fresh = {"claudeAiOauth": {**trial.json("home/.claude/.credentials.json")["claudeAiOauth"], "expiresAt": ms(7200),
                               "accessToken": "sk-ant-oat01-second", "refreshToken": "sk-ant-ort01-second"},
             "apiKeyHelper": "touch planted"}
    trial.put("work/fresh.json", fresh)
    # As the agent does it: a new file over the old one.
    script = f"cp fresh.json ~/.claude/.new && mv ~/.claude/.new ~/.claude/.credentials.json && claude -c -p 'WRITE {work}/again.txt' --allowedTools Write"
    _, said = trial.inside("sh", "-c", script)
    login = trial.json("home/.claude/.credentials.json")
    expect("a token refreshed inside is the user's", login["claudeAiOauth"]["refreshToken"] == "sk-ant-ort01-second", said)
    expect("and nothing else is", "apiKeyHelper" not in login, str(login))
    said = trial.outside("claude", "-p", f"WRITE {work}/outside.txt", "--permission-mode", "acceptEdits")
    expect("claude outside is logged in", "sk-ant-oat01-second" in trial.model.last("anthropic")["token"], said)
    expect("and works", trial.read("work/outside.txt") == "written\n", said)


def codex(trial):
    config = trial.read("home/.codex/config.toml")
    run = ["codex", "exec", "--dangerously-bypass-approvals-and-sandbox"]
    _, said = trial.inside(*run, "WRITE codex.txt")
    expect("codex starts and writes a file", trial.read("work/codex.txt") == "written\n", said)
    expect("it refreshed its token inside", trial.model.refreshed == 1, said)
    tokens = trial.json("home/.codex/auth.json")["tokens"]
    expect("which is the user's", tokens["refresh_token"] == "refresh-token-refreshed-1", str(tokens))
    alone = trial.model.last("openai")["messages"]
    _, said = trial.inside("codex", "exec", "resume", "--last", "--dangerously-bypass-approvals-and-sandbox",
                           "RUN echo again > codex2.txt")
    expect("codex resumes and runs a command", trial.read("work/codex2.txt") == "again\n", said)
    expect("with its conversation", trial.model.last("openai")["messages"] > alone, said)
    expect("its settings are as they were", trial.read("home/.codex/config.toml") == config)
    left = sorted(path.name for path in (trial.dir / "home/.codex").iterdir())
    expect("nothing is left outside", left == ["auth.json", "config.toml"], str(left))
    said = trial.outside(*run, "-c", "model_providers.scripted.base_url=\"{url}/v1\"", "WRITE codex3.txt")
    expect("codex outside is logged in and works", trial.read("work/codex3.txt") == "written\n", said)
    expect("without another refresh", trial.model.refreshed == 1, said)
    _, said = trial.inside("codex", "exec", "--skip-git-repo-check", "WRITE codex5.txt")
    expect("codex needs no flag: this sandbox holds its commands", trial.read("work/codex5.txt") == "written\n", said)
    # Its own directories are there now, as in any home it was used in.
    _, said = trial.inside(*run, "WRITE codex4.txt")
    expect("codex starts beside what it left outside", trial.read("work/codex4.txt") == "written\n", said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--greenroom", required=True)
    parser.add_argument("--prefix", required=True)
    args = parser.parse_args()
    users = [UID, 0] if os.geteuid() == 0 else [os.geteuid()]
    for uid in users:
        for agent in (claude, codex):
            print(f"{agent.__name__} as {'root' if uid == 0 else 'an ordinary user'}", flush=True)
            trial = Trial(args.greenroom, os.path.abspath(args.prefix), uid)
            try:
                agent(trial)
            finally:
                trial.close()
    print("real agents: all good")


sys.exit(main())
