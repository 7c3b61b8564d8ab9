//! A caged program's life: it starts, sees what it should, ends as it ends.

use greenroom_sandbox::policy::Level;

use crate::cage::{User, World};

#[test]
fn hello() {
    eprintln!("{:#?}", greenroom_sandbox::probe::probe());
    for user in User::all() {
        let world = World::new(user);
        let outcome = world.sh(Level::Full, "tty; id -u; pwd");
        outcome.ok();
    }
    let world = World::new(User::Ordinary);
    let outcome = world.sh(Level::Reduced, "tty; id -u; pwd; ls /; cat ../home/.ssh/id; cat ../out/file; echo x > ../out/file; echo > /tmp/xx");
    eprintln!("{outcome:?}");
}
