//! Making a worktree, or taking up one that was kept.
//!
//! Each step that leaves something is recorded before; dying between any two leaves what `end` can
//! finish.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use greenroom_engine::SessionId;

use super::check::there;
use super::end::Outcome;
use super::error::WorktreeError;
use super::record::{Phase, Record, VERSION, make_dir};
use super::slug::{Slug, check_prefix, fnv, repo_key};
use super::{Lock, Worktrees, lock, pointers};
use crate::git::{Oid, Repo, RepoPaths};

/// What a session asks for.
pub struct Request<'a> {
    pub session: SessionId,
    pub base: Option<&'a str>,
    /// For setup commands.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// The session will be in a sandbox, which must not be handed a way to write outside of it.
    pub confined: bool,
}

/// Where it would be.
#[derive(Clone, Debug)]
pub struct Target {
    pub slug: Slug,
    pub branch: String,
    pub path: PathBuf,
    pub record: PathBuf,
    pub place: RepoPaths,
    pub(super) staging: PathBuf,
    /// Where in the repository the user asked to start.
    below: PathBuf,
}

/// A worktree a session can start in.
#[derive(Clone, Debug)]
pub struct Made {
    pub path: PathBuf,
    /// In it, as deep as the user was in their checkout.
    pub cwd: PathBuf,
    pub branch: String,
    pub common_dir: PathBuf,
    pub admin_dir: PathBuf,
    pub resumed: bool,
    /// The first of ten.
    pub port: Option<u16>,
    /// Names patterns of links we made, for the session's git.
    pub excludes: Option<PathBuf>,
    pub notes: Vec<String>,
}

impl Worktrees {
    /// Finds the repository and says where the worktree would be. Nothing is made.
    pub fn target(&self, cwd: &Path, slug: &str) -> Result<Target, WorktreeError> {
        check_prefix(&self.config.now().prefix)?;
        let slug = Slug::parse(slug)?;
        let place = RepoPaths::find(cwd)?;
        let root = real(&self.root);
        for path in [&place.common_dir, &place.git_dir, &root] {
            if path.to_str().is_none() {
                return Err(WorktreeError::NotUtf8 { path: path.clone() });
            }
        }
        let cwd = cwd.canonicalize().map_err(WorktreeError::io("find", cwd))?;
        let below = place.top.as_ref().and_then(|top| cwd.strip_prefix(top).ok());
        let dir = root.join(repo_key(&place.common_dir, place.top.as_deref()));
        Ok(Target {
            branch: format!("{}{}", self.config.now().prefix, slug.as_str()),
            path: dir.join(slug.flat()),
            record: dir.join(".records").join(format!("{}.json", slug.flat())),
            staging: dir.join(".staging").join(slug.flat()),
            below: below.unwrap_or(Path::new("")).to_owned(),
            slug,
            place,
        })
    }

    /// Whether [`Worktrees::make`] would take up what is there, or begin anew. Nothing is made.
    pub fn foresee(
        &self,
        target: &Target,
        base: Option<&str>,
    ) -> Result<Option<Oid>, WorktreeError> {
        if let Some(record) = Record::load(&target.record)? {
            self.refuse_live(&record, None)?;
            return Ok(None);
        }
        let repo = source_repo(&target.place)?;
        let base = find_base(&repo, &target.place, base)?;
        refuse_taken(&repo, target)?;
        Ok(Some(base))
    }

    pub fn make(&self, target: &Target, request: &Request<'_>) -> Result<Made, WorktreeError> {
        let locked = lock(&target.place.common_dir)?;
        let known = match Record::load(&target.record)? {
            Some(record) => self.take_up(&locked, record, target, request)?,
            None => None,
        };
        let (record, mut made) = match known {
            Some(record) => {
                let mut made = made_of(&record, target, true);
                made.notes.push(format!(
                    "resumed worktree {} on {}",
                    target.slug.as_str(),
                    record.branch
                ));
                if request.base.is_some() {
                    made.notes.push("--base was not used: the branch has begun already".into());
                }
                (record, made)
            }
            None => self.create(&locked, target, request)?,
        };
        if self.config.now().ports {
            self.steps.at("before ports")?;
            let wish = fnv(record.path.as_os_str().as_encoded_bytes());
            made.port = Some(self.with_ports(|ports| ports.lease(request.session, wish))?);
        }
        drop(locked);
        if made.resumed {
            return Ok(made);
        }
        self.finish_making(record, target, request, &made)?;
        Ok(made)
    }

    fn refuse_live(
        &self,
        record: &Record,
        session: Option<SessionId>,
    ) -> Result<(), WorktreeError> {
        match record.session {
            Some(id) if Some(SessionId(id)) != session && self.is_alive(id) => {
                let session = SessionId(id).to_string();
                Err(WorktreeError::Live { slug: record.slug.clone(), session })
            }
            _ => Ok(()),
        }
    }

    /// What is there, for this session; `None` if nothing of it is left.
    fn take_up(
        &self,
        lock: &Lock,
        mut record: Record,
        target: &Target,
        request: &Request<'_>,
    ) -> Result<Option<Record>, WorktreeError> {
        self.refuse_live(&record, Some(request.session))?;
        if record.common_dir != target.place.common_dir {
            return Err(WorktreeError::PathTaken { path: target.path.clone() });
        }
        if record.phase != Phase::Ready || !there(&record.path) {
            if let Outcome::Removed { .. } =
                self.settle(Some(lock), &target.record, record, Vec::new())?
            {
                return Ok(None);
            }
            match Record::load(&target.record)? {
                Some(left) => record = left,
                None => return Ok(None),
            }
        }
        let refuse = |why: String| {
            let slug = target.slug.as_str().to_owned();
            Err(WorktreeError::NotResumable { slug, why, path: target.path.clone() })
        };
        let admin_dir = pointers::admin_dir(&record)?;
        if !there(&record.path) {
            if admin_dir.is_some() {
                let source = record.source.display();
                return refuse(format!(
                    "its directory is gone (git -C {source} worktree prune, then again)"
                ));
            }
            return self.revive(lock, record, target, request).map(Some);
        }
        let changed = pointers::differences(&record, admin_dir.as_deref(), true);
        if let Some(first) = changed.first() {
            return refuse(first.clone());
        }
        if admin_dir.is_none() {
            return refuse("the repository has forgotten it".into());
        }
        record.session = Some(request.session.0);
        record.kept.clear();
        self.steps.at("before resuming")?;
        record.save(&target.record)?;
        Ok(Some(record))
    }

    /// The directory is gone but the branch has work: it is checked out again.
    fn revive(
        &self,
        lock: &Lock,
        mut record: Record,
        target: &Target,
        request: &Request<'_>,
    ) -> Result<Record, WorktreeError> {
        let repo = Repo::open(&record.common_dir)?.holding(lock);
        record.session = Some(request.session.0);
        record.kept.clear();
        record.admin_dir = None;
        record.pointers = None;
        record.ours.clear();
        record.phase = Phase::Creating;
        record.save(&target.record)?;
        self.steps.at("before adding again")?;
        repo.add_worktree(&record.path, &record.branch)?;
        self.read_pointers(&mut record, target)?;
        record.phase = Phase::Ready;
        record.save(&target.record)?;
        Ok(record)
    }

    fn create(
        &self,
        lock: &Lock,
        target: &Target,
        request: &Request<'_>,
    ) -> Result<(Record, Made), WorktreeError> {
        let source = source_repo(&target.place)?.holding(lock);
        let base = find_base(&source, &target.place, request.base)?;
        refuse_taken(&source, target)?;
        let has_stash = source.refs()?.iter().any(|one| one.name == "refs/stash");
        let stashes = if has_stash { source.stashes()? } else { Vec::new() };
        for dir in [&target.path, &target.record] {
            make_dir(dir.parent().expect("below the root"))?;
        }
        let made_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut record = Record {
            version: VERSION,
            nonce: format!("{}-{:x}", request.session, made_at.as_nanos()),
            slug: target.slug.as_str().to_owned(),
            branch: target.branch.clone(),
            path: target.path.clone(),
            source: target.place.top.clone().unwrap_or_else(|| target.place.common_dir.clone()),
            common_dir: target.place.common_dir.clone(),
            admin_dir: None,
            base: base.clone(),
            phase: Phase::Creating,
            pointers: None,
            ours: Vec::new(),
            stashes: stashes.into_iter().map(|stash| stash.oid).collect(),
            session: Some(request.session.0),
            kept: Vec::new(),
            made_at: made_at.as_secs(),
        };
        self.steps.at("before the record")?;
        record.save(&target.record)?;
        self.steps.at("before the branch")?;
        let reason = format!("greenroom worktree {}", record.nonce);
        source.create_branch(&record.branch, &base, &reason)?;
        self.steps.at("before the worktree")?;
        source.add_worktree(&record.path, &record.branch)?;
        self.read_pointers(&mut record, target)?;
        let mut made = made_of(&record, target, false);
        if target.place.shallow {
            made.notes.push("the clone is shallow: history ends where it was cut".into());
        }
        if source.blob(base.as_str(), ".gitattributes")?.is_some_and(|text| has_filter(&text)) {
            made.notes.push(
                "filters (git lfs and the like) were not run: git lfs pull, or a setup command"
                    .into(),
            );
        }
        self.fill(&mut record, target, request, &mut made)?;
        Ok((record, made))
    }

    fn read_pointers(&self, record: &mut Record, target: &Target) -> Result<(), WorktreeError> {
        self.steps.at("before the pointers")?;
        let (admin_dir, read) = pointers::read_new(record)?;
        record.admin_dir = Some(admin_dir);
        record.pointers = Some(read);
        record.phase = Phase::Filling;
        record.save(&target.record)
    }
}

impl Made {
    /// Variables the session gets.
    pub fn env(&self) -> BTreeMap<OsString, OsString> {
        let mut env = BTreeMap::new();
        env.insert("GREENROOM_WORKTREE".into(), self.path.clone().into());
        env.insert("GREENROOM_BRANCH".into(), self.branch.clone().into());
        if let Some(first) = self.port {
            env.insert("GREENROOM_PORT".into(), first.to_string().into());
            for number in 0..super::PORTS {
                let name = format!("GREENROOM_PORT_{number}");
                env.insert(name.into(), (first + number).to_string().into());
            }
        }
        env
    }
}

fn made_of(record: &Record, target: &Target, resumed: bool) -> Made {
    let admin_dir = record.admin_dir.clone().expect("recorded with the pointers");
    let deep = record.path.join(&target.below);
    let mut notes = Vec::new();
    let cwd = if deep.is_dir() {
        deep
    } else {
        notes.push(format!(
            "{} is not in {}: started at its top",
            target.below.display(),
            record.branch
        ));
        record.path.clone()
    };
    let file = exclude_file(&admin_dir);
    Made {
        path: record.path.clone(),
        cwd,
        branch: record.branch.clone(),
        common_dir: record.common_dir.clone(),
        excludes: (resumed && there(&file)).then_some(file),
        admin_dir,
        resumed,
        port: None,
        notes,
    }
}

pub(super) fn has_filter(attributes: &[u8]) -> bool {
    attributes.windows(7).any(|part| part == b"filter=")
}

pub(super) fn exclude_file(admin_dir: &Path) -> PathBuf {
    admin_dir.join("info").join("exclude")
}

/// The user's checkout, whose HEAD is the default base.
pub(super) fn source_repo(place: &RepoPaths) -> Result<Repo, WorktreeError> {
    Ok(match &place.top {
        Some(top) => Repo::open_tree(&place.common_dir, &place.git_dir, top)?,
        None => Repo::open(&place.common_dir)?,
    })
}

fn find_base(repo: &Repo, place: &RepoPaths, base: Option<&str>) -> Result<Oid, WorktreeError> {
    let at = place.top.as_ref().unwrap_or(&place.common_dir);
    match (repo.commit(base.unwrap_or("HEAD"))?, base) {
        (Some(oid), _) => Ok(oid),
        (None, None) => Err(WorktreeError::NoCommit { repo: at.clone() }),
        (None, Some(base)) => {
            let (base, repo) = (base.to_owned(), at.clone());
            Err(WorktreeError::Base { base, repo, shallow: place.shallow })
        }
    }
}

fn refuse_taken(repo: &Repo, target: &Target) -> Result<(), WorktreeError> {
    let name = format!("refs/heads/{}", target.branch);
    if repo.refs()?.iter().any(|one| one.name == name) {
        let (branch, slug) = (target.branch.clone(), target.slug.as_str().to_owned());
        return Err(WorktreeError::BranchTaken { branch, slug });
    }
    if there(&target.path) {
        return Err(WorktreeError::PathTaken { path: target.path.clone() });
    }
    Ok(())
}

/// The real path of something whose end may not exist yet.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}
