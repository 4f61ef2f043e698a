//! JSON Schema of radio levels and of positions.

use crate::file::Positions;
use crate::schema::{Axis, Describe};
use schemars::{Schema, SchemaGenerator, json_schema};
use units::{Distance, PowerLevel};

/// Quantities that may be negative.
macro_rules! signed_quantities {
    ($($kind:ty: $units:literal, $example:literal),*) => {$(
        impl Describe for $kind {
            fn describe(_: &mut SchemaGenerator) -> Schema {
                let pattern = concat!(r"^\s*[-+]?[0-9.]+([eE][+-]?[0-9]+)?\s*(", $units, r")\s*$");
                json_schema!({ "type": "string", "pattern": pattern, "examples": [$example] })
            }
        }
    )*};
}
signed_quantities!(PowerLevel: "dBm", "-85 dBm", Distance: "m|km", "30 m");

impl Describe for Positions {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let axis = generator.subschema_for::<Axis>();
        let coordinate = json_schema!({ "anyOf": [Distance::describe(generator), axis] });
        let one =
            json_schema!({ "type": "array", "items": coordinate, "minItems": 2, "maxItems": 2 });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}
