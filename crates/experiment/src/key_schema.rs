//! JSON Schema of impairments, from the keys of their stages.

use crate::file::Impairment;
use crate::read::At;
use crate::schema::{Axis, Describe, count};
use link::{Key, Kind, Limit, Model, SignedBytes};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use units::{Bytes, Rate, Ratio, Span};

impl JsonSchema for Impairment {
    fn schema_name() -> Cow<'static, str> {
        "Impairment".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let about = "Impairments of a link in one direction, in tc-netem's terms.";
        object(link::Impairment::all_keys(), about, generator)
    }
}

/// A map of keys.
fn object<'k>(
    keys: impl IntoIterator<Item = &'k Key>,
    about: &str,
    generator: &mut SchemaGenerator,
) -> Schema {
    let mut properties = Map::new();
    for key in keys {
        properties.insert(key.name.to_owned(), property(key, generator));
    }
    // No key is required: a profile may have those that are missing (`grant: {cycle: 141 ms}`).
    // `thingbed check` reports keys that both lack.
    json_schema!({
        "type": "object",
        "description": about,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// A key's value, or an axis; an optional key may have no value.
fn property(key: &Key, generator: &mut SchemaGenerator) -> Value {
    let mut schema = match (&key.kind, key.is_required) {
        (Kind::File, _) => generator.subschema_for::<Option<At<String>>>(),
        (kind, is_required) => {
            let value = value(kind, generator);
            let axis = generator.subschema_for::<Axis>();
            let value = json_schema!({ "anyOf": [value, axis] });
            match is_required {
                true => value,
                false => json_schema!({ "anyOf": [value, { "type": "null" }] }),
            }
        }
    };
    let doc = match key.is_required {
        true => format!("{} Required, unless a profile has it.", key.doc),
        false => key.doc.to_owned(),
    };
    schema.insert("description".to_owned(), doc.into());
    schema.into()
}

fn value(kind: &Kind, generator: &mut SchemaGenerator) -> Schema {
    match kind {
        Kind::Flag => bool::describe(generator),
        Kind::Count { least, most } => count(*least, *most),
        Kind::Share => Ratio::describe(generator),
        Kind::Time => Span::describe(generator),
        Kind::Size => Bytes::describe(generator),
        Kind::SignedSize => SignedBytes::describe(generator),
        Kind::Rate => Rate::describe(generator),
        Kind::Limit => Limit::describe(generator),
        Kind::File => String::describe(generator),
        Kind::Word(_, words) => json_schema!({ "enum": words }),
        Kind::WordOr(words, model) => defined(model, generator, |_| one_of(words, model)),
        Kind::Map(model) => map(model, generator),
        Kind::OneOrMore(model) => {
            let (map, axis) = (map(model, generator), generator.subschema_for::<Axis>());
            let one = json!({ "anyOf": [map, axis] });
            json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
    }
}

fn map(model: &Model, generator: &mut SchemaGenerator) -> Schema {
    defined(model, generator, |generator| object(model.keys, model.doc, generator))
}

/// One of the words, or the model's only key, a file.
fn one_of(words: &[(&str, &str)], model: &Model) -> Schema {
    let word = |(word, about): &(&str, &str)| json!({ "type": "string", "const": word, "description": about });
    let mut choices: Vec<Value> = words.iter().map(word).collect();
    for key in model.keys {
        let file = Map::from_iter([(key.name.to_owned(), json!({ "type": "string" }))]);
        choices.push(json!({
            "type": "object", "description": key.doc, "properties": file,
            "required": [key.name], "additionalProperties": false,
        }));
    }
    json_schema!({ "description": model.doc, "oneOf": choices })
}

/// A reference to the model's definition.
fn defined(
    model: &Model,
    generator: &mut SchemaGenerator,
    schema: impl FnOnce(&mut SchemaGenerator) -> Schema,
) -> Schema {
    // Once: all links of all networks refer to the same definition.
    if !generator.definitions().contains_key(model.name) {
        let schema = schema(generator);
        generator.definitions_mut().insert(model.name.to_owned(), schema.into());
    }
    json_schema!({ "$ref": format!("#/$defs/{}", model.name) })
}
