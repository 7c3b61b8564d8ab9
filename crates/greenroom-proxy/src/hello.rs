//! The server name in a TLS hello. Pure; reads what comes before any encryption, and nothing else.

/// A hello with every extension of our days fits into a quarter of this.
pub(crate) const HELLO_MAX: usize = 64 * 1024;

/// The longest record TLS allows, with room for what old versions added.
const RECORD_MAX: usize = 16 * 1024 + 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The hello is not whole yet.
    More,
    /// It names this server.
    Name(String),
    /// It is no hello, or names no server, or two.
    Bad(&'static str),
}

/// Looks at what a client sent first.
pub(crate) fn server_name(bytes: &[u8]) -> Hello {
    match handshake(bytes) {
        Ok(Some(message)) => match name_in(&message) {
            Ok(Some(name)) => Hello::Name(name),
            Ok(None) => Hello::Bad("the TLS hello names no server"),
            Err(why) => Hello::Bad(why),
        },
        Ok(None) if bytes.len() >= HELLO_MAX => Hello::Bad("the TLS hello is too long"),
        Ok(None) => Hello::More,
        Err(why) => Hello::Bad(why),
    }
}

/// The first handshake message, put together from its records.
fn handshake(bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    const NOT_TLS: &str = "not TLS: only TLS passes on this port";
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(first) = rest.first()
            && *first != 22
        {
            return Err(NOT_TLS);
        }
        if rest.get(1).is_some_and(|major| *major != 3) {
            return Err(NOT_TLS);
        }
        let [_, _, _, high, low, after @ ..] = rest else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > RECORD_MAX {
            return Err(NOT_TLS);
        }
        let part = &after[..after.len().min(length)];
        message.extend_from_slice(part);
        if message.first().is_some_and(|kind| *kind != 1) {
            return Err("not a TLS client hello");
        }
        if let [_, a, b, c, body @ ..] = message.as_slice() {
            let wanted = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if wanted > HELLO_MAX {
                return Err("the TLS hello is too long");
            }
            if body.len() >= wanted {
                return Ok(Some(body[..wanted].to_vec()));
            }
        }
        if part.len() < length {
            return Ok(None);
        }
        rest = &after[length..];
    }
}

const BROKEN: &str = "the TLS hello is broken";

fn name_in(message: &[u8]) -> Result<Option<String>, &'static str> {
    let mut read = Read(message);
    read.take(2 + 32)?;
    read.prefixed(1)?;
    read.prefixed(2)?;
    read.prefixed(1)?;
    if read.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Read(read.prefixed(2)?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.prefixed(2)?;
        if kind != 0 {
            continue;
        }
        if found.is_some() {
            return Err("the TLS hello names two servers");
        }
        let mut list = Read(Read(content).prefixed(2)?);
        let kind = list.number(1)?;
        let name = list.prefixed(2)?;
        if kind != 0 || !list.0.is_empty() {
            return Err("the TLS hello names no host, or several");
        }
        found = Some(std::str::from_utf8(name).map_err(|_| BROKEN)?.to_owned());
    }
    Ok(found)
}

struct Read<'a>(&'a [u8]);

impl<'a> Read<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        if self.0.len() < count {
            return Err(BROKEN);
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, &'static str> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn prefixed(&mut self, bytes: usize) -> Result<&'a [u8], &'static str> {
        let count = self.number(bytes)?;
        self.take(count)
    }
}
