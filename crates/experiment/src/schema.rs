//! JSON Schema of the file format, for editors.

use crate::expect::Comparison;
use crate::file::{
    Addressing, Board, BoardCpu, BoardRadio, Carried, Cell, Channel, CoapKeys, Cpu, Directions,
    Edge, EdgeKeys, ExitStatus, File, Foreign, ForeignModel, HttpKeys, MacAddresses, MqttKeys,
    OpcuaKeys, OutputExpect, OutputKeys, Payload, ProgramExpect, Protocol, Qemu, QuicKeys, Ready,
    Resources, Routes, ServiceKeys, Sweep, Tls, TlsFiles,
};
use crate::limits::EXIT_STATUS;
use crate::load::Contention;
use crate::matrix::Matrix;
use crate::mqtt::MqttPattern;
use crate::pattern::OutsideModel;
use crate::plan::{Backend, BrokerKind, SourceAddresses};
use crate::program_metric::Stream;
use crate::read::{At, Named, OneOrMore};
use crate::scalar::{Frequency, Word};
use crate::subnet::Subnet;
use link::{Limit, SignedBytes};
use record::Clock;
use record::{
    CoapTransport, Connection, HttpMethod, InteractionPattern, Method, MqttVersion, Timestamps,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;
use trace::Scheme;
use units::{Attenuation, Bytes, Charge, Current, Rate, Ratio, Span, Voltage};

/// The JSON Schema (2020-12) of the experiment file.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<File>().to_value()
}

/// A type with a JSON Schema, also for types of other crates.
pub(crate) trait Describe {
    fn describe(generator: &mut SchemaGenerator) -> Schema;
}

impl<T: Describe, const AXIS: bool> JsonSchema for At<T, AXIS> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "At".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = T::describe(generator);
        // A text may contain an axis anyway.
        let is_text = value == String::describe(generator);
        if !AXIS || is_text {
            return value;
        }
        let axis = generator.subschema_for::<Axis>();
        json_schema!({ "anyOf": [value, axis] })
    }
}

/// A value from the matrix, such as `${loss}`.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[allow(dead_code)]
pub(crate) struct Axis(#[schemars(regex(pattern = r"\$\{[^}]+\}"))] String);

/// Quantities: a number and one of the units.
macro_rules! quantities {
    ($($kind:ty: $units:literal, $example:literal),*) => {$(
        impl Describe for $kind {
            fn describe(_: &mut SchemaGenerator) -> Schema {
                let pattern = concat!(r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*(", $units, r")\s*$");
                json_schema!({ "type": "string", "pattern": pattern, "examples": [$example] })
            }
        }
    )*};
}
quantities!(
    Span: "ns|us|ms|s|min|h", "20 ms",
    Bytes: "B|kB|MB|GB|KiB|MiB|GiB", "127 B",
    Rate: "bit/s|kbit/s|Mbit/s|Gbit/s|Tbit/s", "250 kbit/s",
    Ratio: "%", "30 %",
    Current: "nA|uA|mA|A", "4.6 mA",
    Voltage: "mV|V", "3.3 V",
    Charge: "mAh|Ah", "220 mAh",
    Attenuation: "dB", "40.2 dB"
);

/// One of a few words.
macro_rules! words {
    ($($kind:ty),*) => {$(
        impl Describe for $kind {
            fn describe(_: &mut SchemaGenerator) -> Schema {
                let words: Vec<&str> = <$kind>::WORDS.iter().map(|(word, _)| *word).collect();
                json_schema!({ "enum": words })
            }
        }
    )*};
}
words!(
    Addressing,
    Backend,
    Carried,
    Clock,
    InteractionPattern,
    OutsideModel,
    Comparison,
    Directions,
    Stream
);
words!(
    SourceAddresses,
    BrokerKind,
    MqttPattern,
    CoapTransport,
    Connection,
    Method,
    HttpMethod,
    Timestamps,
    Scheme,
    Contention,
    MacAddresses
);

impl Describe for MqttVersion {
    /// YAML reads `5` as a number; the reader takes it as a text.
    fn describe(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["3.1.1", "5", 5] })
    }
}

impl Describe for Frequency {
    fn describe(_: &mut SchemaGenerator) -> Schema {
        let pattern = r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*/(s|min|h)\s*$";
        json_schema!({ "type": "string", "pattern": pattern, "examples": ["100/s"] })
    }
}

impl Describe for Tls {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let files = generator.subschema_for::<TlsFiles>();
        json_schema!({ "anyOf": [{ "const": "generated" }, files] })
    }
}

impl Describe for Payload {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let (one, sweep) =
            (<At<Bytes>>::json_schema(generator), generator.subschema_for::<Sweep>());
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }, sweep] })
    }
}

impl Describe for Routes {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let via = String::describe(generator);
        let named = json_schema!({ "type": "object", "additionalProperties": via });
        json_schema!({ "anyOf": [{ "const": "none" }, named] })
    }
}

impl JsonSchema for OutputExpect {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OutputExpect".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let keys = generator.subschema_for::<OutputKeys>();
        json_schema!({ "anyOf": [String::describe(generator), keys] })
    }
}

impl JsonSchema for Edge {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Edge".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let node = String::describe(generator);
        let keys = generator.subschema_for::<EdgeKeys>();
        let ends = json_schema!({ "type": "array", "items": node, "minItems": 2 });
        json_schema!({ "anyOf": [ends, keys] })
    }
}

impl Describe for Resources {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let text = String::describe(generator);
        let asked = json_schema!({
            "type": "object",
            "properties": {
                "time": text,
                "mode": { "anyOf": [{ "enum": ["sleep", "busy"] }, generator.subschema_for::<Axis>()] },
            },
            "required": ["time"],
            "additionalProperties": false,
        });
        let resource = json_schema!({ "anyOf": [text, asked] });
        let named = json_schema!({ "type": "object", "additionalProperties": resource });
        json_schema!({ "anyOf": [text, named] })
    }
}

impl Describe for Protocol {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let coap = generator.subschema_for::<CoapKeys>();
        let mqtt = generator.subschema_for::<MqttKeys>();
        let (opcua, http, quic) = (
            generator.subschema_for::<OpcuaKeys>(),
            generator.subschema_for::<HttpKeys>(),
            generator.subschema_for::<QuicKeys>(),
        );
        // `udp:` without a value is null in YAML.
        let nothing = json_schema!({ "type": ["object", "null"], "maxProperties": 0 });
        let chosen = json_schema!({
            "type": "object",
            "properties": { "udp": nothing, "tcp": nothing, "coap": coap, "mqtt": mqtt,
                "opcua": opcua, "http": http, "quic": quic },
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
        });
        json_schema!({ "anyOf": [{ "enum": Protocol::WORDS }, chosen] })
    }
}

/// Types whose schema schemars derives.
macro_rules! derived {
    ($($kind:ty),*) => {$(
        impl Describe for $kind {
            fn describe(generator: &mut SchemaGenerator) -> Schema {
                generator.subschema_for::<$kind>()
            }
        }
    )*};
}
derived!(bool, f64, u64, Channel, Cell);
derived!(Board, BoardCpu, BoardRadio);
derived!(ProgramExpect, Qemu, Ready, ServiceKeys);

impl<T: ForeignModel> Describe for Foreign<T> {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T::Keys>()
    }
}

impl Describe for Cpu {
    fn describe(_: &mut SchemaGenerator) -> Schema {
        let pattern = r"^\s*\+?[0-9.]+\s*((Hz|kHz|MHz|GHz)\s*|%\s* of .+)$";
        json_schema!({ "type": "string", "pattern": pattern, "examples": ["200 MHz", "5 % of esp32"] })
    }
}

impl Describe for ExitStatus {
    fn describe(_: &mut SchemaGenerator) -> Schema {
        count(*EXIT_STATUS.start(), *EXIT_STATUS.end())
    }
}

impl Describe for SignedBytes {
    fn describe(_: &mut SchemaGenerator) -> Schema {
        let pattern = r"^\s*[-+]?[0-9.]+\s*(B|kB|KiB)\s*$";
        json_schema!({ "type": "string", "pattern": pattern, "examples": ["24 B", "-14 B"] })
    }
}

/// A whole number from `least` to `most`.
pub(crate) fn count(least: u32, most: u32) -> Schema {
    json_schema!({ "type": "integer", "minimum": least, "maximum": most })
}

impl Describe for u32 {
    fn describe(_: &mut SchemaGenerator) -> Schema {
        count(0, u32::MAX)
    }
}

impl Describe for Limit {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let bytes = Bytes::describe(generator);
        let frames = count(Self::FEWEST_FRAMES, u32::MAX);
        json_schema!({ "anyOf": [frames, bytes] })
    }
}

impl Describe for String {
    /// YAML reads `on: 5` as a number; the reader takes it as a text.
    fn describe(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

impl Describe for Subnet {
    fn describe(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9a-fA-F.:]+/[0-9]+$",
            "examples": ["10.0.0.0/16", "fd00::/64"],
        })
    }
}

impl<T: JsonSchema> Describe for Vec<T> {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Vec<T>>()
    }
}

impl<T: JsonSchema> Describe for OneOrMore<T> {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        let (one, more) = (generator.subschema_for::<T>(), generator.subschema_for::<Vec<T>>());
        json_schema!({ "anyOf": [one, more] })
    }
}

impl<T: JsonSchema> Describe for Named<T> {
    fn describe(generator: &mut SchemaGenerator) -> Schema {
        Named::<T>::json_schema(generator)
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Named".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "type": "object", "additionalProperties": value })
    }
}

impl JsonSchema for Matrix {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = String::describe(generator);
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "type": "array", "items": value, "minItems": 1, "uniqueItems": true
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::Expect;
    use crate::file;
    use crate::read::{Read, Sink};
    use crate::tree;
    use std::collections::BTreeSet;

    /// Keys that the reader of `T` knows, from its error about an unknown key.
    fn read_keys<T: Read>() -> BTreeSet<String> {
        let (node, _) = tree::parse("stranger: 1").unwrap();
        let mut sink = Sink::default();
        T::read(&node, &mut sink);
        let unknown = sink.problems.iter().find(|p| p.message.contains("`stranger`")).unwrap();
        let known = unknown.label.strip_prefix("known: ").unwrap();
        known.split(", ").map(str::to_owned).collect()
    }

    fn schema_keys<T: JsonSchema>() -> BTreeSet<String> {
        let schema = schemars::schema_for!(T).to_value();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn schema_and_reader_know_the_same_keys() {
        macro_rules! same {
            ($($kind:ty),*) => {$(
                assert_eq!(read_keys::<$kind>(), schema_keys::<$kind>(), stringify!($kind));
            )*};
        }
        same!(file::File, file::Group, file::Limits, file::Network, file::Profile, file::Link);
        same!(file::Change, file::Fault, ProgramExpect, Qemu, Ready);
        same!(file::Impairment, file::Model, file::Interaction, file::Command, Expect);
        same!(file::Mqtt, file::Reconnect, file::TlsFiles);
        same!(file::Exchange, CoapKeys, MqttKeys, Sweep);
        same!(file::OpcuaKeys, file::HttpKeys, file::QuicKeys);
        same!(file::Load, file::Device, file::Probe);
    }

    #[test]
    fn an_axis_may_stand_where_the_file_allows_it() {
        let schema = schema();
        let count = &schema["$defs"]["Group"]["properties"]["count"];
        assert!(count.to_string().contains("#/$defs/Axis"), "{count}");
        let seed = &schema["properties"]["seed"];
        assert!(!seed.to_string().contains("Axis"), "{seed}");
        assert_eq!(schema["$defs"]["Group"]["additionalProperties"], false);
        let required = schema["required"].as_array().unwrap();
        assert!(required.contains(&"nodes".into()) && !required.contains(&"seed".into()));
    }
}
