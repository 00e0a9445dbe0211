"""docs/events.schema.json: a valid schema, and what the program writes follows it."""

import json
import subprocess

import jsonschema
import pytest

from conftest import ROOT

SCHEMA = json.loads((ROOT / "docs" / "events.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def events():
    program = ROOT / "build-clang" / "tests" / "unit" / "test_sink_json"
    output = subprocess.run([program, "print"], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def test_the_schema_is_valid():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_an_event_of_every_type_follows_the_schema(events):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for event in events:
        validator.validate(event)
    assert {event["type"] for event in events} == set(SCHEMA["properties"]["type"]["enum"])


def test_the_schema_lists_every_field(events):
    assert {field for event in events for field in event} <= set(SCHEMA["properties"])


@pytest.mark.parametrize("change", [{"id": "17"}, {"schema": 2}, {"type": "stolen"}, {"time": "now"}, {"lossy": "no"}, {"tier": "FAST"},
                                    {"token": 0}, {"mode": None}, {"client_id": 3}])
def test_the_schema_refuses_what_is_wrong(events, change):
    granted = next(event for event in events if event["type"] == "granted")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**granted, **change}, SCHEMA, jsonschema.Draft202012Validator)
