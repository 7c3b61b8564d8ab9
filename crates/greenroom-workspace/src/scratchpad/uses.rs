//! Who uses a scratchpad: one file per session, beside the directory and not in it.

use std::io;
use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;
use serde::{Deserialize, Serialize};

use crate::disk::{gone, if_there, private_dir};

/// One session's use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Where the session sees the directory.
    pub link: PathBuf,
}

pub struct Uses {
    dir: PathBuf,
}

impl Uses {
    /// `…/scratchpads/NAME` has its notes in `…/scratchpads/.uses/NAME/`.
    pub fn of(scratchpad: &Path) -> Uses {
        let parent = scratchpad.parent().unwrap_or(Path::new("/"));
        Uses { dir: parent.join(".uses").join(scratchpad.file_name().unwrap_or_default()) }
    }

    pub fn add(&self, id: SessionId, one: &Use) -> io::Result<()> {
        private_dir(&self.dir)?;
        let text = serde_json::to_vec(one).map_err(io::Error::other)?;
        std::fs::write(self.dir.join(id.to_string()), text)
    }

    pub fn remove(&self, id: SessionId) -> io::Result<()> {
        gone(std::fs::remove_file(self.dir.join(id.to_string())))
    }

    pub fn all(&self) -> io::Result<Vec<(SessionId, Use)>> {
        let Some(entries) = if_there(std::fs::read_dir(&self.dir))? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A file that cannot be read (a host died while it wrote) still counts as a use.
            let text = std::fs::read(entry.path())?;
            let one = serde_json::from_slice(&text).unwrap_or(Use { link: PathBuf::new() });
            all.push((id, one));
        }
        Ok(all)
    }

    /// Nobody uses it any more. A scratchpad that is not empty stays.
    pub fn forget(&self) {
        let _ = std::fs::remove_dir(&self.dir);
    }
}
