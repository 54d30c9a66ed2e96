//! The terminal colours of the outputters (`salt/utils/color.py get_colors`).

/// One escape sequence per colour name; every field is empty when colours are off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Palette {
    pub dark_gray: &'static str,
    pub red: &'static str,
    pub light_red: &'static str,
    pub green: &'static str,
    pub light_green: &'static str,
    pub light_yellow: &'static str,
    pub blue: &'static str,
    pub light_blue: &'static str,
    pub magenta: &'static str,
    pub light_magenta: &'static str,
    pub cyan: &'static str,
    pub light_gray: &'static str,
    pub white: &'static str,
    pub end: &'static str,
}

const FULL: Palette = Palette {
    dark_gray: "\x1b[0;1;30m",
    red: "\x1b[0;31m",
    light_red: "\x1b[0;1;31m",
    green: "\x1b[0;32m",
    light_green: "\x1b[0;1;32m",
    light_yellow: "\x1b[0;1;33m",
    blue: "\x1b[0;34m",
    light_blue: "\x1b[0;1;34m",
    magenta: "\x1b[0;35m",
    light_magenta: "\x1b[0;1;35m",
    cyan: "\x1b[0;36m",
    light_gray: "\x1b[0;37m",
    white: "\x1b[0;1;37m",
    end: "\x1b[0;0m",
};

impl Palette {
    /// The colours, or the empty set of them.
    pub fn new(on: bool) -> Palette {
        if on { FULL } else { Palette::default() }
    }
}

/// Whether to colour: flags win over the configuration, that over `NO_COLOR`, that over the terminal.
///
/// Stock order is `--force-color`, `--no-color`, the `color` option, then whether
/// standard output is a terminal (`salt/output/__init__.py get_printout`); the
/// `NO_COLOR` variable (set and not empty) is an addition.
pub fn want_color(
    no_color_flag: bool,
    force_color_flag: bool,
    config_color: Option<bool>,
    is_tty: bool,
    env_no_color: Option<&str>,
) -> bool {
    if force_color_flag {
        return true;
    }
    if no_color_flag {
        return false;
    }
    if let Some(color) = config_color {
        return color;
    }
    is_tty && env_no_color.is_none_or(str::is_empty)
}
