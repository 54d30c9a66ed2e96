//! The table of options and the macro that writes an option down once.

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `master`.
    Master,
    /// `minion`.
    Minion,
    /// `federation-broker`.
    FederationBroker,
    /// `runtime`.
    Runtime,
}

impl Role {
    /// Name of the file, of the last directory of paths, and of the role.
    pub fn name(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Minion => "minion",
            Role::FederationBroker => "federation-broker",
            Role::Runtime => "runtime",
        }
    }
}

/// Part of the sample file and of the documentation in which an option stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionGroup {
    /// Addresses, sockets, processes, directories.
    Network,
    /// Keys, signatures, who may do what.
    Security,
    /// Clients, targets, jobs.
    Jobs,
    /// What WASM modules may use.
    Modules,
    /// File server, pillar, states.
    Files,
    /// Output of the commands and logs.
    Output,
}

impl OptionGroup {
    /// The groups in the order of the sample file.
    pub const ALL: [OptionGroup; 6] = [
        OptionGroup::Network,
        OptionGroup::Security,
        OptionGroup::Jobs,
        OptionGroup::Modules,
        OptionGroup::Files,
        OptionGroup::Output,
    ];

    /// Heading.
    pub fn title(self) -> &'static str {
        match self {
            OptionGroup::Network => "Network and processes",
            OptionGroup::Security => "Keys and security",
            OptionGroup::Jobs => "Clients, targets, jobs",
            OptionGroup::Modules => "Modules",
            OptionGroup::Files => "Files, pillar",
            OptionGroup::Output => "Output and logs",
        }
    }
}

/// One option, as the documentation shows it.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name in the file.
    pub name: &'static str,
    /// Type in words.
    pub type_name: &'static str,
    /// Default as YAML; `{product}` stands for `halite` or `salt`.
    pub default: &'static str,
    /// What it does, with its unit.
    pub help: &'static str,
    /// Where it belongs.
    pub group: OptionGroup,
}

/// Name of an option in the file: that of the field, unless another is given behind `@`.
macro_rules! key {
    ($option:ident) => {
        stringify!($option)
    };
    ($option:ident $key:literal) => {
        $key
    };
}
pub(super) use key;

/// Writes a configuration struct, its table of options, its reader and its dump.
macro_rules! options {
    (
        $(#[$meta:meta])*
        $name:ident, $(#[$table_meta:meta])* $table:ident;
        $($group:ident {
            $($(#[doc = $help:literal])+ $option:ident $(@ $key:literal)?: $type:ty = $default:literal;)*
        })*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name {
            /// The file that was read, whether or not it exists.
            pub conf_file: std::path::PathBuf,
            /// Whose default paths apply.
            pub flavour: $crate::Flavour,
            /// What the operator should know, one sentence each.
            pub warnings: Vec<String>,
            /// Everything the files hold that is no option here.
            pub extra: halite_wire::Map,
            $($($(#[doc = $help])+ pub $option: $type,)*)*
        }

        $(#[$table_meta])*
        pub static $table: &[$crate::OptionInfo] = &[
            $($($crate::OptionInfo {
                name: $crate::table::key!($option $($key)?),
                type_name: <$type as $crate::OptionValue>::TYPE,
                default: $default,
                help: concat!($($help),+),
                group: $crate::OptionGroup::$group,
            },)*)*
        ];

        impl $name {
            pub(crate) fn read(mut source: $crate::source::Source) -> Result<Self, $crate::ConfigError> {
                $($(let $option: $type = source.take($crate::table::key!($option $($key)?), $default)?;)*)*
                Ok($name {
                    conf_file: source.conf_file,
                    flavour: source.flavour,
                    warnings: source.warnings,
                    extra: source.values,
                    $($($option,)*)*
                })
            }

            /// The options of the table under their names, in the order of the table.
            pub(crate) fn typed_map(&self) -> halite_wire::Map {
                let mut map = halite_wire::Map::new();
                $($(map.set(
                    $crate::table::key!($option $($key)?),
                    $crate::OptionValue::to_value(&self.$option),
                );)*)*
                map
            }
        }
    };
}
pub(super) use options;
