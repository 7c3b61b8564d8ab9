//! A caged program's life: it starts, sees what it should, ends as it ends.

use greenroom_sandbox::policy::Level;

use crate::cage::{User, World};

#[test]
fn hello() {
    for user in User::all() {
        let world = World::new(user);
        let outcome = world.sh(Level::Full, "tty; id -u; pwd; ls -la /tmp /dev/shm / ; cat /proc/self/status | grep -i -E 'cap|nonew|secc'; mount | tail -40");
        println!("{outcome:?}");
        println!("{}", outcome.text);
        outcome.ok();
    }
}
