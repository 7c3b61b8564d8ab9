//! Where a program is looked for, as execvp does: in, its name and a PATH; out, the paths to try in order. For processes
//! that may not allocate once they could look for themselves.

/// An empty element is the working directory; no PATH at all is the system's default one.
pub fn candidates(program: &[u8], path: Option<&[u8]>) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    path.unwrap_or(b"/bin:/usr/bin")
        .split(|byte| *byte == b':')
        .map(|dir| match dir {
            b"" => [b"./", program].concat(),
            dir => [dir, b"/", program].concat(),
        })
        .collect()
}
