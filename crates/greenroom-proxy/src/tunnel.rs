//! One connection of a session, from its first byte to its last.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::flow;
use super::hello::{self, Hello};
use super::log::Decisions;
use super::outside::{DialError, Outside};
use super::request::{self, Head, Plain};
use super::rules::{Allowed, Kind, Rules, shown};
use super::socks::{self, Reply};
use greenroom_sandbox::policy::normalise;

/// A program that wants to connect says where within this; a slow one holds a place that others
/// need.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// What every connection of one session goes through.
pub(crate) struct Proxy {
    pub rules: Rules,
    pub outside: Outside,
    pub decisions: Decisions,
}

/// The program's side, with what it has sent and nobody has used yet.
struct Inside {
    stream: TcpStream,
    read: Vec<u8>,
    deadline: Instant,
}

/// A connection ended before bytes went through. What there is to say of that is in the log.
struct Ended;

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Ended {
        Ended
    }
}

impl Proxy {
    pub(crate) async fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let deadline = Instant::now() + HEAD_PATIENCE;
        let mut inside = Inside { stream, read: Vec::new(), deadline };
        if inside.more(1).await.is_err() {
            return;
        }
        let _ = match inside.read.first() {
            Some(&socks::VERSION) => self.socks(inside).await,
            _ => self.http(inside).await,
        };
    }

    async fn http(&self, mut inside: Inside) -> Result<(), Ended> {
        let head = loop {
            match request::parse(&inside.read) {
                Ok(Some((head, length))) => {
                    inside.read.drain(..length);
                    break head;
                }
                Ok(None) => inside.more(request::HEAD_MAX).await?,
                Err(bad) => {
                    self.decisions.denied("a request", &bad.to_string());
                    return inside.answer("400 Bad Request", &bad.to_string()).await;
                }
            }
        };
        match head {
            Head::Connect { host, port } => {
                let outside = match self.way_to(&host, port, Kind::Tls).await {
                    Ok(way) => way,
                    Err(refusal) => return inside.answer(refusal.status, &refusal.why).await,
                };
                inside.stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                self.tls(inside, outside).await
            }
            Head::Plain(plain) => self.plain(inside, plain).await,
        }
    }

    async fn socks(&self, mut inside: Inside) -> Result<(), Ended> {
        let (answer, length) = loop {
            match socks::greeting(&inside.read) {
                Some(found) => break found,
                None => inside.more(socks::GREETING_MAX).await?,
            }
        };
        inside.read.drain(..length);
        match answer {
            Ok(answer) => inside.stream.write_all(&answer).await?,
            Err(answer) => return Ok(inside.stream.write_all(&answer).await?),
        }
        let (asked, length) = loop {
            match socks::request(&inside.read) {
                Some(found) => break found,
                None => inside.more(socks::REQUEST_MAX).await?,
            }
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err((reply, why)) => {
                self.decisions.denied("a SOCKS request", why);
                return Ok(inside.stream.write_all(&reply.bytes()).await?);
            }
        };
        inside.read.drain(..length);
        let outside = match self.way_to(&asked.host, asked.port, Kind::Tls).await {
            Ok(way) => way,
            Err(refusal) => return Ok(inside.stream.write_all(&refusal.reply.bytes()).await?),
        };
        inside.stream.write_all(&Reply::Granted.bytes()).await?;
        self.tls(inside, outside).await
    }

    /// Decides, and dials what was decided on.
    async fn way_to(
        &self,
        host: &str,
        port: u16,
        kind: Kind,
    ) -> Result<(Allowed, TcpStream), Refusal> {
        let denied = |what: &str, why: String| {
            self.decisions.denied(what, &why);
            Refusal { status: "403 Forbidden", reply: Reply::NotAllowed, why }
        };
        let allowed = self.rules.decide(host, port, kind).map_err(|no| denied(&no.what, no.why))?;
        let what = format!("{}:{}", allowed.host, allowed.port);
        match self.outside.dial(&allowed).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                self.decisions.allowed(&what);
                Ok((allowed, stream))
            }
            Err(error @ DialError::Private { .. }) => Err(denied(&what, error.to_string())),
            Err(error) => {
                let why = error.to_string();
                self.decisions.failed(&what, &why);
                Err(Refusal { status: "502 Bad Gateway", reply: Reply::HostUnreachable, why })
            }
        }
    }

    /// Lets bytes through once the hello names the host that was asked for.
    async fn tls(&self, mut inside: Inside, way: (Allowed, TcpStream)) -> Result<(), Ended> {
        let (allowed, mut outside) = way;
        inside.deadline = Instant::now() + HEAD_PATIENCE;
        let name = loop {
            match hello::server_name(&inside.read) {
                Hello::Name(name) => break Ok(name),
                Hello::Bad(why) => break Err(why),
                Hello::More => inside.more(hello::HELLO_MAX).await?,
            }
        };
        let what = format!("{}:{}", allowed.host, allowed.port);
        let wrong = match name {
            Ok(name) if normalise(&name).is_ok_and(|name| name == allowed.host) => None,
            Ok(name) => Some(format!("the TLS hello names {} instead", shown(&name))),
            Err(why) => Some(why.to_owned()),
        };
        if let Some(why) = wrong {
            self.decisions.denied(&what, &why);
            return Err(Ended);
        }
        outside.write_all(&inside.read).await?;
        inside.read = Vec::new();
        Ok(flow::both(&inside.stream, &outside).await?)
    }

    /// One plain request and its answer; nothing else goes over that connection.
    async fn plain(&self, inside: Inside, plain: Plain) -> Result<(), Ended> {
        let (_, mut outside) = match self.way_to(&plain.host, plain.port, Kind::Plain).await {
            Ok(way) => way,
            Err(refusal) => return inside.answer(refusal.status, &refusal.why).await,
        };
        outside.write_all(&plain.head).await?;
        let had = plain.body.min(inside.read.len() as u64);
        outside.write_all(&inside.read[..usize::try_from(had).unwrap_or(0)]).await?;
        let (near, far) = (&inside.stream, &outside);
        let body = async {
            flow::up_to(near, far, plain.body - had).await?;
            // The server's answer ends the connection; the program's silence does not.
            std::future::pending::<io::Result<()>>().await
        };
        tokio::select! {
            sent = body => sent?,
            answered = flow::to_the_end(far, near) => answered?,
        }
        Ok(())
    }
}

/// What a program is told whose connection is not made, by HTTP and by SOCKS.
struct Refusal {
    status: &'static str,
    reply: Reply,
    why: String,
}

impl Inside {
    /// Reads what is there, until `most` bytes are waiting or time is up.
    async fn more(&mut self, most: usize) -> Result<(), Ended> {
        let mut chunk = [0; 4096];
        let room = (most + 1).saturating_sub(self.read.len()).min(chunk.len());
        if room == 0 {
            return Err(Ended);
        }
        let read = timeout_at(self.deadline, self.stream.read(&mut chunk[..room]));
        match read.await {
            Ok(Ok(count)) if count > 0 => {
                self.read.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            _ => Err(Ended),
        }
    }

    async fn answer(mut self, status: &str, why: &str) -> Result<(), Ended> {
        let body = format!("greenroom: {why}\n");
        let text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(text.as_bytes()).await?;
        Ok(self.stream.shutdown().await?)
    }
}
