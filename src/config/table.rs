//! The table of options, and the macro that defines each option once.

/// The program that a configuration is for.
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
    /// Name of the role: of its file and of the last directory in its paths.
    pub fn name(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Minion => "minion",
            Role::FederationBroker => "federation-broker",
            Role::Runtime => "runtime",
        }
    }
}

/// Section of the sample file and the documentation that an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionGroup {
    /// Addresses, sockets, processes, directories.
    Network,
    /// Keys, signatures, permissions.
    Security,
    /// Clients, targets, jobs.
    Jobs,
    /// Limits of WASM modules.
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

    /// Heading of the section.
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

/// One option, for the documentation.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name in the file.
    pub name: &'static str,
    /// Its type in plain English.
    pub type_name: &'static str,
    /// Default as YAML; `{product}` is replaced by `halite` or `salt`.
    pub default: &'static str,
    /// Its effect, with the unit.
    pub help: &'static str,
    /// Its section.
    pub group: OptionGroup,
}

/// Name of an option in the file: the field's name, unless another one follows `@`.
macro_rules! key {
    ($option:ident) => {
        stringify!($option)
    };
    ($option:ident $key:literal) => {
        $key
    };
}
pub(super) use key;

/// Defines a configuration struct, its table of options, its reader and its dump.
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
            /// The main file, even if it does not exist.
            pub conf_file: std::path::PathBuf,
            /// Decides the default paths.
            pub flavour: $crate::Flavour,
            /// Warnings for the operator, one sentence each.
            pub warnings: Vec<String>,
            /// Everything in the files that is not an option of this table.
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

            /// The options of the table by name, in the table's order.
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
