//! The colours we report when a program asks and has not set them.
//!
//! In: the guest's colour index. Out: xterm's colour. The background is dark: programs ask for it
//! to choose between a light and a dark theme. Deliberately absent: any theme; viewers draw
//! indexes with their own.

use vte::ansi::{NamedColor, Rgb};

const FOREGROUND: Rgb = rgb(0xe5_e5_e5);
const BACKGROUND: Rgb = rgb(0x00_00_00);

const NAMED: [u32; 16] = [
    0x00_00_00, 0xcd_00_00, 0x00_cd_00, 0xcd_cd_00, 0x00_00_ee, 0xcd_00_cd, 0x00_cd_cd, 0xe5_e5_e5,
    0x7f_7f_7f, 0xff_00_00, 0x00_ff_00, 0xff_ff_00, 0x5c_5c_ff, 0xff_00_ff, 0x00_ff_ff, 0xff_ff_ff,
];

pub(crate) fn default_color(index: usize) -> Rgb {
    const BACK: usize = NamedColor::Background as usize;
    match index {
        0..=15 => rgb(NAMED[index]),
        16..=231 => {
            let level = |step: usize| if step == 0 { 0 } else { 55 + 40 * step as u8 };
            let cube = index - 16;
            Rgb { r: level(cube / 36), g: level(cube / 6 % 6), b: level(cube % 6) }
        }
        232..=255 => {
            let grey = 8 + 10 * (index - 232) as u8;
            Rgb { r: grey, g: grey, b: grey }
        }
        BACK => BACKGROUND,
        _ => FOREGROUND,
    }
}

const fn rgb(code: u32) -> Rgb {
    Rgb { r: (code >> 16) as u8, g: (code >> 8) as u8, b: code as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_and_ramp_are_xterms() {
        assert_eq!(default_color(196), rgb(0xff_00_00));
        assert_eq!(default_color(67), rgb(0x5f_87_af));
        assert_eq!(default_color(255), rgb(0xee_ee_ee));
    }
}
