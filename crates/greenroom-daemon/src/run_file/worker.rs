//! One try of one worker: making its session, telling it what to do, seeing its end.
//!
//! In: the plan of a worker and which try it is. Out: the facts the machine wants. A worker's session
//! is an ordinary one, found again after a restart by its labels; so whatever is asked here may be
//! asked twice.
//! Deliberately absent: what follows from a failure.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::egress::{Sight, Sink};
use greenroom_engine::process::ExitStatus;
use greenroom_engine::store::RecordState;
use greenroom_engine::transcript::plain;
use greenroom_engine::wait::{Matcher, WaitError, WaitFor};
use greenroom_engine::{EngineError, Seq, SessionHandle};
use greenroom_plugins::spec::EndedHow;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::session::CreateParams;
use greenroom_protocol::connector::file::PromptVia;
use greenroom_protocol::connector::models::Candidate;
use greenroom_protocol::connector::plan::{PlannedPhase, PlannedWorker};

use super::dialogue::{self, Said};
use super::files::{RunDir, Written};
use super::machine::{Ending, Event, Job};
use super::{sessions, typing};
use crate::chains;
use crate::convert;
use crate::host::Host;
use crate::methods::redact;

/// One wait lasts at most this long; it is begun again until the session ends.
const WAIT_AGAIN: Duration = Duration::from_secs(3600);

/// A speaker that stays has finished when its screen rests for this long after it answered.
const ANSWERED: Duration = Duration::from_millis(1500);

/// Labels by which a worker's session is found again.
const RUN: &str = "run";
const PHASE: &str = "phase";
const WORKER: &str = "worker";
const ATTEMPT: &str = "attempt";

/// Everything about one try.
#[derive(Clone)]
pub struct Try {
    pub host: Arc<Host>,
    pub written: Arc<Written>,
    pub dir: RunDir,
    pub job: Job,
    pub attempt: u32,
    pub candidate: usize,
    /// The session this try has.
    pub session: Option<String>,
    /// A session of an earlier turn of the same speaker.
    pub before: Option<String>,
    pub cancelled: bool,
}

impl Try {
    /// The first try of every worker.
    pub fn all(host: &Arc<Host>, written: &Arc<Written>, dir: &RunDir) -> Vec<Try> {
        let jobs = written.plan.phases.iter().enumerate().flat_map(|(phase, planned)| {
            (0..planned.workers.len()).map(move |worker| Job { phase, worker })
        });
        let one = |job| Try {
            host: host.clone(),
            written: written.clone(),
            dir: dir.clone(),
            job,
            attempt: 1,
            candidate: 0,
            session: None,
            before: None,
            cancelled: false,
        };
        jobs.map(one).collect()
    }

    fn phase(&self) -> &PlannedPhase {
        &self.written.plan.phases[self.job.phase]
    }

    pub fn worker(&self) -> &PlannedWorker {
        &self.phase().workers[self.job.worker]
    }

    fn candidate(&self) -> Option<&Candidate> {
        self.worker().candidates.get(self.candidate)
    }

    pub fn is_typed(&self) -> bool {
        self.candidate().is_some_and(|candidate| candidate.prompt_via == PromptVia::Stdin)
    }

    /// A speaker whose session goes on after its turn.
    pub fn stays(&self) -> bool {
        self.worker().turn.is_some() && self.is_typed()
    }

    /// What to say to it.
    pub fn prompt(&self) -> Option<String> {
        let worker = self.worker();
        match &worker.turn {
            None => worker.prompt.clone(),
            Some(turn) => {
                let (topic, said) = (worker.prompt.as_deref(), self.said(self.job.worker));
                Some(dialogue::prompt(topic, turn, &said, self.stays()))
            }
        }
    }

    /// What was said before this turn.
    fn said(&self, before: usize) -> Vec<Said> {
        let turns = self.phase().workers.iter().take(before).enumerate();
        let said = turns.filter_map(|(index, worker)| {
            let turn = worker.turn.as_ref()?;
            let text = self.dir.answer(Job { worker: index, ..self.job })?;
            Some(Said { speaker: turn.speaker.clone(), round: turn.round, text })
        });
        said.collect()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let pairs = [
            (RUN, self.written.run.clone()),
            (PHASE, self.phase().name.clone()),
            (WORKER, self.worker().name.clone()),
            (ATTEMPT, self.attempt.to_string()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn params(&self) -> CreateParams {
        let session = &self.worker().session;
        let mut command = self.candidate().map(|candidate| candidate.command.clone());
        let prompt = self.prompt();
        if let (Some(command), Some(prompt), false) = (&mut command, &prompt, self.is_typed()) {
            command.push(prompt.clone());
        }
        let cwd = Path::new(&self.written.cwd).join(session.cwd.as_deref().unwrap_or(""));
        let again = if self.attempt > 1 { format!(".{}", self.attempt) } else { String::new() };
        CreateParams {
            command,
            cwd: Some(cwd.to_string_lossy().into_owned()),
            env: session.env.0.clone(),
            inherit_env: self.written.inherit_env.clone(),
            name: Some(format!("{}{again}", session.name)),
            labels: self.labels(),
            task: prompt,
            timeout_ms: session.timeout_ms,
            idle_timeout_ms: session.idle_timeout_ms,
            worktree: session.worktree.clone(),
            sandbox: session.sandbox.clone(),
            scratchpad: session.scratchpad.clone(),
            run: Some(self.written.run.clone()),
            ..CreateParams::default()
        }
    }

    /// What the session would be, for a dry run.
    pub fn would_be(&self) -> CreateParams {
        CreateParams { dry_run: true, name: None, ..self.params() }
    }

    /// The session of this try that an earlier daemon made.
    async fn exists(&self) -> Option<SessionHandle> {
        let labels = self.labels();
        let ours = |handle: &SessionHandle| {
            let record = handle.info().record;
            labels.iter().all(|(name, value)| record.labels.get(name) == Some(value))
        };
        let handle = self.host.engine.handles().into_iter().find(ours)?;
        // The daemon died after it wrote the record and before it asked for a process: no pid.
        if let RecordState::Ended { pid: 0, status: ExitStatus::Unknown, .. } =
            handle.info().record.state
        {
            if let Err(error) = chains::remove(&self.host, &handle).await {
                tracing::warn!(session = %handle.id(), %error, "removing one that never ran");
            }
            return None;
        }
        Some(handle)
    }

    /// Makes the session, unless there is one.
    pub async fn start(self) -> Event {
        let job = self.job;
        if let Some(handle) = self.exists().await.or_else(|| self.still_there()) {
            return self.started(&handle);
        }
        if self.cancelled {
            return Event::NotStarted { job, why: "the run was cancelled".into(), missing: false };
        }
        let params = self.params();
        let mut made = sessions::start(&self.host, params.clone()).await;
        if made.as_ref().is_err_and(|fault| fault.kind() == FaultKind::Conflict) {
            // Somebody has the name; a worker does not need it.
            made = sessions::start(&self.host, CreateParams { name: None, ..params }).await;
        }
        match made {
            Ok(handle) => self.started(&handle),
            Err(fault) => {
                let missing = fault.kind() == FaultKind::SpawnFailed;
                Event::NotStarted { job, why: fault.message, missing }
            }
        }
    }

    /// The session in which this speaker spoke before.
    fn still_there(&self) -> Option<SessionHandle> {
        let handle = self.host.engine.find(self.before.as_deref()?).ok()?;
        handle.change().ended.is_none().then_some(handle)
    }

    fn started(&self, handle: &SessionHandle) -> Event {
        let chain = self.host.chains.look(handle.id());
        let branch = chain.and_then(|file| file.branch().map(str::to_owned));
        Event::Started { job: self.job, session: handle.id().to_string(), branch }
    }

    /// Tells it what to do, if that is not done, and waits until it is through.
    pub async fn watch(self) -> Event {
        let job = self.job;
        let handle = self.session.as_deref().and_then(|id| self.host.engine.find(id).ok());
        let ending = match handle {
            Some(handle) => self.work(&handle).await,
            None => failed("its session was removed"),
        };
        Event::Ended { job, ending }
    }

    async fn work(&self, handle: &SessionHandle) -> Ending {
        let mut since = None;
        if self.is_typed()
            && let Some(prompt) = self.prompt()
        {
            match typing::type_once(self, handle, &prompt).await {
                Ok(seq) => since = Some(seq),
                Err(why) if handle.change().ended.is_none() => {
                    sessions::end(&self.host, handle).await;
                    return failed(&why);
                }
                // How it ended says more.
                Err(_) => {}
            }
        }
        let until = self.worker().until.as_ref().map(convert::matcher::matcher);
        let mut ending = match (until, self.stays()) {
            (Some(Err(fault)), _) => failed(&fault.message),
            (Some(Ok(matcher)), stays) => self.until(handle, matcher, since, stays).await,
            (None, true) => {
                let rests = Matcher::ScreenStable { min: ANSWERED };
                self.until(handle, rests, since, true).await
            }
            (None, false) => self.exit(handle).await,
        };
        if ending.ok && self.worker().turn.is_some() {
            self.keep_answer(handle, since, &mut ending).await;
        }
        ending
    }

    async fn until(
        &self,
        handle: &SessionHandle,
        matcher: Matcher,
        since: Option<Seq>,
        stays: bool,
    ) -> Ending {
        loop {
            let (matcher, sight) = (matcher.clone(), Sight::Masked);
            let wait = WaitFor { matcher, since, timeout: WAIT_AGAIN, sight };
            match handle.wait(wait).await {
                Ok(_) if stays => return Ending { ok: true, ..Ending::default() },
                Ok(_) => {
                    sessions::end(&self.host, handle).await;
                    let exit = self.exit(handle).await.exit;
                    return Ending { ok: true, exit, why: None };
                }
                Err(WaitError::Timeout(_)) => {}
                Err(WaitError::Ended { .. }) => {
                    let ending = self.exit(handle).await;
                    let why =
                        ending.why.or_else(|| Some("it ended before its condition held".into()));
                    // A speaker may leave after its last words.
                    return Ending { ok: stays && ending.ok, why, ..ending };
                }
                Err(error) => return failed(&error.to_string()),
            }
        }
    }

    /// The end of the program, and of what its plugins do after it.
    async fn exit(&self, handle: &SessionHandle) -> Ending {
        self.host.ends.of(handle).await;
        chains::settled(&self.host, handle).await;
        let Some(status) = handle.change().ended else { return failed("its session was removed") };
        let timed_out = self.host.chains.look(handle.id()).is_some_and(|file| {
            matches!(file.how_it_ended(EndedHow::Exited(status)), EndedHow::TimedOut(_))
        });
        let why = match status {
            _ if timed_out => Some("its time was up".to_owned()),
            ExitStatus::Code(0) => None,
            ExitStatus::Code(code) => Some(format!("it exited with status {code}")),
            ExitStatus::Signal(number) => {
                Some(format!("it was killed by {}", convert::signal::full_name(number)))
            }
            ExitStatus::Unknown => Some("it was lost: nobody saw its end".to_owned()),
        };
        Ending { ok: why.is_none(), exit: Some(convert::exit(status)), why }
    }

    async fn keep_answer(&self, handle: &SessionHandle, since: Option<Seq>, ending: &mut Ending) {
        let from = since.unwrap_or(Seq(0));
        let printed = async {
            // What filters have not answered for is not heard, so they get some time.
            let tail = handle.tail().await?;
            let deadline = tokio::time::Instant::now() + redact::patience(None);
            let behind = handle.caught_up(Sink::Transcript, tail, deadline).await;
            let page = handle.output(from, 4 * dialogue::ANSWER_MAX).await?;
            Ok::<_, EngineError>((page, behind))
        };
        let printed = match printed.await {
            Ok((page, 0)) => plain(page.bytes.get()),
            Ok((_, behind)) => {
                *ending = failed(&format!("filters did not answer for {behind} bytes it said"));
                return;
            }
            Err(error) => {
                *ending = failed(&format!("cannot read what it said: {error}"));
                return;
            }
        };
        let text = dialogue::answer(&printed);
        let kept = self.dir.write_answer(self.job, &text).and_then(|()| {
            let topic = self.worker().prompt.as_deref();
            let protocol = dialogue::protocol(topic, &self.said(self.job.worker + 1));
            let name = format!("dialogue-{}.md", self.job.phase + 1);
            super::files::replace(&self.written.scratchpad, &name, protocol.as_bytes())
        });
        if let Err(error) = kept {
            *ending = failed(&format!("cannot keep what it said: {error}"));
        }
    }
}

fn failed(why: &str) -> Ending {
    Ending { ok: false, exit: None, why: Some(why.to_owned()) }
}
