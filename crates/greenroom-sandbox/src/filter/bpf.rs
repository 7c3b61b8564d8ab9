//! A classic BPF program for seccomp, from a table of system calls.
//!
//! In: what to do about each number. Out: instructions. The numbers are found by a search tree: the
//! kernel runs the program once per possible call when it is installed, so a list would make every
//! start slower. Arguments are compared in their low 32 bits, as the kernel's own handlers read
//! them; a comparison of all 64 could be walked around by setting the rest. Absent on purpose:
//! which calls matter (`filter.rs`).

/// One instruction, packed: code u16, jt u8, jf u8, k u32.
pub(crate) type Instruction = u64;

const LD_W_ABS: u16 = 0x20;
const ALU_AND_K: u16 = 0x54;
const JMP_JA: u16 = 0x05;
const JMP_JEQ_K: u16 = 0x15;
const JMP_JGE_K: u16 = 0x35;
const JMP_JSET_K: u16 = 0x45;
const RET_K: u16 = 0x06;

/// `struct seccomp_data`.
const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_ALLOW: u32 = 0x7fff_0000;

/// Calls of the x32 interface have this bit; no program we know is built for it.
const X32: u32 = 0x4000_0000;

/// The most the kernel takes.
#[cfg(test)]
pub(crate) const MAX_INSTRUCTIONS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Allow,
    Errno(i32),
}

/// A question about one call, answered by its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Case {
    Always(Act),
    /// The first test that holds decides, otherwise the act at the end.
    Tests(Vec<(Test, Act)>, Act),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    Equals {
        arg: u32,
        value: u32,
    },
    /// `arg & mask == value`.
    Masked {
        arg: u32,
        mask: u32,
        value: u32,
    },
    /// Any bit of the mask.
    AnyBit {
        arg: u32,
        mask: u32,
    },
    /// Both.
    And(Box<Test>, Box<Test>),
}

fn op(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    u64::from(code) | u64::from(jt) << 16 | u64::from(jf) << 24 | u64::from(k) << 32
}

fn ret(act: Act) -> Instruction {
    let value = match act {
        Act::Allow => RET_ALLOW,
        Act::Errno(errno) => RET_ERRNO | (errno as u32 & 0xffff),
    };
    op(RET_K, 0, 0, value)
}

/// The whole program for one machine: other machines' calls kill, x32's do not exist, unlisted
/// numbers are allowed.
pub(crate) fn program(arch: u32, has_x32: bool, mut table: Vec<(u32, Case)>) -> Vec<Instruction> {
    table.sort_by_key(|(number, _)| *number);
    table.dedup_by_key(|(number, _)| *number);
    let mut code = vec![
        op(LD_W_ABS, 0, 0, OFFSET_ARCH),
        op(JMP_JEQ_K, 1, 0, arch),
        op(RET_K, 0, 0, RET_KILL_PROCESS),
        op(LD_W_ABS, 0, 0, OFFSET_NR),
    ];
    if has_x32 {
        code.push(op(JMP_JGE_K, 0, 1, X32));
        code.push(ret(Act::Errno(libc::ENOSYS)));
    }
    code.extend(tree(&table));
    code
}

fn tree(table: &[(u32, Case)]) -> Vec<Instruction> {
    match table {
        [] => vec![ret(Act::Allow)],
        [(number, case)] => {
            let body = case_code(case);
            let mut code = jump_unless(JMP_JEQ_K, *number, body.len());
            code.extend(body);
            code.push(ret(Act::Allow));
            code
        }
        _ => {
            let middle = table.len() / 2;
            let (low, high) = (tree(&table[..middle]), tree(&table[middle..]));
            let mut code = jump_unless(JMP_JGE_K, table[middle].0, high.len());
            code.extend(high);
            code.extend(low);
            code
        }
    }
}

/// Goes on with the next instruction if the comparison holds, else skips `distance` more.
/// Conditional jumps reach 255 only.
fn jump_unless(comparison: u16, k: u32, distance: usize) -> Vec<Instruction> {
    match u8::try_from(distance) {
        Ok(near) => vec![op(comparison, 0, near, k)],
        Err(_) => vec![op(comparison, 1, 0, k), op(JMP_JA, 0, 0, distance as u32)],
    }
}

fn case_code(case: &Case) -> Vec<Instruction> {
    match case {
        Case::Always(act) => vec![ret(*act)],
        Case::Tests(tests, otherwise) => {
            let mut code = Vec::new();
            for (test, act) in tests {
                code.extend(test_code(test, &[ret(*act)]));
            }
            code.push(ret(*otherwise));
            code
        }
    }
}

/// Runs `then` if the test holds, else goes on after it.
fn test_code(test: &Test, then: &[Instruction]) -> Vec<Instruction> {
    let load = |arg: u32| op(LD_W_ABS, 0, 0, OFFSET_ARGS + 8 * arg + LOW_HALF);
    let mut code = match test {
        Test::Equals { arg, value } => {
            let mut code = vec![load(*arg)];
            code.extend(jump_unless(JMP_JEQ_K, *value, then.len()));
            code
        }
        Test::Masked { arg, mask, value } => {
            let mut code = vec![load(*arg), op(ALU_AND_K, 0, 0, *mask)];
            code.extend(jump_unless(JMP_JEQ_K, *value, then.len()));
            code
        }
        Test::AnyBit { arg, mask } => {
            let mut code = vec![load(*arg)];
            code.extend(jump_unless(JMP_JSET_K, *mask, then.len()));
            code
        }
        Test::And(first, second) => return test_code(first, &test_code(second, then)),
    };
    code.extend(then);
    code
}

#[cfg(target_endian = "little")]
const LOW_HALF: u32 = 0;
#[cfg(target_endian = "big")]
const LOW_HALF: u32 = 4;

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the kernel would answer: the value a filter returns.
    pub(crate) fn interpret(code: &[Instruction], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(nr.to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend([0; 8]);
        data.extend(args.iter().flat_map(|arg| arg.to_le_bytes()));
        let (mut at, mut accumulator) = (0, 0_u32);
        loop {
            let word = code[at];
            let (jt, jf, k) = ((word >> 16) as u8, (word >> 24) as u8, (word >> 32) as u32);
            at += 1;
            let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
            match word as u16 {
                LD_W_ABS => {
                    let k = k as usize;
                    accumulator = u32::from_le_bytes(data[k..k + 4].try_into().unwrap());
                }
                ALU_AND_K => accumulator &= k,
                JMP_JA => at += k as usize,
                JMP_JEQ_K => branch(accumulator == k),
                JMP_JGE_K => branch(accumulator >= k),
                JMP_JSET_K => branch(accumulator & k != 0),
                RET_K => return k,
                other => panic!("unknown code {other}"),
            }
        }
    }

    pub(crate) fn answer(code: &[Instruction], nr: u32, args: [u64; 6]) -> Option<i32> {
        match interpret(code, ARCH, nr, args) {
            RET_ALLOW => None,
            value if value & 0xffff_0000 == RET_ERRNO => Some((value & 0xffff) as i32),
            value => panic!("{value:#x}"),
        }
    }

    pub(crate) const ARCH: u32 = 0xc000_003e;

    #[test]
    fn another_machine_kills_and_x32_does_not_exist() {
        let code = program(ARCH, true, vec![]);
        assert_eq!(interpret(&code, 0x4000_0003, 1, [0; 6]), RET_KILL_PROCESS);
        assert_eq!(answer(&code, X32 | 1, [0; 6]), Some(libc::ENOSYS));
        assert_eq!(answer(&code, u32::MAX, [0; 6]), Some(libc::ENOSYS));
        assert_eq!(answer(&code, 1, [0; 6]), None);
    }

    #[test]
    fn only_the_low_half_of_an_argument_counts() {
        let test = Test::Equals { arg: 1, value: 0x5412 };
        let case = Case::Tests(vec![(test, Act::Errno(1))], Act::Allow);
        let code = program(ARCH, true, vec![(16, case)]);
        assert_eq!(answer(&code, 16, [0, 0x5412, 0, 0, 0, 0]), Some(1));
        assert_eq!(answer(&code, 16, [0, 0x1_0000_5412, 0, 0, 0, 0]), Some(1));
        assert_eq!(answer(&code, 16, [0x5412, 0x5413, 0, 0, 0, 0]), None);
    }

    #[test]
    fn both_tests_of_an_and_must_hold() {
        let test = Test::And(
            Box::new(Test::AnyBit { arg: 0, mask: 0x40 }),
            Box::new(Test::Masked { arg: 1, mask: 0xf, value: 2 }),
        );
        let code =
            program(ARCH, true, vec![(2, Case::Tests(vec![(test, Act::Errno(1))], Act::Allow))]);
        assert_eq!(answer(&code, 2, [0x41, 0xf2, 0, 0, 0, 0]), Some(1));
        assert_eq!(answer(&code, 2, [0x01, 0xf2, 0, 0, 0, 0]), None);
        assert_eq!(answer(&code, 2, [0x41, 0xf3, 0, 0, 0, 0]), None);
    }

    proptest! {
        /// The tree answers exactly as the table, for listed and unlisted numbers, at any size.
        #[test]
        fn the_tree_is_the_table(numbers in proptest::collection::btree_set(0_u32..600, 0..300)) {
            let table = numbers.iter().map(|it| (*it, Case::Always(Act::Errno((*it % 100) as i32 + 1))));
            let code = program(ARCH, true, table.collect());
            prop_assert!(code.len() < MAX_INSTRUCTIONS);
            for number in 0..620 {
                let expected = numbers.contains(&number).then_some((number % 100) as i32 + 1);
                prop_assert_eq!(answer(&code, number, [0; 6]), expected);
            }
        }
    }
}
