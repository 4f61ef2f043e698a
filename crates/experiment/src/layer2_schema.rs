//! JSON Schema of bridges and VLANs.

use crate::file::{Bridge, Vlans};
use crate::read::At;
use crate::schema::Describe;
use link::VLANS;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

impl Describe for Bridge {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let network = String::describe(generator);
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "array", "items": network }] })
    }
}

impl Describe for Vlans {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let mut vlan = <At<u32>>::json_schema(generator);
        if let Some(one) = vlan.pointer_mut("/anyOf/0").and_then(|one| one.as_object_mut()) {
            one.insert("minimum".to_owned(), (*VLANS.start()).into());
            one.insert("maximum".to_owned(), (*VLANS.end()).into());
        }
        json_schema!({ "anyOf": [vlan, { "type": "array", "items": vlan, "minItems": 1 }] })
    }
}
