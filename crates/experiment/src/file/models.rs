//! File format: maps of optional and required keys.

/// Declares a map of keys, each optional or required, and its reader.
macro_rules! model {
    (
        $(#[$meta:meta])* $name:ident, $what:literal,
        $($(#[$doc:meta])* $how:ident $key:ident as $word:literal: $kind:ty,)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[$doc])* #[schemars(rename = $word)] pub $key: Option<At<$kind>>,)*
        }

        impl Read for $name {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                let mut fields = Fields::of(node, $what, sink)?;
                let model = Self { $($key: fields.$how($word),)* };
                fields.finish();
                Some(model)
            }
        }
    };
}

pub(crate) use model;
