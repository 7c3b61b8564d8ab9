//! One attempt of one worker: making its session, telling it what to do, seeing its end.
//!
//! In: the plan of a worker and the number of the attempt. Out: the events the machine wants. A
//! worker's session is an ordinary one, found again after a restart by its labels; so whatever is
//! asked here may be asked twice. `typing` types the prompt; `dialogue` writes what a speaker is
//! told, and keeps what it said. Deliberately absent: what follows from a failure.

mod dialogue;
mod typing;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::egress::{Secrets, Sink};
use greenroom_engine::process::ExitStatus;
use greenroom_engine::store::RecordState;
use greenroom_engine::transcript::plain;
use greenroom_engine::wait::{Matcher, WaitError, WaitFor};
use greenroom_engine::{EngineError, Seq, SessionHandle};
use greenroom_formats::connector::file::PromptVia;
use greenroom_formats::connector::models::Candidate;
use greenroom_formats::connector::plan::{PlannedPhase, PlannedWorker};
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::screen::PATIENCE_MS;
use greenroom_protocol::api::session::{About, CreateParams};

use self::dialogue::Said;
use crate::files::{self, RunDir, RunRequest};
use crate::machine::{Ending, Event, Job};
use crate::{Ended, Terminals};

/// One wait lasts at most this long; it is begun again until the session ends.
const WAIT_AGAIN: Duration = Duration::from_secs(3600);

/// A speaker that stays has finished when its screen rests for this long after it answered.
const ANSWERED: Duration = Duration::from_millis(1500);

/// Everything about one attempt.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub terminals: Arc<dyn Terminals>,
    pub request: Arc<RunRequest>,
    pub dir: RunDir,
    pub job: Job,
    /// From 1.
    pub number: u32,
    pub candidate: usize,
    /// The session this attempt has.
    pub session: Option<String>,
    /// A session of an earlier turn of the same speaker.
    pub before: Option<String>,
    pub cancelled: bool,
}

impl Attempt {
    /// The first attempt of every worker.
    pub(crate) fn first_of_all(
        terminals: &Arc<dyn Terminals>,
        request: &Arc<RunRequest>,
        dir: &RunDir,
    ) -> Vec<Attempt> {
        let jobs = request.plan.phases.iter().enumerate().flat_map(|(phase, planned)| {
            (0..planned.workers.len()).map(move |worker| Job { phase, worker })
        });
        let one = |job| Attempt {
            terminals: terminals.clone(),
            request: request.clone(),
            dir: dir.clone(),
            job,
            number: 1,
            candidate: 0,
            session: None,
            before: None,
            cancelled: false,
        };
        jobs.map(one).collect()
    }

    fn phase(&self) -> &PlannedPhase {
        &self.request.plan.phases[self.job.phase]
    }

    pub(crate) fn worker(&self) -> &PlannedWorker {
        &self.phase().workers[self.job.worker]
    }

    fn candidate(&self) -> Option<&Candidate> {
        self.worker().candidates.get(self.candidate)
    }

    pub(crate) fn is_typed(&self) -> bool {
        self.candidate().is_some_and(|candidate| candidate.prompt_via == PromptVia::Stdin)
    }

    /// A speaker whose session goes on after its turn.
    pub(crate) fn stays(&self) -> bool {
        self.worker().turn.is_some() && self.is_typed()
    }

    pub(crate) fn prompt(&self) -> Option<String> {
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

    /// Labels by which a worker's session is found again.
    fn labels(&self) -> BTreeMap<String, String> {
        let pairs = [
            ("run", self.request.run.clone()),
            ("phase", self.phase().name.clone()),
            ("worker", self.worker().name.clone()),
            ("attempt", self.number.to_string()),
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
        let cwd = Path::new(&self.request.cwd).join(session.cwd.as_deref().unwrap_or(""));
        let again = if self.number > 1 { format!(".{}", self.number) } else { String::new() };
        CreateParams {
            command,
            cwd: Some(cwd.to_string_lossy().into_owned()),
            inherit_env: self.request.inherit_env.clone(),
            name: Some(format!("{}{again}", session.name)),
            labels: self.labels(),
            task: prompt,
            ask: session.ask.clone(),
            run: Some(self.request.run.clone()),
            ..CreateParams::default()
        }
    }

    /// What the session would be, for a dry run.
    pub(crate) fn would_be(&self) -> CreateParams {
        CreateParams { dry_run: true, name: None, ..self.params() }
    }

    /// The session of this attempt that an earlier daemon made.
    async fn exists(&self) -> Option<SessionHandle> {
        let labels = self.labels();
        let ours = |handle: &SessionHandle| {
            let about = About::read(&handle.info().record.about);
            labels.iter().all(|(name, value)| about.labels.get(name) == Some(value))
        };
        let handle = self.terminals.all().into_iter().find(ours)?;
        // The daemon died after it wrote the record and before it asked for a process: no pid.
        if let RecordState::Ended { pid: 0, status: ExitStatus::Unknown, .. } =
            handle.info().record.state
        {
            if let Err(error) = self.terminals.remove(&handle).await {
                tracing::warn!(session = %handle.id(), %error, "removing one that never ran");
            }
            return None;
        }
        Some(handle)
    }

    /// Makes the session, unless there is one.
    pub(crate) async fn start(self) -> Event {
        let job = self.job;
        if let Some(handle) = self.exists().await.or_else(|| self.still_there()) {
            return self.started(&handle);
        }
        if self.cancelled {
            return Event::NotStarted { job, why: "the run was cancelled".into(), missing: false };
        }
        let params = self.params();
        let mut made = self.terminals.start(params.clone()).await;
        if made.as_ref().is_err_and(|fault| fault.kind() == FaultKind::Conflict) {
            // Another session has the name; a worker does not need it.
            made = self.terminals.start(CreateParams { name: None, ..params }).await;
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
        let handle = self.terminals.find(self.before.as_deref()?)?;
        handle.change().ended.is_none().then_some(handle)
    }

    fn started(&self, handle: &SessionHandle) -> Event {
        let branch = self.terminals.branch(handle.id());
        Event::Started { job: self.job, session: handle.id().to_string(), branch }
    }

    /// Tells it what to do, if that is not done, and waits until it is through.
    pub(crate) async fn watch(self) -> Event {
        let job = self.job;
        let handle = self.session.as_deref().and_then(|id| self.terminals.find(id));
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
                    self.terminals.end(handle).await;
                    return failed(&why);
                }
                // How it ended says more.
                Err(_) => {}
            }
        }
        let until = self.worker().until.as_ref().map(|until| self.terminals.matcher(until));
        let rests = || Ok(Matcher::ScreenStable { min: ANSWERED });
        let mut ending = match until.or_else(|| self.stays().then(rests)) {
            Some(Ok(matcher)) => self.until(handle, matcher, since, self.stays()).await,
            Some(Err(fault)) => failed(&fault.message),
            None => self.exit(handle).await,
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
            if !stays && self.dir.has_held(self.job, self.number) {
                self.terminals.end(handle).await;
                let exit = self.exit(handle).await.exit;
                return Ending { ok: true, exit, why: None };
            }
            let (matcher, secrets) = (matcher.clone(), Secrets::Masked);
            let wait = WaitFor { matcher, since, timeout: WAIT_AGAIN, secrets };
            match handle.wait(wait).await {
                Ok(_) if stays => return Ending { ok: true, ..Ending::default() },
                // Noted first: a daemon that dies while it ends the worker leaves that to the next
                // one.
                Ok(_) => {
                    if let Err(error) = self.dir.write_held(self.job, self.number) {
                        return failed(&error.to_string());
                    }
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
        handle.over().await;
        self.terminals.settled(handle).await;
        let Some(status) = handle.change().ended else { return failed("its session was removed") };
        let Ended { exit, timed_out } = self.terminals.ended(handle.id(), status);
        let why = match (exit.code, &exit.signal) {
            _ if timed_out => Some("its time was up".to_owned()),
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("it exited with status {code}")),
            (None, Some(signal)) => Some(format!("it was killed by {signal}")),
            (None, None) => Some("it was lost: nobody saw its end".to_owned()),
        };
        Ending { ok: why.is_none(), exit: Some(exit), why }
    }

    async fn keep_answer(&self, handle: &SessionHandle, since: Option<Seq>, ending: &mut Ending) {
        let from = since.unwrap_or(Seq(0));
        let printed = async {
            // Output for which filters have not answered is not part of the answer, so they get
            // some time.
            let tail = handle.tail().await?;
            let deadline = tokio::time::Instant::now() + Duration::from_millis(PATIENCE_MS);
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
            files::replace(&self.request.scratchpad.join(name), protocol.as_bytes())
        });
        if let Err(error) = kept {
            *ending = failed(&format!("cannot keep what it said: {error}"));
        }
    }
}

fn failed(why: &str) -> Ending {
    Ending { ok: false, exit: None, why: Some(why.to_owned()) }
}
